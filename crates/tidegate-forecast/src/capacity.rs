//! How much the target bears, learnt from how it answers.

/// What is learnt of a target's capacity.
///
/// As long as it answers as usual nothing is known but that it bears what it got. When it answers much later than usual, or with errors, it
/// got too much: the capacity is set to nine tenths of that. From there it grows again, by a twentieth at a time, while the target answers as
/// usual with nearly that much to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LearntCapacity {
    /// What is usual, in seconds.
    usual: Option<f64>,
    /// Requests a second; none while it has never been too much.
    rate: Option<f64>,
}

/// What was seen of a target between two snapshots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Requests a second that reached it.
    pub admitted: f64,
    /// The 95th percentile of its time to answer, in seconds.
    pub latency: Option<f64>,
    /// The share of its answers that were errors.
    pub errors: f64,
}

/// Later than so many times as usual, and by so many seconds, is too late.
const TOO_LATE: f64 = 3.0;
const NOTICEABLE: f64 = 0.01;
/// More errors than this share are too many.
const TOO_MANY_ERRORS: f64 = 0.05;
/// With less to do than this nothing can be said.
const TOO_LITTLE: f64 = 1.0;

impl LearntCapacity {
    /// Requests a second that it bears; none while nothing is known.
    pub fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// As it was when it was last written down.
    pub(crate) fn restored(usual: Option<f64>, rate: Option<f64>) -> Self {
        let sound = |number: &f64| number.is_finite() && *number > 0.0;
        Self { usual: usual.filter(sound), rate: rate.filter(sound) }
    }

    pub(crate) fn usual(&self) -> Option<f64> {
        self.usual
    }

    /// Learns from what was seen.
    pub fn observe(&mut self, seen: Seen) {
        if seen.admitted < TOO_LITTLE {
            return;
        }
        let is_late = match (seen.latency, self.usual) {
            (Some(latency), Some(usual)) => latency > (usual * TOO_LATE).max(usual + NOTICEABLE),
            _ => false,
        };
        if is_late || seen.errors > TOO_MANY_ERRORS {
            let less = seen.admitted * 0.9;
            self.rate = Some(self.rate.map_or(less, |rate| rate.min(less)).max(TOO_LITTLE));
            return;
        }
        if let Some(latency) = seen.latency {
            // Down at once, up slowly: a target that has become slower for good is not overloaded for ever.
            let usual = self
                .usual
                .map_or(latency, |usual| if latency < usual { latency } else { usual + (latency - usual) * 0.02 });
            self.usual = Some(usual.max(1e-6));
        }
        if let Some(rate) = &mut self.rate
            && seen.admitted >= *rate * 0.85
        {
            *rate = (*rate * 1.05).max(seen.admitted);
        }
    }
}

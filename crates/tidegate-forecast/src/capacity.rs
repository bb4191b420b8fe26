//! How much the target bears, learnt from how it responds.

/// What is learnt of a target's capacity.
///
/// As long as it responds as usual nothing is known but that it bears what it got. When it responds much later than
/// usual, or with errors, while it gets about as much as it ever bore or more, it got too much: the capacity is set to
/// nine tenths of that. From there it grows again, by a twentieth at a time, while the target responds as usual with
/// nearly that much to do. Trouble with less to do is not the load's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LearntCapacity {
    /// What is usual, in seconds.
    usual: Option<f64>,
    /// The most that it bore, in requests a second; fades.
    borne: Option<f64>,
    /// Requests a second; none while it has never been too much.
    rate: Option<f64>,
}

/// What was seen of a target between two snapshots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Requests a second that reached it.
    pub admitted: f64,
    /// The 95th percentile of its response time, in seconds.
    pub latency: Option<f64>,
    /// The share of its responses that were errors.
    pub errors: f64,
}

/// Later than so many times as usual, and by so many seconds, is too late.
const TOO_LATE: f64 = 3.0;
const NOTICEABLE: f64 = 0.01;
/// More errors than this share are too many.
const TOO_MANY_ERRORS: f64 = 0.05;
/// With less load than this nothing is learnt.
const TOO_LITTLE: f64 = 1.0;
/// With less than this share of what it bore, it is not the load that makes it slow.
const MUCH_TO_DO: f64 = 0.8;
/// How fast what it bore is forgotten, by the snapshot.
const FADING: f64 = 0.998;
/// What is usual follows faster times quickly, but not at once: one response may be wrong. Slower ones slowly, and even
/// slower ones, too: a target that has become slow for good is not overloaded for ever.
const FASTER: f64 = 0.2;
const SLOWER: f64 = 0.02;

impl LearntCapacity {
    /// Requests a second that it bears; none while nothing is known.
    pub fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// As it was when it was last written down.
    pub(crate) fn restored(usual: Option<f64>, borne: Option<f64>, rate: Option<f64>) -> Self {
        let sound = |number: &f64| number.is_finite() && *number > 0.0;
        Self { usual: usual.filter(sound), borne: borne.filter(sound), rate: rate.filter(sound) }
    }

    pub(crate) fn usual(&self) -> Option<f64> {
        self.usual
    }

    pub(crate) fn borne(&self) -> Option<f64> {
        self.borne
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
        self.learn_usual(seen.latency);
        let borne = *self.borne.get_or_insert(seen.admitted) * FADING;
        self.borne = Some(borne);
        if is_late || seen.errors > TOO_MANY_ERRORS {
            if seen.admitted >= borne * MUCH_TO_DO {
                let less = seen.admitted * 0.9;
                self.rate = Some(self.rate.map_or(less, |rate| rate.min(less)).max(TOO_LITTLE));
            }
            return;
        }
        self.borne = Some(borne.max(seen.admitted));
        if let Some(rate) = &mut self.rate
            && seen.admitted >= *rate * 0.85
        {
            *rate = (*rate * 1.05).max(seen.admitted);
        }
    }

    fn learn_usual(&mut self, latency: Option<f64>) {
        let Some(latency) = latency else { return };
        let usual = self.usual.map_or(latency, |usual| {
            let share = if latency < usual { FASTER } else { SLOWER };
            // However late: by at most as much as if it were three times as late as usual.
            usual + (latency.min(usual * TOO_LATE) - usual) * share
        });
        self.usual = Some(usual.max(1e-6));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(admitted: f64, milliseconds: f64, errors: f64) -> Seen {
        Seen { admitted, latency: Some(milliseconds / 1e3), errors }
    }

    fn learnt(course: impl IntoIterator<Item = Seen>) -> LearntCapacity {
        let mut capacity = LearntCapacity::default();
        course.into_iter().for_each(|seen| capacity.observe(seen));
        capacity
    }

    #[test]
    fn nothing_is_known_while_all_is_well() {
        assert_eq!(learnt([seen(100.0, 5.0, 0.0); 50]).rate(), None);
    }

    #[test]
    fn too_much_is_nine_tenths_of_it() {
        let well = [seen(100.0, 5.0, 0.0); 20];
        assert_eq!(learnt(well.into_iter().chain([seen(200.0, 80.0, 0.0)])).rate(), Some(180.0));
        assert_eq!(learnt(well.into_iter().chain([seen(200.0, 5.0, 0.3)])).rate(), Some(180.0));
    }

    #[test]
    fn it_grows_again_while_all_is_well_with_much_to_do() {
        let mut capacity = learnt([seen(100.0, 5.0, 0.0), seen(200.0, 80.0, 0.0)]);
        (0..3).for_each(|_| capacity.observe(seen(50.0, 5.0, 0.0)));
        assert_eq!(capacity.rate(), Some(180.0), "with little to do nothing is learnt");
        (0..3).for_each(|_| capacity.observe(seen(175.0, 5.0, 0.0)));
        assert!(capacity.rate().is_some_and(|rate| rate > 200.0));
    }

    /// Errors at night, when two requests a second come, must not close the gate for the day.
    #[test]
    fn trouble_with_little_to_do_is_not_the_load_s() {
        let day = [seen(100.0, 5.0, 0.0); 20];
        assert_eq!(learnt(day.into_iter().chain([seen(2.0, 5.0, 0.5); 30])).rate(), None);
        assert_eq!(learnt(day.into_iter().chain([seen(2.0, 500.0, 0.0); 30])).rate(), None);
    }

    /// A target that is slower for good, at whatever load: what it is given falls a little, and comes back.
    #[test]
    fn a_target_that_has_become_slow_is_not_overloaded_for_ever() {
        let mut capacity = learnt([seen(100.0, 5.0, 0.0); 20]);
        for _ in 0..600 {
            let admitted = capacity.rate().unwrap_or(100.0).min(100.0);
            capacity.observe(seen(admitted, 40.0, 0.0));
            assert!(capacity.rate().is_none_or(|rate| rate > 50.0), "{capacity:?}");
        }
        assert!(capacity.rate().is_none_or(|rate| rate >= 100.0), "{capacity:?}");
    }

    #[test]
    fn one_mad_latency_changes_little() {
        let mut capacity = learnt([seen(60.0, 12.0, 0.0); 20]);
        capacity.observe(seen(10.0, 0.1, 0.0));
        for _ in 0..50 {
            capacity.observe(seen(60.0, 12.0, 0.0));
        }
        assert_eq!(capacity.rate(), None);
    }
}

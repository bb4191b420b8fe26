use std::time::Duration;

/// How much slower a request gets when others are served at the same time, as they compete for memory, locks and disks.
///
/// With `busy` of `workers` at work (this request included) a service takes `1 + factor · (busy / workers)²` times its
/// time. So a service with all workers busy takes `1 + factor` times as long. With a factor above 1 the most is done
/// when only `workers / √factor` of them are at work: beyond that, more at once is less in all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Contention {
    /// 0 for none.
    pub factor: f64,
}

impl Contention {
    /// A service of `time` that begins when so many of the workers are busy.
    pub fn slowed(self, time: Duration, busy: usize, workers: usize) -> Duration {
        if self.factor == 0.0 {
            return time;
        }
        #[expect(clippy::cast_precision_loss, reason = "nobody has so many workers")]
        let share = busy as f64 / workers.max(1) as f64;
        stretched(time, 1.0 + self.factor * share * share)
    }
}

/// The longest that a service may take, whatever makes it slow.
pub(super) const LONGEST: Duration = Duration::from_secs(3_600);

/// So many times as long, at most [`LONGEST`].
pub(super) fn stretched(time: Duration, factor: f64) -> Duration {
    seconds(time.as_secs_f64() * factor)
}

/// Seconds as a duration, at most [`LONGEST`]; zero for what is negative or not a number.
pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.clamp(0.0, LONGEST.as_secs_f64())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_millis(8);

    #[test]
    fn time_grows_with_the_square_of_the_load() {
        let contention = Contention { factor: 3.0 };
        assert_eq!(contention.slowed(TIME, 0, 4), TIME);
        assert_eq!(contention.slowed(TIME, 2, 4), Duration::from_millis(14));
        assert_eq!(contention.slowed(TIME, 4, 4), Duration::from_millis(32));
        assert_eq!(Contention::default().slowed(TIME, 4, 4), TIME);
    }

    #[test]
    fn the_most_is_done_by_as_many_workers_as_the_formula_says() {
        let contention = Contention { factor: 4.0 };
        let rate = |busy: u32| f64::from(busy) / contention.slowed(TIME, busy as usize, 100).as_secs_f64();
        let best = (1..=100).max_by(|one, other| rate(*one).total_cmp(&rate(*other)));
        assert_eq!(best, Some(50));
    }

    #[test]
    fn nothing_takes_longer_than_an_hour() {
        assert_eq!(Contention { factor: f64::MAX }.slowed(TIME, 1, 1), LONGEST);
        assert_eq!(Contention { factor: f64::NAN }.slowed(TIME, 1, 1), Duration::ZERO);
        assert_eq!(seconds(-1.0), Duration::ZERO);
    }
}

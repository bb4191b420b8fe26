use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::nanos::nanos;

/// Counts what may come thousands of times a second, and says at most once an interval how often it came, so that a
/// flood of rejections is one line ("5,120 since the last line") instead of a flood of lines.
///
/// The first one is reported at once. What comes after the last report is reported by the next event after the
/// interval, by [`take_due`](Self::take_due) if somebody looks from time to time, or by [`take_rest`](Self::take_rest)
/// at the end. Every event is reported exactly once.
#[derive(Debug)]
pub struct Aggregate {
    origin: Instant,
    interval_nanos: u64,
    /// From when on the next may be reported, in nanoseconds after `origin`.
    next_nanos: AtomicU64,
    unreported: AtomicU64,
}

impl Aggregate {
    /// Tells at most once every `interval`; `now` is the earliest moment it will hear of.
    pub fn new(interval: Duration, now: Instant) -> Self {
        Self {
            origin: now,
            interval_nanos: nanos(interval),
            next_nanos: AtomicU64::new(0),
            unreported: AtomicU64::new(0),
        }
    }

    /// Counts an event. If it is time to report: how many there were since the last time, this one included.
    pub fn note(&self, now: Instant) -> Option<u64> {
        self.note_many(1, now)
    }

    /// The same for so many events at once.
    pub fn note_many(&self, events: u64, now: Instant) -> Option<u64> {
        self.unreported.fetch_add(events, Relaxed);
        self.take_due(now)
    }

    /// If there is something to report and it is time to: how many there were since the last time.
    pub fn take_due(&self, now: Instant) -> Option<u64> {
        let now_nanos = nanos(now.saturating_duration_since(self.origin));
        let next_nanos = self.next_nanos.load(Relaxed);
        if now_nanos < next_nanos || self.unreported.load(Relaxed) == 0 {
            return None;
        }
        let after = now_nanos.saturating_add(self.interval_nanos);
        // Of all who see at the same time that it is time, one reports.
        self.next_nanos.compare_exchange(next_nanos, after, Relaxed, Relaxed).ok()?;
        self.take_rest()
    }

    /// How many there were since the last time, whether it is time to report or not: for the end of the service.
    pub fn take_rest(&self) -> Option<u64> {
        Some(self.unreported.swap(0, Relaxed)).filter(|unreported| *unreported > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_first_is_reported_at_once_and_the_next_after_the_interval_together() {
        let start = Instant::now();
        let rejections = Aggregate::new(SECOND, start);
        assert_eq!(rejections.note(start), Some(1));
        for millis in 1..1000 {
            assert_eq!(rejections.note(start + Duration::from_millis(millis)), None);
        }
        assert_eq!(rejections.note(start + SECOND), Some(1000));
        assert_eq!(rejections.note(start + SECOND), None);
        assert_eq!(rejections.note(start + SECOND * 60), Some(2));
        assert_eq!(rejections.note_many(3, start + SECOND * 120), Some(3));
    }

    #[test]
    fn what_was_not_reported_can_be_collected() {
        let start = Instant::now();
        let rejections = Aggregate::new(SECOND, start);
        assert_eq!((rejections.take_due(start), rejections.take_rest()), (None, None));
        assert_eq!(rejections.note(start), Some(1));
        rejections.note(start);
        assert_eq!(rejections.take_due(start), None);
        assert_eq!(rejections.take_due(start + SECOND), Some(1));
        rejections.note(start + SECOND);
        assert_eq!(rejections.take_rest(), Some(1));
        assert_eq!(rejections.take_rest(), None);
    }

    #[test]
    fn a_time_before_the_first_is_no_panic() {
        let start = Instant::now();
        let rejections = Aggregate::new(Duration::MAX, start + SECOND);
        assert_eq!(rejections.note(start), Some(1));
        assert_eq!(rejections.note(start + SECOND * 1000), None);
    }

    #[test]
    fn many_threads_tell_each_event_once_and_not_too_often() {
        let start = Instant::now();
        let rejections = Aggregate::new(SECOND, start);
        let reported: Vec<u64> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let times = (0..10_000).map(|millis| start + Duration::from_millis(millis));
                        times.filter_map(|now| rejections.note(now)).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(reported.iter().sum::<u64>() + rejections.take_rest().unwrap_or(0), 40_000);
        assert!(reported.len() <= 10, "{reported:?}");
    }
}

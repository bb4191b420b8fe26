//! How fast a client moves bytes while it is waited for: sending its request's body, or taking its response.

use std::time::Duration;

/// How many bytes for a client may wait unsent in the kernel. By default they are as many as the send buffer holds, up
/// to 4 MiB: a client that reads slowly would cost that much memory and the copies into it, and would not be seen.
pub const MOST_UNSENT: u32 = 64 * 1024;

/// The slowest pace at which a client may send or take bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaceTerms {
    /// The least bytes per second; 0 is no bound.
    pub bytes_per_second: u64,
    /// The time over which they are counted.
    pub window: Duration,
    /// They are seen to move in steps of so many bytes, so that many more may have moved.
    pub step: u64,
}

impl PaceTerms {
    /// The same pace where bytes are seen to move in steps. The window gets long enough for two of them, so that a
    /// client that keeps the pace is never too slow.
    #[must_use]
    pub fn seen_in_steps(self, step: u64) -> Self {
        let millis = (2_000 * step).checked_div(self.bytes_per_second).unwrap_or(0);
        Self { window: self.window.max(Duration::from_millis(millis)), step, ..self }
    }
}

/// A client that moves so many bytes per second does not keep others waiting.
const BRISK: u64 = 4_096;

/// How long a client that is waited for has moved nothing, or as good as nothing: each byte pays for a part of the
/// wait, so that one byte now and then does not look like progress, and a steady transfer does not look like a stall.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stall {
    owed_millis: u64,
    /// Up to when the wait under way is counted.
    counted_to: Option<u64>,
}

impl Stall {
    /// The client is waited for, now or still, and has moved so many bytes since the last call. Returns since when it
    /// counts as stalled.
    pub fn wait(&mut self, now_millis: u64, moved: u64) -> u64 {
        self.count(now_millis, moved);
        self.counted_to = Some(now_millis);
        now_millis.saturating_sub(self.owed_millis)
    }

    /// The client is not waited for any more.
    pub fn pause(&mut self, now_millis: u64, moved: u64) {
        self.count(now_millis, moved);
        self.counted_to = None;
    }

    /// For a wait that began then: when it counts from, after so many bytes.
    pub fn paid(since_millis: u64, moved: usize) -> u64 {
        since_millis.saturating_add(Self::paid_by(moved as u64))
    }

    fn paid_by(moved: u64) -> u64 {
        moved.saturating_mul(1_000) / BRISK
    }

    fn count(&mut self, now_millis: u64, moved: u64) {
        let waited = self.counted_to.map_or(0, |from| now_millis.saturating_sub(from));
        self.owed_millis = (self.owed_millis + waited).saturating_sub(Self::paid_by(moved));
    }
}

/// Judges one client's pace. Only time in which the client is waited for counts, so that a slow upstream is never held
/// against it; bytes count at any time.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    terms: PaceTerms,
    /// Bytes that have moved in this window.
    moved: u64,
    /// How long the client was waited for in this window, without the wait under way.
    waited_millis: u64,
    /// When the wait under way began.
    since_millis: Option<u64>,
}

impl Pace {
    /// The pace of a client that has moved nothing and was not waited for.
    pub fn new(terms: PaceTerms) -> Self {
        Self { terms, moved: 0, waited_millis: 0, since_millis: None }
    }

    /// So many bytes have moved.
    pub fn moved(&mut self, bytes: usize) {
        self.moved = self.moved.saturating_add(bytes as u64);
    }

    /// The client is waited for, now or already.
    pub fn wait(&mut self, now_millis: u64) {
        self.since_millis.get_or_insert(now_millis);
    }

    /// The client is not waited for any more.
    pub fn pause(&mut self, now_millis: u64) {
        self.waited_millis = self.waited(now_millis);
        self.since_millis = None;
    }

    /// How much longer the client can be waited for before its pace is judged. None if there is no bound.
    pub fn until_judged(&self, now_millis: u64) -> Option<Duration> {
        let left = self.window_millis().saturating_sub(self.waited(now_millis));
        (self.terms.bytes_per_second > 0).then(|| Duration::from_millis(left))
    }

    /// Whether too few bytes have moved in a window that is over; a new window begins then. A client whose connection
    /// carries several requests has less for each: `sharing` is their number.
    pub fn is_too_slow(&mut self, now_millis: u64, sharing: u32) -> bool {
        if self.terms.bytes_per_second == 0 || self.waited(now_millis) < self.window_millis() {
            return false;
        }
        let least = u128::from(self.terms.bytes_per_second) * u128::from(self.window_millis()) / 1_000;
        let least = least.saturating_sub(self.terms.step.into());
        let least = (least / u128::from(sharing.max(1))).max(1);
        let is_too_slow = u128::from(self.moved) < least;
        let since_millis = self.since_millis.map(|_| now_millis);
        *self = Self { since_millis, ..Self::new(self.terms) };
        is_too_slow
    }

    fn waited(&self, now_millis: u64) -> u64 {
        self.waited_millis + self.since_millis.map_or(0, |since| now_millis.saturating_sub(since))
    }

    fn window_millis(&self) -> u64 {
        u64::try_from(self.terms.window.as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 bytes per second over 10 s: 1,000 bytes.
    fn pace() -> Pace {
        Pace::new(PaceTerms { bytes_per_second: 100, window: Duration::from_secs(10), step: 0 })
    }

    #[test]
    fn a_client_that_moves_enough_in_each_window_is_never_too_slow() {
        let mut pace = pace();
        pace.wait(0);
        for window in 1..100 {
            pace.moved(1_000);
            assert!(!pace.is_too_slow(window * 10_000 - 1, 1), "the window is not over");
            assert!(!pace.is_too_slow(window * 10_000, 1));
        }
        assert!(pace.is_too_slow(1_000_000, 1), "nothing has moved in the last window");
    }

    #[test]
    fn one_byte_less_is_too_slow() {
        let mut pace = pace();
        pace.wait(5);
        pace.moved(999);
        assert_eq!(pace.until_judged(5), Some(Duration::from_secs(10)));
        assert!(!pace.is_too_slow(10_004, 1));
        assert!(pace.is_too_slow(10_005, 1));
    }

    #[test]
    fn time_in_which_nobody_waits_for_the_client_does_not_count() {
        let mut pace = pace();
        pace.wait(0);
        pace.pause(9_000);
        assert!(!pace.is_too_slow(100_000, 1));
        pace.wait(200_000);
        assert_eq!(pace.until_judged(200_000), Some(Duration::from_secs(1)));
        assert!(pace.is_too_slow(201_000, 1));
        assert_eq!(pace.until_judged(201_000), Some(Duration::from_secs(10)), "a new window");
    }

    /// The wait counted from the beginning of the window in which the pace is judged, whatever had moved since: a
    /// steady upload looked like the longest stall.
    #[test]
    fn bytes_pay_for_the_wait() {
        for (bytes_a_tenth, stalled_millis) in [(0, 10_000), (41, 9_000), (204, 5_100), (410, 0), (40_000, 0)] {
            let mut stall = Stall::default();
            let since = (0..=100).map(|tenth| stall.wait(tenth * 100, bytes_a_tenth)).last().expect("some");
            assert!((10_000 - since).abs_diff(stalled_millis) <= 110, "{bytes_a_tenth}: {since}");
        }
        let mut stall = Stall::default();
        stall.wait(0, 0);
        assert_eq!(stall.wait(1_000, 1_000_000), 1_000, "nothing is paid in advance");
        assert_eq!(stall.wait(3_000, 0), 1_000);
        stall.pause(4_000, 0);
        assert_eq!(stall.wait(100_000, 0), 97_000, "time in which nobody waits does not count");
    }

    /// A client on a slow link was cut off though it kept the pace: the kernel reports what it has sent in large steps.
    #[test]
    fn a_client_that_is_seen_in_steps_may_be_so_much_behind() {
        for (rate, window_millis) in [(100, 20_000), (1_000, 10_000)] {
            let terms = PaceTerms { bytes_per_second: rate, window: Duration::from_secs(10), step: 0 };
            let mut pace = Pace::new(terms.seen_in_steps(1_000));
            pace.wait(0);
            assert_eq!(pace.until_judged(0), Some(Duration::from_millis(window_millis)));
            // It keeps the pace exactly, whenever the first step shows.
            let step_millis = 1_000_000 / rate;
            for now in (0..1_000_000).step_by(10) {
                if now % step_millis == step_millis * 3 / 4 {
                    pace.moved(1_000);
                }
                assert!(!pace.is_too_slow(now, 1), "{now}");
            }
            let is_too_slow = (1_000_000..1_050_000).step_by(10).any(|now| pace.is_too_slow(now, 1));
            assert!(is_too_slow, "it has stopped");
        }
    }

    #[test]
    fn requests_that_share_a_connection_share_its_pace() {
        for (sharing, is_too_slow) in [(0, true), (1, true), (2, false), (u32::MAX, false)] {
            let mut pace = pace();
            pace.wait(0);
            pace.moved(500);
            assert_eq!(pace.is_too_slow(10_000, sharing), is_too_slow, "{sharing}");
        }
        let mut pace = pace();
        pace.wait(0);
        assert!(pace.is_too_slow(10_000, u32::MAX), "nothing at all is always too slow");
    }

    #[test]
    fn without_a_bound_nobody_is_too_slow() {
        let mut pace = Pace::new(PaceTerms { bytes_per_second: 0, window: Duration::from_secs(1), step: 0 });
        pace.wait(0);
        assert!(!pace.is_too_slow(u64::MAX, 1));
        assert_eq!(pace.until_judged(u64::MAX), None);
    }

    #[test]
    fn a_clock_that_steps_back_and_huge_numbers_do_no_harm() {
        let mut pace = Pace::new(PaceTerms { bytes_per_second: u64::MAX, window: Duration::MAX, step: 0 });
        pace.wait(1_000);
        pace.moved(usize::MAX);
        pace.moved(usize::MAX);
        assert!(!pace.is_too_slow(10, 1));
        pace.pause(0);
        assert!(!pace.is_too_slow(u64::MAX - 1, 1));
    }
}

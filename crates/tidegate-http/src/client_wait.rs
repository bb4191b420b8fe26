//! Waiting for a client in the middle of a message: for more of its request's body, or until it takes its response. Its
//! pauses and its pace are bounded.

use std::time::Duration;

use crate::deadlines::{Deadline, Waiting};
use crate::pace::{Pace, PaceTerms, Stall};

/// How long a client may be waited for.
#[derive(Clone, Copy, Debug)]
pub struct WaitTerms {
    /// The longest pause.
    pub timeout: Duration,
    /// How fast bytes must move.
    pub pace: PaceTerms,
}

/// Why a client is not waited for any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// No byte has moved for too long.
    Paused,
    /// Too few bytes have moved.
    TooSlow,
}

/// A client that is waited for now and then.
#[derive(Debug)]
pub struct ClientWait {
    timeout: Duration,
    pace: Pace,
    stall: Stall,
    /// When a byte last moved, or the client was first waited for.
    moved_millis: u64,
    /// The bytes that have moved since the last [`wait`](Self::wait).
    moved: u64,
    is_waiting: bool,
}

impl ClientWait {
    /// A client that has not been waited for.
    pub fn new(terms: WaitTerms) -> Self {
        let pace = Pace::new(terms.pace);
        let stall = Stall::default();
        Self { timeout: terms.timeout, pace, stall, moved_millis: 0, moved: 0, is_waiting: false }
    }

    /// So many bytes have moved.
    pub fn moved(&mut self, bytes: usize) {
        self.pace.moved(bytes);
        self.moved = self.moved.saturating_add(bytes as u64);
    }

    /// The client is not waited for any more.
    pub fn pause(&mut self, now_millis: u64) {
        if self.is_waiting {
            self.pace.pause(now_millis);
            self.stall.pause(now_millis, std::mem::take(&mut self.moved));
            self.is_waiting = false;
        }
    }

    /// The client is waited for, now or still. Sets the deadline if it has passed, a byte has moved or the wait begins;
    /// it counts from when the client has stalled. `sharing` is the number of requests that share the client's
    /// connection.
    pub fn wait(&mut self, deadline: &Deadline, waiting: Waiting, sharing: u32) -> Option<Late> {
        if self.is_waiting && self.moved == 0 && !deadline.has_passed() {
            return None;
        }
        self.wait_anew(deadline, waiting, sharing)
    }

    /// The same where something else may have cleared the deadline since: sets it in any case.
    pub fn wait_anew(&mut self, deadline: &Deadline, waiting: Waiting, sharing: u32) -> Option<Late> {
        let now = deadline.now_millis();
        let moved = std::mem::take(&mut self.moved);
        let stalled_since = self.stall.wait(now, moved);
        if !self.is_waiting || moved > 0 {
            (self.moved_millis, self.is_waiting) = (now, true);
            self.pace.wait(now);
        } else if self.paused(now) >= self.timeout {
            return Some(Late::Paused);
        }
        if self.pace.is_too_slow(now, sharing) {
            return Some(Late::TooSlow);
        }
        let left = self.timeout.saturating_sub(self.paused(now));
        let left = self.pace.until_judged(now).map_or(left, |judged| judged.min(left));
        let stalled = Duration::from_millis(now.saturating_sub(stalled_since));
        deadline.set_since(stalled_since, waiting, left + stalled);
        None
    }

    fn paused(&self, now_millis: u64) -> Duration {
        Duration::from_millis(now_millis.saturating_sub(self.moved_millis))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::deadlines::{Deadlines, Owner};

    /// A client that may pause for 3 s and must move 100 bytes in 10 s of waiting.
    struct Client {
        deadlines: Arc<Deadlines>,
        deadline: Arc<Deadline>,
        wait: ClientWait,
        now_millis: u64,
    }

    impl Client {
        fn new() -> Self {
            let deadlines = Deadlines::new();
            let pace = PaceTerms { bytes_per_second: 10, window: Duration::from_secs(10), step: 0 };
            let wait = ClientWait::new(WaitTerms { timeout: Duration::from_secs(3), pace });
            Self { deadline: deadlines.deadline(Owner::NONE), deadlines, wait, now_millis: 0 }
        }

        fn waits(&mut self, millis: u64) -> Option<Late> {
            self.now_millis += millis;
            self.deadlines.sweep(self.now_millis);
            self.wait.wait(&self.deadline, Waiting::Client, 1)
        }
    }

    #[test]
    fn a_client_that_pauses_for_too_long_is_late() {
        let mut client = Client::new();
        assert_eq!(client.waits(1_000), None);
        assert_eq!(client.waits(3_000), None, "the deadline has not passed");
        assert_eq!(client.waits(100), Some(Late::Paused));
    }

    #[test]
    fn a_client_that_moves_a_byte_now_and_then_is_too_slow() {
        let mut client = Client::new();
        let mut waited = 0;
        let late = loop {
            client.wait.moved(1);
            if let Some(late) = client.waits(1_000) {
                break late;
            }
            waited += 1;
        };
        assert_eq!((late, waited), (Late::TooSlow, 10));
    }

    #[test]
    fn a_client_that_moves_enough_is_never_late() {
        let mut client = Client::new();
        for _ in 0..1_000 {
            client.wait.moved(20);
            assert_eq!(client.waits(2_000), None);
        }
        client.wait.pause(client.now_millis);
        assert_eq!(client.waits(1_000_000), None, "nobody waited for it");
    }
}

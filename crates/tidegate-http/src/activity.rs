//! What a client's connection waits for, and the deadline for it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::client_wait::{ClientWait, Late, WaitTerms};
use crate::deadlines::{Deadline, Ended, Waiting};
use crate::pace::PaceTerms;
use crate::share::BusyConnections;

/// The timeouts of a client's connection.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// Between two requests; it also bounds the wait for the first.
    pub idle: Duration,
    /// While the client takes no byte of a response.
    pub write: Duration,
    /// How fast the client must take a response.
    pub pace: PaceTerms,
}

/// What happens on a client's connection. It sets the connection's deadline.
pub struct Activity {
    /// The connection's deadline.
    pub deadline: Arc<Deadline>,
    timeouts: Timeouts,
    is_h2: bool,
    /// Where it is counted while requests are under way.
    busy: BusyConnections,
    /// Requests under way, and those of HTTP/2 that have arrived and not begun.
    active: AtomicU32,
    /// Pieces of responses that HTTP/2 has accepted and not yet sent.
    unsent: AtomicU32,
    /// When a byte of them was last sent, in the worker's milliseconds.
    moved_millis: AtomicU64,
    /// A head has begun to arrive.
    in_head: AtomicBool,
    /// The client takes nothing of what is written.
    blocked: AtomicBool,
    /// How long that may last. Until it happens for the first time, bytes are not counted.
    taking: OnceLock<Mutex<ClientWait>>,
    /// It has taken too few bytes of what was written.
    is_too_slow: AtomicBool,
}

impl Activity {
    /// For a connection that has just been accepted.
    pub fn new(deadline: Arc<Deadline>, timeouts: Timeouts, is_h2: bool, busy: BusyConnections) -> Arc<Self> {
        // A client that speaks HTTP/2 has sent something already.
        let first = if is_h2 { timeouts.idle } else { timeouts.idle.min(timeouts.head) };
        deadline.set_for(Waiting::First, first);
        Arc::new(Self {
            deadline,
            timeouts,
            is_h2,
            busy,
            active: AtomicU32::new(0),
            unsent: AtomicU32::new(0),
            moved_millis: AtomicU64::new(0),
            in_head: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            taking: OnceLock::new(),
            is_too_slow: AtomicBool::new(false),
        })
    }

    /// How long a client may be waited for while it takes a response.
    pub fn wait_terms(&self) -> WaitTerms {
        WaitTerms { timeout: self.timeouts.write, pace: self.timeouts.pace }
    }

    /// How many requests are under way, and share the connection.
    pub fn requests(&self) -> u32 {
        self.active.load(Ordering::Relaxed)
    }

    /// A request has begun.
    pub fn request_began(&self) {
        if self.active.fetch_add(1, Ordering::Relaxed) == 0 {
            self.busy.add();
        }
        self.in_head.store(false, Ordering::Relaxed);
        self.set_deadline();
    }

    /// A request has ended: its response has been written, or never will be.
    pub fn request_ended(&self) {
        if self.active.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.busy.remove();
        }
        self.set_deadline();
    }

    /// Whether no request is under way.
    pub fn is_idle(&self) -> bool {
        self.active.load(Ordering::Relaxed) == 0
    }

    /// Sets the deadline for what the connection waits for. A request under way has a deadline of its own.
    fn set_deadline(&self) {
        if self.blocked.load(Ordering::Relaxed) {
            // A connection that ends because of its deadline keeps it, so that the reason can be counted.
            if self.deadline.has_passed() {
                return;
            }
            if self.wait_for_taking().is_some() {
                self.is_too_slow.store(true, Ordering::Relaxed);
                self.deadline.set_for(Waiting::Taking, Duration::ZERO);
            }
        } else if self.active.load(Ordering::Relaxed) > 0 {
            self.deadline.clear();
        } else if self.in_head.load(Ordering::Relaxed) {
            self.deadline.set_for(Waiting::Head, self.timeouts.head);
        } else if self.unsent.load(Ordering::Relaxed) > 0 {
            // Not from now: only a byte that is sent postpones the deadline.
            self.deadline.set_since(self.moved_millis.load(Ordering::Relaxed), Waiting::Taking, self.timeouts.write);
        } else {
            self.deadline.set_for(Waiting::Next, self.timeouts.idle);
        }
    }

    /// The client takes nothing. Sets the deadline for that, unless it is set already.
    fn wait_for_taking(&self) -> Option<Late> {
        let mut taking = self.taking().lock().unwrap_or_else(PoisonError::into_inner);
        taking.wait(&self.deadline, Waiting::Taking, 1)
    }

    fn taking(&self) -> &Mutex<ClientWait> {
        self.taking.get_or_init(|| Mutex::new(ClientWait::new(self.wait_terms())))
    }

    /// Whether the connection must end: its deadline has passed, or it was evicted. If the deadline was for a client
    /// that takes a response fast enough, it is set anew.
    pub fn is_late(&self) -> bool {
        if !self.deadline.has_passed() {
            return false;
        }
        let is_taking = self.deadline.ended() == Some(Ended::Late(Waiting::Taking));
        let may_go_on = is_taking && self.blocked.load(Ordering::Relaxed) && !self.is_too_slow.load(Ordering::Relaxed);
        !(may_go_on && self.wait_for_taking().is_none())
    }

    fn note_moved(&self) {
        self.moved_millis.store(self.deadline.now_millis(), Ordering::Relaxed);
    }

    /// A request has arrived over HTTP/2 and will begin in its own task. Until then the connection is not idle either.
    pub fn request_came(self: &Arc<Self>) -> Arrival {
        self.request_began();
        Arrival(Arc::clone(self))
    }

    /// HTTP/2 has accepted a piece of a response, to send it when the client's window permits.
    pub fn piece_taken(&self) {
        if self.unsent.fetch_add(1, Ordering::Relaxed) == 0 {
            self.note_moved();
        }
    }

    /// Some bytes of a piece have been sent.
    pub fn piece_moved(&self) {
        self.note_moved();
        if self.is_idle() {
            self.set_deadline();
        }
    }

    /// A piece has been sent, or never will be.
    pub fn piece_gone(&self) {
        let was_last = self.unsent.fetch_sub(1, Ordering::Relaxed) == 1;
        if was_last && self.is_idle() {
            self.set_deadline();
        }
    }

    /// Something was read.
    pub fn has_read(&self) {
        // HTTP/2 has frames that begin no request: a connection with nothing else is idle.
        let begins = !self.is_h2 && self.active.load(Ordering::Relaxed) == 0;
        if begins && !self.in_head.swap(true, Ordering::Relaxed) {
            self.set_deadline();
        }
    }

    /// No byte of the next request has arrived: what was read was the end of the last one.
    pub fn awaits_request(&self) {
        if self.in_head.swap(false, Ordering::Relaxed) {
            self.set_deadline();
        }
    }

    /// So many bytes were written, and the client may take more or not: then the connection is `blocked`.
    pub fn has_written(&self, bytes: usize, blocked: bool) {
        if bytes > 0
            && let Some(taking) = self.taking.get()
        {
            taking.lock().unwrap_or_else(PoisonError::into_inner).moved(bytes);
        }
        // Only when it changes: more data to write does not give a client that takes nothing more time.
        if blocked != self.blocked.load(Ordering::Relaxed) {
            self.blocked.store(blocked, Ordering::Relaxed);
            self.note_moved();
            if let (false, Some(taking)) = (blocked, self.taking.get()) {
                taking.lock().unwrap_or_else(PoisonError::into_inner).pause(self.deadline.now_millis());
            }
            self.set_deadline();
        }
    }
}

/// A request that has arrived over HTTP/2. Its connection is not idle as long as this exists.
pub struct Arrival(Arc<Activity>);

impl Drop for Arrival {
    fn drop(&mut self) {
        self.0.request_ended();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadlines::{Deadlines, Owner};

    const WRITE_TIMEOUT_MILLIS: u64 = 30_000;

    /// An HTTP/2 connection.
    fn connected() -> (Arc<Deadlines>, Arc<Activity>) {
        let write = Duration::from_millis(WRITE_TIMEOUT_MILLIS);
        let pace = PaceTerms { bytes_per_second: 100, window: Duration::from_secs(60) };
        let timeouts = Timeouts { head: Duration::from_secs(10), idle: Duration::from_secs(75), write, pace };
        let deadlines = Deadlines::new();
        let activity = Activity::new(deadlines.deadline(Owner::NONE), timeouts, true, BusyConnections::default());
        (deadlines, activity)
    }

    fn is_idle(deadlines: &Deadlines) -> bool {
        let mut idlers = Vec::new();
        deadlines.idlers(&mut idlers);
        idlers.iter().any(|idler| idler.waiting != Waiting::Taking)
    }

    /// Between its arrival and its beginning, the end of another stream made the connection idle: an eviction then
    /// dropped the request.
    #[test]
    fn a_request_that_has_come_keeps_its_connection_from_being_idle() {
        let (deadlines, activity) = connected();
        activity.request_began();
        let arrival = activity.request_came();
        activity.request_ended();
        assert!(!is_idle(&deadlines) && !activity.is_idle());
        activity.request_began();
        drop(arrival);
        assert!(!is_idle(&deadlines), "it is under way");
        activity.request_ended();
        assert!(is_idle(&deadlines));
        drop(activity.request_came());
        assert!(is_idle(&deadlines), "it was given up before it began");
    }

    /// A response that waits for the client's window had all of `idle_timeout`, and more with each request besides.
    #[test]
    fn only_a_byte_that_moves_gives_a_waiting_response_more_time() {
        let (deadlines, activity) = connected();
        let late = Some(Ended::Late(Waiting::Taking));
        activity.request_began();
        activity.piece_taken();
        activity.request_ended();
        assert!(!is_idle(&deadlines), "a response is under way");
        deadlines.sweep(WRITE_TIMEOUT_MILLIS - 1_000);
        activity.request_began();
        activity.request_ended();
        activity.has_written(0, false);
        activity.has_read();
        deadlines.sweep(WRITE_TIMEOUT_MILLIS + 100);
        assert_eq!(activity.deadline.ended(), late);

        activity.piece_moved();
        deadlines.sweep(2 * WRITE_TIMEOUT_MILLIS);
        assert_eq!(activity.deadline.ended(), None);
        deadlines.sweep(2 * WRITE_TIMEOUT_MILLIS + 200);
        assert_eq!(activity.deadline.ended(), late);
        activity.piece_gone();
        assert!(is_idle(&deadlines));
    }

    /// Each byte gave it another `write_timeout`.
    #[test]
    fn a_client_that_takes_a_byte_now_and_then_is_late_in_the_end() {
        let (deadlines, activity) = connected();
        activity.request_began();
        let mut now = 0;
        let is_late = |activity: &Activity, now: u64| {
            deadlines.sweep(now);
            activity.is_late()
        };
        while now < 60_000 {
            activity.has_written(1, false);
            activity.has_written(0, true);
            now += 5_000;
            assert!(!is_late(&activity, now), "{now}");
        }
        activity.has_written(1, false);
        activity.has_written(0, true);
        assert!(is_late(&activity, now + 100));
    }

    #[test]
    fn a_client_that_takes_enough_is_never_late() {
        let (deadlines, activity) = connected();
        activity.request_began();
        for step in 1..1_000 {
            activity.has_written(1_000, false);
            activity.has_written(0, true);
            deadlines.sweep(step * 9_000);
            assert!(!activity.is_late(), "{step}");
        }
        deadlines.sweep(1_000 * 9_000 + WRITE_TIMEOUT_MILLIS);
        assert!(activity.is_late(), "it takes nothing any more");
    }
}

//! What a client's connection waits for, and the deadline for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::deadlines::{Deadline, Waiting};

/// The timeouts of a client's connection.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// Between two requests; it also bounds the wait for the first.
    pub idle: Duration,
    /// While the client takes no byte of a response.
    pub write: Duration,
}

/// What happens on a client's connection. It sets the connection's deadline.
pub struct Activity {
    /// The connection's deadline.
    pub deadline: Arc<Deadline>,
    timeouts: Timeouts,
    is_h2: bool,
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
}

impl Activity {
    /// For a connection that has just been accepted.
    pub fn new(deadline: Arc<Deadline>, timeouts: Timeouts, is_h2: bool) -> Arc<Self> {
        // A client that speaks HTTP/2 has sent something already.
        let first = if is_h2 { timeouts.idle } else { timeouts.idle.min(timeouts.head) };
        deadline.set_for(Waiting::First, first);
        Arc::new(Self {
            deadline,
            timeouts,
            is_h2,
            active: AtomicU32::new(0),
            unsent: AtomicU32::new(0),
            moved_millis: AtomicU64::new(0),
            in_head: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
        })
    }

    /// How long the client may take no byte of a response.
    pub fn write_timeout(&self) -> Duration {
        self.timeouts.write
    }

    /// A request has begun.
    pub fn request_began(&self) {
        self.active.fetch_add(1, Ordering::Relaxed);
        self.in_head.store(false, Ordering::Relaxed);
        self.set_deadline();
    }

    /// A request has ended: its response has been written, or never will be.
    pub fn request_ended(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
        self.set_deadline();
    }

    /// Whether no request is under way.
    pub fn is_idle(&self) -> bool {
        self.active.load(Ordering::Relaxed) == 0
    }

    /// Sets the deadline for what the connection waits for. A request under way has a deadline of its own.
    fn set_deadline(&self) {
        if self.blocked.load(Ordering::Relaxed) {
            self.deadline.set_for(Waiting::Taking, self.timeouts.write);
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

    /// Something was written, or could not be: then the connection is `blocked`.
    pub fn has_written(&self, blocked: bool) {
        // Only when it changes: more data to write does not give a client that takes nothing more time.
        if blocked != self.blocked.load(Ordering::Relaxed) {
            self.blocked.store(blocked, Ordering::Relaxed);
            self.note_moved();
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
    use crate::deadlines::{Deadlines, Ended};

    const WRITE_TIMEOUT_MILLIS: u64 = 30_000;

    /// An HTTP/2 connection.
    fn connected() -> (Arc<Deadlines>, Arc<Activity>) {
        let write = Duration::from_millis(WRITE_TIMEOUT_MILLIS);
        let timeouts = Timeouts { head: Duration::from_secs(10), idle: Duration::from_secs(75), write };
        let deadlines = Deadlines::new();
        let activity = Activity::new(deadlines.deadline(), timeouts, true);
        (deadlines, activity)
    }

    fn is_idle(deadlines: &Deadlines) -> bool {
        let mut idlers = Vec::new();
        deadlines.idlers(&mut idlers);
        !idlers.is_empty()
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
        activity.has_written(false);
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
}

//! What a client's connection waits for, and the deadline for it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::client_wait::{ClientWait, Late, WaitTerms};
use crate::deadlines::{Deadline, Ended, Waiting};
use crate::pace::{MOST_UNSENT, PaceTerms};
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

/// A deadline that does not pass.
const NEVER: Duration = Duration::from_secs(365 * 86_400);

/// A piece of a response, in [`Activity::work`].
const PIECE: u64 = 1 << 32;

/// What happens on a client's connection. It sets the connection's deadline.
pub struct Activity {
    /// The connection's deadline.
    pub deadline: Arc<Deadline>,
    timeouts: Timeouts,
    is_h2: bool,
    /// Where it is counted while requests are under way.
    busy: BusyConnections,
    /// Requests under way, and those of HTTP/2 that have arrived and not begun; above them, in units of [`PIECE`],
    /// pieces of responses that HTTP/2 has accepted and not yet sent. In one word, so that one operation shows whether
    /// the connection has become busy.
    work: AtomicU64,
    /// How long the client may take for these pieces once no request is under way.
    pieces: OnceLock<Box<Mutex<ClientWait>>>,
    /// HTTP/2 requests that have begun, until the last byte of their responses has been sent.
    streams: AtomicU32,
    /// Those whose responses wait for the client.
    stalled: AtomicU32,
    /// Those whose requests wait until the client takes other responses.
    queued: AtomicU32,
    /// Since when all streams wait for the client, in the worker's milliseconds; 0 if they do not.
    stalled_since: AtomicU64,
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
            work: AtomicU64::new(0),
            pieces: OnceLock::new(),
            streams: AtomicU32::new(0),
            stalled: AtomicU32::new(0),
            queued: AtomicU32::new(0),
            stalled_since: AtomicU64::new(0),
            in_head: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            taking: OnceLock::new(),
            is_too_slow: AtomicBool::new(false),
        })
    }

    /// How long a client may be waited for while it takes a response. The kernel asks for more when half of
    /// [`MOST_UNSENT`] is sent.
    pub fn wait_terms(&self) -> WaitTerms {
        let pace = self.timeouts.pace.seen_in_steps(u64::from(MOST_UNSENT / 2));
        WaitTerms { timeout: self.timeouts.write, pace }
    }

    /// How many requests are under way, and share the connection.
    pub fn requests(&self) -> u32 {
        self.work.load(Ordering::Relaxed) as u32
    }

    /// Whether HTTP/2 has pieces of responses that are not sent.
    fn has_unsent(&self) -> bool {
        self.work.load(Ordering::Relaxed) >= PIECE
    }

    /// A request has begun.
    pub fn request_began(&self) {
        if self.work.fetch_add(1, Ordering::Relaxed) == 0 {
            self.busy.add();
        }
        self.in_head.store(false, Ordering::Relaxed);
        self.set_deadline();
    }

    /// A request has ended: its response has been written, or never will be.
    pub fn request_ended(&self) {
        if self.work.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.busy.remove();
        }
        self.set_deadline();
    }

    /// Whether no request is under way.
    pub fn is_idle(&self) -> bool {
        self.requests() == 0
    }

    /// Sets the deadline for what the connection waits for. A request under way has a deadline of its own.
    fn set_deadline(&self) {
        // The connection ends at the next tick, whatever its client does until then.
        if self.is_too_slow.load(Ordering::Relaxed) {
            return;
        }
        if self.blocked.load(Ordering::Relaxed) {
            // A connection that ends because of its deadline keeps it, so that the reason can be counted.
            if self.deadline.has_passed() {
                return;
            }
            self.end_if(self.wait_for_taking());
        } else if self.requests() > 0 {
            self.clear_deadline();
        } else if self.in_head.load(Ordering::Relaxed) {
            self.deadline.set_for(Waiting::Head, self.timeouts.head);
        } else if self.has_unsent() {
            self.end_if(self.wait_for_pieces());
        } else {
            self.deadline.set_for(Waiting::Next, self.timeouts.idle);
        }
    }

    /// Requests under way have deadlines of their own. If all streams wait for the client, the connection has a
    /// deadline that does not pass, so that it can be closed for another client.
    fn clear_deadline(&self) {
        if !self.is_h2 {
            return self.deadline.clear();
        }
        let (stalled, queued) = (self.stalled.load(Ordering::Relaxed), self.queued.load(Ordering::Relaxed));
        if stalled + queued == 0 || stalled < self.streams.load(Ordering::Relaxed) {
            self.stalled_since.store(0, Ordering::Relaxed);
            return self.deadline.clear();
        }
        let since = match self.stalled_since.load(Ordering::Relaxed) {
            0 => self.deadline.now_millis().max(1),
            since => since,
        };
        self.stalled_since.store(since, Ordering::Relaxed);
        self.deadline.set_since(since, Waiting::Taking, NEVER);
    }

    /// Another number of streams waits for the client.
    fn stall_changed(&self) {
        let is_busy = self.requests() > 0 && !self.blocked.load(Ordering::Relaxed);
        if is_busy && !self.is_too_slow.load(Ordering::Relaxed) {
            self.clear_deadline();
        }
    }

    /// An HTTP/2 request has begun, and lasts as long as this exists.
    pub fn stream_began(self: &Arc<Self>) -> StreamCount {
        StreamCount::new(self, |activity| &activity.streams)
    }

    /// An HTTP/2 response waits for the client, as long as this exists.
    pub fn response_waits(self: &Arc<Self>) -> StreamCount {
        StreamCount::new(self, |activity| &activity.stalled)
    }

    /// An HTTP/2 request waits until the client takes other responses, as long as this exists.
    pub fn request_waits(self: &Arc<Self>) -> StreamCount {
        StreamCount::new(self, |activity| &activity.queued)
    }

    /// How many HTTP/2 responses wait for the client, and share its connection: one at least.
    pub fn waiting_responses(&self) -> u32 {
        self.stalled.load(Ordering::Relaxed).max(1)
    }

    /// Lets the deadline pass at the next tick.
    fn end_if(&self, late: Option<Late>) {
        if late.is_some() {
            self.is_too_slow.store(true, Ordering::Relaxed);
            self.deadline.set_for(Waiting::Taking, Duration::ZERO);
        }
    }

    /// The client takes nothing. Sets the deadline for that, unless it is set already.
    fn wait_for_taking(&self) -> Option<Late> {
        let mut taking = self.taking().lock().unwrap_or_else(PoisonError::into_inner);
        taking.wait(&self.deadline, Waiting::Taking, 1)
    }

    /// The client has all its responses but for pieces that HTTP/2 has not sent. Only bytes that are sent postpone the
    /// deadline.
    fn wait_for_pieces(&self) -> Option<Late> {
        let pieces = self.pieces.get_or_init(|| Box::new(Mutex::new(ClientWait::new(self.wait_terms()))));
        let mut pieces = pieces.lock().unwrap_or_else(PoisonError::into_inner);
        pieces.wait_anew(&self.deadline, Waiting::Taking, 1)
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
        if !is_taking || self.is_too_slow.load(Ordering::Relaxed) {
            return true;
        }
        let late = if self.blocked.load(Ordering::Relaxed) {
            self.wait_for_taking()
        } else if self.is_idle() && self.has_unsent() {
            self.wait_for_pieces()
        } else {
            return true;
        };
        self.is_too_slow.store(late.is_some(), Ordering::Relaxed);
        late.is_some()
    }

    /// A request has arrived over HTTP/2 and will begin in its own task. Until then the connection is not idle either.
    pub fn request_came(self: &Arc<Self>) -> Arrival {
        self.request_began();
        Arrival(Arc::clone(self))
    }

    /// HTTP/2 has accepted a piece of a response, to send it when the client's window permits.
    pub fn piece_taken(&self) {
        if self.work.fetch_add(PIECE, Ordering::Relaxed) == 0 {
            self.busy.add();
        }
    }

    /// Some bytes of a piece have been sent.
    pub fn piece_moved(&self, bytes: usize) {
        if let Some(pieces) = self.pieces.get() {
            pieces.lock().unwrap_or_else(PoisonError::into_inner).moved(bytes);
        }
        if self.is_idle() {
            self.set_deadline();
        }
    }

    /// A piece has been sent, or never will be.
    pub fn piece_gone(&self) {
        let before = self.work.fetch_sub(PIECE, Ordering::Relaxed);
        if before == PIECE {
            self.busy.remove();
        }
        if before / PIECE != 1 {
            return;
        }
        if let Some(pieces) = self.pieces.get() {
            pieces.lock().unwrap_or_else(PoisonError::into_inner).pause(self.deadline.now_millis());
        }
        if self.is_idle() {
            self.set_deadline();
        }
    }

    /// Something was read.
    pub fn has_read(&self) {
        // HTTP/2 has frames that begin no request: a connection with nothing else is idle.
        let begins = !self.is_h2 && self.is_idle();
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
            if let (false, Some(taking)) = (blocked, self.taking.get()) {
                taking.lock().unwrap_or_else(PoisonError::into_inner).pause(self.deadline.now_millis());
            }
            self.set_deadline();
        }
    }
}

/// An HTTP/2 stream that is counted as long as this exists.
pub struct StreamCount {
    activity: Arc<Activity>,
    counter: fn(&Activity) -> &AtomicU32,
}

impl StreamCount {
    fn new(activity: &Arc<Activity>, counter: fn(&Activity) -> &AtomicU32) -> Self {
        counter(activity).fetch_add(1, Ordering::Relaxed);
        activity.stall_changed();
        Self { activity: Arc::clone(activity), counter }
    }
}

impl Drop for StreamCount {
    fn drop(&mut self) {
        (self.counter)(&self.activity).fetch_sub(1, Ordering::Relaxed);
        self.activity.stall_changed();
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
    use crate::deadlines::{Deadlines, Found, Owner};

    const WRITE_TIMEOUT_MILLIS: u64 = 30_000;

    /// An HTTP/2 connection.
    fn connected() -> (Arc<Deadlines>, Arc<Activity>) {
        let write = Duration::from_millis(WRITE_TIMEOUT_MILLIS);
        let pace = PaceTerms { bytes_per_second: 10_000, window: Duration::from_secs(60), step: 0 };
        let timeouts = Timeouts { head: Duration::from_secs(10), idle: Duration::from_secs(75), write, pace };
        let deadlines = Deadlines::new();
        let activity = Activity::new(deadlines.deadline(Owner::NONE), timeouts, true, BusyConnections::default());
        (deadlines, activity)
    }

    fn is_idle(deadlines: &Deadlines) -> bool {
        let mut found = Found::default();
        deadlines.idlers(&mut found);
        found.idlers.iter().any(|idler| idler.waiting != Waiting::Taking)
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

        activity.piece_moved(10_000);
        deadlines.sweep(2 * WRITE_TIMEOUT_MILLIS);
        assert_eq!(activity.deadline.ended(), None);
        deadlines.sweep(2 * WRITE_TIMEOUT_MILLIS + 200);
        assert_eq!(activity.deadline.ended(), late);
        activity.piece_gone();
        assert!(is_idle(&deadlines));
    }

    /// hyper drops a body with its last piece. A connection with such pieces was not busy, and a byte now and then kept
    /// it for ever.
    #[test]
    fn a_connection_with_unsent_pieces_is_busy_and_its_pace_is_judged() {
        let (deadlines, activity) = connected();
        activity.request_began();
        activity.piece_taken();
        activity.request_ended();
        assert_eq!(activity.busy.all.load(Ordering::Relaxed), 1);
        for now in (0..60_000).step_by(10_000) {
            deadlines.sweep(now);
            assert!(!activity.is_late(), "{now}");
            activity.piece_moved(1);
        }
        deadlines.sweep(61_000);
        assert!(activity.is_late());
        activity.piece_gone();
        assert_eq!(activity.busy.all.load(Ordering::Relaxed), 0);
    }

    /// Requests under way kept an HTTP/2 connection from making room, though its client took none of its responses.
    #[test]
    fn a_connection_whose_requests_all_wait_for_the_client_can_make_room() {
        let (deadlines, activity) = connected();
        let (_one, other) = (activity.stream_began(), activity.stream_began());
        let stalled = || {
            let mut found = Found::default();
            deadlines.idlers(&mut found);
            found.idlers.first().map(|idler| (idler.waiting, idler.waited.as_millis()))
        };
        deadlines.sweep(1_000);
        activity.request_began();
        assert_eq!(stalled(), None);
        let waits = activity.response_waits();
        activity.request_began();
        assert_eq!(stalled(), None, "another one is served");
        let other_waits = activity.response_waits();
        deadlines.sweep(3_000);
        // Those that come and wait for their turn show nothing: one each second kept the connection.
        drop(activity.request_waits());
        assert_eq!(stalled(), Some((Waiting::Taking, 2_000)));
        drop(other_waits);
        assert_eq!(stalled(), None, "one is taken");
        activity.request_ended();
        drop(other);
        assert_eq!(stalled(), Some((Waiting::Taking, 0)));
        drop(waits);
        assert_eq!(stalled(), None, "it is taken");
        activity.request_ended();
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
            activity.has_written(100_000, false);
            activity.has_written(0, true);
            deadlines.sweep(step * 9_000);
            assert!(!activity.is_late(), "{step}");
        }
        deadlines.sweep(1_000 * 9_000 + WRITE_TIMEOUT_MILLIS);
        assert!(activity.is_late(), "it takes nothing any more");
    }
}

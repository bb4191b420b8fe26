//! What a client's connection waits for, and the deadline for it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::client_wait::{ClientWait, Late, WaitTerms};
use crate::deadlines::{Deadline, Ended, Waiting};
use crate::pace::{MOST_UNSENT, PaceTerms, Stall};
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
    /// Those that wait for the client in any way: for that, or for more of their bodies.
    waiting: AtomicU32,
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
            waiting: AtomicU32::new(0),
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

    /// Whether the client speaks HTTP/2.
    pub fn is_h2(&self) -> bool {
        self.is_h2
    }

    /// How many requests are under way, and share the connection.
    pub fn requests(&self) -> u32 {
        self.work.load(Ordering::Relaxed) as u32
    }

    /// Whether HTTP/2 has pieces of responses that are not sent.
    fn has_unsent(&self) -> bool {
        self.work.load(Ordering::Relaxed) >= PIECE
    }

    /// A request has begun. Returns how many connections of the client's address had requests under way, if with it
    /// this one has; 0 if it already had.
    pub fn request_began(&self) -> usize {
        let is_first = self.work.fetch_add(1, Ordering::Relaxed) == 0;
        let busy_before = if is_first { self.busy.add() } else { 0 };
        self.in_head.store(false, Ordering::Relaxed);
        self.set_deadline();
        busy_before
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
        let (waiting, queued) = (self.waiting.load(Ordering::Relaxed), self.queued.load(Ordering::Relaxed));
        if waiting + queued == 0 || waiting < self.streams.load(Ordering::Relaxed) {
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

    /// An HTTP/2 response waits for the client, and shares its pace with the others, as long as this exists.
    pub fn response_waits(self: &Arc<Self>) -> StreamCount {
        StreamCount::new(self, |activity| &activity.stalled)
    }

    /// An HTTP/2 stream waits for the client, for more of its request or until it takes the response, as long as this
    /// exists.
    pub fn stream_waits(self: &Arc<Self>) -> StreamCount {
        StreamCount::new(self, |activity| &activity.waiting)
    }

    /// The client of an HTTP/2 connection has sent or taken so many bytes. They pay for the time that all its streams
    /// wait for it.
    pub fn stream_moved(&self, bytes: usize) {
        let since = self.stalled_since.load(Ordering::Relaxed);
        if since != 0 {
            let now = self.deadline.now_millis().max(1);
            self.stalled_since.store(Stall::paid(since, bytes).min(now), Ordering::Relaxed);
            self.stall_changed();
        }
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
        Arrival { busy_before: self.request_began(), activity: Arc::clone(self) }
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
pub struct Arrival {
    activity: Arc<Activity>,
    busy_before: usize,
}

impl Arrival {
    /// How many connections of the client's address had requests under way, if with this one its connection has.
    pub fn busy_before(&self) -> usize {
        self.busy_before
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.activity.request_ended();
    }
}

#[cfg(test)]
mod tests;

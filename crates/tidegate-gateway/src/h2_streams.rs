//! The streams of an HTTP/2 connection. Each has a deadline of its own, so that a stream that the client does not read
//! ends alone. While the client takes nothing of a stream, its response is read ahead.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::Executor;
use tidegate_http::activity::{Activity, StreamCount};
use tidegate_http::client_wait::ClientWait;
use tidegate_http::deadlines::{Deadline, Deadlines, Owner, Waiting};

use crate::client_shares::CountedStream;
use crate::cuts::Cut;
use crate::read_ahead::ReadAhead;
use crate::stream_turns::Turn;
use crate::stream_waits::StreamWaits;

tokio::task_local! {
    static STREAM: Arc<H2Stream>;
}

/// The stream that this task serves, on HTTP/2.
pub(crate) fn stream() -> Option<Arc<H2Stream>> {
    STREAM.try_with(Arc::clone).ok()
}

/// A stream, as the task that serves it and the pieces of its response see it.
///
/// It lives until the last piece of the response has been sent, and so does what it holds: hyper drops the body as soon
/// as it has handed over the last piece.
pub(crate) struct H2Stream {
    deadline: Arc<Deadline>,
    /// Held for its `Drop`.
    counted: OnceLock<CountedStream>,
    /// None until the request begins. Held for its `Drop`.
    begun: OnceLock<StreamCount>,
    /// None until the request begins.
    waits: OnceLock<Arc<StreamWaits>>,
    /// None for trusted proxies, and until the request begins.
    turn: OnceLock<Turn>,
    /// Pieces of the response that hyper has and the client has not taken.
    pieces: AtomicU32,
    /// hyper has all of the response.
    is_whole: AtomicBool,
    /// Once there is a response.
    response: Mutex<Option<StreamResponse>>,
}

struct StreamResponse {
    /// How long the client may take.
    wait: ClientWait,
    activity: Arc<Activity>,
    /// While there is something that the client has to take.
    stalled: Option<StreamCount>,
    ahead: Option<ReadAhead>,
    /// The client was too slow. That stays so, whatever it takes until the stream ends.
    is_late: bool,
}

impl StreamResponse {
    /// The client is waited for. A client that is late is cut off at the next tick.
    fn wait(&mut self, deadline: &Deadline) {
        if self.is_late {
            return;
        }
        self.is_late = self.wait.wait(deadline, Waiting::Stream, self.activity.waiting_responses()).is_some();
        if self.is_late {
            deadline.set_for(Waiting::Stream, Duration::ZERO);
        }
    }
}

impl H2Stream {
    fn new(deadline: Arc<Deadline>) -> Self {
        Self {
            deadline,
            counted: OnceLock::new(),
            begun: OnceLock::new(),
            waits: OnceLock::new(),
            turn: OnceLock::new(),
            pieces: AtomicU32::new(0),
            is_whole: AtomicBool::new(false),
            response: Mutex::default(),
        }
    }

    fn response(&self) -> MutexGuard<'_, Option<StreamResponse>> {
        self.response.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the request with those of all clients, as long as this exists.
    pub(crate) fn count(&self, of_all: CountedStream) {
        let _first = self.counted.set(of_all);
    }

    /// The request begins. It is counted with those of its connection, as long as this exists.
    pub(crate) fn begin(&self, activity: &Arc<Activity>, turn: Option<Turn>) {
        let _first = self.begun.set(activity.stream_began());
        let _first = self.waits.set(StreamWaits::new(activity));
        if let Some(turn) = turn {
            let _first = self.turn.set(turn);
        }
    }

    /// Where it shows whether it waits for its client.
    pub(crate) fn waits(&self) -> Option<Arc<StreamWaits>> {
        self.waits.get().cloned()
    }

    /// The response for the client on this connection begins. `ahead` reads it ahead of a slow client. `has_body`:
    /// there is something to take besides its head.
    pub(crate) fn respond(&self, activity: &Arc<Activity>, ahead: Option<ReadAhead>, has_body: bool) {
        let wait = ClientWait::new(activity.wait_terms());
        let activity = Arc::clone(activity);
        *self.response() = Some(StreamResponse { wait, activity, stalled: None, ahead, is_late: false });
        if has_body {
            self.wait();
        } else {
            self.ended();
        }
    }

    /// hyper has another piece, which the client must take.
    pub(crate) fn piece_given(&self) {
        self.pieces.fetch_add(1, Ordering::Relaxed);
        self.wait();
    }

    /// The client has taken all of a piece.
    pub(crate) fn piece_taken(&self) {
        if self.pieces.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.all_taken();
        }
    }

    /// The client will never take the rest of a piece: the stream has broken off.
    pub(crate) fn piece_dropped(&self) {
        self.turn.get().inspect(|turn| turn.broken_off());
        self.piece_taken();
    }

    /// hyper has all of the response.
    pub(crate) fn ended(&self) {
        self.is_whole.store(true, Ordering::Relaxed);
        self.wants_more();
    }

    /// The client must take what it was given.
    fn wait(&self) {
        self.turn.get().inspect(|turn| turn.given());
        self.waits.get().inspect(|waits| waits.for_taking(true));
        if let Some(response) = &mut *self.response() {
            response.stalled.get_or_insert_with(|| response.activity.response_waits());
            response.wait(&self.deadline);
        }
    }

    /// The client has taken so many bytes.
    pub(crate) fn moved(&self, bytes: usize) {
        self.turn.get().inspect(|turn| turn.moved(bytes));
        self.waits.get().inspect(|waits| waits.moved(bytes));
        if let Some(response) = &mut *self.response() {
            response.wait.moved(bytes);
            response.wait(&self.deadline);
        }
    }

    /// hyper asks for more: it may do so before the client has taken what there is.
    pub(crate) fn wants_more(&self) {
        if self.pieces.load(Ordering::Relaxed) == 0 {
            self.all_taken();
        }
    }

    /// The client has taken all that there is so far.
    fn all_taken(&self) {
        let is_whole = self.is_whole.load(Ordering::Relaxed);
        self.turn.get().inspect(|turn| if is_whole { turn.taken_whole() } else { turn.taken() });
        self.waits.get().inspect(|waits| waits.for_taking(false));
        if let Some(response) = &mut *self.response() {
            response.stalled = None;
            response.wait.pause(self.deadline.now_millis());
            self.deadline.clear();
        }
    }

    /// Why the stream must end, if it must.
    fn poll_cut(&self, cx: &mut Context<'_>) -> Option<Cut> {
        let mut response = self.response();
        let response = response.as_mut()?;
        if self.deadline.has_passed() {
            response.wait(&self.deadline);
        }
        if response.is_late {
            self.turn.get().inspect(|turn| turn.cut_off());
            return Some(Cut::SlowReader);
        }
        let trouble = response.ahead.as_ref()?.poll_ahead(cx)?;
        Some(Cut::of(&trouble).unwrap_or(Cut::Evicted))
    }
}

/// Runs the streams of a connection.
#[derive(Clone)]
pub(crate) struct Streams {
    pub(crate) deadlines: Arc<Deadlines>,
    /// Called when a stream ends because its client takes its response too slowly.
    pub(crate) on_cut: Arc<dyn Fn(Cut) + Send + Sync>,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, future: F) {
        let stream = Arc::new(H2Stream::new(self.deadlines.deadline(Owner::NONE)));
        let on_cut = Arc::clone(&self.on_cut);
        tokio::spawn(async move {
            let mut serving = pin!(STREAM.scope(Arc::clone(&stream), future));
            poll_fn(|cx| {
                stream.deadline.watch(cx);
                if serving.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                // A stream that is dropped before its end is reset.
                let Some(cut) = stream.poll_cut(cx) else { return Poll::Pending };
                on_cut(cut);
                Poll::Ready(())
            })
            .await;
        });
    }
}

#[cfg(test)]
mod tests {
    use tidegate_http::activity::Timeouts;
    use tidegate_http::pace::PaceTerms;
    use tidegate_http::share::BusyConnections;

    use super::*;
    use crate::stream_turns::StreamTurns;

    /// A stream whose client must take 100,000 bytes per second, over 2 s or longer, and the time.
    struct Served {
        deadlines: Arc<Deadlines>,
        activity: Arc<Activity>,
        stream: H2Stream,
        now_millis: u64,
    }

    impl Served {
        fn new(turn: Option<Turn>) -> Self {
            let deadlines = Deadlines::new();
            let pace = PaceTerms { bytes_per_second: 100_000, window: Duration::from_secs(2), step: 0 };
            let long = Duration::from_secs(3_600);
            let timeouts = Timeouts { head: long, idle: long, write: long, pace };
            let busy = BusyConnections::default();
            let activity = Activity::new(deadlines.deadline(Owner::NONE), timeouts, true, busy);
            let stream = H2Stream::new(deadlines.deadline(Owner::NONE));
            stream.begin(&activity, turn);
            Self { deadlines, activity, stream, now_millis: 0 }
        }

        /// Whether the stream is cut when the next tick wakes it.
        fn is_cut_after(&mut self, millis: u64) -> bool {
            self.now_millis += millis;
            self.deadlines.sweep(self.now_millis);
            self.stream.deadline.has_passed() && self.is_cut()
        }

        fn is_cut(&self) -> bool {
            self.stream.poll_cut(&mut Context::from_waker(std::task::Waker::noop())).is_some()
        }
    }

    /// It was found to be too slow when a byte moved, and that was forgotten before the tick that should have ended it.
    #[test]
    fn a_client_that_takes_a_byte_at_each_moment_is_cut_off_in_the_end() {
        let mut served = Served::new(None);
        served.stream.respond(&served.activity, None, true);
        served.stream.piece_given();
        let waited = (0..1_000).find(|_| {
            served.stream.moved(1);
            served.is_cut_after(10)
        });
        assert!(waited.is_some_and(|steps| (200..220).contains(&steps)), "{waited:?}");
    }

    #[test]
    fn a_client_that_takes_enough_is_never_cut_off() {
        let mut served = Served::new(None);
        served.stream.respond(&served.activity, None, true);
        served.stream.piece_given();
        for _ in 0..1_000 {
            served.stream.moved(2_000);
            assert!(!served.is_cut_after(10));
        }
    }

    /// When the streams of a client that took nothing were cut off, or when it reset them, it had more of them at a
    /// time.
    #[test]
    fn a_piece_that_is_dropped_is_not_taken() {
        for is_cut in [false, true] {
            let turns = StreamTurns::new(4, 100);
            for _ in 0..10 {
                let turn = turns.begin_now().expect("room");
                let mut served = Served::new(Some(turn));
                served.stream.respond(&served.activity, None, true);
                served.stream.piece_given();
                served.stream.ended();
                assert!(!is_cut || served.is_cut_after(5_000));
                served.stream.piece_dropped();
            }
            let turn = turns.begin_now().expect("room");
            let served = Served::new(Some(turn));
            served.stream.respond(&served.activity, None, true);
            served.stream.piece_given();
            served.stream.ended();
            assert_eq!(turns.allowed(), 4, "one that is handed over is not taken yet");
            served.stream.moved(10);
            served.stream.piece_taken();
            assert_eq!(turns.allowed(), 5);
        }
    }
}

//! The streams of an HTTP/2 connection. Each has a deadline of its own, so that a stream that the client does not read
//! ends alone. While the client takes nothing of a stream, its response is read ahead.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};

use hyper::rt::Executor;
use tidegate_http::activity::{Activity, StreamCount};
use tidegate_http::client_wait::{ClientWait, Late};
use tidegate_http::deadlines::{Deadline, Deadlines, Owner, Waiting};

use crate::client_shares::CountedStream;
use crate::cuts::Cut;
use crate::read_ahead::ReadAhead;
use crate::stream_turns::Turn;

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
    /// None for trusted proxies, and until the request begins.
    turn: OnceLock<Turn>,
    /// Pieces of the response that hyper has and the client has not taken.
    pieces: AtomicU32,
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
}

impl StreamResponse {
    fn wait(&mut self, deadline: &Deadline) -> Option<Late> {
        self.wait.wait(deadline, Waiting::Stream, self.activity.waiting_responses())
    }
}

impl H2Stream {
    fn response(&self) -> MutexGuard<'_, Option<StreamResponse>> {
        self.response.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the request with those of all clients, as long as this exists.
    pub(crate) fn count(&self, of_all: CountedStream) {
        let _first = self.counted.set(of_all);
    }

    /// The request begins. It is counted with those of its connection, as long as this exists.
    pub(crate) fn begin(&self, of_connection: StreamCount, turn: Option<Turn>) {
        let _first = self.begun.set(of_connection);
        if let Some(turn) = turn {
            let _first = self.turn.set(turn);
        }
    }

    /// The response for the client on this connection begins. `ahead` reads it ahead of a slow client. `has_body`:
    /// there is something to take besides its head.
    pub(crate) fn respond(&self, activity: &Arc<Activity>, ahead: Option<ReadAhead>, has_body: bool) {
        let wait = ClientWait::new(activity.wait_terms());
        *self.response() = Some(StreamResponse { wait, activity: Arc::clone(activity), stalled: None, ahead });
        if has_body {
            self.wait();
        } else {
            self.all_taken();
        }
    }

    /// hyper has another piece, which the client must take.
    pub(crate) fn piece_given(&self) {
        self.pieces.fetch_add(1, Ordering::Relaxed);
        self.wait();
    }

    /// The client has taken all of a piece, or never will.
    pub(crate) fn piece_gone(&self) {
        if self.pieces.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.all_taken();
        }
    }

    /// The client must take what it was given.
    fn wait(&self) {
        self.turn.get().inspect(|turn| turn.given());
        if let Some(response) = &mut *self.response() {
            response.stalled.get_or_insert_with(|| response.activity.response_waits());
            self.expire_if(response.wait(&self.deadline));
        }
    }

    /// The client has taken so many bytes.
    pub(crate) fn moved(&self, bytes: usize) {
        if let Some(response) = &mut *self.response() {
            response.wait.moved(bytes);
            self.expire_if(response.wait(&self.deadline));
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
        self.turn.get().inspect(|turn| turn.taken());
        if let Some(response) = &mut *self.response() {
            response.stalled = None;
            response.wait.pause(self.deadline.now_millis());
            self.deadline.clear();
        }
    }

    /// Lets the deadline pass at the next tick.
    fn expire_if(&self, late: Option<Late>) {
        if late.is_some() {
            self.deadline.set_for(Waiting::Stream, std::time::Duration::ZERO);
        }
    }

    /// Why the stream must end, if it must.
    fn poll_cut(&self, cx: &mut Context<'_>) -> Option<Cut> {
        let mut response = self.response();
        let response = response.as_mut()?;
        if self.deadline.has_passed() && response.wait(&self.deadline).is_some() {
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
        let stream = Arc::new(H2Stream {
            deadline: self.deadlines.deadline(Owner::NONE),
            counted: OnceLock::new(),
            begun: OnceLock::new(),
            pieces: AtomicU32::new(0),
            turn: OnceLock::new(),
            response: Mutex::default(),
        });
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

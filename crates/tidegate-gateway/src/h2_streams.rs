//! The streams of an HTTP/2 connection. Each has a deadline of its own, so that a stream that the client does not read
//! ends alone. While the client takes nothing of a stream, its response is read ahead.

use std::future::poll_fn;
use std::pin::pin;
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
    /// Held for their `Drop`.
    counted: OnceLock<(CountedStream, StreamCount)>,
    /// None for trusted proxies, and until the request begins.
    turn: OnceLock<Turn>,
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

    /// Counts the request as long as this exists: with those of all clients, and with those of its connection.
    pub(crate) fn count(&self, of_all: CountedStream, of_connection: StreamCount) {
        let _first = self.counted.set((of_all, of_connection));
    }

    /// The request begins.
    pub(crate) fn begin(&self, turn: Turn) {
        let _first = self.turn.set(turn);
    }

    /// The response for the client on this connection begins. `ahead` reads it ahead of a slow client.
    pub(crate) fn respond(&self, activity: &Arc<Activity>, ahead: Option<ReadAhead>) {
        let wait = ClientWait::new(activity.wait_terms());
        *self.response() = Some(StreamResponse { wait, activity: Arc::clone(activity), stalled: None, ahead });
        self.wait();
    }

    /// The client must take what it was given.
    pub(crate) fn wait(&self) {
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

    /// The client has taken all of a piece.
    pub(crate) fn taken(&self) {
        self.turn.get().inspect(|turn| turn.taken());
        if let Some(response) = &mut *self.response() {
            response.stalled = None;
        }
    }

    /// The client could take more than there is.
    pub(crate) fn wants_more(&self) {
        self.taken();
        if let Some(response) = &mut *self.response() {
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

//! A connection that carries many requests at once, polled by hand: the sender knows from the kernel when its socket is
//! ready, and from wakers that only take notes which streams are ready.

use std::collections::HashMap;
use std::future::Future as _;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::SystemTime;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Connection, ResponseFuture, SendRequest};
use http::Request;
use tidegate_input::retry_after;

use super::exchange::{Done, Exchange, Failure};
use super::polled::{Intake, Polled};
use crate::record::Cause;
use crate::response::{REJECTED_BY, Received, is_rejection};
use crate::wire::{Secured, Wire};

/// Requests at once, until the other side has sent its limit.
const USUAL_STREAMS: usize = 100;
/// The connection's own note among those of its streams.
const CONNECTION: u32 = u32::MAX;

/// A connection of HTTP/2.
pub(super) struct Http2 {
    stage: Stage,
    /// Requests for which there was no slot yet.
    waiting: Vec<(Exchange, Request<Bytes>)>,
    streams: HashMap<u32, Stream>,
    next_stream: u32,
    notes: Arc<Notes>,
    intake: Rc<Intake>,
    /// No further request may be sent on it.
    is_closing: bool,
    /// There is more to do than was done in one go.
    has_more: bool,
}

/// How many rounds are made in one go: responses without end must not keep others from being sent and read.
const ROUNDS_AT_ONCE: usize = 16;
const BYTES_AT_ONCE: usize = 1 << 18;

type Handshake = Pin<Box<dyn Future<Output = Result<Open, h2::Error>>>>;
type Open = (SendRequest<Bytes>, Connection<Polled, Bytes>);

enum Stage {
    Connecting(Wire),
    Greeting(Handshake),
    Open(Box<Open>),
    Closed,
}

struct Stream {
    exchange: Exchange,
    waker: Waker,
    reading: Reading,
    /// How much had been heard on the connection when it was sent.
    heard: u64,
}

enum Reading {
    Head(ResponseFuture),
    Body(Received, RecvStream),
}

/// Which streams are ready.
#[derive(Default)]
struct Notes(Mutex<Vec<u32>>);

struct Note {
    stream: u32,
    notes: Arc<Notes>,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.notes.0.lock().unwrap_or_else(PoisonError::into_inner).push(self.stream);
    }
}

impl Notes {
    fn waker(self: &Arc<Self>, stream: u32) -> Waker {
        Waker::from(Arc::new(Note { stream, notes: Arc::clone(self) }))
    }

    fn take(&self) -> Vec<u32> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Http2 {
    pub(super) fn open(address: SocketAddr, secured: Option<&Secured>) -> io::Result<Self> {
        Ok(Self {
            stage: Stage::Connecting(Wire::open(address, secured)?),
            waiting: Vec::new(),
            streams: HashMap::new(),
            next_stream: 0,
            notes: Arc::default(),
            intake: Rc::default(),
            is_closing: false,
            has_more: false,
        })
    }

    /// Shows its socket, which is still its own, to be watched.
    pub(super) fn watch(&self, add: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>) -> io::Result<()> {
        match &self.stage {
            Stage::Connecting(wire) => add(wire.as_fd()),
            Stage::Greeting(_) | Stage::Open(_) | Stage::Closed => Ok(()),
        }
    }

    /// Whether another request may be sent on it.
    pub(super) fn is_free(&self) -> bool {
        let most = match &self.stage {
            Stage::Open(open) => open.0.current_max_send_streams(),
            Stage::Connecting(_) | Stage::Greeting(_) => USUAL_STREAMS,
            Stage::Closed => 0,
        };
        !self.is_closing && self.waiting.len() + self.streams.len() < most
    }

    /// Whether there is something to do without an event from the kernel.
    pub(super) fn has_more(&self) -> bool {
        self.has_more && self.is_usable()
    }

    pub(super) fn is_usable(&self) -> bool {
        let is_empty = self.waiting.is_empty() && self.streams.is_empty();
        let is_over = matches!(self.stage, Stage::Closed) || self.is_closing && is_empty;
        !is_over
    }

    /// Sends a request, as far as that can be done now, and returns the number by which it can be given up.
    pub(super) fn send(&mut self, mut exchange: Exchange, request: Request<Bytes>, done: &mut Vec<Done>) -> u32 {
        // The last number is the connection's own.
        self.next_stream = (self.next_stream + 1) % CONNECTION;
        exchange.stream = self.next_stream;
        self.waiting.push((exchange, request));
        if matches!(self.stage, Stage::Open(_)) {
            self.go_on(done);
        }
        exchange.stream
    }

    /// The socket is ready for something.
    pub(super) fn ready(&mut self, done: &mut Vec<Done>) {
        if let Stage::Connecting(wire) = &mut self.stage {
            let shaken = match wire.connected() {
                Err(error) => Err(Failure::new(Cause::NotConnected, error.to_string())),
                Ok(()) => wire.shake().map_err(|error| Failure::of(&error)),
            };
            match shaken {
                Err(failure) => return self.fail(&failure, done),
                Ok(false) => return,
                Ok(true) => {}
            }
            let Stage::Connecting(wire) = std::mem::replace(&mut self.stage, Stage::Closed) else { return };
            if !wire.is_http2() {
                return self.fail(&Failure::new(Cause::NotHttp, "the other side does not speak HTTP/2"), done);
            }
            let polled = Polled::new(wire, Rc::clone(&self.intake));
            self.stage = Stage::Greeting(Box::pin(builder().handshake(polled)));
        }
        self.go_on(done);
    }

    /// Everything that can be done now.
    fn go_on(&mut self, done: &mut Vec<Done>) {
        self.intake.allowed.set(BYTES_AT_ONCE);
        let waker = self.notes.waker(CONNECTION);
        let mut cx = Context::from_waker(&waker);
        if let Stage::Greeting(handshake) = &mut self.stage {
            match handshake.as_mut().poll(&mut cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(open)) => self.stage = Stage::Open(Box::new(open)),
                Poll::Ready(Err(error)) => return self.fail(&reason(&error), done),
            }
        }
        self.has_more = false;
        for _ in 0..ROUNDS_AT_ONCE {
            let Stage::Open(open) = &mut self.stage else { return };
            if let Poll::Ready(ended) = pin!(&mut open.1).poll(&mut cx) {
                let closed = || Failure::new(Cause::Closed, "the connection ended before the response");
                let failure = ended.map_or_else(|error| reason(&error), |()| closed());
                // Responses that had come before are there to be read.
                let streams: Vec<u32> = self.streams.keys().copied().collect();
                for stream in streams {
                    self.read(stream, done);
                }
                return self.fail(&failure, done);
            }
            self.send_waiting(&mut cx, done);
            let reported = self.notes.take();
            if reported.is_empty() {
                self.has_more = self.intake.allowed.get() == 0;
                return;
            }
            reported.into_iter().filter(|stream| *stream != CONNECTION).for_each(|stream| self.read(stream, done));
        }
        self.has_more = true;
    }

    fn send_waiting(&mut self, cx: &mut Context<'_>, done: &mut Vec<Done>) {
        let Stage::Open(open) = &mut self.stage else { return };
        let send = &mut open.0;
        while !self.waiting.is_empty() {
            match send.poll_ready(cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    self.is_closing = true;
                    // None of them has been sent.
                    let failure = Failure { is_untouched: true, ..reason(&error) };
                    let end = || Err(failure.clone());
                    done.extend(self.waiting.drain(..).map(|(exchange, _)| Done { exchange, end: end() }));
                    return;
                }
            }
            let (exchange, request) = self.waiting.remove(0);
            let (head, body) = request.into_parts();
            let sent =
                send.send_request(Request::from_parts(head, ()), body.is_empty()).and_then(|(response, mut out)| {
                    if !body.is_empty() {
                        out.send_data(body, true)?;
                    }
                    Ok(response)
                });
            match sent {
                Ok(response) => {
                    let waker = self.notes.waker(exchange.stream);
                    let (heard, reading) = (self.intake.heard.get(), Reading::Head(response));
                    self.streams.insert(exchange.stream, Stream { exchange, waker, reading, heard });
                    // Polled once, so that it registers the waker.
                    self.notes.0.lock().unwrap_or_else(PoisonError::into_inner).push(exchange.stream);
                }
                Err(error) => done.push(Done { exchange, end: Err(reason(&error)) }),
            }
        }
    }

    /// Reads what has come for a stream.
    fn read(&mut self, number: u32, done: &mut Vec<Done>) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        if let Poll::Ready(end) = stream.read() {
            let exchange = stream.exchange;
            self.streams.remove(&number);
            // A goodbye, or as good as one: nothing more is taken here.
            self.is_closing |= end.as_ref().is_err_and(|failure| failure.is_untouched);
            done.push(Done { exchange, end });
        }
    }

    fn fail(&mut self, failure: &Failure, done: &mut Vec<Done>) {
        let was_open = matches!(self.stage, Stage::Open(_));
        self.stage = Stage::Closed;
        // What was never sent on a connection that was there can be sent on another one.
        let unsent = Failure { is_untouched: was_open, ..failure.clone() };
        let waiting = self.waiting.drain(..).map(|(exchange, _)| Done { exchange, end: Err(unsent.clone()) });
        let open =
            self.streams.drain().map(|(_, stream)| Done { exchange: stream.exchange, end: Err(failure.clone()) });
        done.extend(waiting.chain(open));
    }

    /// Gives up a request; the others go on.
    pub(super) fn give_up(&mut self, number: u32, done: &mut Vec<Done>) -> Option<Exchange> {
        let waiting = self.waiting.iter().position(|(exchange, _)| exchange.stream == number);
        if let Some(index) = waiting {
            let (exchange, _) = self.waiting.remove(index);
            // A connection that is not there by now is not worth waiting for.
            self.is_closing |= !matches!(self.stage, Stage::Open(_));
            return Some(exchange);
        }
        let Stream { exchange, heard, .. } = self.streams.remove(&number)?;
        // Nothing at all has come since it was sent: the other side may be gone.
        self.is_closing |= heard == self.intake.heard.get();
        self.go_on(done);
        Some(exchange)
    }
}

impl Stream {
    /// The end, if it has come.
    fn read(&mut self) -> Poll<Result<Received, Failure>> {
        let waker = self.waker.clone();
        let mut cx = Context::from_waker(&waker);
        loop {
            match &mut self.reading {
                Reading::Head(response) => match std::task::ready!(Pin::new(response).poll(&mut cx)) {
                    Err(error) => return Poll::Ready(Err(reason(&error))),
                    Ok(response) => {
                        let retry_after = response
                            .headers()
                            .get("retry-after")
                            .and_then(|value| retry_after(value.as_bytes(), SystemTime::now()));
                        let status = response.status().as_u16();
                        let is_rejected = is_rejection(status, response.headers().contains_key(REJECTED_BY));
                        let reported = Received { status, is_kept: true, retry_after, is_rejected };
                        self.reading = Reading::Body(reported, response.into_body());
                    }
                },
                Reading::Body(reported, body) => match std::task::ready!(body.poll_data(&mut cx)) {
                    None => return Poll::Ready(Ok(*reported)),
                    Some(Err(error)) => return Poll::Ready(Err(reason(&error))),
                    Some(Ok(data)) => {
                        // It can fail only if more is released than has come.
                        let _released = body.flow_control().release_capacity(data.len());
                    }
                },
            }
        }
    }
}

fn reason(error: &h2::Error) -> Failure {
    let cause = match error.get_io() {
        Some(error) => return Failure::of(error),
        None if error.is_remote() => Cause::Closed,
        None => Cause::NotHttp,
    };
    // The other side reports that it has not begun with the request.
    let is_untouched = error.is_remote() && (error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM));
    Failure { cause, why: error.to_string(), is_untouched }
}

/// Responses are only counted, so they may come as fast as they can; pushes nobody wants.
fn builder() -> h2::client::Builder {
    let mut builder = h2::client::Builder::new();
    builder.enable_push(false).max_header_list_size(65_536);
    builder.initial_window_size(1 << 20).initial_connection_window_size(4 << 20);
    builder
}

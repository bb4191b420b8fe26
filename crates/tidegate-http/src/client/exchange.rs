//! One request and its answer on a connection. The request's body is still being sent while the answer is read, so that neither side
//! ever waits for the other to finish.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::StatusCode;
use http_body::Frame;
use tokio::io::AsyncWrite;

use super::chunks::{Chunked, Piece, write_end, write_size};
use super::head::{AnswerHead, BodyLength, Framing, Traits, take_answer};
use super::{Connection, Descriptors, Trouble, Upstream};
use crate::fields::Fields;
use crate::h1::Interim;
use crate::request_body::{Broken, RequestBody};
use crate::sweep::Sweep;

/// Pieces of a body up to this size are gathered with what goes before them, to save a write.
const GATHERED: usize = 8 * 1024;
/// How long an upstream is waited for that was told `Expect: 100-continue` (RFC 9110 §10.1.1: not for ever).
const CONTINUE_PATIENCE: Duration = Duration::from_secs(1);
/// The most interim answers (1xx) before the real one.
const MOST_INTERIM: u32 = 16;

/// Whose connection pools and deadlines are used.
pub(crate) struct Local<'a> {
    pub(crate) worker: usize,
    pub(crate) sweep: &'a Arc<Sweep>,
    /// The longest pause in the client's body.
    pub(crate) client_timeout: Duration,
    /// The longest body a client may send.
    pub(crate) max_body: u64,
    /// The way for interim answers to the client, if it can have any.
    pub(crate) interim: Option<Interim>,
    /// What new connections take theirs from.
    pub(crate) descriptors: &'a Arc<Descriptors>,
    /// Closes an idle connection to any upstream. False if there is none.
    pub(crate) close_idle: &'a (dyn Fn() -> bool + Sync),
    /// Closes something that can be spared, where the system opens no more descriptors.
    pub(crate) free_a_file: &'a (dyn Fn() + Sync),
}

/// An upstream's answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// Whether the upstream speaks HTTP/1.0.
    pub(crate) is_old: bool,
    pub(crate) fields: Fields,
    pub(crate) body: AnswerContent,
}

/// What follows an answer's head.
pub(crate) enum AnswerContent {
    /// The whole body, which came with the head.
    Whole(Bytes),
    Stream(Box<AnswerStream>),
    /// The connection speaks another protocol now.
    Upgraded(Box<Connection>, Bytes),
}

/// Sends a request, over a kept connection where there is one, and waits for the head of its answer. `sending` is called when there is a
/// connection and the first byte is about to go.
pub(crate) async fn send(
    upstream: &Arc<Upstream>,
    local: &Local<'_>,
    traits: Traits,
    mut head: BytesMut,
    mut body: Option<RequestBody>,
    mut sending: impl FnMut(),
) -> Result<Answer, Trouble> {
    loop {
        let connection = match upstream.idle_connection(local.worker) {
            Some(connection) => connection,
            // Boxed, as other things that happen now and then: otherwise each request would carry their room with it.
            None => Box::pin(Connection::open(upstream, local)).await?,
        };
        sending();
        // A kept connection may be closed by the other side in this very moment. What changes nothing can be sent again.
        let again = connection.reused && body.is_none() && traits.is_idempotent;
        let copy = if again { Some(head.clone()) } else { None };
        let mut exchange = Exchange::new(upstream, local, &traits, head, connection, body.take());
        match poll_fn(|cx| exchange.poll_head(cx, local.interim.as_ref())).await {
            Err(Trouble::Closed | Trouble::Broken(_)) if again && !exchange.has_read => head = copy.unwrap_or_default(),
            Err(trouble) => return Err(trouble),
            Ok(head) => return exchange.answer(head, traits.is_upgrade),
        }
    }
}

/// What an exchange waits for, which decides how long it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Nothing,
    /// The upstream's word that it wants the body.
    Continue,
    /// The client's body.
    Client,
    /// The upstream, to take what is sent.
    Taking,
    /// The answer's head.
    Head,
    /// More of the answer.
    Answer,
}

/// How far the sending has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    Done,
    /// The body is held back until the upstream wants it.
    Held,
    WaitsForClient,
    WaitsForUpstream,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own; most of their combinations occur")]
struct Exchange {
    connection: Connection,
    upstream: Arc<Upstream>,
    worker: usize,
    sweep: Arc<Sweep>,
    bodiless: bool,
    /// To be written first …
    out: BytesMut,
    /// … and then this.
    data: Bytes,
    body: Option<RequestBody>,
    length: BodyLength,
    /// How much more the client may send.
    allowance: u64,
    client_timeout: Duration,
    /// Whether the client's trailers are passed on.
    takes_trailers: bool,
    held: bool,
    unflushed: bool,
    /// The upstream takes nothing more; it may still have answered.
    deaf: bool,
    has_read: bool,
    interim: u32,
    moved: bool,
    waiting: Waiting,
}

impl Exchange {
    fn new(
        upstream: &Arc<Upstream>,
        local: &Local<'_>,
        traits: &Traits,
        out: BytesMut,
        connection: Connection,
        body: Option<RequestBody>,
    ) -> Self {
        Self {
            connection,
            upstream: Arc::clone(upstream),
            worker: local.worker,
            sweep: Arc::clone(local.sweep),
            bodiless: traits.is_head,
            out,
            data: Bytes::new(),
            body,
            length: traits.body,
            allowance: local.max_body,
            client_timeout: local.client_timeout,
            takes_trailers: traits.takes_trailers,
            held: traits.expects_continue,
            unflushed: false,
            deaf: false,
            has_read: false,
            interim: 0,
            moved: true,
            waiting: Waiting::Nothing,
        }
    }

    /// Sends what can be sent, and reads until there is a head.
    fn poll_head(&mut self, cx: &mut Context<'_>, interim: Option<&Interim>) -> Poll<Result<AnswerHead, Trouble>> {
        loop {
            let sending = self.poll_send(cx)?;
            if let Some(head) = self.take_head(interim)? {
                return Poll::Ready(Ok(head));
            }
            match self.connection.poll_read(cx) {
                Poll::Ready(Ok(0)) if self.has_read => {
                    return Poll::Ready(Err(Trouble::BadAnswer("it ends within its head")));
                }
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(Trouble::Closed)),
                Poll::Ready(Ok(_)) => {
                    // A head that comes byte by byte gains no time by it.
                    self.has_read = true;
                    continue;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Trouble::Broken(error))),
                Poll::Pending => {}
            }
            let waiting = match sending {
                Sending::Done => Waiting::Head,
                Sending::Held => Waiting::Continue,
                Sending::WaitsForClient => Waiting::Client,
                Sending::WaitsForUpstream => Waiting::Taking,
            };
            if !self.is_late(waiting, cx) {
                return Poll::Pending;
            }
            match waiting {
                Waiting::Continue => self.held = false,
                Waiting::Client => return Poll::Ready(Err(Trouble::ClientTimeout)),
                Waiting::Taking => return Poll::Ready(Err(Trouble::BodyTimeout)),
                _ => return Poll::Ready(Err(Trouble::AnswerTimeout)),
            }
        }
    }

    /// The head, when it has been read and is no interim one.
    fn take_head(&mut self, interim: Option<&Interim>) -> Result<Option<AnswerHead>, Trouble> {
        while !self.connection.read.is_empty() {
            let longest = self.upstream.settings.max_head_bytes;
            let head = take_answer(&mut self.connection.read, longest, self.bodiless).map_err(Trouble::BadAnswer)?;
            let Some(head) = head else { return Ok(None) };
            if !head.status.is_informational() || head.status == StatusCode::SWITCHING_PROTOCOLS {
                return Ok(Some(head));
            }
            self.interim += 1;
            if self.interim > MOST_INTERIM {
                return Err(Trouble::BadAnswer("too many interim answers"));
            }
            if head.status == StatusCode::CONTINUE {
                // It is we who asked for it; the client gets ours when its body is wanted.
                self.held = false;
            } else if let Some(interim) = interim {
                interim.pass_on(head.status, &head.fields);
            }
        }
        Ok(None)
    }

    /// Sends what can be sent now.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<Sending, Trouble> {
        let mut client_waits = false;
        loop {
            let wants_more = self.data.is_empty() && self.out.len() < GATHERED && !self.held && !client_waits;
            if wants_more && let Some(body) = &mut self.body {
                if self.deaf {
                    self.body = None;
                    continue;
                }
                match body.poll_frame(cx) {
                    Poll::Ready(frame) => self.take_frame(frame)?,
                    Poll::Pending => client_waits = true,
                }
                continue;
            }
            if self.deaf {
                self.out.clear();
                self.data.clear();
                self.unflushed = false;
            }
            let next: &[u8] = if self.out.is_empty() { &self.data } else { &self.out };
            if !next.is_empty() {
                match Pin::new(&mut self.connection.stream).poll_write(cx, next) {
                    Poll::Ready(Ok(count)) if count > 0 => {
                        let of_out = count.min(self.out.len());
                        if of_out > 0 {
                            self.out.advance(of_out);
                        } else {
                            self.data.advance(count);
                        }
                        (self.moved, self.unflushed) = (true, true);
                    }
                    Poll::Ready(_) => self.deaf = true,
                    Poll::Pending => return Ok(Sending::WaitsForUpstream),
                }
                continue;
            }
            if self.unflushed {
                match Pin::new(&mut self.connection.stream).poll_flush(cx) {
                    Poll::Ready(Ok(())) => self.unflushed = false,
                    Poll::Ready(Err(_)) => self.deaf = true,
                    Poll::Pending => return Ok(Sending::WaitsForUpstream),
                }
                continue;
            }
            return Ok(match &self.body {
                None => Sending::Done,
                Some(_) if self.held => Sending::Held,
                Some(_) => Sending::WaitsForClient,
            });
        }
    }

    /// Queues a piece of the client's body.
    fn take_frame(&mut self, frame: Option<Result<Frame<Bytes>, Broken>>) -> Result<(), Trouble> {
        self.moved = true;
        let Some(frame) = frame else {
            match self.length {
                BodyLength::Known(0) | BodyLength::None => {}
                BodyLength::Known(_) => return Err(Trouble::ClientBody(Broken::LENGTH)),
                BodyLength::Chunked => write_end(&mut self.out, None),
            }
            self.body = None;
            return Ok(());
        };
        match frame.map_err(Trouble::ClientBody)?.into_data() {
            Ok(data) if data.is_empty() => {}
            Ok(data) => self.take_data(data)?,
            Err(frame) => {
                let trailers = frame.into_trailers().ok().filter(|_| self.takes_trailers);
                match self.length {
                    BodyLength::Chunked => write_end(&mut self.out, trailers.as_ref()),
                    // There is no place for trailers behind a body whose length was told.
                    BodyLength::Known(0) | BodyLength::None => {}
                    BodyLength::Known(_) => return Err(Trouble::ClientBody(Broken::LENGTH)),
                }
                self.body = None;
            }
        }
        Ok(())
    }

    fn take_data(&mut self, data: Bytes) -> Result<(), Trouble> {
        let size = data.len() as u64;
        self.allowance = self.allowance.checked_sub(size).ok_or(Trouble::TooLarge)?;
        match &mut self.length {
            BodyLength::Known(left) => *left = left.checked_sub(size).ok_or(Trouble::ClientBody(Broken::LENGTH))?,
            BodyLength::Chunked => write_size(&mut self.out, data.len()),
            BodyLength::None => return Err(Trouble::ClientBody(Broken::LENGTH)),
        }
        let is_chunked = self.length == BodyLength::Chunked;
        if is_chunked || data.len() <= GATHERED {
            self.out.extend_from_slice(&data);
        } else {
            self.data = data;
        }
        if is_chunked {
            self.out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    /// Notes what is waited for, sets the deadline when that is new or something has moved, and tells whether it has passed.
    fn is_late(&mut self, waiting: Waiting, cx: &Context<'_>) -> bool {
        let deadline = &self.connection.deadline;
        if deadline.take_passed() && self.waiting == waiting && !self.moved {
            return true;
        }
        if self.waiting != waiting || self.moved {
            let settings = &self.upstream.settings;
            deadline.set(match waiting {
                Waiting::Continue => CONTINUE_PATIENCE,
                Waiting::Client => self.client_timeout,
                Waiting::Head => settings.answer_timeout,
                Waiting::Taking | Waiting::Answer | Waiting::Nothing => settings.body_timeout,
            });
        }
        self.waiting = waiting;
        self.moved = false;
        self.connection.deadline.watch(cx);
        false
    }

    /// Whether the request has been sent to its end.
    fn is_sent(&self) -> bool {
        self.body.is_none() && self.out.is_empty() && self.data.is_empty() && !self.deaf
    }

    /// Keeps the connection for another request, if it is fit for one.
    fn end(self, keep_alive: bool) {
        if keep_alive && self.is_sent() && self.connection.read.is_empty() {
            self.upstream.keep(self.worker, self.connection, self.sweep.now_millis());
        }
    }

    fn answer(mut self, head: AnswerHead, upgrade_wanted: bool) -> Result<Answer, Trouble> {
        let AnswerHead { status, fields, framing, is_old, keep_alive, upgrade } = head;
        self.connection.deadline.clear();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            let protocol = upgrade.filter(|_| upgrade_wanted).ok_or(Trouble::BadAnswer("it upgrades unasked"))?;
            let body = AnswerContent::Upgraded(Box::new(self.connection), protocol);
            return Ok(Answer { status, is_old, fields, body });
        }
        if let Framing::Length(length) = framing
            && length <= self.connection.read.len() as u64
        {
            let whole = self.connection.read.split_to(length as usize).freeze();
            self.end(keep_alive);
            return Ok(Answer { status, is_old, fields, body: AnswerContent::Whole(whole) });
        }
        let mut first = None;
        let rest = match framing {
            Framing::Length(length) => Rest::Length(length),
            Framing::Chunked => {
                let mut chunked = Chunked::default();
                // What came with the head can still be told from an answer.
                first = Some(chunked.decode(&mut self.connection.read).map_err(Trouble::BadAnswer)?);
                Rest::Chunked(chunked)
            }
            Framing::UntilClose => Rest::UntilClose,
        };
        let stream = AnswerStream { exchange: Some(self), rest, first, keep_alive };
        Ok(Answer { status, is_old, fields, body: AnswerContent::Stream(Box::new(stream)) })
    }
}

/// What is still to come of an answer.
enum Rest {
    Length(u64),
    Chunked(Chunked),
    UntilClose,
}

/// An answer's body on its way.
pub(crate) struct AnswerStream {
    /// Gone when all has been read.
    exchange: Option<Exchange>,
    rest: Rest,
    /// What came with the head.
    first: Option<Piece>,
    keep_alive: bool,
}

impl AnswerStream {
    /// How much is still to come, where that is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self.rest {
            Rest::Length(left) => Some(left),
            _ => None,
        }
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.exchange.is_none()
    }

    /// The next piece.
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Trouble>>> {
        let Some(exchange) = &mut self.exchange else { return Poll::Ready(None) };
        loop {
            let mut sending = Sending::Done;
            if !exchange.is_sent() {
                match exchange.poll_send(cx) {
                    Ok(state) => sending = state,
                    Err(trouble) => return self.fail(trouble),
                }
            }
            let read = &mut exchange.connection.read;
            let piece = match &mut self.rest {
                _ if let Some(first) = self.first.take() => first,
                Rest::Length(0) => Piece::End,
                Rest::Length(left) if !read.is_empty() => {
                    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(read.len());
                    *left -= count as u64;
                    Piece::Data(read.split_to(count).freeze())
                }
                Rest::UntilClose if !read.is_empty() => Piece::Data(read.split().freeze()),
                Rest::Length(_) | Rest::UntilClose => Piece::Partial,
                Rest::Chunked(chunked) => match chunked.decode(read) {
                    Ok(piece) => piece,
                    Err(reason) => return self.fail(Trouble::BadAnswer(reason)),
                },
            };
            match piece {
                Piece::Data(data) => {
                    exchange.connection.deadline.clear();
                    exchange.moved = true;
                    if matches!(self.rest, Rest::Length(0)) {
                        self.end();
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Piece::Trailers(trailers) => {
                    self.end();
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                Piece::End => {
                    self.end();
                    return Poll::Ready(None);
                }
                Piece::Partial => {}
            }
            match exchange.connection.poll_read(cx) {
                Poll::Ready(Ok(0)) if matches!(self.rest, Rest::UntilClose) => {
                    self.exchange = None;
                    return Poll::Ready(None);
                }
                Poll::Ready(Ok(0)) => return self.fail(Trouble::Closed),
                Poll::Ready(Ok(_)) => {
                    exchange.moved = true;
                    continue;
                }
                Poll::Ready(Err(error)) => return self.fail(Trouble::Broken(error)),
                Poll::Pending => {}
            }
            // An upstream that answers while it reads may wait for the client.
            let (waiting, trouble) = match sending {
                Sending::WaitsForClient => (Waiting::Client, Trouble::ClientTimeout),
                _ => (Waiting::Answer, Trouble::BodyTimeout),
            };
            if exchange.is_late(waiting, cx) {
                return self.fail(trouble);
            }
            return Poll::Pending;
        }
    }

    fn end(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            exchange.end(self.keep_alive);
        }
    }

    fn fail(&mut self, trouble: Trouble) -> Poll<Option<Result<Frame<Bytes>, Trouble>>> {
        self.exchange = None;
        Poll::Ready(Some(Err(trouble)))
    }
}

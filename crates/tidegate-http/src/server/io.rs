//! The bytes of a connection, shared by those who read requests, read bodies and write responses. All of them run in
//! one task, one after the other: the lock is never waited for.

use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Frame;
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWrite as _, ReadBuf};

use super::response_head::write_interim;
use crate::activity::Activity;
use crate::framing::{Chunked, Piece};
use crate::headers::Headers;
use crate::request::BrokenBody;
use crate::stream::{End, Stream};

/// What a read asks for at first; more when a body fills it.
const FIRST_READ: usize = 4 * 1024;
const LARGEST_READ: usize = 32 * 1024;
/// What is read ahead of a body that nobody has asked for yet.
const AHEAD: usize = 16 * 1024;
/// What may wait of interim responses for a client to take them. More are not passed on.
const MOST_INTERIM: usize = 16 * 1024;

/// The bytes of a connection.
pub struct Io {
    stream: Stream,
    /// Read and not yet understood.
    pub read: BytesMut,
    read_size: usize,
    /// What is still to come of the request's body.
    pub rest: BodyRest,
    /// The client waits for `100 Continue` before it sends the body.
    pub owes_continue: bool,
    /// Interim responses (1xx) that are to be written before anything else.
    interim: BytesMut,
    /// … and those that TLS may still keep back.
    unflushed: bool,
    /// The client has closed its side.
    pub is_closed: bool,
    /// How that is seen while nothing is read, once that was needed.
    end: Option<Box<End>>,
    activity: Arc<Activity>,
}

/// What is still to come of a body.
#[derive(Debug)]
pub enum BodyRest {
    /// So many bytes.
    Length(u64),
    /// What the chunks say.
    Chunked(Chunked),
    /// Nothing.
    Ended,
    /// Nothing that could be used.
    Broken(BrokenBody),
}

/// A handle on a connection's bytes.
#[derive(Clone)]
pub struct SharedIo(Arc<Mutex<Io>>);

impl SharedIo {
    /// The bytes of a connection on which this activity is noted.
    pub fn new(stream: Stream, activity: Arc<Activity>) -> Self {
        Self(Arc::new(Mutex::new(Io {
            stream,
            read: BytesMut::new(),
            read_size: FIRST_READ,
            rest: BodyRest::Ended,
            owes_continue: false,
            interim: BytesMut::new(),
            unflushed: false,
            is_closed: false,
            end: None,
            activity,
        })))
    }

    /// The bytes; nobody else has them at the same time.
    pub fn lock(&self) -> MutexGuard<'_, Io> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bare connection, when nobody else holds it any more.
    pub fn into_parts(self) -> Option<(Stream, BytesMut)> {
        let io = Arc::into_inner(self.0)?.into_inner().unwrap_or_else(PoisonError::into_inner);
        Some((io.stream, io.read))
    }
}

impl Io {
    /// Reads more; zero is the end.
    pub fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let count = if self.read.capacity() == 0 {
            // An idle connection needs no memory until something comes, and then as much as that.
            let mut space = [const { MaybeUninit::uninit() }; FIRST_READ];
            let mut space = ReadBuf::uninit(&mut space);
            let read = std::task::ready!(Pin::new(&mut self.stream).poll_read(cx, &mut space));
            self.read.extend_from_slice(space.filled());
            read.map(|()| space.filled().len())
        } else {
            self.read.reserve(self.read_size);
            std::task::ready!(pin!(self.stream.read_buf(&mut self.read)).poll(cx))
        };
        match count {
            Ok(0) | Err(_) => self.is_closed = true,
            Ok(count) if count >= self.read_size => self.read_size = (self.read_size * 2).min(LARGEST_READ),
            Ok(_) => {}
        }
        if matches!(count, Ok(count) if count > 0) {
            self.activity.has_read();
        }
        Poll::Ready(count)
    }

    /// Writes all of `out`, as far as the client takes it. Ready when nothing is left.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut impl bytes::Buf) -> Poll<io::Result<()>> {
        if !self.interim.is_empty() {
            let mut interim = std::mem::take(&mut self.interim);
            let written = self.poll_write_out(cx, &mut interim);
            self.interim = interim;
            std::task::ready!(written)?;
        }
        self.poll_write_out(cx, out)
    }

    /// Writes the interim responses that wait, as far as the client takes them.
    pub fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.interim.is_empty() {
            std::task::ready!(self.poll_write(cx, &mut Bytes::new()))?;
            (self.interim, self.unflushed) = (BytesMut::new(), true);
        }
        if self.unflushed {
            std::task::ready!(self.poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_out(&mut self, cx: &mut Context<'_>, out: &mut impl bytes::Buf) -> Poll<io::Result<()>> {
        while out.has_remaining() {
            match Pin::new(&mut self.stream).poll_write(cx, out.chunk()) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    out.advance(count);
                    self.activity.has_written(false);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.activity.has_written(true);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Hands what was written to the network: TLS keeps it back otherwise.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.activity.has_written(flushed.is_pending());
        flushed
    }

    /// Whether the client has gone. What it sends meanwhile is kept, up to a bound; the rest stays with the kernel.
    pub fn poll_gone(&mut self, cx: &mut Context<'_>) -> bool {
        while !self.is_closed && self.read.len() < AHEAD {
            if self.poll_read(cx).is_pending() {
                return false;
            }
        }
        if !self.is_closed {
            // Without a descriptor for it, it is seen when one is free again, or when something is read or written.
            self.end = self.end.take().or_else(|| self.stream.end().ok().map(Box::new));
            self.is_closed = self.end.as_ref().is_some_and(|end| end.poll_has_come(cx));
        }
        self.is_closed
    }

    /// Makes a connection without requests as small as it can be.
    pub fn rest(&mut self) {
        self.read_size = FIRST_READ;
        self.interim = BytesMut::new();
        self.end = None;
        if self.read.is_empty() {
            self.read = BytesMut::new();
        }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        loop {
            let piece = match &mut self.rest {
                BodyRest::Ended => return Poll::Ready(None),
                BodyRest::Broken(broken) => return Poll::Ready(Some(Err(*broken))),
                BodyRest::Length(_) if self.read.is_empty() => Piece::Partial,
                BodyRest::Length(left) => {
                    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(self.read.len());
                    *left -= count as u64;
                    if *left == 0 {
                        self.rest = BodyRest::Ended;
                    }
                    Piece::Data(self.read.split_to(count).freeze())
                }
                BodyRest::Chunked(chunked) => match chunked.decode(&mut self.read) {
                    Ok(piece) => piece,
                    Err(why) => {
                        self.rest = BodyRest::Broken(BrokenBody(why));
                        continue;
                    }
                },
            };
            if !matches!(piece, Piece::Partial) {
                // It came without being asked for: who sends does not wait.
                self.owes_continue = false;
            }
            match piece {
                Piece::Data(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Piece::Trailers(trailers) => {
                    self.rest = BodyRest::Ended;
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                Piece::End => {
                    self.rest = BodyRest::Ended;
                    continue;
                }
                Piece::Partial => {}
            }
            if self.owes_continue {
                // The first time the body is asked for.
                self.owes_continue = false;
                self.interim.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            // What the client does not take at once is written when it does, by whoever waits for the response.
            if let Poll::Ready(Err(_)) = self.poll_interim(cx) {
                self.rest = BodyRest::Broken(BrokenBody::OFF);
                continue;
            }
            if self.is_closed {
                self.rest = BodyRest::Broken(BrokenBody::OFF);
                continue;
            }
            if std::task::ready!(self.poll_read(cx)).is_err() {
                self.rest = BodyRest::Broken(BrokenBody::OFF);
            }
        }
    }
}

/// The way for interim responses to a client.
pub struct Interim(SharedIo);

impl Interim {
    /// Passes an interim response on, if the client has taken those before it.
    pub fn pass_on(&self, status: StatusCode, headers: &Headers) {
        let interim = &mut self.0.lock().interim;
        let before = interim.len();
        write_interim(interim, status, headers);
        if interim.len() > MOST_INTERIM {
            interim.truncate(before);
        }
    }
}

/// A request's body on its way in.
pub struct IncomingBody(SharedIo);

impl IncomingBody {
    /// The body of the request whose head was read last.
    pub fn new(io: &SharedIo) -> Self {
        Self(io.clone())
    }

    /// Whether there is nothing (more) to come.
    pub fn is_ended(&self) -> bool {
        matches!(self.0.lock().rest, BodyRest::Ended)
    }

    /// How long it is, where that is known.
    pub fn length(&self) -> Option<u64> {
        match self.0.lock().rest {
            BodyRest::Length(left) => Some(left),
            BodyRest::Ended => Some(0),
            BodyRest::Chunked(_) | BodyRest::Broken(_) => None,
        }
    }

    /// The way for interim responses to whoever sent it.
    pub fn interim(&self) -> Interim {
        Interim(self.0.clone())
    }

    /// The next piece.
    pub fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        self.0.lock().poll_frame(cx)
    }
}

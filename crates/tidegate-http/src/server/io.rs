//! The bytes of a connection, shared by those who read requests, read bodies and write answers. All of them run in one task, one after
//! the other: the lock is never waited for.

use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Frame;
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWrite as _, ReadBuf};

use super::response::write_interim;
use crate::client::Client;
use crate::fields::Fields;
use crate::request_body::Broken;
use crate::stream::{End, Stream};
use crate::upstream::{Chunked, Piece};

/// What a read asks for at first; more when a body fills it.
const FIRST_READ: usize = 4 * 1024;
const LARGEST_READ: usize = 32 * 1024;
/// What is read ahead of a body that nobody has asked for yet.
const AHEAD: usize = 16 * 1024;
/// What may wait of interim answers for a client to take them. More are not passed on.
const MOST_INTERIM: usize = 16 * 1024;

/// The bytes of a connection.
pub(super) struct Io {
    pub(super) stream: Stream,
    /// Read and not yet understood.
    pub(super) read: BytesMut,
    read_size: usize,
    /// What is still to come of the request's body.
    pub(super) rest: Rest,
    /// The client waits for `100 Continue` before it sends the body.
    pub(super) owes_continue: bool,
    /// Interim answers (1xx) that are to be written before anything else.
    interim: BytesMut,
    /// … and those that TLS may still keep back.
    unflushed: bool,
    /// The client has closed its side.
    pub(super) is_closed: bool,
    /// How that is seen while nothing is read, once that was needed.
    end: Option<Box<End>>,
    client: Arc<Client>,
}

/// What is still to come of a body.
#[derive(Debug)]
pub(super) enum Rest {
    Length(u64),
    Chunked(Chunked),
    Ended,
    Broken(Broken),
}

/// A handle on a connection's bytes.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Io>>);

impl Shared {
    pub(super) fn new(stream: Stream, client: Arc<Client>) -> Self {
        Self(Arc::new(Mutex::new(Io {
            stream,
            read: BytesMut::new(),
            read_size: FIRST_READ,
            rest: Rest::Ended,
            owes_continue: false,
            interim: BytesMut::new(),
            unflushed: false,
            is_closed: false,
            end: None,
            client,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Io> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bare connection, when nobody else holds it any more.
    pub(super) fn into_parts(self) -> Option<(Stream, BytesMut)> {
        let io = Arc::into_inner(self.0)?.into_inner().unwrap_or_else(PoisonError::into_inner);
        Some((io.stream, io.read))
    }
}

impl Io {
    /// Reads more; zero is the end.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
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
            self.client.has_read();
        }
        Poll::Ready(count)
    }

    /// Writes all of `out`, as far as the client takes it. Ready when nothing is left.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut impl bytes::Buf) -> Poll<io::Result<()>> {
        if !self.interim.is_empty() {
            let mut interim = std::mem::take(&mut self.interim);
            let written = self.poll_write_out(cx, &mut interim);
            self.interim = interim;
            std::task::ready!(written)?;
        }
        self.poll_write_out(cx, out)
    }

    /// Writes the interim answers that wait, as far as the client takes them.
    pub(super) fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
                    self.client.has_written(false);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.client.has_written(true);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Hands what was written to the network: TLS keeps it back otherwise.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.client.has_written(flushed.is_pending());
        flushed
    }

    /// Whether the client has gone. What it sends meanwhile is kept, up to a bound; the rest stays with the kernel.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> bool {
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
    pub(super) fn rest(&mut self) {
        self.read_size = FIRST_READ;
        self.interim = BytesMut::new();
        self.end = None;
        if self.read.is_empty() {
            self.read = BytesMut::new();
        }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        loop {
            let piece = match &mut self.rest {
                Rest::Ended => return Poll::Ready(None),
                Rest::Broken(broken) => return Poll::Ready(Some(Err(*broken))),
                Rest::Length(_) if self.read.is_empty() => Piece::Partial,
                Rest::Length(left) => {
                    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(self.read.len());
                    *left -= count as u64;
                    if *left == 0 {
                        self.rest = Rest::Ended;
                    }
                    Piece::Data(self.read.split_to(count).freeze())
                }
                Rest::Chunked(chunked) => match chunked.decode(&mut self.read) {
                    Ok(piece) => piece,
                    Err(why) => {
                        self.rest = Rest::Broken(Broken(why));
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
                    self.rest = Rest::Ended;
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                Piece::End => {
                    self.rest = Rest::Ended;
                    continue;
                }
                Piece::Partial => {}
            }
            if self.owes_continue {
                // The first time the body is asked for.
                self.owes_continue = false;
                self.interim.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            // What the client does not take at once is written when it does, by whoever waits for the answer.
            if let Poll::Ready(Err(_)) = self.poll_interim(cx) {
                self.rest = Rest::Broken(Broken::OFF);
                continue;
            }
            if self.is_closed {
                self.rest = Rest::Broken(Broken::OFF);
                continue;
            }
            if std::task::ready!(self.poll_read(cx)).is_err() {
                self.rest = Rest::Broken(Broken::OFF);
            }
        }
    }
}

/// The way for interim answers to a client.
pub(crate) struct Interim(Shared);

impl Interim {
    /// Passes an interim answer on, if the client has taken those before it.
    pub(crate) fn pass_on(&self, status: StatusCode, fields: &Fields) {
        let interim = &mut self.0.lock().interim;
        let before = interim.len();
        write_interim(interim, status, fields);
        if interim.len() > MOST_INTERIM {
            interim.truncate(before);
        }
    }
}

/// A request's body on its way in.
pub(crate) struct Incoming(pub(super) Shared);

impl Incoming {
    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.0.lock().rest, Rest::Ended)
    }

    pub(crate) fn length(&self) -> Option<u64> {
        match self.0.lock().rest {
            Rest::Length(left) => Some(left),
            Rest::Ended => Some(0),
            _ => None,
        }
    }

    pub(crate) fn interim(&self) -> Interim {
        Interim(self.0.clone())
    }

    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.0.lock().poll_frame(cx)
    }
}

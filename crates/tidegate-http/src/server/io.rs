//! The bytes of a connection, shared by the code that reads requests, reads bodies and writes responses. All of it runs
//! in one task, one part after the other: nothing ever waits for the lock.

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

/// The size of the first read, and of later ones when a body fills it.
const FIRST_READ: usize = 4 * 1024;
const LARGEST_READ: usize = 32 * 1024;
/// How much is read ahead of a body that nobody reads yet.
const AHEAD: usize = 16 * 1024;
/// How many bytes of interim responses may wait for a client that takes none. More are not passed on.
const MOST_INTERIM: usize = 16 * 1024;

/// The bytes of a connection.
pub struct Io {
    stream: Stream,
    /// Bytes that were read and not yet parsed.
    pub read: BytesMut,
    read_size: usize,
    /// What is still to come of the request's body.
    pub rest: BodyRest,
    /// The client waits for `100 Continue` before it sends the body.
    pub owes_continue: bool,
    /// Interim responses (1xx) that are to be written before anything else.
    interim: BytesMut,
    /// Whether TLS may still buffer some of them.
    unflushed: bool,
    /// The client has closed its side.
    pub is_closed: bool,
    /// Notices that while nothing is read, once that was needed.
    end: Option<Box<End>>,
    activity: Arc<Activity>,
}

/// What is still to come of a body.
#[derive(Debug)]
pub enum BodyRest {
    /// This many bytes.
    Length(u64),
    /// Chunks, up to the last one.
    Chunked(Chunked),
    /// Nothing.
    Ended,
    /// Nothing usable: the body is invalid.
    Broken(BrokenBody),
}

/// A handle on a connection's bytes.
#[derive(Clone)]
pub struct SharedIo(Arc<Mutex<Io>>);

impl SharedIo {
    /// The bytes of a connection whose reads and writes this activity records.
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

    /// The bytes. The lock is never contended.
    pub fn lock(&self) -> MutexGuard<'_, Io> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bare connection and the bytes not yet parsed. None while another handle exists.
    pub fn into_parts(self) -> Option<(Stream, BytesMut)> {
        let io = Arc::into_inner(self.0)?.into_inner().unwrap_or_else(PoisonError::into_inner);
        Some((io.stream, io.read))
    }
}

impl Io {
    /// Reads more; zero is the end.
    pub fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let count = if self.read.capacity() == 0 {
            // An idle connection needs no buffer until something arrives, and then only that much.
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

    /// Writes `out` as fast as the client takes it. Ready when nothing is left.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut impl bytes::Buf) -> Poll<io::Result<()>> {
        if !self.interim.is_empty() {
            let mut interim = std::mem::take(&mut self.interim);
            let written = self.poll_write_out(cx, &mut interim);
            self.interim = interim;
            std::task::ready!(written)?;
        }
        self.poll_write_out(cx, out)
    }

    /// Writes the interim responses that wait, as fast as the client takes them.
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
                    self.activity.has_written(count, false);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.activity.has_written(0, true);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Passes what was written to the network: TLS would buffer it otherwise.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.activity.has_written(0, flushed.is_pending());
        flushed
    }

    /// Whether the client has closed the connection. Bytes that it sends until then are kept, up to a bound; the kernel
    /// keeps the rest.
    pub fn poll_gone(&mut self, cx: &mut Context<'_>) -> bool {
        while !self.is_closed && self.read.len() < AHEAD {
            if self.poll_read(cx).is_pending() {
                return false;
            }
        }
        if !self.is_closed {
            // Without a free descriptor, the end is noticed when one is free again, or at the next read or write.
            self.end = self.end.take().or_else(|| self.stream.end().ok().map(Box::new));
            self.is_closed = self.end.as_ref().is_some_and(|end| end.poll_has_come(cx));
        }
        self.is_closed
    }

    /// Frees the buffers of a connection without requests.
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
                // The client sends its body without waiting for `100 Continue`.
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
                // The first time that the body is read.
                self.owes_continue = false;
                self.interim.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            // What the client does not take at once is written later, by the task that waits for the response.
            if let Poll::Ready(Err(_)) = self.poll_interim(cx) {
                self.rest = BodyRest::Broken(BrokenBody::ENDED_EARLY);
                continue;
            }
            if self.is_closed {
                self.rest = BodyRest::Broken(BrokenBody::ENDED_EARLY);
                continue;
            }
            if std::task::ready!(self.poll_read(cx)).is_err() {
                self.rest = BodyRest::Broken(BrokenBody::ENDED_EARLY);
            }
        }
    }
}

/// Passes interim responses to a client.
pub struct Interim(SharedIo);

impl Interim {
    /// Queues an interim response, unless too many bytes wait already.
    pub fn pass_on(&self, status: StatusCode, headers: &Headers) {
        let interim = &mut self.0.lock().interim;
        let before = interim.len();
        write_interim(interim, status, headers);
        if interim.len() > MOST_INTERIM {
            interim.truncate(before);
        }
    }
}

/// A request's body as it arrives.
pub struct IncomingBody {
    io: SharedIo,
    /// The head says that the request has no body, so the connection need not be asked.
    is_empty: bool,
}

impl IncomingBody {
    /// The body of the request whose head was read last.
    pub fn new(io: &SharedIo) -> Self {
        Self { io: io.clone(), is_empty: false }
    }

    /// The body of a request whose head says that it has none.
    pub fn empty(io: &SharedIo) -> Self {
        Self { io: io.clone(), is_empty: true }
    }

    /// Whether the body has ended.
    pub fn is_ended(&self) -> bool {
        self.is_empty || matches!(self.io.lock().rest, BodyRest::Ended)
    }

    /// Whether the body is empty, or the rest of it has been read from the connection.
    pub fn is_at_hand(&self) -> bool {
        if self.is_empty {
            return true;
        }
        let io = self.io.lock();
        match io.rest {
            BodyRest::Ended | BodyRest::Broken(_) => true,
            BodyRest::Length(left) => left <= io.read.len() as u64,
            BodyRest::Chunked(_) => false,
        }
    }

    /// How many bytes are still to come, where that is known.
    pub fn length(&self) -> Option<u64> {
        match self.io.lock().rest {
            BodyRest::Length(left) => Some(left),
            BodyRest::Ended => Some(0),
            BodyRest::Chunked(_) | BodyRest::Broken(_) => None,
        }
    }

    /// Passes interim responses to the client that sends the body.
    pub fn interim(&self) -> Interim {
        Interim(self.io.clone())
    }

    /// The next piece.
    pub fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        self.io.lock().poll_frame(cx)
    }
}

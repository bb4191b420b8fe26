//! One request and its response on a connection. The request's body may still be sent while the response is read, so
//! that neither side has to wait for the other to finish.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use http::StatusCode;
use http_body::{Body, Frame};
use tokio::io::AsyncWrite;

use super::client_terms::ClientTerms;
use super::connection::Connection;
use super::endpoint::Endpoint;
use super::request_head::{BodyLength, Traits};
use super::response_head::{ResponseHead, take_response};
use super::trouble::{Failed, Trouble};
use crate::client_wait::ClientWait;
use crate::deadlines;
use crate::framing::{write_end, write_size};
use crate::headers::Headers;
use crate::request::BrokenBody;

/// Pieces of a body up to this size are gathered with what goes before them, to save a write.
const GATHERED: usize = 8 * 1024;
/// How long to wait for the response to `Expect: 100-continue` (RFC 9110 §10.1.1: not without end).
const CONTINUE_PATIENCE: Duration = Duration::from_secs(1);
/// A deadline that does not pass.
const NEVER: Duration = Duration::from_secs(365 * 86_400);
/// The most interim responses (1xx) before the final one.
const MOST_INTERIM: u32 = 16;

/// What an exchange waits for. It decides the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    Nothing,
    /// The upstream's `100 Continue`.
    Continue,
    /// The client's body.
    Client,
    /// The upstream, to take what is sent.
    Taking,
    /// The response's head.
    Head,
    /// More of the response.
    Response,
}

/// The progress of sending the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    Done,
    /// The body is held back until the upstream asks for it.
    Held,
    WaitsForClient,
    WaitsForUpstream,
}

/// How far a request's body was sent when the head of its response came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadEnd {
    /// The request has no body.
    NoBody,
    /// The last of it was sent then.
    At(Instant),
    /// The client was still sending it.
    UnderWay,
}

/// The state of the request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upload {
    /// It is held back until the upstream asks for it.
    Held,
    /// More of it may arrive.
    Open,
    /// There is no body, or all of it has been read, or the upstream takes nothing more.
    Done,
}

/// What has been written to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Nothing,
    Unflushed,
    Flushed,
}

/// How long a client may be waited for while it sends its body.
struct UploadWait {
    wait: ClientWait,
    /// The requests on the client's connection.
    sharing: u32,
    /// When the last of the body was read, and sent on.
    ended: Option<Instant>,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own; most of their combinations occur")]
pub(super) struct Exchange<B> {
    pub(super) connection: Box<Connection>,
    endpoint: Arc<Endpoint>,
    bodiless: bool,
    /// To be written first.
    out: BytesMut,
    /// To be written after `out`.
    data: Bytes,
    /// Kept to the end, for another attempt.
    body: Option<B>,
    upload: Upload,
    length: BodyLength,
    /// How much more the client may send.
    allowance: u64,
    /// How long the client may be waited for while it sends its body. Boxed, because most requests have none.
    upload_wait: Option<Box<UploadWait>>,
    /// Whether the client's trailers are passed on.
    takes_trailers: bool,
    written: Written,
    /// The upstream takes nothing more of the request. It may still have responded.
    write_closed: bool,
    pub(super) has_read: bool,
    interim: u32,
    pub(super) moved: bool,
    /// The client takes nothing of the response.
    pub(super) is_blocked: bool,
    waiting: Waiting,
    /// How its deadline says that it waits for the client.
    client_waiting: deadlines::Waiting,
}

impl<B: Body<Data = Bytes, Error = BrokenBody> + Unpin> Exchange<B> {
    /// An exchange over this connection. `out` is the request's head.
    pub(super) fn new(
        endpoint: &Arc<Endpoint>,
        terms: &ClientTerms<'_>,
        traits: &Traits,
        out: BytesMut,
        connection: Box<Connection>,
        body: Option<B>,
    ) -> Self {
        let upload = match &body {
            None => Upload::Done,
            Some(_) if traits.expects_continue => Upload::Held,
            Some(_) => Upload::Open,
        };
        let wait = || UploadWait { wait: ClientWait::new(terms.wait), sharing: terms.sharing, ended: None };
        let upload_wait = if body.is_some() { Some(Box::new(wait())) } else { None };
        Self {
            connection,
            endpoint: Arc::clone(endpoint),
            bodiless: traits.is_head,
            out,
            data: Bytes::new(),
            body,
            upload,
            length: traits.body,
            allowance: terms.max_body,
            upload_wait,
            takes_trailers: traits.takes_trailers,
            written: Written::Nothing,
            write_closed: false,
            has_read: false,
            interim: 0,
            moved: true,
            is_blocked: false,
            waiting: Waiting::Nothing,
            client_waiting: terms.waiting(),
        }
    }

    /// Sends what can be sent, and reads until the response's head is complete.
    pub(super) fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        on_interim: &(dyn Fn(StatusCode, &Headers) + Sync),
    ) -> Poll<Result<ResponseHead, Trouble>> {
        loop {
            let sending = self.poll_send(cx)?;
            if let Some(head) = self.take_head(on_interim)? {
                return Poll::Ready(Ok(head));
            }
            if sending == Sending::Held && self.upload == Upload::Open {
                // The upstream has asked for the body.
                continue;
            }
            match self.connection.poll_read(cx) {
                Poll::Ready(Ok(0)) if self.has_read => {
                    return Poll::Ready(Err(Trouble::BadResponse("it ended within its head")));
                }
                // A client that keeps its upstream waiting may be the reason.
                Poll::Ready(Ok(0) | Err(_)) if sending == Sending::WaitsForClient => {
                    return Poll::Ready(Err(Trouble::ClosedInUpload));
                }
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(Trouble::Closed)),
                Poll::Ready(Ok(_)) => {
                    // A head that arrives byte by byte does not postpone the deadline.
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
            match self.late(waiting, cx) {
                None => return Poll::Pending,
                Some(_) if waiting == Waiting::Continue => self.release_held(),
                Some(trouble) => return Poll::Ready(Err(trouble)),
            }
        }
    }

    /// The head of the final response, if it has been read.
    fn take_head(
        &mut self,
        on_interim: &(dyn Fn(StatusCode, &Headers) + Sync),
    ) -> Result<Option<ResponseHead>, Trouble> {
        while !self.connection.read.is_empty() {
            let longest = self.endpoint.bounds.max_head_bytes;
            let head =
                take_response(&mut self.connection.read, longest, self.bodiless).map_err(Trouble::BadResponse)?;
            let Some(head) = head else { return Ok(None) };
            if !head.status.is_informational() || head.status == StatusCode::SWITCHING_PROTOCOLS {
                return Ok(Some(head));
            }
            self.interim += 1;
            if self.interim > MOST_INTERIM {
                return Err(Trouble::BadResponse("too many interim responses"));
            }
            if head.status == StatusCode::CONTINUE {
                // This one is for the gateway: the client gets its own when its body is read.
                self.release_held();
            } else {
                on_interim(head.status, &head.headers);
            }
        }
        Ok(None)
    }

    /// The upstream asks for the body, or has not responded in time.
    fn release_held(&mut self) {
        if self.upload == Upload::Held {
            self.upload = Upload::Open;
        }
    }

    /// Sends what can be sent now.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<Sending, Trouble> {
        let mut client_waits = false;
        loop {
            let is_open = self.upload == Upload::Open && !client_waits;
            let wants_more = is_open && self.data.is_empty() && self.out.len() < GATHERED;
            if wants_more && let Some(body) = &mut self.body {
                if self.write_closed {
                    self.upload = Upload::Done;
                    continue;
                }
                match Pin::new(body).poll_frame(cx) {
                    Poll::Ready(frame) => self.take_frame(frame)?,
                    Poll::Pending => client_waits = true,
                }
                continue;
            }
            if self.write_closed {
                self.out.clear();
                self.data.clear();
                if self.written == Written::Unflushed {
                    self.written = Written::Flushed;
                }
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
                        (self.moved, self.written) = (true, Written::Unflushed);
                    }
                    Poll::Ready(_) => self.write_closed = true,
                    Poll::Pending => return Ok(Sending::WaitsForUpstream),
                }
                continue;
            }
            if self.written == Written::Unflushed {
                match Pin::new(&mut self.connection.stream).poll_flush(cx) {
                    Poll::Ready(Ok(())) => self.written = Written::Flushed,
                    Poll::Ready(Err(_)) => self.write_closed = true,
                    Poll::Pending => return Ok(Sending::WaitsForUpstream),
                }
                continue;
            }
            return Ok(match self.upload {
                Upload::Done => Sending::Done,
                Upload::Held => Sending::Held,
                Upload::Open => Sending::WaitsForClient,
            });
        }
    }

    /// Queues a piece of the client's body.
    fn take_frame(&mut self, frame: Option<Result<Frame<Bytes>, BrokenBody>>) -> Result<(), Trouble> {
        self.moved = true;
        let Some(frame) = frame else {
            match self.length {
                BodyLength::Known(0) | BodyLength::None => {}
                BodyLength::Known(_) => return Err(Trouble::ClientBody(BrokenBody::LENGTH)),
                BodyLength::Chunked => write_end(&mut self.out, None),
            }
            self.end_upload();
            return Ok(());
        };
        match frame.map_err(Trouble::ClientBody)?.into_data() {
            Ok(data) if data.is_empty() => {}
            Ok(data) => self.take_data(data)?,
            Err(frame) => {
                let trailers = frame.into_trailers().ok().filter(|_| self.takes_trailers);
                match self.length {
                    BodyLength::Chunked => write_end(&mut self.out, trailers.as_ref()),
                    // Trailers can't follow a body whose length is in the head.
                    BodyLength::Known(0) | BodyLength::None => {}
                    BodyLength::Known(_) => return Err(Trouble::ClientBody(BrokenBody::LENGTH)),
                }
                self.end_upload();
            }
        }
        Ok(())
    }

    /// The client has sent all of its body.
    fn end_upload(&mut self) {
        self.upload = Upload::Done;
        if let Some(upload) = &mut self.upload_wait {
            upload.ended = Some(Instant::now());
        }
    }

    /// How far the request's body has been sent.
    pub(super) fn upload_end(&self) -> UploadEnd {
        match &self.upload_wait {
            None => UploadEnd::NoBody,
            Some(upload) => upload.ended.map_or(UploadEnd::UnderWay, UploadEnd::At),
        }
    }

    fn take_data(&mut self, data: Bytes) -> Result<(), Trouble> {
        let size = data.len() as u64;
        if let Some(upload) = &mut self.upload_wait {
            upload.wait.moved(data.len());
        }
        self.allowance = self.allowance.checked_sub(size).ok_or(Trouble::TooLarge)?;
        match &mut self.length {
            BodyLength::Known(left) => *left = left.checked_sub(size).ok_or(Trouble::ClientBody(BrokenBody::LENGTH))?,
            BodyLength::Chunked => write_size(&mut self.out, data.len()),
            BodyLength::None => return Err(Trouble::ClientBody(BrokenBody::LENGTH)),
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

    /// What is wrong if the deadline for what the exchange waits for has passed. Sets a new deadline when it waits for
    /// something else or a byte has moved.
    pub(super) fn late(&mut self, waiting: Waiting, cx: &Context<'_>) -> Option<Trouble> {
        if waiting == Waiting::Client {
            return self.late_client(cx);
        }
        let deadline = &self.connection.deadline;
        if deadline.take_passed() && self.waiting == waiting && !self.moved {
            return Some(match waiting {
                Waiting::Taking | Waiting::Response => Trouble::BodyTimeout,
                Waiting::Continue | Waiting::Head | Waiting::Nothing | Waiting::Client => Trouble::ResponseTimeout,
            });
        }
        if self.waiting != waiting || self.moved {
            let settings = &self.endpoint.bounds;
            deadline.set(match waiting {
                Waiting::Continue => CONTINUE_PATIENCE,
                Waiting::Head => settings.response_timeout,
                Waiting::Taking | Waiting::Response | Waiting::Nothing | Waiting::Client => settings.body_timeout,
            });
            if let Some(upload) = &mut self.upload_wait {
                upload.wait.pause(deadline.now_millis());
            }
        }
        self.waiting = waiting;
        self.moved = false;
        self.connection.deadline.watch(cx);
        None
    }

    /// The same while the client's body is waited for: its pauses and its pace are bounded, and it can be evicted.
    fn late_client(&mut self, cx: &Context<'_>) -> Option<Trouble> {
        let deadline = &self.connection.deadline;
        if deadline.is_evicted() {
            return Some(Trouble::ClientEvicted);
        }
        deadline.watch(cx);
        (self.waiting, self.moved) = (Waiting::Client, false);
        let upload = self.upload_wait.as_mut()?;
        // Others set or clear the deadline, too: when the head of the response comes, or the client takes nothing of
        // it.
        upload.wait.wait_anew(deadline, self.client_waiting, upload.sharing).map(Into::into)
    }

    /// So many bytes of the response have been read. They count for a client that takes them while it sends its body.
    pub(super) fn response_moved(&mut self, bytes: usize) {
        self.moved = true;
        if self.upload != Upload::Done
            && let Some(upload) = &mut self.upload_wait
        {
            upload.wait.moved(bytes);
        }
    }

    /// The client takes nothing of the response: another request may have the connection. Returns what is wrong once it
    /// has been taken away.
    pub(super) fn client_blocks(&mut self, cx: &Context<'_>) -> Option<Trouble> {
        let deadline = &self.connection.deadline;
        if deadline.is_evicted() {
            return Some(Trouble::ClientEvicted);
        }
        if !std::mem::replace(&mut self.is_blocked, true) {
            // The client's own connection has the deadline; this one only shows since when it is waited for.
            deadline.set_for(self.client_waiting, NEVER);
            // When it goes on, a deadline is set anew.
            self.waiting = Waiting::Nothing;
        }
        deadline.watch(cx);
        None
    }

    /// Whether the whole request has been sent.
    pub(super) fn is_sent(&self) -> bool {
        self.upload == Upload::Done && self.out.is_empty() && self.data.is_empty() && !self.write_closed
    }

    /// Drops the body once nothing more will be read from it. Over HTTP/2 the rest is then discarded.
    pub(super) fn drop_read_body(&mut self) {
        if self.upload == Upload::Done {
            self.body = None;
        }
    }

    /// Whether some of the request may have reached the upstream.
    pub(super) fn was_sent(&self) -> bool {
        self.written != Written::Nothing
    }

    /// Ends without a response.
    pub(super) fn fail(self, trouble: Trouble) -> Failed<B> {
        let was_sent = self.was_sent();
        Failed { was_sent, is_repeatable: !was_sent, trouble, body: self.body }
    }

    /// Keeps the connection for another request, if it can carry one.
    pub(super) fn end(self, keep_alive: bool) {
        if keep_alive && self.is_sent() && self.connection.read.is_empty() {
            self.endpoint.keep(self.connection);
        }
    }
}

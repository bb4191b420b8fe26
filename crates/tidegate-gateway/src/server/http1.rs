//! Serves an HTTP/1 connection: a request, its response, and again.

use std::future::poll_fn;
use std::io::{self, Cursor};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http::{Method, StatusCode, Version};
use http_body::Body as _;
use tidegate_http::deadlines::{Ended, Waiting};
use tidegate_http::server::{
    BadHead, BodyRest, GATHERED, Head, IncomingBody, Requested, ResponseBody, ResponseHead, SharedIo, take_head,
    write_head,
};
use tidegate_http::stream::{LINGER, SHORT_LINGER, Stream, linger};
use tidegate_http::tunnel;
use tokio::time::timeout;

use crate::access_log::Record;
use crate::body::Body;
use crate::client::Client;
use crate::config::model::Connections;
use crate::cuts::Cut;
use crate::handler::handle;
use crate::rejection;
use crate::request_body::RequestBody;
use crate::request_id::RequestId;
use crate::response::{Response, Upgrade};
use crate::worker::Worker;

/// How long an idle connection still waits for a request once the gateway drains: one may already have been sent.
pub(super) const DRAIN_IDLE_TIMEOUT: Duration = Duration::from_secs(1);
/// How much of an unread body is read, so that the connection can go on. If there is more, the connection ends.
const MOST_UNREAD: usize = 256 * 1024;
const UNREAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves a client's connection until it ends. False if what came was not HTTP.
pub(super) async fn serve(worker: &Arc<Worker>, client: &Arc<Client>, stream: Stream, bounds: &Connections) -> bool {
    let io = SharedIo::new(stream, Arc::clone(&client.activity));
    let mut connection = Connection { worker, client, bounds, io, out: Cursor::default(), is_draining: false };
    loop {
        let head = match poll_fn(|cx| connection.poll_head(cx)).await {
            Some(Ok(head)) => head,
            Some(Err(fault)) => {
                connection.reject(fault).await;
                return false;
            }
            None => return true,
        };
        match connection.exchange(head).await {
            After::Next => {}
            After::Close(patience) => {
                connection.close(patience).await;
                return true;
            }
            After::Gone => return true,
            After::Upgrade(upgrade) => {
                let Upgrade { connection: upstream, held } = *upgrade;
                // The connection stays busy, and the tunnel has a deadline of its own.
                let _busy = client.activity.request_came();
                if let Some((stream, unread)) = connection.io.into_parts() {
                    let idle = bounds.upgrade_timeout.get();
                    tunnel::run(stream, unread, *upstream, idle).await;
                }
                drop(held);
                return true;
            }
        }
    }
}

struct Connection<'a> {
    worker: &'a Arc<Worker>,
    client: &'a Arc<Client>,
    bounds: &'a Connections,
    io: SharedIo,
    /// Bytes to write, and how many of them have been written.
    out: Cursor<Vec<u8>>,
    /// The gateway drains, and the connection has [`DRAIN_IDLE_TIMEOUT`] left for a request.
    is_draining: bool,
}

/// What the connection does after a request.
enum After {
    Next,
    /// Our last response has been written. The client has so long to read it.
    Close(Duration),
    /// The client has gone, or the bytes can't be trusted any more.
    Gone,
    Upgrade(Box<Upgrade>),
}

impl Connection<'_> {
    /// Whether the connection's deadline has passed.
    fn is_late(&self, cx: &Context<'_>) -> bool {
        self.client.activity.deadline.watch(cx);
        self.client.activity.is_late()
    }

    /// Whether the client, which takes nothing at the moment, must be cut off. Until then its response is read ahead.
    fn is_cut(&self, body: &Body, cx: &mut Context<'_>) -> bool {
        if self.is_late(cx) {
            if self.client.activity.deadline.ended() == Some(Ended::Late(Waiting::Taking)) {
                self.worker.gateway.note_cut(Cut::SlowReader, self.client.peer);
            }
            return true;
        }
        let Some(trouble) = body.poll_ahead(cx) else { return false };
        if let Some(cut) = Cut::of(&trouble) {
            self.worker.gateway.note_cut(cut, self.client.peer);
        }
        true
    }

    /// The buffer of bytes to write.
    fn out(&mut self) -> &mut Vec<u8> {
        let sent = usize::try_from(self.out.position()).unwrap_or(usize::MAX);
        if sent > 0 {
            self.out.set_position(0);
            self.out.get_mut().drain(..sent);
        }
        self.out.get_mut()
    }

    /// Reads the next head. `None` when the connection ends between two requests.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Head, BadHead>>> {
        let mut io = self.io.lock();
        loop {
            if !io.read.is_empty() {
                let head = take_head(&mut io.read, self.bounds.max_head_bytes, self.bounds.max_headers);
                if let Some(head) = head.transpose() {
                    self.is_draining = false;
                    return Poll::Ready(Some(head));
                }
            }
            if io.is_closed {
                return Poll::Ready(None);
            }
            if io.read.is_empty() {
                io.rest();
                if self.out.get_ref().capacity() > GATHERED {
                    self.out = Cursor::default();
                }
            } else {
                self.client.activity.has_read();
            }
            match io.poll_read(cx) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(None),
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => {
                    // Health checks of the admin listener are served to the end.
                    let must_end = self.worker.gateway.is_draining() && !self.client.is_admin;
                    if io.read.is_empty() && must_end && !std::mem::replace(&mut self.is_draining, true) {
                        // Not at once: a client that does not know that the connection ends may be sending a request.
                        self.client.activity.deadline.set(DRAIN_IDLE_TIMEOUT);
                    }
                    return if self.is_late(cx) { Poll::Ready(None) } else { Poll::Pending };
                }
            }
        }
    }

    /// Handles a request and writes its response.
    async fn exchange(&mut self, head: Head) -> After {
        let Head { request, rest, keep_alive, expects_continue, takes_trailers } = head;
        let has_body = !matches!(rest, BodyRest::Ended);
        {
            let mut io = self.io.lock();
            (io.rest, io.owes_continue) = (rest, expects_continue);
        }
        let requested = Requested { version: request.version, is_head: request.method == Method::HEAD, keep_alive };
        let body = if has_body { IncomingBody::new(&self.io) } else { IncomingBody::empty(&self.io) };
        let body = RequestBody::H1(body);
        let response = {
            let mut handling = pin!(handle(Arc::clone(self.worker), Arc::clone(self.client), request, body));
            let (shared, activity) = (&self.io, &self.client.activity);
            poll_fn(|cx| {
                if let Poll::Ready(response) = handling.as_mut().poll(cx) {
                    return Poll::Ready(Some(response));
                }
                activity.deadline.watch(cx);
                let mut io = shared.lock();
                let is_broken = matches!(io.poll_interim(cx), Poll::Ready(Err(_)));
                let is_over = is_broken || io.poll_gone(cx) || activity.is_late();
                // The handler's future is dropped, and with it what the request holds.
                if is_over { Poll::Ready(None) } else { Poll::Pending }
            })
            .await
        };
        let Some(response) = response else { return After::Gone };
        self.respond(response, requested, takes_trailers).await
    }

    async fn respond(&mut self, mut response: Response, mut requested: Requested, takes_trailers: bool) -> After {
        // Without `100 Continue` the body may come or not: it could not be distinguished from the next request.
        let is_ambiguous = {
            let mut io = self.io.lock();
            // From here on there is a response: nothing may come between its bytes.
            let is_unsent = std::mem::take(&mut io.owes_continue) && !matches!(io.rest, BodyRest::Ended);
            // Bytes before our response are the body: a client without a response can't have dropped it.
            is_unsent && io.read.is_empty() || matches!(io.rest, BodyRest::Broken(_))
        };
        let has_timed_out = response.status == StatusCode::REQUEST_TIMEOUT;
        let patience = if response.is_for_evicted { SHORT_LINGER } else { LINGER };
        requested.keep_alive &= !is_ambiguous && !has_timed_out && !self.worker.gateway.is_draining();
        let date = self.worker.date();
        let head = ResponseHead {
            status: response.status,
            headers: response.headers.as_ref(),
            lines: &response.lines,
            date: &date,
            length: response.body.size_hint().exact(),
        };
        let (framing, keep_alive) = write_head(self.out(), &head, requested);
        let mut writing = ResponseBody::new(framing, takes_trailers, requested.is_head);
        let body = &mut response.body;
        if let Some(whole) = body.take_whole() {
            writing.take_whole(self.out(), whole);
        }
        if poll_fn(|cx| self.poll_write(cx, body, &mut writing)).await.is_err() {
            return After::Gone;
        }
        response.body.is_handed_over();
        if let Some(upgrade) = response.upgrade.take() {
            return After::Upgrade(Box::new(upgrade));
        }
        drop(response);
        if !keep_alive {
            return After::Close(patience);
        }
        match self.io.lock().rest {
            BodyRest::Ended => return After::Next,
            BodyRest::Broken(_) => return After::Close(patience),
            BodyRest::Length(_) | BodyRest::Chunked(_) => {}
        }
        if !self.read_rest().await {
            return After::Close(patience);
        }
        self.client.activity.awaits_request();
        After::Next
    }

    /// Writes the head and the body.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut Body,
        writing: &mut ResponseBody,
    ) -> Poll<Result<(), ()>> {
        loop {
            let mut waits = false;
            while !writing.has_ended && writing.data.is_empty() && self.out.remaining() < GATHERED {
                match body.poll_piece(cx) {
                    Poll::Ready(frame) => writing.take(self.out(), frame, || body.is_end_stream()),
                    Poll::Pending => {
                        waits = true;
                        break;
                    }
                }
            }
            if writing.has_ended {
                // The response has ended: a client that has all of it must find its slot free again.
                body.release();
            }
            let is_flushed = waits || writing.has_ended;
            match self.poll_write_out(cx, &mut writing.data, is_flushed) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Err(())),
                Poll::Pending if self.is_cut(body, cx) => return Poll::Ready(Err(())),
                Poll::Pending => return Poll::Pending,
            }
            if writing.has_ended {
                return Poll::Ready(if writing.ended_early { Err(()) } else { Ok(()) });
            }
            if waits {
                let is_over = self.io.lock().poll_gone(cx) || self.is_late(cx);
                return if is_over { Poll::Ready(Err(())) } else { Poll::Pending };
            }
        }
    }

    /// Writes what is to be written, and flushes it if no more comes for now. The lock is not held for longer: the
    /// request's body, which may still be sent on, needs it too.
    fn poll_write_out(&mut self, cx: &mut Context<'_>, data: &mut Bytes, is_flushed: bool) -> Poll<io::Result<()>> {
        let mut io = self.io.lock();
        std::task::ready!(io.poll_write(cx, &mut self.out))?;
        self.out.set_position(0);
        self.out.get_mut().clear();
        std::task::ready!(io.poll_write(cx, data))?;
        if is_flushed { io.poll_flush(cx) } else { Poll::Ready(Ok(())) }
    }

    /// Reads the rest of a body, within bounds. False if there is too much of it.
    async fn read_rest(&self) -> bool {
        let mut body = IncomingBody::new(&self.io);
        let reading = async {
            let mut read = 0;
            while let Some(frame) = poll_fn(|cx| body.poll_frame(cx)).await {
                let Ok(frame) = frame else { return false };
                read += frame.data_ref().map_or(0, Bytes::len);
                if read > MOST_UNREAD {
                    return false;
                }
            }
            true
        };
        timeout(UNREAD_TIMEOUT, reading).await.unwrap_or(false)
    }

    /// Rejects a head that can't be read, and ends the connection.
    async fn reject(mut self, fault: BadHead) {
        let id = RequestId::own(&self.worker.ids);
        let mut response = rejection::rejected(fault.status, "bad_request", fault.detail, id.as_str());
        response.lines.add("x-request-id", id.as_bytes());
        self.worker.metrics().responded(fault.status);
        let requested = Requested { version: Version::HTTP_11, is_head: false, keep_alive: false };
        let is_whole = !matches!(self.respond(response, requested, false).await, After::Gone);
        if let Some(log) = self.worker.gateway.access_log() {
            log.write(&Record::unreadable(self.client.peer, id.as_str()), fault.status, 0, is_whole, Duration::ZERO);
        }
        if is_whole {
            self.close(LINGER).await;
        }
    }

    /// Closes our side when our last response has been written.
    async fn close(self, patience: Duration) {
        // It ends by itself in a moment: no other one has to be closed in its place.
        self.client.activity.deadline.set_for(Waiting::Ending, 2 * LINGER);
        if let Some((stream, _unread)) = self.io.into_parts() {
            linger(stream, patience).await;
        }
    }
}

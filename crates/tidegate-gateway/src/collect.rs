//! Reads a request's body before the request takes a connection to its upstream, so that a client that sends it slowly
//! holds nothing that others need.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use tidegate_http::client::Trouble;
use tidegate_http::client_wait::ClientWait;
use tidegate_http::deadlines::{Deadline, Owner, Waiting};
use tidegate_http::request::{BrokenBody, RequestHead};

use crate::buffers::Lease;
use crate::request_body::{Collected, RequestBody};
use crate::request_context::RequestContext;
use crate::upstream::Upstream;
use crate::validation;

/// Reads the body until it is whole or `request_buffer_bytes` have come: then it flows, and the rest is sent on as it
/// comes. Errors are the client's.
pub(crate) async fn collect(
    context: &RequestContext<'_>,
    upstream: &Upstream,
    request: &RequestHead,
    body: RequestBody,
) -> Result<RequestBody, Trouble> {
    // The upstream decides whether it wants the body.
    if body.is_at_hand() || upstream.request_buffer_bytes == 0 || validation::expects_continue(request) {
        return Ok(body);
    }
    let connections = &context.plan.site.connections;
    let lease = Lease::new(
        &context.worker.gateway.metrics.buffers,
        upstream.request_buffer_bytes,
        connections.max_buffer_bytes,
    );
    // The connection of an HTTP/2 client has other requests: ending one of them frees no connection.
    let waiting = if matches!(body, RequestBody::H2(_)) { Waiting::Stream } else { Waiting::Body };
    let mut collecting = Collecting { is_chunked: body.length().is_none(), body, data: BytesMut::new(), lease };
    let mut wait: Option<(Arc<Deadline>, ClientWait)> = None;
    let whole = poll_fn(|cx| {
        loop {
            match collecting.poll(cx) {
                Poll::Ready(Ok(progress)) if progress.is_done => return Poll::Ready(Ok(progress.trailers)),
                Poll::Ready(Ok(progress)) => {
                    if let Some((_, wait)) = &mut wait {
                        wait.moved(progress.bytes);
                    }
                }
                Poll::Ready(Err(broken)) => return Poll::Ready(Err(Trouble::ClientBody(broken))),
                Poll::Pending => break,
            }
        }
        let (deadline, wait) = wait.get_or_insert_with(|| {
            let owner = context.client.share.as_ref().map_or(Owner::NONE, |share| share.owner);
            (context.worker.deadlines.deadline(owner), ClientWait::new(connections.body_wait()))
        });
        deadline.watch(cx);
        if deadline.is_evicted() {
            return Poll::Ready(Err(Trouble::ClientEvicted));
        }
        match wait.wait(deadline, waiting, context.client.activity.requests()) {
            Some(late) => Poll::Ready(Err(late.into())),
            None => Poll::Pending,
        }
    });
    let trailers = whole.await?;
    let Collecting { body, data, lease, is_chunked } = collecting;
    Ok(RequestBody::Collected(Box::new(Collected::new(data.freeze(), trailers, body, is_chunked, lease))))
}

struct Collecting {
    body: RequestBody,
    data: BytesMut,
    lease: Lease,
    is_chunked: bool,
}

/// What has come.
#[derive(Default)]
struct Progress {
    bytes: usize,
    trailers: Option<Frame<Bytes>>,
    /// The body is whole, or flows.
    is_done: bool,
}

impl Collecting {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Progress, BrokenBody>> {
        if !self.lease.has_room() {
            return Poll::Ready(Ok(Progress { is_done: true, ..Progress::default() }));
        }
        let Some(frame) = std::task::ready!(self.body.poll_piece(cx)) else {
            return Poll::Ready(Ok(Progress { is_done: true, ..Progress::default() }));
        };
        let frame = frame?;
        // Copied: a piece of one byte would keep the whole buffer that it was read into.
        if let Some(data) = frame.data_ref() {
            let bytes = data.len();
            self.lease.add(bytes);
            self.data.extend_from_slice(data);
            return Poll::Ready(Ok(Progress { bytes, trailers: None, is_done: self.body.is_ended() }));
        }
        Poll::Ready(Ok(Progress { bytes: 0, trailers: Some(frame), is_done: true }))
    }
}

//! The body of a request, over HTTP/1 or HTTP/2.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tidegate_http::headers::has_whitespace_around;
use tidegate_http::request::BrokenBody;
use tidegate_http::server::{IncomingBody, Interim};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::buffers::Lease;
use crate::stream_waits::StreamWaits;

/// The body of a request.
pub(crate) enum RequestBody {
    H1(IncomingBody),
    H2(H2Body),
    /// What came before the request was sent, and the rest.
    Collected(Box<Collected>),
}

/// A body whose beginning, or all of it, is in memory.
pub(crate) struct Collected {
    data: Bytes,
    trailers: Option<Frame<Bytes>>,
    rest: RequestBody,
    /// Whether it has no length in its head.
    is_chunked: bool,
    /// Its share of the memory for bodies. None of a copy.
    lease: Option<Lease>,
    /// Set when it has ended.
    ended: Option<Arc<AtomicBool>>,
}

impl Collected {
    pub(crate) fn new(
        data: Bytes,
        trailers: Option<Frame<Bytes>>,
        rest: RequestBody,
        is_chunked: bool,
        lease: Lease,
    ) -> Self {
        Self { data, trailers, rest, is_chunked, lease: Some(lease), ended: None }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        if !self.data.is_empty() {
            if let Some(lease) = &mut self.lease {
                lease.remove(self.data.len());
            }
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.data)))));
        }
        if let Some(trailers) = self.trailers.take() {
            return Poll::Ready(Some(Ok(trailers)));
        }
        let piece = self.rest.poll_piece(cx);
        if let Some(ended) = &self.ended
            && (matches!(piece, Poll::Ready(None)) || self.rest.is_ended())
        {
            ended.store(true, Ordering::Relaxed);
        }
        piece
    }
}

/// A whole body that can be sent several times.
pub(crate) struct Replayable {
    data: Bytes,
    trailers: Option<HeaderMap>,
    /// Its share of the memory for bodies, held for its `Drop`.
    _lease: Option<Lease>,
}

impl Replayable {
    /// Takes a body if all of it is in memory. Otherwise gives it back as it was.
    pub(crate) fn of(body: RequestBody, lease: impl FnOnce() -> Lease) -> Result<Self, RequestBody> {
        match body {
            RequestBody::Collected(body) if body.rest.is_ended() => {
                let Collected { data, trailers, lease, .. } = *body;
                let trailers = trailers.and_then(|frame| frame.into_trailers().ok());
                Ok(Self { data, trailers, _lease: lease })
            }
            RequestBody::H1(body) if body.is_at_hand() => Self::read(RequestBody::H1(body), lease()),
            RequestBody::H1(_) | RequestBody::H2(_) | RequestBody::Collected(_) => Err(body),
        }
    }

    /// Reads a body that is at hand.
    fn read(mut body: RequestBody, mut lease: Lease) -> Result<Self, RequestBody> {
        let (mut data, mut trailers) = (BytesMut::new(), None);
        // What is at hand needs no waking.
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(Ok(frame))) = body.poll_piece(&mut cx) {
            match frame.into_data() {
                Ok(piece) => {
                    lease.add(piece.len());
                    data.extend_from_slice(&piece);
                }
                Err(frame) => trailers = Some(frame),
            }
        }
        let data = data.freeze();
        if body.is_ended() {
            let trailers = trailers.and_then(|frame| frame.into_trailers().ok());
            return Ok(Self { data, trailers, _lease: Some(lease) });
        }
        let is_chunked = body.length().is_none();
        Err(RequestBody::Collected(Box::new(Collected::new(data, trailers, body, is_chunked, lease))))
    }

    /// The body, to send it once.
    pub(crate) fn body(&self) -> RequestBody {
        let trailers = self.trailers.clone().map(Frame::trailers);
        let (data, rest) = (self.data.clone(), RequestBody::empty());
        let (is_chunked, lease, ended) = (false, None, None);
        RequestBody::Collected(Box::new(Collected { data, trailers, rest, is_chunked, lease, ended }))
    }
}

/// How much of an unread body is read after its response.
const MOST_UNREAD: usize = 1 << 20;
/// For how long.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(5);

/// A body that comes over HTTP/2. When it is dropped, the rest of it is read for a while. Otherwise the stream would be
/// reset at once. RFC 9113 §8.1 permits that after a complete response, but some clients then lose the response too.
pub(crate) struct H2Body {
    /// None if there is nothing of it.
    body: Option<Incoming>,
    /// Where the stream shows whether it waits for its client.
    waits: Option<Arc<StreamWaits>>,
    is_waiting: bool,
}

impl H2Body {
    pub(crate) fn new(body: Incoming, waits: Option<Arc<StreamWaits>>) -> Self {
        Self { body: Some(body), waits, is_waiting: false }
    }

    fn empty() -> Self {
        Self { body: None, waits: None, is_waiting: false }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(cx);
        if let Some(waits) = &self.waits {
            if std::mem::replace(&mut self.is_waiting, polled.is_pending()) != polled.is_pending() {
                waits.for_body(polled.is_pending());
            }
            if let Poll::Ready(Some(Ok(frame))) = &polled {
                waits.moved(frame.data_ref().map_or(0, Bytes::len));
            }
        }
        polled.map(|frame| frame.map(|frame| frame.map_err(|_| BrokenBody::ENDED_EARLY).and_then(with_valid_trailers)))
    }
}

impl Drop for H2Body {
    fn drop(&mut self) {
        if let (Some(waits), true) = (&self.waits, self.is_waiting) {
            waits.for_body(false);
        }
        let unread = self.body.take().filter(|body| !body.is_end_stream());
        if let (Some(body), Ok(runtime)) = (unread, Handle::try_current()) {
            runtime.spawn(timeout(UNREAD_TIMEOUT, discard(body)));
        }
    }
}

async fn discard(mut body: Incoming) {
    let mut left = MOST_UNREAD;
    while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

impl RequestBody {
    /// Whether nothing more comes.
    pub(crate) fn is_ended(&self) -> bool {
        match self {
            Self::H1(body) => body.is_ended(),
            Self::H2(body) => body.body.as_ref().is_none_or(Incoming::is_end_stream),
            Self::Collected(body) => body.data.is_empty() && body.trailers.is_none() && body.rest.is_ended(),
        }
    }

    /// Whether it is empty, or all of it has been read already.
    pub(crate) fn is_at_hand(&self) -> bool {
        match self {
            Self::H1(body) => body.is_at_hand(),
            Self::H2(_) => self.is_ended(),
            Self::Collected(body) => body.rest.is_at_hand(),
        }
    }

    /// The same body, and what shows whether it has ended.
    pub(crate) fn watched(self) -> (Self, Arc<AtomicBool>) {
        let ended = Arc::new(AtomicBool::new(false));
        let mut body = match self {
            Self::Collected(body) => body,
            rest @ (Self::H1(_) | Self::H2(_)) => {
                let is_chunked = rest.length().is_none();
                let (data, trailers, lease) = (Bytes::new(), None, None);
                Box::new(Collected { data, trailers, rest, is_chunked, lease, ended: None })
            }
        };
        body.ended = Some(Arc::clone(&ended));
        (Self::Collected(body), ended)
    }

    /// A body of nothing.
    pub(crate) fn empty() -> Self {
        Self::H2(H2Body::empty())
    }

    /// Sends interim responses to the client. `None` for HTTP/2, where hyper can't send them.
    pub(crate) fn interim(&self) -> Option<Interim> {
        match self {
            Self::H1(body) => Some(body.interim()),
            Self::H2(_) => None,
            Self::Collected(body) => body.rest.interim(),
        }
    }

    /// Its length, if that is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::H1(body) => body.length(),
            Self::H2(body) => body.body.as_ref().and_then(|body| body.size_hint().exact()),
            Self::Collected(body) if body.is_chunked => None,
            Self::Collected(body) => body.rest.length().map(|rest| rest + body.data.len() as u64),
        }
    }

    /// The next piece.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        match self {
            Self::H1(body) => body.poll_frame(cx),
            Self::H2(body) => body.poll_frame(cx),
            Self::Collected(body) => body.poll_piece(cx),
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BrokenBody;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        self.get_mut().poll_piece(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.is_ended()
    }

    fn size_hint(&self) -> SizeHint {
        self.length().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// RFC 9113 §8.2.1: whitespace around a value makes a message malformed, in its trailers too.
fn with_valid_trailers(frame: Frame<Bytes>) -> Result<Frame<Bytes>, BrokenBody> {
    let mut trailers = frame.trailers_ref().into_iter().flat_map(HeaderMap::values);
    if trailers.any(|value| has_whitespace_around(value.as_bytes())) {
        Err(BrokenBody("whitespace around a trailer's value"))
    } else {
        Ok(frame)
    }
}

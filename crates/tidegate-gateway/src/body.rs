//! The body of a response. It holds what the request holds, until its last byte is sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tidegate_http::activity::Activity;
use tidegate_http::client::{ResponseStream, Trouble};
use tidegate_http::framing::is_fit_for_trailers;

use crate::admission::Admissions;
use crate::buffers::Lease;
use crate::h2_streams::{self, H2Stream};
use crate::read_ahead::ReadAhead;
use crate::request_body::RequestBody;
use crate::settlement::{AccessLogLine, Settlement};

/// The body of a response.
pub(crate) struct Body {
    content: Content,
    /// Settles the request when the body has ended or is dropped.
    settlement: Option<Box<Settlement>>,
    /// On HTTP/2.
    stream: Option<Arc<H2Stream>>,
    /// On HTTP/2: the memory of a whole body that is not sent.
    unsent: Option<Box<Lease>>,
    /// The request was HEAD: the body is not sent.
    is_head: bool,
}

enum Content {
    Whole(Bytes),
    Stream(ReadAhead),
}

impl Body {
    pub(crate) fn empty() -> Self {
        Self::whole(Bytes::new())
    }

    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self::new(Content::Whole(bytes))
    }

    /// A body that is still arriving. The lease bounds how much of it is read ahead.
    pub(crate) fn stream(stream: Box<ResponseStream<RequestBody>>, lease: Lease) -> Self {
        Self::new(Content::Stream(ReadAhead::new(stream, lease)))
    }

    fn new(content: Content) -> Self {
        Self { content, settlement: None, stream: None, unsent: None, is_head: false }
    }

    /// Settles the request when this body ends. `is_head`: the body is not sent.
    pub(crate) fn settle_at_end(&mut self, mut settlement: Box<Settlement>, is_head: bool) {
        self.stream = h2_streams::stream();
        if let Some(stream) = &self.stream {
            let ahead = if let Content::Stream(ahead) = &self.content { Some(ahead.clone()) } else { None };
            stream.respond(settlement.activity(), ahead, !is_head && !http_body::Body::is_end_stream(self));
        }
        // The upstream's limits count what the upstream works on, however long the client takes its response.
        let of_upstream = settlement.admissions.take_upstream();
        match &self.content {
            Content::Whole(bytes) => {
                if let Some(hold) = &settlement.hold {
                    hold.in_flight.ended();
                }
                settlement.hold = None;
                settlement.bytes = if is_head { 0 } else { bytes.len() as u64 };
                // hyper does not poll an empty body.
                settlement.is_whole = self.stream.is_some() && (is_head || bytes.is_empty());
                self.unsent = self.stream.is_some().then(|| Box::new(settlement.lease_of(bytes.len())));
            }
            Content::Stream(stream) => {
                stream.hold(settlement.hold.take(), of_upstream.map(|held| held as Box<dyn Send>));
            }
        }
        (self.settlement, self.is_head) = (Some(settlement), is_head);
    }

    /// Whether it is not sent, because the request was HEAD.
    pub(crate) fn is_for_head(&self) -> bool {
        self.is_head
    }

    /// All of the response has been written.
    pub(crate) fn is_handed_over(&mut self) {
        if let Some(settlement) = &mut self.settlement {
            settlement.is_whole = true;
        }
    }

    /// Gives back the slots that the request holds.
    pub(crate) fn release(&mut self) {
        if let Some(settlement) = &mut self.settlement {
            settlement.admissions = Admissions::default();
        }
    }

    /// The whole body, if it does not come from a stream.
    pub(crate) fn take_whole(&mut self) -> Option<Bytes> {
        match &mut self.content {
            Content::Whole(bytes) => Some(std::mem::take(bytes)),
            Content::Stream(_) => None,
        }
    }

    /// The next piece, for HTTP/1 and HTTP/2.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Trouble>>> {
        match &mut self.content {
            Content::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Content::Stream(_) => self.poll_stream(cx),
        }
    }

    /// Reads ahead while the client takes nothing. Returns why the request must end, if another one needs its
    /// connection to the upstream.
    pub(crate) fn poll_ahead(&self, cx: &mut Context<'_>) -> Option<Trouble> {
        match &self.content {
            Content::Whole(_) => None,
            Content::Stream(stream) => stream.poll_ahead(cx),
        }
    }

    fn poll_stream(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Trouble>>> {
        let Content::Stream(stream) = &self.content else { return Poll::Ready(None) };
        let frame = std::task::ready!(stream.poll_piece(cx));
        let Some(settlement) = &mut self.settlement else { return Poll::Ready(frame) };
        match &frame {
            Some(Ok(frame)) => settlement.bytes += frame.data_ref().map_or(0, |data| data.len() as u64),
            Some(Err(trouble)) => settlement.broke_off(trouble, stream.take_hold().as_ref()),
            None => {}
        }
        Poll::Ready(frame.map(|frame| frame.map(without_unfit_trailers)))
    }
}

/// Removes headers that are not permitted in trailers.
fn without_unfit_trailers(frame: Frame<Bytes>) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(trailers) => {
            let copy = |(name, value): (&http::HeaderName, &http::HeaderValue)| (name.clone(), value.clone());
            let kept: HeaderMap = trailers.iter().filter(|(name, _)| is_fit_for_trailers(name)).map(copy).collect();
            Frame::trailers(kept)
        }
        Err(frame) => frame,
    }
}

/// A piece that is sent to an HTTP/2 client. Each byte that is written gives the rest another `write_timeout`: over a
/// slow connection a piece takes long.
pub(crate) struct SendingPiece {
    bytes: Bytes,
    stream: Option<Arc<H2Stream>>,
    /// Of the last piece: the response is complete when it has been sent.
    line: Option<Box<AccessLogLine>>,
    /// The client's connection is not idle until the piece has been sent.
    activity: Option<Arc<Activity>>,
    /// Its memory. Held for its `Drop`.
    _lease: Option<Box<Lease>>,
}

impl Drop for SendingPiece {
    fn drop(&mut self) {
        if let (Some(stream), false) = (&self.stream, self.bytes.is_empty()) {
            stream.piece_dropped();
        }
        if let Some(activity) = &self.activity {
            activity.piece_gone();
        }
    }
}

impl Buf for SendingPiece {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(stream) = &self.stream {
            stream.moved(count);
            if count > 0 && self.bytes.is_empty() {
                stream.piece_taken();
            }
        }
        if let Some(activity) = &self.activity {
            activity.piece_moved(count);
        }
        if let (Some(line), true) = (&mut self.line, self.bytes.is_empty()) {
            line.is_whole = true;
        }
    }
}

/// For HTTP/2. HTTP/1 calls [`Body::poll_piece`].
impl http_body::Body for Body {
    type Data = SendingPiece;
    type Error = Trouble;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<SendingPiece>, Trouble>>> {
        let body = self.get_mut();
        if let Some(stream) = &body.stream {
            stream.wants_more();
        }
        let frame = std::task::ready!(body.poll_piece(cx));
        let has_data = matches!(&frame, Some(Ok(frame)) if frame.data_ref().is_some_and(|data| !data.is_empty()));
        let has_ended = body.is_end_stream() && !matches!(frame, Some(Err(_)));
        let (mut line, mut activity, mut lease) = (None, None, body.unsent.take());
        if let Some(settlement) = &mut body.settlement {
            activity = Some(Arc::clone(settlement.activity())).filter(|_| has_data);
            settlement.is_whole = has_ended && !has_data;
            let bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref().map(Bytes::len));
            lease = lease.or_else(|| bytes.map(|bytes| Box::new(settlement.lease_of(bytes))));
            line = if has_ended && has_data { settlement.line() } else { None };
        }
        if let Some(activity) = &activity {
            activity.piece_taken();
        }
        if let Some(stream) = &body.stream {
            if has_data {
                // From here on the client is late if nothing is sent.
                stream.piece_given();
            }
            if has_ended {
                stream.ended();
            }
        }
        let sending = |bytes| SendingPiece { bytes, stream: body.stream.clone(), line, activity, _lease: lease };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(sending))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Stream(stream) => stream.is_ended(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Stream(stream) => stream.length().map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

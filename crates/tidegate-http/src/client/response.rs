//! A response: its head, and its body as it arrives.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame};

use super::connection::Connection;
use super::exchange::{Exchange, Sending, UploadEnd, Waiting};
use super::response_head::ResponseHead;
use super::trouble::{Failed, Trouble};
use crate::framing::{BodyEnd, Chunked, Piece};
use crate::headers::Headers;
use crate::request::BrokenBody;

/// An upstream's response to a request whose body is a `B`.
pub struct Response<B> {
    /// Its status.
    pub status: StatusCode,
    /// Whether its version is HTTP/1.0.
    pub is_http10: bool,
    /// Its headers, without those that concern the connection.
    pub headers: Headers,
    /// How far the request's body was sent when the head came.
    pub upload: UploadEnd,
    /// What follows.
    pub content: ResponseContent<B>,
}

/// What follows a response's head.
pub enum ResponseContent<B> {
    /// The whole body, which arrived with the head.
    Whole(Bytes),
    /// A body that is still arriving.
    Stream(Box<ResponseStream<B>>),
    /// The connection has switched to this protocol.
    Upgraded(Box<Connection>, Bytes),
}

impl<B: Body<Data = Bytes, Error = BrokenBody> + Unpin> Response<B> {
    /// The response with this head. `upgrade_wanted`: whether the request asked for another protocol.
    pub(super) fn new(mut exchange: Exchange<B>, head: ResponseHead, upgrade_wanted: bool) -> Result<Self, Failed<B>> {
        let ResponseHead { status, headers, body_end, is_http10, keep_alive, upgrade } = head;
        exchange.connection.deadline.clear();
        let upload = exchange.upload_end();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            let Some(protocol) = upgrade.filter(|_| upgrade_wanted) else {
                return Err(exchange.fail(Trouble::BadResponse("it upgrades a request that did not ask for it")));
            };
            let content = ResponseContent::Upgraded(exchange.connection, protocol);
            return Ok(Self { status, is_http10, headers, upload, content });
        }
        if let BodyEnd::Length(length) = body_end
            && length <= exchange.connection.read.len() as u64
        {
            let whole = exchange.connection.read.split_to(length as usize).freeze();
            exchange.end(keep_alive);
            return Ok(Self { status, is_http10, headers, upload, content: ResponseContent::Whole(whole) });
        }
        let mut first = None;
        let rest = match body_end {
            BodyEnd::Length(length) => Rest::Length(length),
            BodyEnd::Chunked => {
                let mut chunked = Chunked::default();
                // What arrived with the head is decoded at once, while the client can still get an error response.
                match chunked.decode(&mut exchange.connection.read) {
                    Ok(piece) => first = Some(piece),
                    Err(reason) => return Err(exchange.fail(Trouble::BadResponse(reason))),
                }
                Rest::Chunked(chunked)
            }
            BodyEnd::Close => Rest::UntilClose,
        };
        exchange.drop_read_body();
        let stream = ResponseStream {
            exchange: Some(exchange),
            rest,
            first,
            keep_alive,
            held_since: None,
            longest_held: Duration::ZERO,
        };
        Ok(Self { status, is_http10, headers, upload, content: ResponseContent::Stream(Box::new(stream)) })
    }
}

/// What is still to come of a response.
enum Rest {
    Length(u64),
    Chunked(Chunked),
    UntilClose,
}

/// A response's body as it arrives.
pub struct ResponseStream<B> {
    /// None when the whole body has been read.
    exchange: Option<Exchange<B>>,
    rest: Rest,
    /// What arrived with the head.
    first: Option<Piece>,
    keep_alive: bool,
    /// Since when nothing is read, because the client takes nothing; and the longest such time that is over.
    held_since: Option<Instant>,
    longest_held: Duration,
}

/// An upstream that ends the connection after it could send nothing for so long may have lost its patience.
const HELD: Duration = Duration::from_secs(1);

impl<B: Body<Data = Bytes, Error = BrokenBody> + Unpin> ResponseStream<B> {
    /// How many bytes are still to come, where that is known.
    pub fn length(&self) -> Option<u64> {
        match self.rest {
            Rest::Length(left) => Some(left),
            Rest::Chunked(_) | Rest::UntilClose => None,
        }
    }

    /// Whether the whole body has been read.
    pub fn is_ended(&self) -> bool {
        self.exchange.is_none()
    }

    /// The next piece.
    pub fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Trouble>>> {
        let Some(exchange) = &mut self.exchange else { return Poll::Ready(None) };
        exchange.is_blocked = false;
        self.longest_held = self.held_since.take().map_or(self.longest_held, |it| it.elapsed().max(self.longest_held));
        loop {
            let mut sending = Sending::Done;
            if !exchange.is_sent() {
                match exchange.poll_send(cx) {
                    Ok(state) => sending = state,
                    Err(trouble) => return self.fail(trouble),
                }
                exchange.drop_read_body();
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
                    Err(reason) => return self.fail(Trouble::BadResponse(reason)),
                },
            };
            match piece {
                Piece::Data(data) => {
                    exchange.connection.deadline.clear();
                    exchange.response_moved(data.len());
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
                Poll::Ready(Ok(0)) => return self.broken(Trouble::Closed),
                Poll::Ready(Ok(_)) => {
                    exchange.moved = true;
                    continue;
                }
                Poll::Ready(Err(error)) => return self.broken(Trouble::Broken(error)),
                Poll::Pending => {}
            }
            // An upstream that responds while it reads the request may wait for the client.
            let waiting = match sending {
                Sending::WaitsForClient => Waiting::Client,
                Sending::Done | Sending::Held | Sending::WaitsForUpstream => Waiting::Response,
            };
            let trouble = exchange.late(waiting, cx);
            return trouble.map_or(Poll::Pending, |trouble| self.fail(trouble));
        }
    }

    /// The client takes nothing more, and no more is read ahead for it: another request may have the connection.
    /// Returns what is wrong once it has been taken away.
    pub fn client_blocks(&mut self, cx: &Context<'_>) -> Option<Trouble> {
        self.held_since.get_or_insert_with(Instant::now);
        let trouble = self.exchange.as_mut()?.client_blocks(cx)?;
        self.exchange = None;
        Some(trouble)
    }

    fn end(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            exchange.end(self.keep_alive);
        }
    }

    /// The connection has ended, which is the upstream's doing unless it was not read for long.
    fn broken(&mut self, trouble: Trouble) -> Poll<Option<Result<Frame<Bytes>, Trouble>>> {
        self.fail(if self.longest_held < HELD { trouble } else { Trouble::ClosedWhileHeld })
    }

    fn fail(&mut self, trouble: Trouble) -> Poll<Option<Result<Frame<Bytes>, Trouble>>> {
        self.exchange = None;
        Poll::Ready(Some(Err(trouble)))
    }
}

//! The body of a request, whatever it comes over.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as _, Frame};
use hyper::body::Incoming;

use crate::h1;

/// The body of a request.
pub(crate) enum RequestBody {
    H1(h1::Incoming),
    H2(Incoming),
}

/// A body that broke off, or is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl RequestBody {
    /// Whether there is nothing (more) to come.
    pub(crate) fn is_ended(&self) -> bool {
        match self {
            Self::H1(body) => body.is_ended(),
            Self::H2(body) => body.is_end_stream(),
        }
    }

    /// The way for interim answers to whoever sent it. HTTP/2 has none: hyper can't send them.
    pub(crate) fn interim(&self) -> Option<h1::Interim> {
        match self {
            Self::H1(body) => Some(body.interim()),
            Self::H2(_) => None,
        }
    }

    /// How long it is, where that is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::H1(body) => body.length(),
            Self::H2(body) => body.size_hint().exact(),
        }
    }

    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self {
            Self::H1(body) => body.poll_frame(cx),
            Self::H2(body) => Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(|_| Broken))),
        }
    }
}

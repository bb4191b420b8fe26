//! Bodies of responses, framed as announced in their heads.

use bytes::Bytes;
use http_body::Frame;

use super::response_head::ResponseFraming;
use crate::framing::{write_end, write_size};

/// How many bytes are gathered before they are written.
pub const GATHERED: usize = 16 * 1024;

/// How far a response's body has been written.
pub struct ResponseBody {
    framing: ResponseFraming,
    /// The client accepts trailers.
    takes_trailers: bool,
    /// A large piece, written by itself after what is gathered.
    pub data: Bytes,
    /// Nothing follows.
    pub has_ended: bool,
    /// The body ended early.
    pub ended_early: bool,
}

impl ResponseBody {
    /// A body that is not yet written. `is_to_head`: nothing of it will be sent.
    pub fn new(framing: ResponseFraming, takes_trailers: bool, is_to_head: bool) -> Self {
        Self { framing, takes_trailers, data: Bytes::new(), has_ended: is_to_head, ended_early: false }
    }

    /// Queues all of a body whose length is in the head.
    pub fn take_whole(&mut self, out: &mut Vec<u8>, whole: Bytes) {
        if !self.has_ended && whole.len() <= GATHERED {
            out.extend_from_slice(&whole);
        } else if !self.has_ended {
            self.data = whole;
        }
        self.has_ended = true;
    }

    /// Queues a piece of the body. `is_last`: whether it is already known that no other follows.
    pub fn take<E>(
        &mut self,
        out: &mut Vec<u8>,
        frame: Option<Result<Frame<Bytes>, E>>,
        is_last: impl FnOnce() -> bool,
    ) {
        let is_chunked = self.framing == ResponseFraming::Chunked;
        let Some(frame) = frame else {
            if is_chunked {
                write_end(out, None);
            }
            self.has_ended = true;
            return;
        };
        let Ok(frame) = frame else {
            // What has arrived is sent, and then the connection ends in the middle of the response: the client sees
            // that it is incomplete.
            (self.has_ended, self.ended_early) = (true, true);
            return;
        };
        match frame.into_data() {
            Ok(data) => {
                if is_chunked && !data.is_empty() {
                    write_size(out, data.len());
                    out.extend_from_slice(&data);
                    out.extend_from_slice(b"\r\n");
                } else if data.len() <= GATHERED {
                    out.extend_from_slice(&data);
                } else {
                    self.data = data;
                }
                self.has_ended = !is_chunked && is_last();
            }
            Err(frame) => {
                if is_chunked {
                    let trailers = frame.into_trailers().ok().filter(|_| self.takes_trailers);
                    write_end(out, trailers.as_ref());
                }
                self.has_ended = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;

    /// What is written for these pieces.
    fn written(framing: ResponseFraming, pieces: Vec<Option<Result<Frame<Bytes>, ()>>>) -> (String, bool, bool) {
        let (mut out, mut body) = (Vec::new(), ResponseBody::new(framing, true, false));
        for piece in pieces {
            assert!(!body.has_ended);
            body.take(&mut out, piece, || false);
        }
        (String::from_utf8(out).expect("text"), body.has_ended, body.ended_early)
    }

    fn data(text: &'static str) -> Frame<Bytes> {
        Frame::data(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn a_body_is_framed_as_its_head_says() {
        let pieces = || vec![Some(Ok(data("hello"))), Some(Ok(data(""))), Some(Ok(data(" world"))), None];
        let chunks = "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n".to_owned();
        assert_eq!(written(ResponseFraming::Chunked, pieces()), (chunks, true, false));
        assert_eq!(written(ResponseFraming::Plain, pieces()), ("hello world".to_owned(), true, false));
        assert_eq!(written(ResponseFraming::UntilClose, pieces()), ("hello world".to_owned(), true, false));
    }

    #[test]
    fn trailers_end_a_body_in_chunks() {
        let trailers = HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("x"))]);
        let pieces = || vec![Some(Ok(data("hello"))), Some(Ok(Frame::trailers(trailers.clone())))];
        let chunks = "5\r\nhello\r\n0\r\netag: x\r\n\r\n".to_owned();
        assert_eq!(written(ResponseFraming::Chunked, pieces()), (chunks, true, false));
        assert_eq!(written(ResponseFraming::Plain, pieces()), ("hello".to_owned(), true, false));
    }

    /// The last chunk would say that the body is whole.
    #[test]
    fn a_body_that_ends_early_has_no_last_chunk() {
        let chunks = "5\r\nhello\r\n".to_owned();
        assert_eq!(
            written(ResponseFraming::Chunked, vec![Some(Ok(data("hello"))), Some(Err(()))]),
            (chunks, true, true)
        );
    }
}

//! Responses over HTTP/1.1, read only as far as an instrument needs: the status, where they end, whether the
//! connection stays.

mod chunks;

use std::time::{Duration, SystemTime};

use chunks::Chunks;
use tidegate_http::framing::{BodyEnd, read_response};
use tidegate_input::retry_after;

/// The longest head that is read.
const LONGEST_HEAD: usize = 65_536;

/// A response that is being read.
#[derive(Debug)]
pub(crate) struct ResponseReader {
    stage: Stage,
    /// The beginning of a head whose end has not come.
    held: Vec<u8>,
    /// To a `HEAD`: no body follows, whatever its head says.
    is_bodiless: bool,
    received: Received,
}

/// What is known of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// Its status.
    pub(crate) status: u16,
    /// Whether the connection may be used again.
    pub(crate) is_kept: bool,
    /// When to come back.
    pub(crate) retry_after: Option<Duration>,
    /// Whether the gateway itself rejects the request.
    pub(crate) is_rejected: bool,
}

/// The header by which a gateway names what rejects a request.
pub(crate) const REJECTED_BY: &str = "x-tidegate-refused-by";

/// Whether the gateway itself has rejected a request, by the status of the response and whether it has that header.
pub(crate) const fn is_rejection(status: u16, has_header: bool) -> bool {
    status >= 400 && has_header
}

#[derive(Debug)]
enum Stage {
    Head,
    Length(u64),
    Chunks(Chunks),
    UntilClose,
}

/// What came is not an HTTP response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotHttp;

/// A body that has begun, or the end.
enum After {
    Body(Stage),
    Whole,
    /// An interim response: another head follows.
    Interim,
}

impl ResponseReader {
    /// To a request, which may have been a `HEAD`.
    pub(crate) fn new(is_to_head: bool) -> Self {
        Self { stage: Stage::Head, held: Vec::new(), is_bodiless: is_to_head, received: Received::default() }
    }

    /// Begins anew, for the next request of the same kind.
    pub(crate) fn reset(&mut self) {
        self.stage = Stage::Head;
        self.held.clear();
    }

    /// Takes what has come. Returns what is known of the response once it is whole.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<Option<Received>, NotHttp> {
        while !bytes.is_empty() {
            let used = match &mut self.stage {
                Stage::Head => match self.head(bytes)? {
                    None => return Ok(None),
                    Some((used, After::Interim)) => used,
                    Some((used, After::Whole)) => return Ok(Some(self.whole(&bytes[used..]))),
                    Some((used, After::Body(stage))) => {
                        self.stage = stage;
                        used
                    }
                },
                Stage::Length(left) => {
                    let used = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= used as u64;
                    if *left == 0 {
                        return Ok(Some(self.whole(&bytes[used..])));
                    }
                    used
                }
                Stage::Chunks(chunks) => {
                    let (used, is_whole) = chunks.feed(bytes)?;
                    if is_whole {
                        return Ok(Some(self.whole(&bytes[used..])));
                    }
                    used
                }
                Stage::UntilClose => bytes.len(),
            };
            bytes = &bytes[used..];
        }
        Ok(None)
    }

    /// The other side has closed: is that the response's end?
    pub(crate) fn end(&self) -> Option<Received> {
        matches!(self.stage, Stage::UntilClose).then_some(Received { is_kept: false, ..self.received })
    }

    /// What comes after the end was not asked for: such a connection is not used again.
    fn whole(&self, rest: &[u8]) -> Received {
        Received { is_kept: self.received.is_kept && rest.is_empty(), ..self.received }
    }

    /// Reads a head, or keeps what has come of it.
    fn head(&mut self, bytes: &[u8]) -> Result<Option<(usize, After)>, NotHttp> {
        if self.held.is_empty() {
            let read = self.read_head(bytes)?;
            if read.is_none() {
                self.held.extend_from_slice(bytes);
            }
            return Ok(read);
        }
        // Most of what comes with the rest of a head may be body: no more is kept than a head can have.
        let before = self.held.len();
        let room = LONGEST_HEAD.saturating_sub(before).min(bytes.len());
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(&bytes[..room]);
        let read = self.read_head(&held)?;
        if read.is_none() {
            self.held = held;
        }
        Ok(read.map(|(used, after)| (used.saturating_sub(before), after)))
    }

    fn read_head(&mut self, bytes: &[u8]) -> Result<Option<(usize, After)>, NotHttp> {
        let read = read_response(bytes, LONGEST_HEAD, self.is_bodiless, |head| {
            let retry_after = head.last("retry-after").and_then(|value| retry_after(value, SystemTime::now()));
            let status = head.status.as_u16();
            let is_rejected = is_rejection(status, head.last(REJECTED_BY).is_some());
            let received = Received { status, is_kept: head.keep_alive, retry_after, is_rejected };
            (head.length, head.body_end, received)
        });
        let Some((used, body_end, received)) = read.map_err(|_| NotHttp)? else { return Ok(None) };
        if (100..200).contains(&received.status) {
            // Nobody has asked for another protocol.
            return if received.status == 101 { Err(NotHttp) } else { Ok(Some((used, After::Interim))) };
        }
        self.received = received;
        let after = match body_end {
            BodyEnd::Length(0) => After::Whole,
            BodyEnd::Length(length) => After::Body(Stage::Length(length)),
            BodyEnd::Chunked => After::Body(Stage::Chunks(Chunks::default())),
            BodyEnd::Close => After::Body(Stage::UntilClose),
        };
        Ok(Some((used, after)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(status: u16, is_kept: bool) -> Received {
        Received { status, is_kept, retry_after: None, is_rejected: false }
    }

    /// Whatever pieces a response comes in, it ends at the same byte.
    #[test]
    fn a_response_may_come_in_any_pieces() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", received(200, true)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", received(200, false)),
            ("HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx", received(200, false)),
            ("HTTP/1.0 200 OK\r\ncontent-length: 1\r\nconnection: Keep-Alive\r\n\r\nx", received(200, true)),
            ("HTTP/1.1 204 No Content\r\n\r\n", received(204, true)),
            ("HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", received(304, true)),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: x\r\n\r\n\
                 HTTP/1.1 404 No\r\ncontent-length: 2\r\n\r\nno",
                received(404, true),
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
                 5;a=\"b\"\r\nhello\r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n",
                received(200, true),
            ),
        ] {
            for size in 1..=text.len() {
                let mut response = ResponseReader::new(false);
                let mut pieces = text.as_bytes().chunks(size).peekable();
                while let Some(piece) = pieces.next() {
                    let fed = response.feed(piece).expect(text);
                    assert_eq!(fed, pieces.peek().is_none().then_some(expected), "{text:?} by {size}");
                }
            }
        }
    }

    /// The head in two pieces, the second with more body than a head may be long.
    #[test]
    fn a_large_body_may_come_with_the_rest_of_a_head() {
        let body = "x".repeat(300_000);
        let text = format!("HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n{body}");
        for cut in [1, 17, 40] {
            let mut response = ResponseReader::new(false);
            assert_eq!(response.feed(&text.as_bytes()[..cut]), Ok(None));
            let rest: Vec<_> = text.as_bytes()[cut..].chunks(65_536).map(|piece| response.feed(piece)).collect();
            assert_eq!(rest.last(), Some(&Ok(Some(received(200, true)))), "cut at {cut}");
            assert!(rest[..rest.len() - 1].iter().all(|fed| *fed == Ok(None)));
        }
        let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(10_000) + "HTTP/1.1 204 No\r\n\r\n";
        let mut response = ResponseReader::new(false);
        let last = interim.as_bytes().chunks(65_536).map(|piece| response.feed(piece)).last();
        assert_eq!(last, Some(Ok(Some(received(204, true)))));
    }

    #[test]
    fn a_response_without_a_length_ends_with_its_connection() {
        let mut response = ResponseReader::new(false);
        assert_eq!(response.feed(b"HTTP/1.1 200 OK\r\n\r\nsome"), Ok(None));
        assert_eq!(response.end(), Some(received(200, false)));
        let mut cut = ResponseReader::new(false);
        assert_eq!(cut.feed(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell"), Ok(None));
        assert_eq!(cut.end(), None);
        assert_eq!(ResponseReader::new(false).end(), None);
    }

    #[test]
    fn a_response_to_head_has_no_body() {
        let mut response = ResponseReader::new(true);
        let text = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n";
        assert_eq!(response.feed(text), Ok(Some(received(200, true))));
        response.reset();
        assert_eq!(response.feed(text), Ok(Some(received(200, true))));
    }

    #[test]
    fn what_nobody_asked_for_ends_the_connection() {
        let mut response = ResponseReader::new(false);
        assert_eq!(
            response.feed(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nOKHTTP/1.1 200"),
            Ok(Some(received(200, false)))
        );
    }

    #[test]
    fn a_server_may_say_when_to_come_back() {
        let mut response = ResponseReader::new(false);
        let read = response.feed(b"HTTP/1.1 429 Too Many\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(read.expect("HTTP").expect("whole").retry_after, Some(Duration::from_secs(7)));
    }

    /// The same status may come from the service behind a gateway.
    #[test]
    fn a_gateway_names_what_rejects_a_request() {
        let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n";
        for (header, is_rejected) in [("", false), ("X-Tidegate-Refused-By: breaker\r\n", true)] {
            let read = ResponseReader::new(false).feed(format!("{head}{header}\r\n").as_bytes());
            assert_eq!(read.expect("HTTP").expect("whole").is_rejected, is_rejected, "{header}");
        }
    }

    #[test]
    fn what_is_not_http_is_rejected() {
        for text in [
            "SSH-2.0-OpenSSH\r\n",
            "HTTP/1.1 abc\r\n\r\n",
            "HTTP/1.1 101 Switching\r\n\r\n",
            "HTTP/1.1 007 Bond\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n11111111111111111\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n",
        ] {
            assert_eq!(ResponseReader::new(false).feed(text.as_bytes()), Err(NotHttp), "{text:?}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "a".repeat(LONGEST_HEAD));
        let mut response = ResponseReader::new(false);
        let fed = endless.as_bytes().chunks(1_000).try_for_each(|piece| response.feed(piece).map(|_| ()));
        assert_eq!(fed, Err(NotHttp));
    }
}

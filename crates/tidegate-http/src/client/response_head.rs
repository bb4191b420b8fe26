//! Heads of responses, taken out of the bytes that were read.

use bytes::{Bytes, BytesMut};
use http::StatusCode;

use crate::framing::{BodyEnd, read_response};
use crate::headers::{Headers, HeadersBuilder};

/// The head of a response.
pub(super) struct ResponseHead {
    pub(super) status: StatusCode,
    /// Without those that concern the connection.
    pub(super) headers: Headers,
    pub(super) body_end: BodyEnd,
    /// Whether its version is HTTP/1.0.
    pub(super) is_http10: bool,
    /// Whether the connection can carry another request.
    pub(super) keep_alive: bool,
    /// The protocol it upgrades to.
    pub(super) upgrade: Option<Bytes>,
}

/// Takes a head out of `read`. None if the head is incomplete. `is_to_head`: the request was HEAD.
pub(super) fn take_response(
    read: &mut BytesMut,
    longest: usize,
    is_to_head: bool,
) -> Result<Option<ResponseHead>, &'static str> {
    let bytes: &[u8] = read;
    let parsed = read_response(bytes, longest, is_to_head, |head| {
        let mut headers = HeadersBuilder::new(bytes, head.count());
        head.passed_on().for_each(|(name, value)| headers.add(name, value));
        let upgrade = head.upgrade.map(Bytes::copy_from_slice);
        (head.length, headers, head.status, head.body_end, head.is_http10, head.keep_alive, upgrade)
    })?;
    Ok(parsed.map(|(length, headers, status, body_end, is_http10, keep_alive, upgrade)| {
        let headers = headers.within(read.split_to(length).freeze());
        ResponseHead { status, headers, body_end, is_http10, keep_alive, upgrade }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(text: &str) -> Result<Option<ResponseHead>, &'static str> {
        take_response(&mut BytesMut::from(text), 4_096, false)
    }

    fn framing(text: &str) -> (BodyEnd, bool) {
        let head = response(text).expect("readable").expect("whole");
        (head.body_end, head.keep_alive)
    }

    #[test]
    fn the_head_of_a_response_says_where_it_ends() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", (BodyEnd::Length(5), true)),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", (BodyEnd::Chunked, true)),
            ("HTTP/1.1 200 OK\r\n\r\n", (BodyEnd::Close, false)),
            ("HTTP/1.1 204 No Content\r\n\r\n", (BodyEnd::Length(0), true)),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", (BodyEnd::Length(0), true)),
            ("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\n", (BodyEnd::Length(5), false)),
            ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", (BodyEnd::Length(5), false)),
            ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n", (BodyEnd::Length(5), true)),
        ] {
            assert_eq!(framing(text), expected, "{text}");
        }
        assert!(response("HTTP/1.1 200 OK\r\nContent-Le").expect("readable").is_none());
    }

    #[test]
    fn an_ambiguous_response_is_rejected() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
            "HTTP/1.1 999999 OK\r\n\r\n",
            "HTTP/2.0 200 OK\r\n\r\n",
            "SSH-2.0-x\r\n\r\n",
        ] {
            assert!(response(text).is_err(), "{text}");
        }
        let long = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(5_000));
        assert!(response(&long).is_err());
        assert!(response(&long[..4_500]).is_err());
    }

    #[test]
    fn what_concerns_the_connection_stays_on_it() {
        let head = response(
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: X-Hop, Content-Length\r\nX-Hop: 1\r\n\
             Keep-Alive: timeout=5\r\nX-Kept: 2\r\n\r\n",
        );
        let headers = head.expect("readable").expect("whole").headers;
        let names: Vec<&[u8]> = headers.iter().map(|(name, _)| name).collect();
        assert_eq!(names, [&b"Content-Length"[..], b"X-Kept"]);
    }
}

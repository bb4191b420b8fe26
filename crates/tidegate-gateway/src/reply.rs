//! An answer before it is put on a connection: what the upstream said, what we add, what follows.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};

use crate::body::Body;
use crate::fields::Fields;
use crate::upstream::Connection;

/// An answer.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    /// What the upstream said, without what concerns its connection.
    pub(crate) fields: Option<Fields>,
    /// What we say.
    pub(crate) lines: Lines,
    pub(crate) body: Body,
    /// The connection speaks another protocol from here on: the upstream's, and what is held meanwhile.
    pub(crate) upgrade: Option<(Box<Connection>, Box<dyn Send>)>,
    /// The request was rejected because its head is not valid.
    pub(crate) is_for_invalid_head: bool,
}

impl Reply {
    pub(crate) fn new(status: StatusCode, body: Body) -> Self {
        Self { status, fields: None, lines: Lines::default(), body, upgrade: None, is_for_invalid_head: false }
    }

    /// The same for HTTP/2.
    pub(crate) fn into_response(mut self) -> Response<Body> {
        let mut headers = HeaderMap::with_capacity(16);
        if let Some(fields) = &self.fields {
            for (name, value) in fields.iter_kept() {
                if self.status == StatusCode::NO_CONTENT && name.eq_ignore_ascii_case(b"content-length") {
                    continue;
                }
                let name = HeaderName::from_bytes(name);
                let value = HeaderValue::from_maybe_shared(value);
                if let (Ok(name), Ok(value)) = (name, value) {
                    headers.append(name, value);
                }
            }
        }
        self.lines.put_into(&mut headers);
        // hyper would send it to whoever asked with HEAD, too.
        if self.body.is_for_head()
            && let Some(unsent) = self.body.take_whole().filter(|unsent| !unsent.is_empty())
        {
            headers.entry(CONTENT_LENGTH).or_insert(unsent.len().into());
        }
        let mut response = Response::new(self.body);
        (*response.status_mut(), *response.headers_mut()) = (self.status, headers);
        response
    }
}

/// Header fields as they stand on an HTTP/1 connection. Most answers go out that way, so they are written only once.
#[derive(Default)]
pub(crate) struct Lines(Vec<u8>);

impl Lines {
    /// Adds a field. Names are ours, in lower case; a value that could end the line is left out.
    pub(crate) fn add(&mut self, name: &str, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        if value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            return;
        }
        self.push(name);
        self.push(": ");
        self.0.extend_from_slice(value);
        self.push("\r\n");
    }

    pub(crate) fn add_number(&mut self, name: &str, value: u64) {
        self.push(name);
        self.push(": ");
        self.push_number(value);
        self.push("\r\n");
    }

    /// Adds a piece of our own: a field, several of them, or a part of one.
    pub(crate) fn push(&mut self, piece: &str) {
        if self.0.capacity() == 0 {
            self.0.reserve(512);
        }
        self.0.extend_from_slice(piece.as_bytes());
    }

    pub(crate) fn push_number(&mut self, number: u64) {
        self.push(itoa::Buffer::new().format(number));
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn put_into(self, headers: &mut HeaderMap) {
        let mut rest = Bytes::from(self.0);
        while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
            let line = rest.split_to(end);
            drop(rest.split_to(2));
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let name = HeaderName::from_bytes(&line[..colon]);
            let value = HeaderValue::from_maybe_shared(line.slice(colon + 2..));
            if let (Ok(name), Ok(value)) = (name, value) {
                headers.append(name, value);
            }
        }
    }
}

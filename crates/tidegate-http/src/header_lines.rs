//! Headers to write. Most responses go out over HTTP/1, so headers are encoded for it at once; for HTTP/2 they are
//! parsed back.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};

/// Headers as HTTP/1 encodes them.
#[derive(Default)]
pub struct HeaderLines(Vec<u8>);

impl HeaderLines {
    /// Adds a header. The name is one of ours, in lower case. A header whose value contains a line end is left out.
    pub fn add(&mut self, name: &str, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        if value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            return;
        }
        self.push(name);
        self.push(": ");
        self.0.extend_from_slice(value);
        self.push("\r\n");
    }

    /// Adds a header whose value is a number.
    pub fn add_number(&mut self, name: &str, value: u64) {
        self.push(name);
        self.push(": ");
        self.push_number(value);
        self.push("\r\n");
    }

    /// Adds encoded text: a header, several of them, or a part of one.
    pub fn push(&mut self, piece: &str) {
        if self.0.capacity() == 0 {
            self.0.reserve(512);
        }
        self.0.extend_from_slice(piece.as_bytes());
    }

    /// Adds the digits of a number.
    pub fn push_number(&mut self, number: u64) {
        self.push(itoa::Buffer::new().format(number));
    }

    /// All of them, each with its line end.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Appends the headers to a map, for HTTP/2.
    pub fn put_into(self, headers: &mut HeaderMap) {
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

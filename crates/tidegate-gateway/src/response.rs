//! A response before it is written to a client's connection: the upstream's headers, our own, the body.

use http::StatusCode;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use tidegate_http::client::Connection;
use tidegate_http::header_lines::HeaderLines;
use tidegate_http::headers::Headers;

use crate::body::Body;

/// A response to a client.
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    /// The upstream's headers, without what concerns its connection.
    pub(crate) headers: Option<Headers>,
    /// Our own headers.
    pub(crate) lines: HeaderLines,
    pub(crate) body: Body,
    /// The connection speaks another protocol from here on.
    pub(crate) upgrade: Option<Upgrade>,
    /// The request was rejected because its head is not valid.
    pub(crate) is_for_invalid_head: bool,
    /// The request was ended because another one needed its connection.
    pub(crate) is_for_evicted: bool,
}

/// A connection that has switched to another protocol.
pub(crate) struct Upgrade {
    /// The connection to the upstream.
    pub(crate) connection: Box<Connection>,
    /// What the request holds until it ends.
    pub(crate) held: Box<dyn Send>,
}

impl Response {
    pub(crate) fn new(status: StatusCode, body: Body) -> Self {
        Self {
            status,
            headers: None,
            lines: HeaderLines::default(),
            body,
            upgrade: None,
            is_for_invalid_head: false,
            is_for_evicted: false,
        }
    }

    /// The same response for hyper, which serves HTTP/2.
    pub(crate) fn into_h2(mut self) -> http::Response<Body> {
        let mut headers = HeaderMap::with_capacity(16);
        if let Some(sent) = &self.headers {
            for (name, value) in sent.iter_kept() {
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
        // hyper would send the body in response to HEAD, too.
        if self.body.is_for_head()
            && let Some(unsent) = self.body.take_whole().filter(|unsent| !unsent.is_empty())
        {
            headers.entry(CONTENT_LENGTH).or_insert(unsent.len().into());
        }
        let mut response = http::Response::new(self.body);
        (*response.status_mut(), *response.headers_mut()) = (self.status, headers);
        response
    }
}

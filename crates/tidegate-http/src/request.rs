//! The head of a request over HTTP/1 or HTTP/2, and what can be wrong with its body.

use http::request::Parts;
use http::{Method, Uri, Version};

use crate::headers::Headers;

/// The head of a request over HTTP/1 or HTTP/2.
pub struct RequestHead {
    /// Its method.
    pub method: Method,
    /// Its target.
    pub uri: Uri,
    /// The version of HTTP that the client uses.
    pub version: Version,
    /// Its headers.
    pub headers: Headers,
}

impl From<Parts> for RequestHead {
    fn from(parts: Parts) -> Self {
        let headers = Headers::from(&parts.headers);
        Self { method: parts.method, uri: parts.uri, version: parts.version, headers }
    }
}

/// What is wrong with a body that ended early or is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenBody(pub &'static str);

impl BrokenBody {
    /// The client left before the end of the body.
    pub const ENDED_EARLY: Self = Self("it ended early");
    /// The body is longer or shorter than its head says.
    pub const LENGTH: Self = Self("its length differs from Content-Length");
}

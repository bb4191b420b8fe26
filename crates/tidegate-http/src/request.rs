//! The head of a request, whatever it came over, and what can be wrong with its body.

use http::request::Parts;
use http::{Method, Uri, Version};

use crate::headers::Headers;

/// The head of a request, whatever it came over.
pub struct RequestHead {
    /// What is asked for.
    pub method: Method,
    /// Of what.
    pub uri: Uri,
    /// What the client speaks.
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

/// A body that broke off, or is not what it should be; what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenBody(pub &'static str);

impl BrokenBody {
    /// The client left before its end.
    pub const OFF: Self = Self("it broke off");
    /// It is longer or shorter than its head says.
    pub const LENGTH: Self = Self("its length is not the one in the head");
}

use http::request::Parts;
use http::{Method, Uri, Version};

use crate::fields::Fields;

/// The head of a request, whatever it came over.
pub(crate) struct RequestHead {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) version: Version,
    pub(crate) fields: Fields,
}

impl From<Parts> for RequestHead {
    fn from(parts: Parts) -> Self {
        let fields = Fields::from(&parts.headers);
        Self { method: parts.method, uri: parts.uri, version: parts.version, fields }
    }
}

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri};
use tidegate_input::is_loopback;

use super::Response;

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, `POST`, …
    pub method: Method,
    /// Its target.
    pub uri: Uri,
    /// Its headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// Who is connected.
    pub peer: SocketAddr,
}

impl Request {
    /// The path of its target.
    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// The rejection, if a page in a browser asks on behalf of its reader: a page from elsewhere, or, at a
    /// listener of the loopback, one whose name has been made to lead here. For everything that changes something.
    pub fn rejection_of_pages(&self, listener: SocketAddr) -> Option<Response> {
        let text = |name: &str| self.headers.get(name).and_then(|value| value.to_str().ok());
        let from_elsewhere = text("sec-fetch-site").is_some_and(|site| !matches!(site, "none" | "same-origin"));
        if from_elsewhere || self.headers.contains_key("origin") {
            return Some(Response::error(StatusCode::FORBIDDEN, "pages in a browser can't use this"));
        }
        let host = self.uri.authority().map(http::uri::Authority::as_str).or(text("host")).unwrap_or_default();
        // No browser leaves it out.
        let is_misled = listener.ip().is_loopback() && !host.is_empty() && !is_loopback(host);
        is_misled.then(|| Response::error(StatusCode::FORBIDDEN, "ask for localhost or the listener's address (Host)"))
    }
}

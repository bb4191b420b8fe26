//! Where a request for the gateway's own endpoints comes from, as far as it tells.

use tidegate_serve::is_loopback;

use crate::fields::text;
use crate::request_head::RequestHead;

/// Whether a proxy says that it sent this on: then whoever connected is not who asks.
pub(crate) fn is_forwarded(request: &RequestHead) -> bool {
    ["forwarded", "via", "x-forwarded-for"].iter().any(|name| request.fields.has(name))
}

/// Whether the host it asks for is this machine. A page whose own name has been made to lead here would ask for that name.
pub(crate) fn is_for_this_machine(request: &RequestHead) -> bool {
    let named = request.fields.get("host").and_then(text);
    let host = request.uri.authority().map(http::uri::Authority::as_str).or(named).unwrap_or_default();
    // No browser leaves it out.
    host.is_empty() || is_loopback(host)
}

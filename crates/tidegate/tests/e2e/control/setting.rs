//! Configurations that many tests share.

use tidegate_testkit::Upstream;

/// A window that no test outlives.
pub(crate) const SEASON: &str = "30d";

/// A limit that no test reaches.
pub(crate) const PLENTY: &str = "{algorithm: fixed, limit: 1000000, window: 30d}";

/// A fixed window that lets through so many, once.
pub(crate) fn once(limit: u64) -> String {
    format!("{{algorithm: fixed, limit: {limit}, window: {SEASON}}}")
}

/// A configuration with this upstream, named `app`, and the rest as given.
pub(crate) fn before(upstream: &Upstream, rest: &str) -> String {
    format!("upstreams: {{app: {{url: \"http://{}\"}}}}\n{rest}\n", upstream.address)
}

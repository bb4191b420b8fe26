//! Paths that the gateway serves itself.

/// Whether a path is one of the gateway's own.
pub(crate) fn is_local(path: &str) -> bool {
    path.starts_with("/config/") || path.starts_with("/actuator/") || path == "/reload"
}

//! Paths that the gateway serves itself.

/// Whether the gateway serves this path itself.
pub(crate) fn is_local(path: &str) -> bool {
    path.starts_with("/config/") || path.starts_with("/actuator/") || path == "/reload"
}

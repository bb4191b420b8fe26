//! The store against real Redis servers.

mod differential;
mod server;
#[path = "../../../tidegate-policy/tests/laws/walk.rs"]
mod walk;

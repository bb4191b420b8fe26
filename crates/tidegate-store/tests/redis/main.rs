//! The store against real Redis servers.

#[path = "../../../tidegate/tests/support/authority.rs"]
#[allow(dead_code, reason = "the gateway's tests use all of it")]
mod authority;
mod cluster;
mod council;
mod differential;
mod document;
mod exact;
mod failure;
mod lease_laws;
mod leased;
mod race;
mod secure;
mod sentinel;
mod server;
mod setup;
mod stand_in;
mod tls;

#[path = "../../../tidegate-policy/tests/laws/oracle.rs"]
#[allow(dead_code, reason = "shared with the laws of the policy crate, which use more of it")]
mod oracle;
#[path = "../../../tidegate-policy/tests/laws/walk.rs"]
mod walk;

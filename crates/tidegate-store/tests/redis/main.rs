//! The store against real Redis servers.

mod cluster;
mod differential;
mod document;
mod election;
mod election_laws;
mod exact;
mod failure;
mod lease_laws;
mod leased;
mod race;
mod sentinel;
mod setup;
mod stand_in;
mod tls;

//! HTTP/2, TLS, upgrades, long bodies and many connections, as clients and upstreams see them.

#[path = "../support/authority.rs"]
mod authority;
mod depot;
mod footprint;
mod frames;
mod h2_attacks;
#[path = "../support/harness.rs"]
mod harness;
mod http2;
mod idle;
mod own_answers;
mod pattern;
mod session;
mod streaming;
mod tls_upstream;
mod transfer;
mod upgrade;

//! HTTP/2, TLS, upgrades, long bodies and many connections, as clients and upstreams see them.

mod crowding;
mod depot;
mod evasion;
mod few_files;
mod footprint;
mod h2_attacks;
mod h2_floods;
mod h2_malformed;
mod http2;
mod idle;
mod open_files;
mod own_responses;
mod pattern;
pub(crate) mod session;
mod stalled;
mod streaming;
mod tls_upstream;
mod transfer;
mod turns;
mod upgrade;

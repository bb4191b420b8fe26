//! HTTP/1 on the wire, both sides: what comes in, what goes on, what happens when either side misbehaves.

mod ambiguity;
mod cancellation;
mod heads;
mod hop_by_hop;
mod judge;
pub(crate) mod origin;
mod proxying;
mod slowness;
mod targets;
mod unread;
mod upstream_trouble;

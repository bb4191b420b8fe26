//! The facts about a request that keys of limits are made of.

use std::net::IpAddr;

use tidegate_http::headers::Headers;

use crate::identity::Caller;

/// The facts about a request that keys of limits are made of.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// The client's address, IPv4-mapped ones as IPv4.
    pub(crate) ip: IpAddr,
    pub(crate) caller: &'a Caller,
    /// The caller's tier, or the default one.
    pub(crate) tier: &'a str,
    /// The route's name.
    pub(crate) route: &'a str,
    /// The path in its normal form.
    pub(crate) path: &'a str,
    /// The upstream's name.
    pub(crate) upstream: &'a str,
    pub(crate) method: &'a str,
    /// Without port.
    pub(crate) host: &'a [u8],
    pub(crate) headers: &'a Headers,
}

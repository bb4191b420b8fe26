//! A client's connection: the peer, the listener, what happens on it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tidegate_http::activity::Activity;
use tidegate_http::forwarded;
use tidegate_http::share::AddressShare;

/// A client's connection, as its requests see it.
pub(crate) struct Client {
    /// The address that connected; IPv4-mapped addresses as IPv4.
    pub(crate) peer: IpAddr,
    /// The peer as text, for `X-Forwarded-For` …
    pub(crate) peer_text: Box<str>,
    /// … and for `Forwarded`.
    pub(crate) peer_forwarded: Box<str>,
    /// The address of the listener.
    pub(crate) listener: SocketAddr,
    pub(crate) scheme: &'static str,
    /// Whether it connected to the admin listener.
    pub(crate) is_admin: bool,
    /// What its connection waits for, and until when.
    pub(crate) activity: Arc<Activity>,
    /// What its address holds. `None` for trusted proxies and on the admin listener.
    pub(crate) share: Option<Arc<AddressShare>>,
}

impl Client {
    pub(crate) fn new(
        peer: IpAddr,
        listener: SocketAddr,
        is_tls: bool,
        is_admin: bool,
        activity: Arc<Activity>,
        share: Option<Arc<AddressShare>>,
    ) -> Self {
        let peer = peer.to_canonical();
        Self {
            peer,
            peer_text: peer.to_string().into(),
            peer_forwarded: forwarded::node_of(peer).into(),
            listener,
            scheme: if is_tls { "https" } else { "http" },
            is_admin,
            activity,
            share,
        }
    }
}

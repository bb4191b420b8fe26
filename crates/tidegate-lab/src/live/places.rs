//! Where the services of a run listen.

use std::net::{Ipv4Addr, SocketAddr};

/// Where each of them listens. By default on free ports of the loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// What is protected.
    pub target: SocketAddr,
    /// What protects it.
    pub gateway: SocketAddr,
    /// What tells it of the load to come.
    pub forecaster: SocketAddr,
}

impl Default for Places {
    fn default() -> Self {
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self { target: anywhere, gateway: anywhere, forecaster: anywhere }
    }
}

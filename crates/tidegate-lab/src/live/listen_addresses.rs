//! Where the services of a run listen.

use std::net::{Ipv4Addr, SocketAddr};

/// The address of each. By default free ports of the loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddresses {
    /// The protected service.
    pub target: SocketAddr,
    /// The gateway before it.
    pub gateway: SocketAddr,
    /// Forecasts the load for the gateway.
    pub forecaster: SocketAddr,
}

impl Default for ListenAddresses {
    fn default() -> Self {
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self { target: anywhere, gateway: anywhere, forecaster: anywhere }
    }
}

//! The load generator as a service, beside the others.

use std::net::SocketAddr;

use tidegate_load::service::{AllowedHosts, Plans, Settings};
use tidegate_serve::Log;

use super::hosted::{Hosted, listening};

/// The load generator's service, which sends to this machine alone. It ends with its drop.
pub struct LoadService {
    _hosted: Hosted,
}

impl LoadService {
    /// Starts it. An error says why that is not possible.
    pub fn start(address: SocketAddr, log: &Log) -> Result<Self, String> {
        let log = log.clone();
        let hosted = Hosted::start("load service", move |stop, ready| async move {
            let settings = Settings { hosts: AllowedHosts(Vec::new()), plans: Plans(None), ca: None };
            if let Some((settings, listener)) = listening(Ok(settings), address, &ready).await {
                let _served = tidegate_load::service::run(listener, settings, log, stop).await;
            }
        })?;
        Ok(Self { _hosted: hosted })
    }
}

//! Everything that a live run needs: target, gateway, and where the scenario asks for it Redis and a forecaster. All of
//! it ends with its drop.

use std::net::SocketAddr;

use tidegate_forecast::Policy;
use tidegate_forecast::service::{Service as Forecasts, Settings as ForecastSettings};
use tidegate_gateway::Server;
use tidegate_gateway::config;
use tidegate_gateway::settings::Settings;
use tidegate_serve::Log;

use super::hosted::{Hosted, listening};
use super::listen_addresses::ListenAddresses;
use super::live_target::LiveTarget;
use super::relay::Relay;
use super::shared_store::SharedStore;
use crate::gateway_config::{Addresses, config_text};
use crate::scenario::{FaultKind, Scenario, Variant};
use crate::target::Faults;

/// What serves a run. In the order in which it is to end.
pub struct Platform {
    /// Where the load goes, if it goes over a line that can be slow.
    pub(super) line: Option<Relay>,
    pub(super) gateway: Hosted,
    pub(super) forecaster: Option<Hosted>,
    pub(super) targets: Vec<LiveTarget>,
    pub(super) redis_line: Option<Relay>,
    pub(super) store: Option<SharedStore>,
    /// How the forecaster advises, and where the gateway looks for it.
    advised: Option<(Policy, SocketAddr)>,
    log: Log,
}

impl Platform {
    /// Starts all that the scenario asks for, at these addresses. An error says what could not be started; nothing else
    /// is left running then.
    pub fn start(
        scenario: &Scenario,
        variant: Variant,
        addresses: &ListenAddresses,
        log: &Log,
    ) -> Result<Self, String> {
        let store = variant.algorithm.and_then(|_| SharedStore::start(scenario.store).transpose()).transpose()?;
        let redis_line = store.as_ref().map(|store| Relay::to(store.address())).transpose()?;
        let targets = LiveTarget::start_all(scenario, addresses.target, log)?;
        let policy = scenario.policy().filter(|_| variant.adaptation);
        let forecaster = policy.map(|policy| start_forecaster(policy, addresses.forecaster, log)).transpose()?;
        let addresses = Addresses {
            gateway: addresses.gateway,
            targets: targets.iter().map(LiveTarget::entrance).collect(),
            redis: redis_line.as_ref().map(Relay::address),
            forecaster: forecaster.as_ref().map(|forecaster| forecaster.address),
        };
        let gateway = start_gateway(&config_text(scenario, variant, &addresses)?, log)?;
        let is_slowed = scenario.faults.iter().any(|fault| matches!(fault.kind, FaultKind::GatewaySlow(_)));
        let line = is_slowed.then(|| Relay::to(gateway.address)).transpose()?;
        let advised = policy.zip(addresses.forecaster);
        Ok(Self { line, gateway, forecaster, targets, redis_line, store, advised, log: log.clone() })
    }

    /// Where the load goes.
    pub(super) fn entrance(&self) -> SocketAddr {
        self.line.as_ref().map_or(self.gateway.address, Relay::address)
    }

    /// Where the gateway looks for the forecaster, if it does.
    pub(super) fn forecaster_address(&self) -> Option<SocketAddr> {
        self.advised.map(|(_, address)| address)
    }

    /// A fault begins or ends.
    pub(super) fn fault(&mut self, kind: FaultKind, begins: bool) -> Result<(), String> {
        let delay = |delay| if begins { delay } else { std::time::Duration::ZERO };
        match kind {
            FaultKind::RedisKilled => match &mut self.store {
                Some(store) if begins => store.kill(),
                Some(store) => store.restart()?,
                None => {}
            },
            FaultKind::RedisHangs => match (&self.store, &self.redis_line) {
                (Some(SharedStore::StandIn(stand_in)), _) => stand_in.hang(begins),
                (Some(SharedStore::Redis(_)), Some(line)) => line.freeze(begins),
                (Some(SharedStore::Redis(_)), None) | (None, _) => {}
            },
            FaultKind::RedisSlow(by) => {
                if let Some(line) = &self.redis_line {
                    line.slow_down(delay(by));
                }
            }
            FaultKind::GatewaySlow(by) => {
                if let Some(line) = &self.line {
                    line.slow_down(delay(by));
                }
            }
            FaultKind::ForecasterKilled => self.kill_forecaster(begins)?,
            FaultKind::Target(faults) => {
                let faults = if begins { faults } else { Faults::default() };
                self.targets.iter().try_for_each(|target| target.set_faults(&faults))?;
            }
            FaultKind::Faulty(index, faults) => {
                self.targets[index].set_faults(&if begins { faults } else { Faults::default() })?;
            }
            FaultKind::Kill(index) => self.targets[index].kill(begins)?,
            FaultKind::Freeze(index) => self.targets[index].freeze(begins),
            FaultKind::Slow(index, factor) => {
                let slowness = if begins { factor } else { 1.0 };
                self.targets[index].set_faults(&Faults { slowness, ..Faults::default() })?;
            }
        }
        Ok(())
    }

    fn kill_forecaster(&mut self, begins: bool) -> Result<(), String> {
        let Some((policy, address)) = self.advised else { return Ok(()) };
        if begins {
            self.forecaster = None;
        } else if self.forecaster.is_none() {
            self.forecaster = Some(start_forecaster(policy, address, &self.log)?);
        }
        Ok(())
    }
}

fn start_gateway(text: &str, log: &Log) -> Result<Hosted, String> {
    let config = config::parse(text).map_err(|error| format!("the gateway's configuration: {error}"))?;
    let log = log.clone();
    Hosted::start("gateway", move |stop, ready| async move {
        let settings = match Settings::check(&config) {
            Ok(settings) => settings,
            Err(error) => return drop(ready.send(Err(error.to_string()))),
        };
        let again = config.clone();
        let server = match Server::bind(settings, Box::new(move || Ok(again.clone())), log).await {
            Ok(server) => server,
            Err(error) => return drop(ready.send(Err(error.to_string()))),
        };
        let address = server.addresses().first().and_then(|url| url.strip_prefix("http://")?.parse().ok());
        let _heard = ready.send(address.ok_or_else(|| "it listens nowhere".to_owned()));
        // How it ends does not matter any more.
        let _served = server.run(stop).await;
    })
}

fn start_forecaster(policy: Policy, address: SocketAddr, log: &Log) -> Result<Hosted, String> {
    let log = log.clone();
    Hosted::start("forecaster", move |stop, ready| async move {
        let service = Forecasts::new(ForecastSettings { policy, state: None });
        if let Some((service, listener)) = listening(service, address, &ready).await {
            let _served = service.run(listener, log, stop).await;
        }
    })
}

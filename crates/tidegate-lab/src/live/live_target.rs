//! One target of a live run. Where it is to be killed or frozen, the gateway reaches it over a line that is cut or
//! stands still: the target itself would end what is in flight in an orderly way.

use std::net::{Ipv4Addr, SocketAddr};

use tidegate_serve::Log;

use super::hosted::{Hosted, listening};
use super::http_client::post;
use super::relay::Relay;
use crate::scenario::{FaultKind, Scenario, TargetModel};
use crate::target::{self, Faults, Target, Work};

pub(super) struct LiveTarget {
    hosted: Hosted,
    line: Line,
}

/// How the gateway reaches a target.
enum Line {
    Direct,
    Relayed(Relay),
    /// Cut; it was at this address.
    Cut(SocketAddr),
}

impl LiveTarget {
    /// Starts all targets of a scenario, the first at this address.
    pub(super) fn start_all(scenario: &Scenario, first: SocketAddr, log: &Log) -> Result<Vec<Self>, String> {
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let addresses = std::iter::once(first).chain(std::iter::repeat(anywhere));
        let models = scenario.targets.iter().enumerate().zip(addresses);
        models.map(|((index, model), address)| Self::start(scenario, index, model, address, log)).collect()
    }

    fn start(
        scenario: &Scenario,
        index: usize,
        model: &TargetModel,
        address: SocketAddr,
        log: &Log,
    ) -> Result<Self, String> {
        let settings = target::Settings {
            service_time: model.service_time,
            contention: model.contention,
            work: Work::Sleep,
            workers: model.workers,
            queue: model.queue,
            seed: scenario.seed.wrapping_add(index as u64),
        };
        let log = log.clone();
        let hosted = Hosted::start("target", move |stop, ready| async move {
            let target = Target::start(&settings, log, stop).map_err(|error| error.to_string());
            if let Some((target, listener)) = listening(target, address, &ready).await {
                let _served = target.serve(listener).await;
            }
        })?;
        let needs_line = |kind: FaultKind| kind == FaultKind::Kill(index) || kind == FaultKind::Freeze(index);
        let line = if scenario.faults.iter().any(|fault| needs_line(fault.kind)) {
            Line::Relayed(Relay::to(hosted.address)?)
        } else {
            Line::Direct
        };
        Ok(Self { hosted, line })
    }

    /// Where the target itself is.
    pub(super) fn address(&self) -> SocketAddr {
        self.hosted.address
    }

    /// Where the gateway reaches it.
    pub(super) fn entrance(&self) -> SocketAddr {
        match &self.line {
            Line::Direct => self.hosted.address,
            Line::Relayed(relay) => relay.address(),
            Line::Cut(address) => *address,
        }
    }

    /// Switches its faults.
    pub(super) fn set_faults(&self, faults: &Faults) -> Result<(), String> {
        let is_accepted = post(self.hosted.address, "/faults", &faults.to_json(None).to_string());
        if is_accepted { Ok(()) } else { Err("the target does not accept its faults".to_owned()) }
    }

    /// Cuts its line: connections end, and new ones are refused. Or mends it.
    pub(super) fn kill(&mut self, begins: bool) -> Result<(), String> {
        let address = self.entrance();
        self.line = if begins { Line::Cut(address) } else { Line::Relayed(Relay::at(address, self.hosted.address)?) };
        Ok(())
    }

    /// Lets nothing pass in either way, or lets it again.
    pub(super) fn freeze(&self, begins: bool) {
        match &self.line {
            Line::Relayed(relay) => relay.freeze(begins),
            Line::Direct | Line::Cut(_) => {}
        }
    }
}

//! The limit under test.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tidegate_gateway::config;
use tidegate_gateway::settings::Settings;
use tidegate_gateway::{PastRequest, Replayer, Verdict};
use tidegate_policy::Timestamp;

use super::START;
use super::pilot::Steered;
use crate::gateway_config::{LIMIT, config_text, nowhere};
use crate::rounding::whole;
use crate::scenario::{Scenario, Variant, burst_of};

/// The limit under test: the gateway's own decisions, with the configuration that a live run would have.
pub(super) struct Limit {
    gateway: Replayer<()>,
    /// What clients request.
    path: String,
    is_per_client: bool,
    /// How many the exact definition admits in one of its windows.
    quota: f64,
    window: f64,
    /// How many more the algorithm is meant to admit.
    pub(super) burst: f64,
    /// What was allowed before, and until when that may still be seen in a window.
    before: (f64, u64),
}

impl Limit {
    pub(super) fn new(scenario: &Scenario, variant: Variant) -> Option<Self> {
        let (setting, algorithm) = (scenario.limit?, variant.algorithm?);
        let config = config::parse(&config_text(scenario, variant, &nowhere(scenario)).ok()?).ok()?;
        let gateway = Replayer::new(Settings::check(&config).ok()?, &BTreeMap::new()).ok()?;
        let (quota, window, burst) = (setting.quota(), setting.window, burst_of(algorithm, setting.burst));
        let (path, is_per_client) = (scenario.plan.request.path.clone(), setting.is_per_client);
        Some(Self { gateway, path, is_per_client, quota, window, burst, before: (0.0, 0) })
    }

    pub(super) fn key(&self, (group, client): (usize, u64)) -> u64 {
        if self.is_per_client { (group as u64) << 40 | client } else { 0 }
    }

    /// How long a request from this address waits before it is sent on; `None` if it is rejected.
    pub(super) fn check(&mut self, ip: IpAddr, now: u64) -> Option<Duration> {
        let (at, path) = (Timestamp::from_nanos(START + now), path_only(&self.path));
        let past =
            PastRequest { at, ip, method: "GET", host: "", path, user: None, tier: None, headers: &[], took: None };
        let (mut wait, mut is_judged) = (None, false);
        self.gateway.judge(&past, (), |(), judgement| {
            is_judged = true;
            match judgement.verdict {
                Verdict::Admitted { wait: delay } => wait = Some(delay),
                Verdict::Rejected { .. } | Verdict::NoKey { .. } | Verdict::NoRoute | Verdict::Local => {}
            }
        });
        // A judgement comes later only if an upstream's limits follow a shaper's wait. Scenarios have no such limits.
        debug_assert!(is_judged, "a request whose judgement comes later would count as rejected");
        wait
    }

    /// Changes the numbers and keeps the counts.
    pub(super) fn change(&mut self, steered: Steered, now: u64) {
        let algorithm = steered.numbers.algorithm();
        let set = self.gateway.set_numbers(LIMIT, steered.numbers, Timestamp::from_nanos(START + now));
        set.expect("the pilot only wants numbers that make a rule");
        self.before = (self.allowed(now), now + (self.window * 1e9) as u64);
        self.quota = whole(steered.rate * self.window);
        self.burst = burst_of(algorithm, steered.quota);
    }

    /// What a window that ends now may have: what was admitted before a limit was lowered was not too many.
    pub(super) fn allowed(&self, now: u64) -> f64 {
        let (before, until) = self.before;
        if now < until { self.quota.max(before) } else { self.quota }
    }

    /// Forgets the counts.
    pub(super) fn forget(&mut self, now: u64) {
        self.gateway.forget(Timestamp::from_nanos(START + now)).expect("the numbers in force make a rule");
    }
}

/// A request's target without its query.
pub(super) fn path_only(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}

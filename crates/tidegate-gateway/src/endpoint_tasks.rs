//! What keeps endpoints up to date while the gateway runs: addresses of host names, and checks of health. It runs on
//! the main runtime; workers only read the result.

mod health_check;

use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use self::health_check::check;
use crate::endpoints::{Member, Pool};
use crate::gateway::Gateway;
use crate::names::{NameWatch, Names};
use crate::plan::{Plan, Site};
use crate::settings::{HealthCheckSettings, UpstreamSettings};
use crate::upstream::Upstream;

/// The most checks of one upstream at once.
const MOST_CHECKS: usize = 64;

/// Names that are looked up for a configuration that is not in force yet.
pub(crate) struct Lookups(Vec<NameWatch>);

impl Lookups {
    /// Looks up all names of these upstreams, and waits for the results, but not for long: a gateway must start, and
    /// reload, without a name server too.
    pub(crate) async fn of(names: &Names, upstreams: &[UpstreamSettings], patience: Duration) -> Self {
        let hosts = upstreams.iter().flat_map(|upstream| &upstream.endpoints).map(|entry| &entry.host);
        let mut watches: Vec<NameWatch> = Vec::new();
        for host in hosts.filter(|host| host.parse::<IpAddr>().is_err()) {
            if let (false, Ok(watch)) =
                (watches.iter().any(|known| known.host().eq_ignore_ascii_case(host)), names.watch(host))
            {
                watches.push(watch);
            }
        }
        let until = Instant::now() + patience;
        for watch in &mut watches {
            watch.first(until.saturating_duration_since(Instant::now())).await;
        }
        Self(watches)
    }

    /// Gives a plan the addresses that were found.
    pub(crate) fn apply(&self, plan: &Plan, now: tidegate_policy::Timestamp) {
        for upstream in &plan.site.upstreams {
            for (index, host) in upstream.endpoints.names() {
                if let Some(watch) = self.0.iter().find(|watch| watch.host().eq_ignore_ascii_case(host)) {
                    upstream.endpoints.resolved(index, &watch.addresses(), now);
                    upstream.endpoints.keep(watch.clone());
                }
            }
        }
    }
}

/// Runs the tasks of the endpoints of each plan that comes into force. Those of an earlier one end by themselves.
pub(crate) async fn run(gateway: Arc<Gateway>) {
    let mut in_force: Weak<Site> = Weak::new();
    loop {
        let replaced = gateway.replanned.notified();
        let site = Arc::clone(&gateway.plan().site);
        if !in_force.upgrade().is_some_and(|known| Arc::ptr_eq(&known, &site)) {
            in_force = Arc::downgrade(&site);
            site.upstreams.iter().for_each(|upstream| start(&gateway, upstream));
        }
        drop(site);
        replaced.await;
    }
}

fn start(gateway: &Arc<Gateway>, upstream: &Arc<Upstream>) {
    for (index, host) in upstream.endpoints.names() {
        match gateway.names.watch(host) {
            Ok(watch) => {
                tokio::spawn(follow_name(Arc::clone(gateway), Arc::downgrade(upstream), index, watch));
            }
            Err(error) => gateway.log.error("Names", format_args!("{host} is not looked up: {error}")),
        }
    }
    if let Some(settings) = &upstream.health_check {
        tokio::spawn(check_health(Arc::clone(gateway), Arc::downgrade(upstream), Arc::clone(settings)));
    } else {
        let (pool, now) = (upstream.endpoints.pool(), gateway.now());
        // What checks of an earlier configuration found counts no more.
        for index in 0..pool.members.len() {
            pool.balancer.forget_checks(index, now);
        }
    }
}

/// Puts the addresses of a name in force, as often as they change.
async fn follow_name(gateway: Arc<Gateway>, upstream: Weak<Upstream>, index: usize, mut watch: NameWatch) {
    let mut addresses = watch.addresses();
    while let Some(upstream) = upstream.upgrade() {
        upstream.endpoints.resolved(index, &addresses, gateway.now());
        drop(upstream);
        addresses = watch.changed().await;
    }
}

/// Checks all endpoints again and again, as long as their upstream is in force.
async fn check_health(gateway: Arc<Gateway>, upstream: Weak<Upstream>, settings: Arc<HealthCheckSettings>) {
    let mut next = Instant::now();
    loop {
        let mut checks: JoinSet<(Arc<Member>, bool)> = JoinSet::new();
        let members = match upstream.upgrade() {
            Some(upstream) => upstream.endpoints.pool().members.to_vec(),
            None => return,
        };
        for member in members {
            if checks.len() >= MOST_CHECKS {
                note_check(&gateway, &upstream, checks.join_next().await);
            }
            let settings = Arc::clone(&settings);
            checks.spawn(async move {
                let passed = check(&member, &settings).await;
                (member, passed)
            });
        }
        while let Some(checked) = checks.join_next().await {
            note_check(&gateway, &upstream, Some(checked));
        }
        // Not from the end of the last: slow checks do not make later ones late.
        next = (next + settings.interval).max(Instant::now());
        tokio::time::sleep_until(next).await;
    }
}

fn note_check(
    gateway: &Gateway,
    upstream: &Weak<Upstream>,
    checked: Option<Result<(Arc<Member>, bool), tokio::task::JoinError>>,
) {
    let (Some(Ok((member, passed))), Some(upstream)) = (checked, upstream.upgrade()) else { return };
    let pool = upstream.endpoints.pool();
    let Some(index) = index_of(&pool, &member) else { return };
    if let Some(change) = pool.balancer.checked(index, passed, gateway.now()) {
        gateway.note_endpoint_change(&upstream.name, &pool, change);
    }
}

/// Where an endpoint is in the pool in force, which may not have it any more.
fn index_of(pool: &Pool, member: &Member) -> Option<usize> {
    pool.members.iter().position(|other| Arc::ptr_eq(&other.state, &member.state))
}

/// To be called once a second: returns endpoints whose time is up, and compares success rates.
pub(crate) fn step(gateway: &Gateway) {
    let now = gateway.now();
    for upstream in &gateway.plan().site.upstreams {
        let pool = upstream.endpoints.pool();
        for change in pool.balancer.step(now) {
            gateway.note_endpoint_change(&upstream.name, &pool, change);
        }
    }
}

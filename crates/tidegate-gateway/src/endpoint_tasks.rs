//! What keeps endpoints up to date while the gateway runs: addresses of host names, and checks of health. It runs on
//! the main runtime; workers only read the result.

mod health_check;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
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

/// The most checks of one upstream at once, those that wait for their turn included, where so many of all upstreams may
/// be made: one whose endpoints do not respond must not hold up the checks of the others.
fn most_checks_of_one(most_of_all: usize) -> usize {
    (most_of_all / 2).max(1)
}

/// Names that are looked up for a configuration that is not in force yet.
pub(crate) struct Lookups(HashMap<String, NameWatch>);

impl Lookups {
    /// Looks up all names of these upstreams, and waits for the results, but not for long: a gateway must start, and
    /// reload, without a name server too.
    pub(crate) async fn of(names: &Names, upstreams: &[UpstreamSettings], patience: Duration) -> Self {
        let hosts = upstreams.iter().flat_map(|upstream| &upstream.endpoints).map(|entry| &entry.host);
        let mut watches: HashMap<String, NameWatch> = HashMap::new();
        for host in hosts.filter(|host| host.parse::<IpAddr>().is_err()) {
            if let Entry::Vacant(vacant) = watches.entry(host.to_ascii_lowercase())
                && let Ok(watch) = names.watch(host)
            {
                vacant.insert(watch);
            }
        }
        let until = Instant::now() + patience;
        for watch in watches.values_mut() {
            watch.first(until.saturating_duration_since(Instant::now())).await;
        }
        Self(watches)
    }

    /// Gives a plan the addresses that were found.
    pub(crate) fn apply(&self, plan: &Plan, now: tidegate_policy::Timestamp) {
        for upstream in &plan.site.upstreams {
            let endpoints = &upstream.endpoints;
            let watch = |host: &str| self.0.get(&host.to_ascii_lowercase());
            let watched: Vec<(usize, &NameWatch)> =
                endpoints.names().filter_map(|(index, host)| Some((index, watch(host)?))).collect();
            // All at once: an upstream may have a thousand names.
            let found: Vec<_> = watched.iter().map(|(index, watch)| (*index, watch.addresses())).collect();
            endpoints.resolved(&found, now);
            for (_, watch) in watched {
                endpoints.keep(watch.clone());
            }
        }
    }
}

/// Runs the tasks of the endpoints in force. When a reload replaces those, their tasks have ended before others begin:
/// what is known of an endpoint is shared, and only the configuration in force may decide about it.
pub(crate) async fn run(gateway: Arc<Gateway>) {
    let mut tasks = JoinSet::new();
    let mut in_force: Weak<Site> = Weak::new();
    loop {
        let replaced = gateway.replanned.notified();
        let site = Arc::clone(&gateway.plan().site);
        if !in_force.upgrade().is_some_and(|known| Arc::ptr_eq(&known, &site)) {
            tasks.shutdown().await;
            in_force = Arc::downgrade(&site);
            site.upstreams.iter().for_each(|upstream| start(&gateway, upstream, &mut tasks));
        }
        drop(site);
        replaced.await;
    }
}

fn start(gateway: &Arc<Gateway>, upstream: &Arc<Upstream>, tasks: &mut JoinSet<()>) {
    for (index, host) in upstream.endpoints.names() {
        match gateway.names.watch(host) {
            Ok(watch) => {
                tasks.spawn(follow_name(Arc::clone(gateway), Arc::clone(upstream), index, watch));
            }
            Err(error) => gateway.log.error("Names", format_args!("{host} is not looked up: {error}")),
        }
    }
    upstream.endpoints.release_watches();
    if let Some(settings) = &upstream.health_check {
        tasks.spawn(check_health(Arc::clone(gateway), Arc::clone(upstream), Arc::clone(settings)));
    } else {
        upstream.endpoints.pool().forget_all_checks(gateway.now());
    }
}

/// Puts the addresses of a name in force, as often as they change.
async fn follow_name(gateway: Arc<Gateway>, upstream: Arc<Upstream>, index: usize, mut watch: NameWatch) {
    let mut addresses = watch.addresses();
    loop {
        upstream.endpoints.resolved(&[(index, addresses)], gateway.now());
        addresses = watch.changed().await;
    }
}

/// The end of a check: which endpoint, at which index it was, and why it failed, if it did. An error if it was not
/// made.
struct Checked {
    member: Arc<Member>,
    index: usize,
    found: io::Result<Result<(), String>>,
}

/// Checks all endpoints again and again.
async fn check_health(gateway: Arc<Gateway>, upstream: Arc<Upstream>, settings: Arc<HealthCheckSettings>) {
    let mut next = Instant::now();
    loop {
        let mut checks: JoinSet<Checked> = JoinSet::new();
        let members = upstream.endpoints.pool().members.to_vec();
        for (index, member) in members.into_iter().enumerate() {
            if checks.len() >= most_checks_of_one(gateway.most_checks) {
                note_check(&gateway, &upstream, checks.join_next().await);
            }
            let (gateway, settings) = (Arc::clone(&gateway), Arc::clone(&settings));
            checks.spawn(async move {
                let _turn = gateway.checks.acquire().await;
                let found = check(&member, &settings).await;
                Checked { member, index, found }
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

fn note_check(gateway: &Gateway, upstream: &Upstream, checked: Option<Result<Checked, tokio::task::JoinError>>) {
    let Some(Ok(Checked { member, index, found })) = checked else { return };
    let found = match found {
        Ok(found) => found,
        Err(error) => return gateway.note_unchecked(&upstream.name, &error),
    };
    let pool = upstream.endpoints.pool();
    let Some(index) = index_of(&pool, &member, index) else { return };
    let is_healthy = found.is_ok();
    pool.members[index].set_failed_check(found.err());
    if let Some(change) = pool.balancer.checked(index, is_healthy, gateway.now()) {
        gateway.note_endpoint_change(&upstream.name, &pool, change);
    }
}

/// Where an endpoint is in the pool in force, which may not have it any more.
fn index_of(pool: &Pool, member: &Member, index: usize) -> Option<usize> {
    let is_it = |other: &Arc<Member>| Arc::ptr_eq(&other.state, &member.state);
    let is_there = pool.members.get(index).is_some_and(is_it);
    if is_there { Some(index) } else { pool.members.iter().position(is_it) }
}

/// To be called once a second: returns endpoints whose time is up, compares success rates, and closes connections that
/// nobody needs any more.
pub(crate) fn step(gateway: &Gateway) {
    let now = gateway.now();
    for upstream in &gateway.plan().site.upstreams {
        let pool = upstream.endpoints.pool();
        for change in pool.balancer.step(now) {
            gateway.note_endpoint_change(&upstream.name, &pool, change);
        }
        upstream.endpoints.close_idle_of_gone();
    }
}

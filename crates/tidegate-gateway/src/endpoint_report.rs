//! What is known of endpoints, for the admin API, for health and for metrics.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidegate_policy::Timestamp;
use tidegate_policy::endpoints::{Cause, Change, EndpointSnapshot, Forced, Health, Reason, Standing};
use tidegate_serve::{Exposition, Kind};

use crate::endpoints::{Member, Pool, Series};
use crate::names::Names;
use crate::plan::Plan;
use crate::upstream::Upstream;

/// The label of endpoints without metrics of their own, which are added up.
const OTHERS: &str = "others";

/// All upstreams with their endpoints.
pub(crate) fn all(plan: &Plan, now: Timestamp) -> Value {
    let upstreams = plan.site.upstreams.iter().map(|upstream| (upstream.name.to_string(), one(upstream, now)));
    json!({ "upstreams": Value::Object(upstreams.collect::<Map<_, _>>()) })
}

/// One upstream with its endpoints.
pub(crate) fn one(upstream: &Upstream, now: Timestamp) -> Value {
    let pool = upstream.endpoints.pool();
    let snapshots = pool.balancer.snapshot(now);
    let endpoints = snapshots.iter().zip(&pool.members).map(|(snapshot, member)| endpoint(snapshot, member));
    json!({ "balance": pool.balancer.balance().name(), "endpoints": endpoints.collect::<Vec<_>>() })
}

fn endpoint(snapshot: &EndpointSnapshot, member: &Member) -> Value {
    let ejected = snapshot.ejected.as_ref().map(|(reason, left)| {
        json!({ "reason": reason.name(), "detail": detail(*reason), "secondsLeft": left.as_secs_f64() })
    });
    json!({
        "endpoint": &*snapshot.name,
        "url": member.entry.url(),
        "weight": snapshot.weight.get(),
        "state": snapshot.standing.name(),
        "set": snapshot.forced.name(),
        "health": snapshot.health.name(),
        "failedCheck": member.failed_check().as_deref(),
        "share": snapshot.share,
        "inFlight": snapshot.in_flight,
        "latencySeconds": snapshot.latency.map(|latency| latency.as_secs_f64()),
        "connections": member.endpoint.pools.open(),
        "ejected": ejected,
        "ejectionsInARow": snapshot.ejections_in_a_row,
        "ejections": snapshot.ejections,
        "successes": snapshot.successes,
        "failures": snapshot.failures,
    })
}

/// Why an endpoint was ejected, for people.
pub(crate) fn detail(reason: Reason) -> String {
    match reason {
        Reason::ConsecutiveFailures { last } => {
            let last = match last {
                Cause::Connect => "no connection",
                Cause::Timeout => "no response in time",
                Cause::Broken => "a broken connection or response",
                Cause::Status => "a status that counts as a failure",
            };
            format!("failures in a row, the last: {last}")
        }
        Reason::SuccessRate { rate, others } => {
            format!("{:.1} % of its requests succeeded, {:.1} % of the others'", rate * 100.0, others * 100.0)
        }
    }
}

/// The index of the endpoint that has changed.
pub(crate) fn changed_index(change: Change) -> usize {
    match change {
        Change::Ejected { index, .. }
        | Change::NotEjected { index, .. }
        | Change::Returned { index }
        | Change::HealthChanged { index, .. }
        | Change::ForcedChanged { index, .. } => index,
    }
}

/// What has become of an endpoint: whether that is good, and a text that goes on after its name.
pub(crate) fn change_text(change: Change) -> (bool, String) {
    match change {
        Change::Ejected { reason, length, in_a_row, .. } => {
            let (seconds, why) = (length.as_secs_f64(), detail(reason));
            (false, format!("ejected for {seconds} s: {why} (ejection {in_a_row} in a row)"))
        }
        Change::NotEjected { reason, .. } => {
            let why = detail(reason);
            (false, format!("fails and is not ejected, because too many others are out: {why}"))
        }
        Change::Returned { .. } => (true, "returns from its ejection".to_owned()),
        Change::HealthChanged { health: Health::Unhealthy, .. } => (false, "fails its health checks".to_owned()),
        Change::HealthChanged { health: Health::Healthy | Health::Unknown, .. } => (true, "is healthy".to_owned()),
        Change::ForcedChanged { forced, .. } => (true, format!("set to `{}` by an operator", forced.name())),
    }
}

/// The upstream of this name, or what is known instead.
pub(crate) fn upstream<'a>(plan: &'a Plan, name: &str) -> Result<&'a Upstream, String> {
    let found = plan.site.upstreams.iter().find(|upstream| *upstream.name == *name);
    found.map(|found| &**found).ok_or_else(|| {
        let known: Vec<&str> = plan.site.upstreams.iter().map(|upstream| &*upstream.name).collect();
        format!("unknown upstream {name:?}; known upstreams: {}", known.join(", "))
    })
}

/// The index of an endpoint in a pool, or what is known instead.
pub(crate) fn index(pool: &Pool, endpoint: &str) -> Result<usize, String> {
    pool.members.iter().position(|member| member.state.name() == endpoint).ok_or_else(|| {
        let known: Vec<&str> = pool.members.iter().map(|member| member.state.name()).collect();
        format!("unknown endpoint {endpoint:?}; known endpoints: {}", known.join(", "))
    })
}

/// The words for states that can be set.
pub(crate) fn forced(word: &str) -> Option<Forced> {
    [Forced::Auto, Forced::Up, Forced::Down, Forced::Drain].into_iter().find(|forced| forced.name() == word)
}

/// How the endpoints of an upstream stand.
pub(crate) struct Availability {
    /// All endpoints.
    pub(crate) endpoints: usize,
    /// Those that get requests.
    pub(crate) available: usize,
    /// Whether requests can be served: by an available endpoint, or by one that drains while no other is available.
    pub(crate) can_serve: bool,
}

impl Availability {
    pub(crate) fn of(upstream: &Upstream, now: Timestamp) -> Self {
        let pool = upstream.endpoints.pool();
        let count = |wanted| pool.members.iter().filter(|member| member.state.standing(now) == wanted).count();
        let available = count(Standing::Up);
        let can_serve = available > 0 || count(Standing::Drain) > 0;
        Self { endpoints: pool.members.len(), available, can_serve }
    }
}

/// The figures of one endpoint, or of several together.
#[derive(Default)]
struct Figures {
    up: u64,
    in_flight: u64,
    latency: f64,
    connections: usize,
    successes: u64,
    failures: u64,
    ejections: u64,
}

/// The figures by endpoint. The number of series is bounded.
fn figures(upstream: &Upstream, now: Timestamp) -> BTreeMap<String, Figures> {
    let pool = upstream.endpoints.pool();
    let mut all: BTreeMap<String, Figures> = BTreeMap::new();
    for (snapshot, member) in pool.balancer.snapshot(now).iter().zip(&pool.members) {
        let label = if member.series == Series::Own { snapshot.name.clone() } else { OTHERS.to_owned() };
        let figures = all.entry(label).or_default();
        figures.up += u64::from(snapshot.standing == Standing::Up);
        figures.in_flight += u64::from(snapshot.in_flight);
        figures.latency =
            snapshot.latency.map_or(figures.latency, |latency| latency.as_secs_f64().max(figures.latency));
        figures.connections += member.endpoint.pools.open();
        figures.successes += snapshot.successes;
        figures.failures += snapshot.failures;
        figures.ejections += u64::from(snapshot.ejections);
    }
    if let Some(others) = pool.others() {
        // With those that have left.
        let figures = all.entry(OTHERS.to_owned()).or_default();
        (figures.successes, figures.failures) = (others.successes, others.failures);
        figures.ejections = others.ejections;
    }
    all
}

/// Writes the metrics of all endpoints, and of lookups of host names.
pub(crate) fn write(plan: &Plan, now: Timestamp, names: &Names, page: &mut Exposition) {
    let all: Vec<(&str, BTreeMap<String, Figures>)> =
        plan.site.upstreams.iter().map(|upstream| (&*upstream.name, figures(upstream, now))).collect();
    let mut gauge = |name: &str, help: &str, value: &dyn Fn(&Figures) -> u64| {
        let mut family = page.family(name, help, Kind::Gauge);
        for (upstream, endpoints) in &all {
            for (endpoint, figures) in endpoints {
                family.sample(&[("service", upstream), ("endpoint", endpoint)], value(figures));
            }
        }
    };
    gauge("tidegate_endpoint_up", "Whether an endpoint gets requests (1) or is out (0).", &|figures| figures.up);
    gauge("tidegate_endpoint_in_flight", "Requests in flight.", &|figures| figures.in_flight);
    let connections = |figures: &Figures| figures.connections as u64;
    gauge("tidegate_endpoint_connections", "Open connections, including idle ones.", &connections);
    let mut family =
        page.family("tidegate_endpoint_latency_seconds", "Estimate of the time to a response.", Kind::Gauge);
    for (upstream, endpoints) in &all {
        for (endpoint, figures) in endpoints {
            family.sample(&[("service", upstream), ("endpoint", endpoint)], figures.latency);
        }
    }
    let mut family = page.family(
        "tidegate_endpoint_requests_total",
        "Requests by endpoint and outcome; what clients caused is left out.",
        Kind::Counter,
    );
    for (upstream, endpoints) in &all {
        for (endpoint, figures) in endpoints {
            let labels = |outcome| [("service", *upstream), ("endpoint", endpoint.as_str()), ("outcome", outcome)];
            family.sample(&labels("success"), figures.successes);
            family.sample(&labels("failure"), figures.failures);
        }
    }
    let mut family = page.family("tidegate_endpoint_ejections_total", "Ejections of an endpoint.", Kind::Counter);
    for (upstream, endpoints) in &all {
        for (endpoint, figures) in endpoints {
            family.sample(&[("service", upstream), ("endpoint", endpoint)], figures.ejections);
        }
    }
    let counts = names.counts();
    page.family("tidegate_name_lookups_total", "Lookups of upstreams' host names, by result.", Kind::Counter)
        .sample(&[("result", "succeeded")], counts.succeeded.get())
        .sample(&[("result", "failed")], counts.failed.get());
    page.family("tidegate_names", "Host names of upstreams that are looked up.", Kind::Gauge)
        .sample(&[], names.watched());
    page.family("tidegate_names_failing", "Host names of upstreams whose last lookup failed.", Kind::Gauge)
        .sample(&[], names.failing());
}

//! Whether a run went as it should.

use std::time::Duration;

use super::Load;
use super::operator::Operator;
use super::rest::Rest;
use super::samples::Samples;
use super::site::PLACES;
use super::tally::Counts;
use crate::page::Page;

/// Memory may be above where it was by this share, or by so many megabytes, whichever is more: what the allocator keeps
/// of bursts that are over comes and goes by about as much from one minute to the next.
const GROWTH_SHARE: f64 = 0.1;
const GROWTH_MB: f64 = 2.0;
/// Of the load that was intended, this much must have been sent in its time. Otherwise the run says nothing.
const LEAST_LOAD: f64 = 0.99;

/// What was due while the machine did something else comes all at once then: more connections, more in flight, and
/// memory for them that the allocator keeps for a while. Beyond this a run says nothing of memory.
const LONGEST_STALL: Duration = Duration::from_secs(1);

/// All that is known after a run.
pub(crate) struct Run<'a> {
    /// As fast as it could.
    pub(crate) full: &'a Load,
    pub(crate) steady: &'a Load,
    /// Requests a second that were to be sent.
    pub(crate) due_per_second: f64,
    pub(crate) samples: &'a Samples,
    pub(crate) counts: &'a Counts,
    pub(crate) operator: &'a Operator,
    /// The gateway without load.
    pub(crate) before: &'a Rest,
    pub(crate) after: &'a Rest,
    /// Its metrics when the run began and when it had ended.
    pub(crate) page_before: &'a Page,
    pub(crate) page_after: &'a Page,
    /// Lines in its access log.
    pub(crate) logged: u64,
    /// What it printed.
    pub(crate) log: &'a str,
}

pub(crate) struct Check {
    pub(crate) what: &'static str,
    pub(crate) seen: String,
    pub(crate) passed: bool,
}

pub(crate) fn checks(run: &Run<'_>) -> Vec<Check> {
    load(run).into_iter().chain(errors(run)).chain(growth(run)).chain(accounts(run)).collect()
}

fn check(what: &'static str, passed: bool, seen: String) -> Check {
    Check { what, seen, passed }
}

fn load(run: &Run<'_>) -> [Check; 3] {
    let sent = run.steady.per_second / run.due_per_second;
    let rejected = run.counts.responded(4);
    [
        check("the load was what it should be", sent >= LEAST_LOAD, format!("{:.1} %", sent * 100.0)),
        check(
            "the machine never stood still",
            run.counts.latest <= LONGEST_STALL,
            format!("sent at most {} ms late", run.counts.latest.as_millis()),
        ),
        check("limits refused some", rejected > 0, format!("{rejected} requests")),
    ]
}

/// What a metric has gained.
fn gained(run: &Run<'_>, metric: &str, label: &str) -> u64 {
    run.page_after.sum(metric, label).saturating_sub(run.page_before.sum(metric, label))
}

fn errors(run: &Run<'_>) -> [Check; 6] {
    let none = |what, count: u64| check(what, count == 0, format!("{count}"));
    let failures = run.page_after.failures().saturating_sub(run.page_before.failures());
    let complaints = run.log.lines().filter(|line| line.contains(" ERROR ")).count() as u64;
    let broken =
        gained(run, "tidegate_upstream_failures_total", "") + gained(run, "ratelimiter_redis_errors_total", "");
    [
        none("errors that clients saw", run.counts.errors),
        none("errors that the operator saw", run.operator.faults.len() as u64),
        none("answers with 5xx, by the metrics", failures),
        none("failures of upstreams and Redis", broken),
        none("reloads refused", gained(run, "tidegate_reloads_total", "refused")),
        none("errors in the log", complaints),
    ]
}

fn growth(run: &Run<'_>) -> [Check; 3] {
    let memory = run.samples.course(|holdings| holdings.rss_mb);
    let bound = GROWTH_MB.max(memory.early * GROWTH_SHARE);
    // A leak shows in both; one of them alone may be a burst at the wrong time.
    let (risen, trend) = (memory.late - memory.early, memory.trend);
    let has_grown = risen > bound && trend > bound;
    let (before, after, beside) = (run.before.descriptors, run.after.descriptors, run.after.beside_sockets);
    [
        check("memory has not grown", !has_grown, format!("{risen:+.2} MB, trend {trend:+.2}, at most {bound:+.2}")),
        check("descriptors came back", after <= before, format!("{after}, before {before}")),
        check("… while sockets stayed open", beside <= before, format!("{beside} and theirs, before {before}")),
    ]
}

fn accounts(run: &Run<'_>) -> [Check; 5] {
    let (before, after) = (run.before, run.after);
    let places = after.free_slots.map(|free| free.map_or("?".to_owned(), |free| free.to_string())).join(" and ");
    // The one that asks holds one.
    let all_free = [Some(PLACES - 1); 2];
    let sent = run.counts.sent();
    let (settled, passed_on) =
        (run.page_after.responses().saturating_sub(run.page_before.responses()), sent + run.operator.passed_on);
    let (dropped, asked) = (gained(run, "tidegate_access_log_dropped_total", ""), sent + run.operator.asked);
    let logged = run.logged;
    [
        check(
            "no connection is left",
            after.connections == before.connections,
            format!("{}, before {}", after.connections, before.connections),
        ),
        check(
            "no request is left in flight",
            after.in_flight == before.in_flight,
            format!("{}, before {}", after.in_flight, before.in_flight),
        ),
        check(
            "all places in flight were given back",
            after.free_slots == all_free && before.free_slots == all_free,
            format!("{places} of {PLACES} free but one"),
        ),
        check("requests settled = sent", settled == passed_on, format!("{settled} = {passed_on}")),
        check(
            "lines logged + dropped = requests",
            logged + dropped == asked,
            format!("{logged} + {dropped} = {asked}"),
        ),
    ]
}

//! Admission: a request is checked against all its limits together, and holds what it took until it is settled.

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_policy::{Decision, Level, MAX_LEVELS, NotAdmitted, Rule, Ticket, Timestamp, check_all};
use tidegate_store::{Charged, FailureMode, Key, SharedLevel, Source, Store};
use tidegate_wait::Clock;

use crate::facts::Facts;
use crate::key::RequestKey;
use crate::limit::{Counts, Limit};
use crate::plan::{Plan, RouteLimits};
use crate::resolve::Resolved;
use crate::returns::Returns;
use crate::stages::Side;

/// The check of a request against one of its limits.
pub(crate) struct LimitCheck {
    /// The index of the limit in the plan.
    pub(crate) limit: usize,
    pub(crate) key: Key,
    ticket: Option<Ticket>,
    /// What the limit decided. `None` before the check, and while Redis is away.
    pub(crate) decision: Option<Decision>,
}

impl LimitCheck {
    /// A check that has not been made.
    pub(crate) fn new(limit: usize, key: Key) -> Self {
        Self { limit, key, ticket: None, decision: None }
    }
}

/// Why a request is rejected.
pub(crate) enum Rejection {
    /// A limit rejects it. `by` is the index of its check.
    Limit { checks: Vec<LimitCheck>, by: usize, retry_after: Option<Duration> },
    /// Redis is away, and the failure mode is `closed`.
    StoreAway { checks: Vec<LimitCheck>, by: usize, retry_after: Duration },
    /// A limit's key can't be built, because the request lacks this.
    NoKey { limit: usize, missing: &'static str },
    /// It has more limits than can be checked together, because its path can be read in several ways.
    TooMany,
}

/// What a decision about a request needs besides the request.
#[derive(Clone, Copy)]
pub(crate) struct DecisionContext<'a> {
    pub(crate) plan: &'a Arc<Plan>,
    pub(crate) store: Option<&'a Store>,
    pub(crate) returns: &'a Arc<Returns>,
    pub(crate) clock: Clock,
    /// The time of the decision.
    pub(crate) now: Timestamp,
    pub(crate) worker: usize,
}

/// What a request took at its limits of one side, held until its response has ended. Dropped before the request was
/// sent on, it gives everything back; afterwards, only slots.
pub(crate) struct Admission {
    plan: Arc<Plan>,
    store: Option<Store>,
    returns: Arc<Returns>,
    clock: Clock,
    checks: Vec<LimitCheck>,
    shared: Charged,
    /// Atomic, because attempts side by side only borrow it.
    sent: AtomicBool,
    /// Limits on a dry run that would have rejected.
    would_reject: Vec<usize>,
}

/// What a request took at all its limits.
#[derive(Default)]
pub(crate) struct Admissions {
    client: Option<Admission>,
    /// Boxed, for most upstreams have no limits.
    upstream: Option<Box<Admission>>,
    /// Whether an attempt has sent something.
    was_sent: AtomicBool,
}

impl Admissions {
    pub(crate) fn add(&mut self, side: Side, admission: Admission) {
        match side {
            Side::Client => self.client = Some(admission),
            Side::Upstream => self.upstream = Some(Box::new(admission)),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Admission> + Clone {
        self.client.iter().chain(self.upstream.as_deref())
    }

    /// The checks of each side in their order, limits on a dry run last.
    pub(crate) fn checks(&self) -> [&[LimitCheck]; 2] {
        let client = self.client.as_ref().map_or(&[][..], |admission| &admission.checks);
        [client, self.upstream.as_ref().map_or(&[], |admission| &admission.checks)]
    }

    /// Limits on a dry run that would have rejected.
    pub(crate) fn would_reject(&self) -> impl Iterator<Item = &Limit> {
        self.all().flat_map(|admission| admission.would_reject.iter().map(|limit| &admission.plan.limits[*limit]))
    }

    /// The first limit whose soft excess is used.
    pub(crate) fn degraded(&self) -> Option<&str> {
        self.all().find_map(Admission::degraded)
    }

    /// Takes what was taken at the upstream's limits, which counts only as long as the upstream works on the request.
    pub(crate) fn take_upstream(&mut self) -> Option<Box<Admission>> {
        self.upstream.take()
    }

    /// The request goes to its upstream now: what it took is spent. Of an attempt beside another, `own` is what it took
    /// at the upstream's limits.
    pub(crate) fn sending(&self, own: Option<&Admission>) {
        self.was_sent.store(true, Ordering::Relaxed);
        self.attempted(own);
    }

    /// An attempt has ended: the same.
    pub(crate) fn attempted(&self, own: Option<&Admission>) {
        if let Some(client) = &self.client {
            client.set_sent();
        }
        if let Some(upstream) = own.or(self.upstream.as_deref()) {
            upstream.set_sent();
        }
    }

    /// The gateway rejects the request after all. What an earlier attempt has sent stays spent.
    pub(crate) fn rejected(&self) {
        if !self.was_sent.load(Ordering::Relaxed) {
            self.all().for_each(|admission| admission.sent.store(false, Ordering::Relaxed));
        }
    }

    /// The gateway itself has rejected the attempt: it has cost the upstream nothing.
    pub(crate) fn attempt_rejected(&self) {
        if let Some(admission) = &self.upstream {
            admission.sent.store(false, Ordering::Relaxed);
        }
    }

    /// Another attempt than the one that took the upstream's limits for the request is the one that counts.
    pub(crate) fn replace_upstream(&mut self, admission: Option<Box<Admission>>) {
        if admission.is_some() {
            self.upstream = admission;
        }
    }
}

impl Admission {
    /// How long to wait before the next stage.
    pub(crate) fn wait(&self) -> Duration {
        wait_of(&self.plan, &self.checks)
    }

    /// Spends what it took, although the request is not sent on.
    pub(crate) fn spend(self) {
        self.set_sent();
    }

    /// The attempt is sent now: what it took is spent.
    pub(crate) fn set_sent(&self) {
        self.sent.store(true, Ordering::Relaxed);
    }

    pub(crate) fn degraded(&self) -> Option<&str> {
        let is_degraded = |check: &&LimitCheck| {
            check.decision.as_ref().is_some_and(|decision| self.plan.limits[check.limit].is_degraded(decision))
        };
        self.checks.iter().find(is_degraded).map(|check| self.plan.limits[check.limit].name())
    }

    /// Counts the request at all limits that were checked.
    fn count(&self, worker: usize) {
        let stats = |limit: usize| &self.plan.limits[limit].stats[worker];
        for limit in &self.would_reject {
            stats(*limit).would_reject.inc();
        }
        for check in &self.checks {
            if check.decision.is_none_or(|decision| decision.is_admitted()) {
                stats(check.limit).admitted.inc();
            }
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.settle();
    }
}

impl Admission {
    /// Gives back what is not spent. A second call does nothing.
    fn settle(&mut self) {
        let is_sent = *self.sent.get_mut();
        give_back(&self.plan, &mut self.checks, !is_sent, || self.clock.now());
        if self.shared.is_empty() {
            return;
        }
        let shared = std::mem::take(&mut self.shared);
        let shared = if is_sent { shared.only_slots() } else { shared };
        if let (Some(store), false) = (&self.store, shared.is_empty()) {
            self.returns.give_back(store, shared, self.clock.now());
        }
    }
}

/// How long a request waits for the limits that it was checked against.
pub(crate) fn wait_of(plan: &Plan, checks: &[LimitCheck]) -> Duration {
    let wait = |check: &LimitCheck| match check.decision {
        Some(Decision::Admit { wait, .. }) if !plan.limits[check.limit].settings.dry_run => wait,
        Some(Decision::Admit { .. } | Decision::Reject { .. }) | None => Duration::ZERO,
    };
    checks.iter().map(wait).max().unwrap_or_default()
}

/// Gives back what was taken in memory: everything, or only slots. A second call does nothing.
pub(crate) fn give_back(plan: &Plan, checks: &mut [LimitCheck], everything: bool, now: impl Fn() -> Timestamp) {
    for check in checks {
        let Counts::Memory(keyed) = &plan.limits[check.limit].counts else { continue };
        if let Some(ticket) = check.ticket.take()
            && (ticket.is_slot() || everything)
        {
            keyed.give_back(&check.key, ticket, now());
        }
    }
}

/// Checks a request against its limits of one side, all of them together. A rejected request costs nothing: what it
/// took at other limits is given back.
pub(crate) async fn admit(
    context: DecisionContext<'_>,
    resolved: &Resolved<'_>,
    side: Side,
) -> Result<Admission, Rejection> {
    let DecisionContext { plan, store, returns, clock, worker, .. } = context;
    let (checks, keyless) = limit_checks(plan, resolved, side)?;
    let mut admission = Admission {
        plan: Arc::clone(plan),
        store: store.cloned(),
        returns: Arc::clone(returns),
        clock,
        checks,
        shared: Charged::default(),
        sent: AtomicBool::new(false),
        would_reject: Vec::new(),
    };
    match check_limits(&mut admission, context).await {
        Ok(()) => {
            admission.would_reject.extend(keyless);
            admission.count(worker);
            Ok(admission)
        }
        Err((by, retry_after)) => {
            admission.settle();
            let checks = std::mem::take(&mut admission.checks);
            Err(match by {
                By::Limit(by) => Rejection::Limit { checks, by, retry_after },
                By::StoreAway(by) => Rejection::StoreAway { checks, by, retry_after: retry_after.unwrap_or_default() },
            })
        }
    }
}

/// The checks that a request needs on one side, each with its key: enforced limits in memory, then those in Redis, then
/// those on a dry run. The second list is of limits on a dry run that would reject because their key can't be built.
pub(crate) fn limit_checks(
    plan: &Plan,
    resolved: &Resolved<'_>,
    side: Side,
) -> Result<(Vec<LimitCheck>, Vec<usize>), Rejection> {
    let ((first, others), facts) = (resolved.limits(side), resolved.facts());
    // Room for three at least: memory of that size is had with fewer instructions than for one.
    let (mut checks, mut keyless) = (Vec::<LimitCheck>::with_capacity(first.limits.len().max(3)), Vec::new());
    for (count, RouteLimits { route, limits }) in iter::once(first).chain(others).enumerate() {
        let facts = Facts { route, ..facts };
        for &index in limits {
            let limit = &plan.limits[index].settings;
            if !resolved.is_identified() && limit.key.needs_caller() {
                continue;
            }
            let of_tier = limit.tiers.iter().find(|(tier, _)| **tier == *facts.tier);
            let Some(index) = of_tier.map_or(Some(index), |(_, instead)| *instead) else { continue };
            let is_known = |key: &Key| checks.iter().any(|other| other.limit == index && other.key == *key);
            match limit.key.of_request(&facts, limit.missing) {
                // A limit that several of the routes have counts the request once, unless it counts by route.
                RequestKey::Value(key) if count > 0 && is_known(&key) => {}
                RequestKey::Value(key) => checks.push(LimitCheck::new(index, key)),
                RequestKey::Exempt => {}
                RequestKey::Missing(_) if limit.dry_run && keyless.contains(&index) => {}
                RequestKey::Missing(_) if limit.dry_run => keyless.push(index),
                RequestKey::Missing(missing) => return Err(Rejection::NoKey { limit: index, missing }),
            }
        }
    }
    if checks.len() > MAX_LEVELS {
        return Err(Rejection::TooMany);
    }
    checks.sort_by_key(|check| group(&plan.limits[check.limit]));
    Ok((checks, keyless))
}

/// The order in which limits are checked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Memory,
    Shared,
    DryRun,
}

fn group(limit: &Limit) -> Group {
    match &limit.counts {
        Counts::Memory(_) | Counts::Shared(_) if limit.settings.dry_run => Group::DryRun,
        Counts::Memory(_) => Group::Memory,
        Counts::Shared(_) => Group::Shared,
    }
}

/// Which limit rejects, by the index of its check.
enum By {
    Limit(usize),
    /// Redis is away, so that it can't be checked.
    StoreAway(usize),
}

/// Which limit rejects, and when to come back.
type RejectedBy = (By, Option<Duration>);

async fn check_limits(admission: &mut Admission, context: DecisionContext<'_>) -> Result<(), RejectedBy> {
    let DecisionContext { plan, store, now, .. } = context;
    let end_of = |admission: &Admission, last: Group| {
        admission.checks.partition_point(|check| group(&plan.limits[check.limit]) <= last)
    };
    let (memory, enforced) = (end_of(admission, Group::Memory), end_of(admission, Group::Shared));
    check_memory(plan, &mut admission.checks[..memory], now).map_err(|(by, after)| (By::Limit(by), after))?;
    if let (Some(store), true) = (store, memory < enforced) {
        let (decisions, rejected) = Box::pin(check_shared(admission, memory..enforced, store, now)).await;
        for (check, decision) in admission.checks[memory..enforced].iter_mut().zip(decisions) {
            check.decision = Some(decision);
        }
        if let Some(rejected) = rejected {
            return Err(rejected);
        }
    }
    for index in enforced..admission.checks.len() {
        let limit = admission.checks[index].limit;
        match (&plan.limits[limit].counts, store) {
            (Counts::Memory(_), _) => {
                // A rejection by a limit on a dry run is counted, and reported in a header.
                let _not_enforced = check_memory(plan, &mut admission.checks[index..=index], now);
            }
            (Counts::Shared(_), Some(store)) => {
                let (decisions, _not_enforced) = Box::pin(check_shared(admission, index..index + 1, store, now)).await;
                admission.checks[index].decision = decisions.first().copied();
            }
            (Counts::Shared(_), None) => {}
        }
        if admission.checks[index].decision.is_some_and(|decision| !decision.is_admitted()) {
            admission.would_reject.push(limit);
        }
    }
    Ok(())
}

/// Checks limits in memory only: those that are enforced together, then each that is on a dry run. Those of the latter
/// that would reject are added to `would_reject`. An error is the index of the check that rejects, and when to come
/// back.
pub(crate) fn check_limits_in_memory(
    plan: &Plan,
    checks: &mut [LimitCheck],
    would_reject: &mut Vec<usize>,
    now: Timestamp,
) -> Result<(), (usize, Option<Duration>)> {
    let enforced = checks.partition_point(|check| group(&plan.limits[check.limit]) < Group::DryRun);
    let (enforced, dry_run) = checks.split_at_mut(enforced);
    check_memory(plan, enforced, now)?;
    for check in dry_run {
        if check_memory(plan, std::slice::from_mut(check), now).is_err() {
            would_reject.push(check.limit);
        }
    }
    Ok(())
}

impl LimitCheck {
    pub(crate) fn holds_slot(&self) -> bool {
        self.ticket.as_ref().is_some_and(Ticket::is_slot)
    }
}

fn check_memory(plan: &Plan, checks: &mut [LimitCheck], now: Timestamp) -> Result<(), (usize, Option<Duration>)> {
    if let [only] = checks {
        let Counts::Memory(keyed) = &plan.limits[only.limit].counts else { return Ok(()) };
        let (decision, ticket) = keyed.take(&only.key, plan.limits[only.limit].settings.cost, now);
        (only.decision, only.ticket) = (Some(decision), ticket);
        return if decision.is_admitted() { Ok(()) } else { Err((0, decision.retry_after())) };
    }
    let keys: Vec<(usize, Key)> = checks.iter().map(|check| (check.limit, check.key)).collect();
    let mut levels: Vec<Level<'_, Key, Rule>> = Vec::with_capacity(keys.len());
    for (limit, key) in &keys {
        let limit = &plan.limits[*limit];
        if let Counts::Memory(keyed) = &limit.counts {
            levels.push(Level::new(limit.name(), keyed, key, limit.settings.cost));
        }
    }
    let checked = check_all(&mut levels, now);
    for (check, level) in checks.iter_mut().zip(&mut levels) {
        (check.decision, check.ticket) = (level.decision, level.take_ticket());
    }
    checked.map_err(|not_admitted| match not_admitted {
        NotAdmitted::Rejected(by) => (by.level, by.retry_after),
        // `limit_checks` has rejected those.
        NotAdmitted::TooManyLevels { .. } => (0, None),
    })
}

async fn check_shared(
    admission: &mut Admission,
    range: std::ops::Range<usize>,
    store: &Store,
    now: Timestamp,
) -> (Vec<Decision>, Option<RejectedBy>) {
    let plan = Arc::clone(&admission.plan);
    let first = range.start;
    let mut levels = Vec::with_capacity(range.len());
    for check in &admission.checks[range] {
        let limit = &plan.limits[check.limit];
        if let Counts::Shared(shared) = &limit.counts {
            levels.push(SharedLevel { limit: shared, key: check.key, cost: limit.settings.cost });
        }
    }
    let verdict = store.check(&levels, now).await;
    admission.shared.append(verdict.charged);
    let rejected = verdict.rejected_by.map(|rejected| match verdict.source {
        Source::Failure(FailureMode::Closed) => (By::StoreAway(first + rejected.level), rejected.retry_after),
        Source::Shared | Source::Failure(FailureMode::Open | FailureMode::Local) => {
            (By::Limit(first + rejected.level), rejected.retry_after)
        }
    });
    (verdict.decisions, rejected)
}

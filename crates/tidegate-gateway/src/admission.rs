//! Admission: a request is checked against all its limits together, and holds what it took until it is settled.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use tidegate_policy::{Decision, Level, MAX_LEVELS, NotAdmitted, Rule, Ticket, Timestamp, check_all};
use tidegate_store::{Charged, FailureMode, Key, SharedLevel, Source, Store};
use tidegate_wait::Clock;

use crate::facts::Facts;
use crate::key::Account;
use crate::limit::{Counts, Limit};
use crate::plan::{Plan, RouteLimits};
use crate::resolve::Resolved;
use crate::returns::Returns;
use crate::stages::Side;

/// One of the limits of a request.
pub(crate) struct Asked {
    /// Its index in the plan.
    pub(crate) limit: usize,
    pub(crate) key: Key,
    ticket: Option<Ticket>,
    /// What it said; nothing while Redis is away.
    pub(crate) decision: Option<Decision>,
}

/// Why a request is rejected.
pub(crate) enum Denied {
    /// A limit rejects it: all that were asked, and the index of that one among them.
    Limit { asked: Vec<Asked>, by: usize, retry_after: Option<Duration> },
    /// Redis is away, and the mode is `closed`.
    StoreAway { asked: Vec<Asked>, by: usize, retry_after: Duration },
    /// A limit's key can't be built: it lacks this.
    NoKey { limit: usize, lacks: &'static str },
    /// It falls under more limits than can be asked together, because its path can be read in several ways.
    TooMany,
}

/// What deciding needs besides the plan.
#[derive(Clone, Copy)]
pub(crate) struct Deciding<'a> {
    pub(crate) plan: &'a Arc<Plan>,
    pub(crate) store: Option<&'a Store>,
    pub(crate) returns: &'a Arc<Returns>,
    pub(crate) clock: Clock,
    /// The time of the decision.
    pub(crate) now: Timestamp,
    pub(crate) worker: usize,
}

/// What a request took at its limits of one side, held until its response has ended. Dropped before the request was sent
/// on, it gives everything back; afterwards, the slots it held.
pub(crate) struct Admission {
    plan: Arc<Plan>,
    store: Option<Store>,
    returns: Arc<Returns>,
    clock: Clock,
    asked: Vec<Asked>,
    shared: Charged,
    sent: bool,
    /// Limits on a dry run that would have rejected.
    would_refuse: Vec<usize>,
}

/// What a request took at all its limits.
#[derive(Default)]
pub(crate) struct Admissions {
    client: Option<Admission>,
    /// Boxed, for most upstreams have no limits.
    upstream: Option<Box<Admission>>,
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

    /// What was asked on each side, in the order in which it was, limits on a dry run last.
    pub(crate) fn asked(&self) -> [&[Asked]; 2] {
        let client = self.client.as_ref().map_or(&[][..], |admission| &admission.asked);
        [client, self.upstream.as_ref().map_or(&[], |admission| &admission.asked)]
    }

    /// Limits on a dry run that would have rejected.
    pub(crate) fn would_refuse(&self) -> impl Iterator<Item = &Limit> {
        self.all().flat_map(|admission| admission.would_refuse.iter().map(|limit| &admission.plan.limits[*limit]))
    }

    /// The first limit that is exceeded a little.
    pub(crate) fn degraded(&self) -> Option<&str> {
        self.all().find_map(Admission::degraded)
    }

    /// The request goes to its upstream now: what it took is spent.
    pub(crate) fn sent(&mut self) {
        self.set_sent(true);
    }

    /// The gateway rejects the request after all.
    pub(crate) fn not_sent(&mut self) {
        self.set_sent(false);
    }

    fn set_sent(&mut self, is_sent: bool) {
        for admission in self.client.iter_mut().chain(self.upstream.as_deref_mut()) {
            admission.sent = is_sent;
        }
    }
}

impl Admission {
    /// How long to wait before the next stage.
    pub(crate) fn wait(&self) -> Duration {
        wait_of(&self.plan, &self.asked)
    }

    /// What it took is spent, although the request goes nowhere.
    pub(crate) fn spend(mut self) {
        self.sent = true;
    }

    fn degraded(&self) -> Option<&str> {
        let exceeded = |asked: &&Asked| {
            asked.decision.as_ref().is_some_and(|decision| self.plan.limits[asked.limit].is_degraded(decision))
        };
        self.asked.iter().find(exceeded).map(|asked| self.plan.limits[asked.limit].name())
    }

    /// Counts it at all limits that were asked.
    fn count(&self, worker: usize) {
        let stats = |limit: usize| &self.plan.limits[limit].stats[worker];
        for limit in &self.would_refuse {
            stats(*limit).would_refuse.inc();
        }
        for asked in &self.asked {
            if asked.decision.is_none_or(|decision| decision.is_admitted()) {
                stats(asked.limit).admitted.inc();
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
    /// Gives back what must come back. Twice does no more than once.
    fn settle(&mut self) {
        give_back(&self.plan, &mut self.asked, !self.sent, || self.clock.now());
        if self.shared.is_empty() {
            return;
        }
        let shared = std::mem::take(&mut self.shared);
        let shared = if self.sent { shared.only_slots() } else { shared };
        if let (Some(store), false) = (&self.store, shared.is_empty()) {
            self.returns.give_back(store, shared, self.clock.now());
        }
    }
}

/// How long limits that were asked keep a request waiting.
pub(crate) fn wait_of(plan: &Plan, asked: &[Asked]) -> Duration {
    let wait = |asked: &Asked| match asked.decision {
        Some(Decision::Admit { wait, .. }) if !plan.limits[asked.limit].settings.dry_run => wait,
        Some(Decision::Admit { .. } | Decision::Reject { .. }) | None => Duration::ZERO,
    };
    asked.iter().map(wait).max().unwrap_or_default()
}

/// Gives back what was taken in memory: everything, or the slots. Twice does no more than once.
pub(crate) fn give_back(plan: &Plan, asked: &mut [Asked], everything: bool, now: impl Fn() -> Timestamp) {
    for asked in asked {
        let Counts::Memory(keyed) = &plan.limits[asked.limit].counts else { continue };
        if let Some(ticket) = asked.ticket.take()
            && (ticket.is_slot() || everything)
        {
            keyed.give_back(&asked.key, ticket, now());
        }
    }
}

/// Checks a request against its limits of one side, all of them together. A rejected request costs nothing: what other
/// limits gave comes back.
pub(crate) async fn admit(deciding: Deciding<'_>, resolved: &Resolved<'_>, side: Side) -> Result<Admission, Denied> {
    let Deciding { plan, store, returns, clock, worker, .. } = deciding;
    let (asked, keyless) = accounts(plan, resolved, side)?;
    let mut admission = Admission {
        plan: Arc::clone(plan),
        store: store.cloned(),
        returns: Arc::clone(returns),
        clock,
        asked,
        shared: Charged::default(),
        sent: false,
        would_refuse: Vec::new(),
    };
    match decide(&mut admission, deciding).await {
        Ok(()) => {
            admission.would_refuse.extend(keyless);
            admission.count(worker);
            Ok(admission)
        }
        Err((by, retry_after)) => {
            admission.settle();
            let asked = std::mem::take(&mut admission.asked);
            Err(match by {
                By::Limit(by) => Denied::Limit { asked, by, retry_after },
                By::StoreAway(by) => Denied::StoreAway { asked, by, retry_after: retry_after.unwrap_or_default() },
            })
        }
    }
}

/// The limits of one side that a request is checked against, each with its key. Enforced ones in memory come first, then
/// those in Redis, then those on a dry run. Apart: limits on a dry run that would reject because their key can't be built.
pub(crate) fn accounts(plan: &Plan, resolved: &Resolved<'_>, side: Side) -> Result<(Vec<Asked>, Vec<usize>), Denied> {
    let ((first, others), facts) = (resolved.limits(side), resolved.facts());
    let (mut asked, mut keyless) = (Vec::<Asked>::with_capacity(first.limits.len()), Vec::new());
    for (count, RouteLimits { route, limits }) in iter::once(first).chain(others).enumerate() {
        let facts = Facts { route, ..facts };
        for &index in limits {
            let limit = &plan.limits[index].settings;
            if !resolved.is_identified() && limit.key.needs_caller() {
                continue;
            }
            let own = limit.tiers.iter().find(|(tier, _)| **tier == *facts.tier);
            let Some(index) = own.map_or(Some(index), |(_, instead)| *instead) else { continue };
            match limit.key.account(&facts, limit.missing) {
                // A limit of several of its routes counts it once, unless it counts by route.
                Account::Of(key) if count > 0 && asked.iter().any(|other| other.limit == index && other.key == key) => {
                }
                Account::Of(key) => asked.push(Asked { limit: index, key, ticket: None, decision: None }),
                Account::Exempt => {}
                Account::Lacks(_) if limit.dry_run && keyless.contains(&index) => {}
                Account::Lacks(_) if limit.dry_run => keyless.push(index),
                Account::Lacks(lacks) => return Err(Denied::NoKey { limit: index, lacks }),
            }
        }
    }
    if asked.len() > MAX_LEVELS {
        return Err(Denied::TooMany);
    }
    asked.sort_by_key(|asked| group(&plan.limits[asked.limit]));
    Ok((asked, keyless))
}

/// The order in which limits are asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Memory,
    Shared,
    Watching,
}

fn group(limit: &Limit) -> Group {
    match &limit.counts {
        _ if limit.settings.dry_run => Group::Watching,
        Counts::Memory(_) => Group::Memory,
        Counts::Shared(_) => Group::Shared,
    }
}

/// Which limit rejects, by its index among the asked.
enum By {
    Limit(usize),
    /// It can't be asked.
    StoreAway(usize),
}

/// Which limit rejects, and when to come back.
type Rejected = (By, Option<Duration>);

async fn decide(admission: &mut Admission, deciding: Deciding<'_>) -> Result<(), Rejected> {
    let Deciding { plan, store, now, .. } = deciding;
    let of = |admission: &Admission, until: Group| {
        admission.asked.partition_point(|asked| group(&plan.limits[asked.limit]) <= until)
    };
    let (memory, enforced) = (of(admission, Group::Memory), of(admission, Group::Shared));
    check_memory(plan, &mut admission.asked[..memory], now).map_err(|(by, after)| (By::Limit(by), after))?;
    if let (Some(store), true) = (store, memory < enforced) {
        let (decisions, refused) = Box::pin(check_shared(admission, memory..enforced, store, now)).await;
        for (asked, decision) in admission.asked[memory..enforced].iter_mut().zip(decisions) {
            asked.decision = Some(decision);
        }
        if let Some(refused) = refused {
            return Err(refused);
        }
    }
    for index in enforced..admission.asked.len() {
        let limit = admission.asked[index].limit;
        match (&plan.limits[limit].counts, store) {
            (Counts::Memory(_), _) => {
                // A rejection by a limit on a dry run is counted, and reported in a header.
                let _watched = check_memory(plan, &mut admission.asked[index..=index], now);
            }
            (Counts::Shared(_), Some(store)) => {
                let (decisions, _watched) = Box::pin(check_shared(admission, index..index + 1, store, now)).await;
                admission.asked[index].decision = decisions.first().copied();
            }
            (Counts::Shared(_), None) => {}
        }
        if admission.asked[index].decision.is_some_and(|decision| !decision.is_admitted()) {
            admission.would_refuse.push(limit);
        }
    }
    Ok(())
}

/// Asks limits in memory, and nobody else: those that are enforced together, then each that is on a dry run. Those of the
/// latter that would reject are added to `would_refuse`. An error is the index of the limit that rejects, and when to come
/// back.
pub(crate) fn decide_in_memory(
    plan: &Plan,
    asked: &mut [Asked],
    would_refuse: &mut Vec<usize>,
    now: Timestamp,
) -> Result<(), (usize, Option<Duration>)> {
    let enforced = asked.partition_point(|asked| group(&plan.limits[asked.limit]) < Group::Watching);
    let (enforced, watching) = asked.split_at_mut(enforced);
    check_memory(plan, enforced, now)?;
    for one in watching {
        if check_memory(plan, std::slice::from_mut(one), now).is_err() {
            would_refuse.push(one.limit);
        }
    }
    Ok(())
}

impl Asked {
    /// Whether it holds a slot.
    pub(crate) fn is_slot(&self) -> bool {
        self.ticket.as_ref().is_some_and(Ticket::is_slot)
    }
}

fn check_memory(plan: &Plan, asked: &mut [Asked], now: Timestamp) -> Result<(), (usize, Option<Duration>)> {
    if let [only] = asked {
        let Counts::Memory(keyed) = &plan.limits[only.limit].counts else { return Ok(()) };
        let (decision, ticket) = keyed.take(&only.key, plan.limits[only.limit].settings.cost, now);
        (only.decision, only.ticket) = (Some(decision), ticket);
        return if decision.is_admitted() { Ok(()) } else { Err((0, decision.retry_after())) };
    }
    let keys: Vec<(usize, Key)> = asked.iter().map(|asked| (asked.limit, asked.key)).collect();
    let mut levels: Vec<Level<'_, Key, Rule>> = Vec::with_capacity(keys.len());
    for (limit, key) in &keys {
        let limit = &plan.limits[*limit];
        if let Counts::Memory(keyed) = &limit.counts {
            levels.push(Level::new(limit.name(), keyed, key, limit.settings.cost));
        }
    }
    let checked = check_all(&mut levels, now);
    for (asked, level) in asked.iter_mut().zip(&mut levels) {
        (asked.decision, asked.ticket) = (level.decision, level.take_ticket());
    }
    checked.map_err(|not_admitted| match not_admitted {
        NotAdmitted::Rejected(by) => (by.level, by.retry_after),
        // `accounts` has rejected those.
        NotAdmitted::TooManyLevels { .. } => (0, None),
    })
}

async fn check_shared(
    admission: &mut Admission,
    range: std::ops::Range<usize>,
    store: &Store,
    now: Timestamp,
) -> (Vec<Decision>, Option<Rejected>) {
    let plan = Arc::clone(&admission.plan);
    let first = range.start;
    let mut levels = Vec::with_capacity(range.len());
    for asked in &admission.asked[range] {
        let limit = &plan.limits[asked.limit];
        if let Counts::Shared(shared) = &limit.counts {
            levels.push(SharedLevel { limit: shared, key: asked.key, cost: limit.settings.cost });
        }
    }
    let verdict = store.check(&levels, now).await;
    admission.shared.append(verdict.charged);
    let refused = verdict.rejected_by.map(|refused| match verdict.source {
        Source::Failure(FailureMode::Closed) => (By::StoreAway(first + refused.level), refused.retry_after),
        Source::Shared | Source::Failure(FailureMode::Open | FailureMode::Local) => {
            (By::Limit(first + refused.level), refused.retry_after)
        }
    });
    (verdict.decisions, refused)
}

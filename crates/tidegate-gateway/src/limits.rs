//! Limits at work: a request is asked about at all of them together, and holds what it was given until it is settled.

use std::sync::Arc;
use std::time::Duration;

use tidegate_policy::{Decision, Keyed, Level, MAX_LEVELS, Rule, Ticket, Timestamp, check_all};
use tidegate_serve::{Counter, Shard};
use tidegate_store::{Charged, FailureMode, Key, SharedLevel, SharedLimit, Source, Store};
use tidegate_wait::Clock;

use crate::config::numbers::LimitNumbers;
use crate::facts::Facts;
use crate::gateway::Returns;
use crate::key::Account;
use crate::plan::{Plan, RouteLimits};
use crate::settings::LimitSettings;
use crate::told::Told;

/// A limit as it stands in one [`Plan`]. A change makes a new one, over the same counts.
#[derive(Clone)]
pub(crate) struct Limit {
    pub(crate) settings: LimitSettings,
    /// Whose numbers it has.
    pub(crate) set_by: SetBy,
    pub(crate) counts: Counts,
    pub(crate) stats: Arc<[Shard<LimitStats>]>,
    /// What is said of it in answers.
    pub(crate) told: Arc<Told>,
}

/// Whose numbers a limit has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SetBy {
    File,
    /// They were set while running.
    Api,
    /// They were adapted; these are the operator's.
    Adaptive(LimitNumbers),
}

/// Where what was used is kept, from one configuration to the next.
#[derive(Clone)]
pub(crate) enum Counts {
    Memory(Arc<Keyed<Key, Rule>>),
    Shared(SharedLimit),
}

/// What a worker counted of a limit.
#[derive(Default)]
pub(crate) struct LimitStats {
    pub(crate) admitted: Counter,
    pub(crate) refused: Counter,
    /// Refused by a limit that only watches.
    pub(crate) would_refuse: Counter,
}

impl Limit {
    pub(crate) fn new(settings: LimitSettings, set_by: SetBy, counts: Counts, stats: Arc<[Shard<LimitStats>]>) -> Self {
        let told = Arc::new(Told::new(&settings));
        Self { settings, set_by, counts, stats, told }
    }

    /// The operator's numbers, whatever is in force.
    pub(crate) fn operators_numbers(&self) -> &LimitNumbers {
        match &self.set_by {
            SetBy::Adaptive(base) => base,
            SetBy::File | SetBy::Api => &self.settings.numbers,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.settings.name.as_str()
    }

    /// What a client has left: the soft excess is none of its business.
    pub(crate) fn left(&self, decision: &Decision) -> u64 {
        decision.remaining().saturating_sub(self.settings.soft)
    }

    fn is_degraded(&self, decision: &Decision) -> bool {
        !self.settings.dry_run && self.settings.soft > 0 && decision.remaining() < self.settings.soft
    }
}

/// Rounded up: a client must not come back early.
pub(crate) fn whole_seconds(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}

/// One of the limits of a request.
pub(crate) struct Asked {
    /// Its place in the plan.
    pub(crate) limit: usize,
    pub(crate) key: Key,
    ticket: Option<Ticket>,
    /// What it said; nothing while Redis is away.
    pub(crate) decision: Option<Decision>,
}

/// Why a request may not go.
pub(crate) enum Denied {
    /// A limit refused; all that were asked.
    Limit { asked: Vec<Asked>, by: usize, retry_after: Option<Duration> },
    /// A limit's key can't be built: it lacks this.
    NoKey { limit: usize, lacks: &'static str },
    /// It falls under more limits than can be asked together, because its path can be read in several ways.
    TooMany,
    /// Redis is away, and the mode is `closed`.
    StoreAway { limit: usize, retry_after: Duration },
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

/// The proof that a request may go, held until its answer has ended. Dropped before the request was sent on, it gives everything back;
/// afterwards, the places it held in flight.
pub(crate) struct Admission {
    plan: Arc<Plan>,
    store: Option<Store>,
    returns: Arc<Returns>,
    clock: Clock,
    asked: Vec<Asked>,
    shared: Charged,
    sent: bool,
    /// Limits that would have refused, if they did more than watch.
    pub(crate) would_refuse: Vec<usize>,
}

impl Admission {
    /// What was asked, in the route's order, those that only watch last.
    pub(crate) fn asked(&self) -> &[Asked] {
        &self.asked
    }

    /// How long to wait before the request is sent on.
    pub(crate) fn wait(&self) -> Duration {
        wait_of(&self.plan, &self.asked)
    }

    /// The first limit that is exceeded a little.
    pub(crate) fn degraded(&self) -> Option<&str> {
        let exceeded = |asked: &&Asked| {
            asked.decision.as_ref().is_some_and(|decision| self.plan.limits[asked.limit].is_degraded(decision))
        };
        self.asked.iter().find(exceeded).map(|asked| self.plan.limits[asked.limit].name())
    }

    /// The request goes to its upstream now: what it took is spent.
    pub(crate) fn sent(&mut self) {
        self.sent = true;
    }

    /// The gateway refuses the request after all.
    pub(crate) fn not_sent(&mut self) {
        self.sent = false;
    }

    /// Takes over what another admission of the same request holds.
    pub(crate) fn join(&mut self, mut other: Self) {
        self.asked.append(&mut other.asked);
        self.shared.append(std::mem::take(&mut other.shared));
        self.would_refuse.append(&mut other.would_refuse);
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
        let shared = if self.sent { shared.only_places() } else { shared };
        if let (Some(store), false) = (&self.store, shared.is_empty()) {
            self.returns.give_back(store, shared, self.clock.now());
        }
    }
}

/// How long limits that were asked keep a request waiting.
pub(crate) fn wait_of(plan: &Plan, asked: &[Asked]) -> Duration {
    let wait = |asked: &Asked| match asked.decision {
        Some(Decision::Admit { wait, .. }) if !plan.limits[asked.limit].settings.dry_run => wait,
        _ => Duration::ZERO,
    };
    asked.iter().map(wait).max().unwrap_or_default()
}

/// Gives back what was taken in memory: everything, or the places in flight. Twice does no more than once.
pub(crate) fn give_back(plan: &Plan, asked: &mut [Asked], everything: bool, now: impl Fn() -> Timestamp) {
    for asked in asked {
        let Counts::Memory(keyed) = &plan.limits[asked.limit].counts else { continue };
        if let Some(ticket) = asked.ticket.take()
            && (ticket.is_place() || everything)
        {
            keyed.give_back(&asked.key, ticket, now());
        }
    }
}

/// Asks all these limits about a request.
pub(crate) async fn admit(
    deciding: Deciding<'_>,
    limits: &[RouteLimits<'_>],
    facts: &Facts<'_>,
) -> Result<Admission, Denied> {
    let Deciding { plan, store, returns, clock, worker, .. } = deciding;
    let (asked, keyless) = accounts(plan, limits, facts)?;
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
    let decided = decide(&mut admission, deciding).await;
    for asked in &admission.asked {
        let (limit, stats) = (&plan.limits[asked.limit], &plan.limits[asked.limit].stats[worker]);
        match (&asked.decision, &decided) {
            (_, Err(_)) if limit.settings.dry_run => {}
            (Some(Decision::Refuse { .. }), _) if limit.settings.dry_run => stats.would_refuse.inc(),
            (Some(Decision::Refuse { .. }), _) => stats.refused.inc(),
            (_, Ok(())) => stats.admitted.inc(),
            _ => {}
        }
    }
    match decided {
        Ok(()) => {
            for limit in &keyless {
                plan.limits[*limit].stats[worker].would_refuse.inc();
            }
            admission.would_refuse.extend(keyless);
            Ok(admission)
        }
        Err((By::Limit(by), retry_after)) => {
            // What other limits gave comes back: a refused request costs nothing.
            admission.settle();
            Err(Denied::Limit { asked: std::mem::take(&mut admission.asked), by, retry_after })
        }
        Err((By::StoreAway(by), retry_after)) => {
            let limit = admission.asked[by].limit;
            Err(Denied::StoreAway { limit, retry_after: retry_after.unwrap_or_default() })
        }
    }
}

/// On whose account a request goes at each of its limits. Enforced ones in memory come first, then those in Redis, then those that
/// only watch. Apart: those that only watch, and would refuse because their key can't be built.
pub(crate) fn accounts(
    plan: &Plan,
    limits: &[RouteLimits<'_>],
    facts: &Facts<'_>,
) -> Result<(Vec<Asked>, Vec<usize>), Denied> {
    let most = limits.iter().map(|route| route.limits.len()).sum();
    let (mut asked, mut keyless) = (Vec::<Asked>::with_capacity(most), Vec::new());
    for (count, RouteLimits { route, limits }) in limits.iter().enumerate() {
        let facts = Facts { route, ..*facts };
        for &place in *limits {
            let limit = &plan.limits[place].settings;
            let own = limit.tiers.iter().find(|(tier, _)| **tier == *facts.tier);
            let Some(place) = own.map_or(Some(place), |(_, instead)| *instead) else { continue };
            match limit.key.account(&facts, limit.missing) {
                // A limit of several of its routes counts it once, unless it counts by route.
                Account::Of(key) if count > 0 && asked.iter().any(|other| other.limit == place && other.key == key) => {
                }
                Account::Of(key) => asked.push(Asked { limit: place, key, ticket: None, decision: None }),
                Account::Exempt => {}
                Account::Lacks(_) if limit.dry_run && keyless.contains(&place) => {}
                Account::Lacks(_) if limit.dry_run => keyless.push(place),
                Account::Lacks(lacks) => return Err(Denied::NoKey { limit: place, lacks }),
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

/// Who refuses: a place among the asked.
enum By {
    Limit(usize),
    /// It can't be asked.
    StoreAway(usize),
}

/// Who refuses, and when to come back.
type Refused = (By, Option<Duration>);

async fn decide(admission: &mut Admission, deciding: Deciding<'_>) -> Result<(), Refused> {
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
    for place in enforced..admission.asked.len() {
        let limit = admission.asked[place].limit;
        match (&plan.limits[limit].counts, store) {
            (Counts::Memory(_), _) => {
                // A refusal of a limit that only watches is counted, and told in a header.
                let _watched = check_memory(plan, &mut admission.asked[place..=place], now);
            }
            (Counts::Shared(_), Some(store)) => {
                let (decisions, _watched) = Box::pin(check_shared(admission, place..place + 1, store, now)).await;
                admission.asked[place].decision = decisions.first().copied();
            }
            (Counts::Shared(_), None) => {}
        }
        if admission.asked[place].decision.is_some_and(|decision| !decision.is_admitted()) {
            admission.would_refuse.push(limit);
        }
    }
    Ok(())
}

/// Asks limits in memory, and nobody else: those that are enforced together, then each that only watches. Those of the latter that would
/// refuse are added to `would_refuse`. An error is who refuses, by its place among the asked, and when to come back.
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
    /// Whether it holds a place in flight.
    pub(crate) fn is_place(&self) -> bool {
        self.ticket.as_ref().is_some_and(Ticket::is_place)
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
    checked.map_err(|refused| (refused.level, refused.retry_after))
}

async fn check_shared(
    admission: &mut Admission,
    range: std::ops::Range<usize>,
    store: &Store,
    now: Timestamp,
) -> (Vec<Decision>, Option<Refused>) {
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
    let refused = verdict.refused_by.map(|refused| match verdict.source {
        Source::Failure(FailureMode::Closed) => (By::StoreAway(first + refused.level), refused.retry_after),
        _ => (By::Limit(first + refused.level), refused.retry_after),
    });
    (verdict.decisions, refused)
}

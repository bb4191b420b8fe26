//! Replay: what a configuration would have done with recorded requests. They pass the gateway's own routes, keys and
//! limits at the times at which they came, without a clock and without Redis: shared limits are counted in memory.

mod passing;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method};
use tidegate_http::headers::Headers;
use tidegate_policy::journey::{Journey, Step, Terms};
use tidegate_policy::{Cost, Rule, Timestamp};
use tidegate_store::{Key, Sharing};

use crate::admission::{LimitCheck, Rejection, check_limits_in_memory, give_back, limit_checks, wait_of};
use crate::config::numbers::LimitNumbers;
use crate::config::own_paths::is_local;
use crate::identity::Caller;
use crate::plan::{Kept, Plan, RuntimeNumbers};
use crate::resolve::{Unresolved, resolve};
use crate::settings::{LimitSettings, Settings};
use crate::stages::{self, Side, Stages};
use crate::validation::Host;

pub use passing::{NotSent, Passing};
use passing::{headers, unchecked};

/// A recorded request.
#[derive(Clone, Copy, Debug)]
pub struct PastRequest<'a> {
    /// When it came.
    pub at: Timestamp,
    /// The client's address.
    pub ip: IpAddr,
    /// As it was sent.
    pub method: &'a str,
    /// With or without a port; empty if it is not known.
    pub host: &'a str,
    /// Without the query.
    pub path: &'a str,
    /// The caller.
    pub user: Option<&'a str>,
    /// The caller's tier, if it is known. Without it, a user with an API key has the tier of the configuration.
    pub tier: Option<&'a str>,
    /// The headers that are known.
    pub headers: &'a [(&'a str, &'a str)],
    /// How long its response took, if that is known. It holds slots that long.
    pub took: Option<Duration>,
}

/// What would have happened to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The index of the route it would have taken.
    pub route: Option<usize>,
    /// Whether it would have been admitted.
    pub verdict: Verdict,
    /// The indices of limits on a dry run that would have rejected it.
    pub would_reject: Vec<usize>,
}

/// Whether a request would have been admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Admitted, after this wait.
    Admitted {
        /// In a shaper's queue.
        wait: Duration,
    },
    /// Rejected by a limit.
    Rejected {
        /// Its index; of several, that of the limit with the longest wait.
        limit: usize,
        /// When to come back. `None`: never.
        retry_after: Option<Duration>,
    },
    /// Rejected by a limit whose key can't be built.
    NoKey {
        /// Its index.
        limit: usize,
    },
    /// No route matches, or it is not known which one.
    NoRoute,
    /// The gateway itself would have responded.
    Local,
}

/// A limit, for reports.
#[derive(Clone, Debug)]
pub struct LimitFacts {
    /// Its name; that of a tier is `limit.tier`.
    pub name: String,
    /// Its numbers.
    pub numbers: LimitNumbers,
    /// The soft excess: what is admitted on top, marked as degraded.
    pub soft: u64,
    /// Its key, as it is written.
    pub key: String,
    /// What a request takes.
    pub cost: Cost,
    /// Whether it is on a dry run.
    pub is_dry_run: bool,
    /// How many keys it remembers.
    pub max_keys: std::num::NonZeroUsize,
    /// The limit that it is a tier of, and the tier's name.
    pub tier_of: Option<(String, String)>,
    sharing: Option<Sharing>,
}

impl LimitFacts {
    /// Checks whether it could have these numbers where its counts are kept.
    pub fn accepts(&self, numbers: &LimitNumbers) -> Result<Rule, String> {
        let rule = numbers.rule(self.soft).map_err(|error| error.to_string())?;
        self.sharing.map_or(Ok(()), |sharing| sharing.check(&rule)).map_err(|error| error.to_string())?;
        Ok(rule)
    }
}

/// How many events may be pending. Beyond that the next one happens early.
const MOST_EVENTS: usize = 1 << 20;
/// Decides which key is dropped when there are too many.
const SEED: u64 = 1;

/// Judges recorded requests in the order in which they came. `T` is the caller's tag of a request.
pub struct Replayer<T> {
    plan: Plan,
    /// The configuration's limits, and the numbers that were set over it.
    limits: Vec<LimitSettings>,
    numbers: BTreeMap<String, LimitNumbers>,
    kept: Kept,
    /// Callers with an API key, by user.
    known: HashMap<Box<str>, Arc<Caller>>,
    anonymous: Arc<Caller>,
    no_headers: Headers,
    events: BinaryHeap<Reverse<Event<T>>>,
    /// How many events were scheduled. Events of the same time happen in the order in which they were.
    scheduled: u64,
    /// How often each limit was checked.
    checked: Vec<u64>,
}

/// A change at a time to come.
struct Event<T> {
    at: u64,
    number: u64,
    change: Change<T>,
}

enum Change<T> {
    /// A shaper's wait is over: the request goes on with its next stage.
    Continue(Box<Waiting<T>>),
    /// The response has ended: slots are given back.
    End(Vec<LimitCheck>),
}

/// The checks that a request needs, and limits on a dry run whose key can't be built.
type Checks = Result<(Vec<LimitCheck>, Vec<usize>), Rejection>;

/// A request's route and limits.
struct Routed {
    route: usize,
    /// The client's limits.
    client: Checks,
    /// The upstream's limits.
    upstream: Checks,
    /// What decides its endpoint. None: chance does.
    endpoint_hash: Option<u64>,
}

impl Routed {
    /// Takes the checks of one side.
    fn take(&mut self, side: Side) -> Checks {
        let checks = match side {
            Side::Client => &mut self.client,
            Side::Upstream => &mut self.upstream,
        };
        std::mem::replace(checks, Ok((Vec::new(), Vec::new())))
    }

    fn has_upstream_limits(&self) -> bool {
        !self.upstream.as_ref().is_ok_and(|(checks, keyless)| checks.is_empty() && keyless.is_empty())
    }
}

/// A request between two of its stages.
struct Waiting<T> {
    tag: T,
    judgement: Judgement,
    routed: Routed,
    stages: Stages,
    journey: Journey,
    held: Vec<LimitCheck>,
    /// How long it has waited so far.
    waited: Duration,
    took: Duration,
}

impl<T> PartialEq for Event<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl<T> Eq for Event<T> {}

impl<T> PartialOrd for Event<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Event<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl<T> Replayer<T> {
    /// A replay with this configuration, and other numbers for some limits. The error names a limit that can't have
    /// them.
    pub fn new(settings: Settings, numbers: &BTreeMap<String, LimitNumbers>) -> Result<Self, String> {
        let (mut kept, limits) = (Kept::seeded(SEED), settings.limits.clone());
        let plan = Plan::build(settings, numbers, &mut kept, None, Timestamp::from_nanos(0))?;
        let mut known: HashMap<Box<str>, Arc<Caller>> = HashMap::new();
        for caller in plan.site.identity.known() {
            let Some(user) = &caller.user else { continue };
            // Of a user's several keys always the same one.
            let kept = known.entry(user.clone()).or_insert_with(|| Arc::clone(caller));
            if caller.api_key < kept.api_key {
                *kept = Arc::clone(caller);
            }
        }
        let (anonymous, checked) = (plan.site.identity.anonymous(), vec![0; plan.limits.len()]);
        let no_headers = Headers::from(&HeaderMap::new());
        let (numbers, events) = (numbers.clone(), BinaryHeap::new());
        Ok(Self { plan, limits, numbers, kept, known, anonymous, no_headers, events, scheduled: 0, checked })
    }

    /// Gives a limit other numbers, and keeps its counts. After an error nothing has changed.
    pub fn set_numbers(&mut self, limit: &str, numbers: LimitNumbers, at: Timestamp) -> Result<(), String> {
        let mut all = self.numbers.clone();
        all.insert(limit.to_owned(), numbers);
        self.rebuild(all, at)
    }

    /// Forgets the counts of all limits, as a store does that has lost its memory.
    pub fn forget(&mut self, at: Timestamp) -> Result<(), String> {
        self.kept = Kept::seeded(SEED);
        self.events = std::mem::take(&mut self.events).into_iter().filter_map(without_held).collect();
        self.rebuild(self.numbers.clone(), at)
    }

    fn rebuild(&mut self, numbers: BTreeMap<String, LimitNumbers>, at: Timestamp) -> Result<(), String> {
        let over = RuntimeNumbers { overrides: &numbers, overlay: None };
        self.plan = self.plan.with_numbers(&self.limits, over, &mut self.kept, None, at)?;
        self.numbers = numbers;
        Ok(())
    }

    /// All limits, in the order of their indices.
    pub fn limits(&self) -> Vec<LimitFacts> {
        let facts = |limit: &crate::limit::Limit| LimitFacts {
            name: limit.name().to_owned(),
            numbers: limit.settings.numbers.clone(),
            soft: limit.settings.soft,
            key: limit.settings.key.to_string(),
            cost: limit.settings.cost,
            is_dry_run: limit.settings.dry_run,
            max_keys: limit.settings.max_keys,
            tier_of: None,
            sharing: limit.settings.state.sharing(),
        };
        let mut limits: Vec<_> = self.plan.limits.iter().map(facts).collect();
        for limit in &self.plan.limits {
            for (tier, index) in &limit.settings.tiers {
                if let Some(index) = index {
                    limits[*index].tier_of = Some((limit.name().to_owned(), tier.to_string()));
                }
            }
        }
        limits
    }

    /// The names of all routes, in the order of their indices.
    pub fn routes(&self) -> Vec<String> {
        self.plan.site.routes.iter().map(|route| route.name.to_string()).collect()
    }

    /// How often a limit was checked.
    pub fn checked(&self, limit: usize) -> u64 {
        self.checked[limit]
    }

    /// Whether the configuration has adaptation, which a replay leaves out.
    pub fn adapts(&self) -> bool {
        self.plan.site.adaptive.is_some()
    }

    /// Judges a request, after all events before it. `report` gets each judgement with its tag. That of a request that
    /// a shaper delays may come later.
    pub fn judge(&mut self, request: &PastRequest<'_>, tag: T, mut report: impl FnMut(T, Judgement)) {
        while self.events.peek().is_some_and(|Reverse(next)| next.at <= request.at.as_nanos())
            || self.events.len() >= MOST_EVENTS
        {
            self.happen(&mut report);
        }
        let mut judgement = Judgement { route: None, verdict: Verdict::NoRoute, would_reject: Vec::new() };
        let routed = match self.route(request) {
            Ok(routed) => routed,
            Err(verdict) => return report(tag, Judgement { verdict, ..judgement }),
        };
        judgement.route = Some(routed.route);
        let took = request.took.unwrap_or_default();
        // A log does not say how attempts at the upstream ended: of the policies, only limits are replayed.
        let terms = Terms { has_limits: routed.has_upstream_limits(), ..Terms::default() };
        let (stages, journey) = (Stages::new(false), Journey::new(terms, request.at));
        let (held, waited) = (Vec::new(), Duration::ZERO);
        let waiting = Waiting { tag, judgement, routed, stages, journey, held, waited, took };
        self.go_on(waiting, request.at, &mut report);
    }

    /// Lets all pending events happen.
    pub fn finish(&mut self, mut report: impl FnMut(T, Judgement)) {
        while !self.events.is_empty() {
            self.happen(&mut report);
        }
    }

    /// The limits that a request would be checked against: their indices, and the request's keys. Limits whose key
    /// can't be built are left out.
    pub fn keys(&self, request: &PastRequest<'_>, found: &mut Vec<(usize, Key)>) {
        found.clear();
        let Ok(Routed { client, upstream, .. }) = self.route(request) else { return };
        for (checks, _) in [client, upstream].into_iter().flatten() {
            found.extend(checks.iter().map(|check| (check.limit, check.key)));
        }
    }

    /// Finds a request's route, and the checks that it needs.
    fn route(&self, request: &PastRequest<'_>) -> Result<Routed, Verdict> {
        let headers = headers(request.headers);
        self.route_of(request, self.caller(request), headers.as_ref().unwrap_or(&self.no_headers))
    }

    /// The same for a request of this caller, with these headers.
    fn route_of(&self, request: &PastRequest<'_>, caller: Arc<Caller>, headers: &Headers) -> Result<Routed, Verdict> {
        let site = &self.plan.site;
        if !site.admin_apart && is_local(request.path) {
            return Err(Verdict::Local);
        }
        let host = Host::read(request.host.as_bytes()).ok_or(Verdict::NoRoute)?;
        let method = Method::from_bytes(request.method.as_bytes()).map_err(|_| Verdict::NoRoute)?;
        let unresolved = Unresolved {
            ip: request.ip.to_canonical(),
            caller,
            is_identified: true,
            host: host.name(),
            method: &method,
            path: request.path,
            headers,
        };
        let resolved = resolve(site, unresolved).ok_or(Verdict::NoRoute)?;
        let [client, upstream] = [Side::Client, Side::Upstream].map(|side| limit_checks(&self.plan, &resolved, side));
        Ok(Routed { route: resolved.route_index(), client, upstream, endpoint_hash: resolved.endpoint_hash() })
    }

    /// The caller: what the configuration has of that user, and what was recorded.
    fn caller(&self, request: &PastRequest<'_>) -> Arc<Caller> {
        let known = request.user.and_then(|user| self.known.get(user));
        match (known, request.user, request.tier) {
            (Some(known), _, None) => Arc::clone(known),
            (Some(known), _, tier) => Arc::new(Caller { tier: tier.map(Into::into), ..Caller::clone(known) }),
            (None, None, None) => Arc::clone(&self.anonymous),
            (None, user, tier) => {
                Arc::new(Caller { user: user.map(Into::into), tier: tier.map(Into::into), ..Caller::default() })
            }
        }
    }

    /// Checks limits. Returns what was taken, or why the request is rejected.
    fn check(
        &mut self,
        checks: Checks,
        would_reject: &mut Vec<usize>,
        now: Timestamp,
    ) -> Result<Vec<LimitCheck>, Verdict> {
        let (mut checks, keyless) = checks.map_err(|rejection| unchecked(&rejection)).inspect_err(|verdict| {
            if let Verdict::NoKey { limit } = verdict {
                self.checked[*limit] += 1;
            }
        })?;
        let decided = check_limits_in_memory(&self.plan, &mut checks, would_reject, now);
        // Limits on a dry run are checked only if the others admit.
        for check in checks.iter().filter(|check| check.decision.is_some()) {
            self.checked[check.limit] += 1;
        }
        decided.map_err(|(by, retry_after)| Verdict::Rejected { limit: checks[by].limit, retry_after })?;
        would_reject.extend(keyless);
        Ok(checks)
    }

    fn schedule(&mut self, at: Timestamp, change: Change<T>) {
        self.events.push(Reverse(Event { at: at.as_nanos(), number: self.scheduled, change }));
        self.scheduled += 1;
    }

    /// Lets the next event happen.
    fn happen(&mut self, report: &mut impl FnMut(T, Judgement)) {
        let Some(Reverse(Event { at, change, .. })) = self.events.pop() else { return };
        let now = Timestamp::from_nanos(at);
        match change {
            Change::Continue(waiting) => self.go_on(*waiting, now, report),
            Change::End(mut slots) => give_back(&self.plan, &mut slots, false, || now),
        }
    }

    /// Passes the stages of a request until it has to wait or its verdict is known. If one rejects, what was taken at
    /// the others is given back.
    fn go_on(&mut self, mut waiting: Waiting<T>, mut now: Timestamp, report: &mut impl FnMut(T, Judgement)) {
        loop {
            let side = match waiting.stages.next_step() {
                stages::Step::Check => Side::Client,
                stages::Step::Wait(wait) => {
                    waiting.waited += wait;
                    now = after(now, wait);
                    // Where nothing is checked any more, the verdict is known at once. The request still ends later.
                    if waiting.routed.has_upstream_limits() {
                        return self.schedule(now, Change::Continue(Box::new(waiting)));
                    }
                    continue;
                }
                // A log does not have the time that a body took.
                stages::Step::Collect => continue,
                stages::Step::SendOn => match waiting.journey.next(now) {
                    Step::Check => Side::Upstream,
                    Step::Delay(wait) => {
                        waiting.waited += wait;
                        now = after(now, wait);
                        continue;
                    }
                    Step::Ask | Step::Enter(_) | Step::AskAgain | Step::Pause(_) => continue,
                    Step::Attempt { .. } | Step::TimedOut => break,
                },
            };
            let checks = waiting.routed.take(side);
            match self.check(checks, &mut waiting.judgement.would_reject, now) {
                Ok(more) => {
                    let wait = wait_of(&self.plan, &more);
                    match side {
                        Side::Client => waiting.stages.admitted(wait),
                        Side::Upstream => waiting.journey.admitted(wait),
                    }
                    waiting.held.extend(more);
                }
                Err(verdict) => {
                    give_back(&self.plan, &mut waiting.held, true, || now);
                    return report(waiting.tag, Judgement { verdict, ..waiting.judgement });
                }
            }
        }
        let Waiting { tag, mut judgement, mut held, waited, took, .. } = waiting;
        held.retain(LimitCheck::holds_slot);
        if !held.is_empty() {
            self.schedule(after(now, took), Change::End(held));
        }
        judgement.verdict = Verdict::Admitted { wait: waited };
        report(tag, judgement);
    }
}

/// An event after the counts are forgotten: there is nothing to give back any more.
fn without_held<T>(Reverse(event): Reverse<Event<T>>) -> Option<Reverse<Event<T>>> {
    let Event { at, number, change } = event;
    match change {
        Change::End(_) => None,
        Change::Continue(mut waiting) => {
            waiting.held.clear();
            Some(Reverse(Event { at, number, change: Change::Continue(waiting) }))
        }
    }
}

fn after(now: Timestamp, span: Duration) -> Timestamp {
    let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    Timestamp::from_nanos(now.as_nanos().saturating_add(nanos))
}

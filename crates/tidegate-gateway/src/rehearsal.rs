//! What a configuration would have done to requests that were: the gateway's own routes, keys and limits, at the times at which they came.
//! There is no gateway, no clock and no Redis: limits that are shared there are counted in memory here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tidegate_http::headers::Headers;
use tidegate_policy::{Cost, Rule, Timestamp};
use tidegate_store::{Key, Sharing};

use crate::admission::{Asked, Denied, accounts, decide_in_memory, give_back, wait_of};
use crate::config::numbers::LimitNumbers;
use crate::config::own_paths::is_local;
use crate::identity::Caller;
use crate::plan::{Kept, Plan, RuntimeNumbers};
use crate::resolve::{Asking, resolve};
use crate::settings::{LimitSettings, Settings};
use crate::stages::{Side, Stages, Step};
use crate::validation::Host;

/// A request that was, as far as somebody remembers it.
#[derive(Clone, Copy, Debug)]
pub struct Past<'a> {
    /// When it came.
    pub at: Timestamp,
    /// The client's address.
    pub ip: IpAddr,
    /// As it was sent.
    pub method: &'a str,
    /// With or without a port; empty if nobody knows.
    pub host: &'a str,
    /// Without the query.
    pub path: &'a str,
    /// Who it was.
    pub user: Option<&'a str>,
    /// What they are entitled to, if that is known; of users with an API key the configuration knows it otherwise.
    pub tier: Option<&'a str>,
    /// Headers, as far as they are known.
    pub headers: &'a [(&'a str, &'a str)],
    /// How long its response took, if that is known: so long it held slots.
    pub took: Option<Duration>,
}

/// What would have become of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The index of the route it would have taken.
    pub route: Option<usize>,
    /// Whether it would have gone.
    pub verdict: Verdict,
    /// The indices of limits on a dry run that would have rejected it.
    pub would_refuse: Vec<usize>,
}

/// Whether a request would have gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It would, after this wait.
    Admitted {
        /// In a shaper's queue.
        wait: Duration,
    },
    /// A limit would have rejected it.
    Refused {
        /// Its index; of several, that of the limit that keeps it away longest.
        limit: usize,
        /// When to come back; never, if none.
        retry_after: Option<Duration>,
    },
    /// A limit's key can't be built, and the limit rejects such requests.
    Lacking {
        /// Its index.
        limit: usize,
    },
    /// No route is for it, or nobody can tell which one.
    NoRoute,
    /// The gateway itself would have answered it.
    Local,
}

/// A limit, for reports.
#[derive(Clone, Debug)]
pub struct LimitFacts {
    /// Its name; that of a tier is `limit.tier`.
    pub name: String,
    /// How much.
    pub numbers: LimitNumbers,
    /// What may come on top, marked as degraded.
    pub soft: u64,
    /// Who shares it, as it is written.
    pub key: String,
    /// What a request takes.
    pub cost: Cost,
    /// Whether it is on a dry run.
    pub is_watching: bool,
    /// How many accounts it keeps.
    pub max_keys: std::num::NonZeroUsize,
    /// Of which limit it is a tier, and which one.
    pub tier_of: Option<(String, String)>,
    sharing: Option<Sharing>,
}

impl LimitFacts {
    /// Whether it could have these numbers where its counts are kept; if not, why.
    pub fn accepts(&self, numbers: &LimitNumbers) -> Result<Rule, String> {
        let rule = numbers.rule(self.soft).map_err(|error| error.to_string())?;
        self.sharing.map_or(Ok(()), |sharing| sharing.check(&rule)).map_err(|error| error.to_string())?;
        Ok(rule)
    }
}

/// Everything that later events may be at once; beyond that the next one happens early.
const MOST_LATER: usize = 1 << 20;
/// Which account is pushed out when there are too many depends on it.
const SEED: u64 = 1;

/// Judges requests in the order in which they came. `T` is what the caller knows each of them by.
pub struct Rehearsal<T> {
    plan: Plan,
    /// The configuration's limits, and the numbers that were set over it.
    limits: Vec<LimitSettings>,
    numbers: BTreeMap<String, LimitNumbers>,
    kept: Kept,
    /// Those with an API key, by their names.
    known: HashMap<Box<str>, Arc<Caller>>,
    anonymous: Arc<Caller>,
    no_headers: Headers,
    later: BinaryHeap<Reverse<Later<T>>>,
    /// Events of the same time happen in the order in which they were foreseen.
    foreseen: u64,
    asked: Vec<u64>,
}

/// Something that happens at a time.
struct Later<T> {
    at: u64,
    number: u64,
    what: What<T>,
}

enum What<T> {
    /// A shaper's wait is over: the request goes on with its next stage.
    GoesOn(Box<Waiting<T>>),
    /// Its response has ended: slots come back.
    Ends(Vec<Asked>),
}

/// Limits to be asked, and those on a dry run that lack a key.
type Asks = Result<(Vec<Asked>, Vec<usize>), Denied>;

/// Where a request goes.
struct Routed {
    route: usize,
    /// Limits of its client.
    client: Asks,
    /// Limits of its upstream.
    upstream: Asks,
}

impl Routed {
    /// Takes the limits of one side.
    fn take(&mut self, side: Side) -> Asks {
        let asks = match side {
            Side::Client => &mut self.client,
            Side::Upstream => &mut self.upstream,
        };
        std::mem::replace(asks, Ok((Vec::new(), Vec::new())))
    }

    fn has_upstream_limits(&self) -> bool {
        !self.upstream.as_ref().is_ok_and(|(asks, keyless)| asks.is_empty() && keyless.is_empty())
    }
}

/// A request between two of its stages.
struct Waiting<T> {
    tag: T,
    judgement: Judgement,
    routed: Routed,
    stages: Stages,
    held: Vec<Asked>,
    /// How long it has waited so far.
    waited: Duration,
    took: Duration,
}

impl<T> PartialEq for Later<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl<T> Eq for Later<T> {}

impl<T> PartialOrd for Later<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Later<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl<T> Rehearsal<T> {
    /// By this configuration, with other numbers for some limits. `Err` says which limit can't have them, and why.
    pub fn new(settings: Settings, numbers: &BTreeMap<String, LimitNumbers>) -> Result<Self, String> {
        let (mut kept, limits) = (Kept::seeded(SEED), settings.limits.clone());
        let plan = Plan::build(settings, numbers, &mut kept, None, Timestamp::from_nanos(0))?;
        let mut known: HashMap<Box<str>, Arc<Caller>> = HashMap::new();
        for caller in plan.site.identity.known() {
            let Some(user) = &caller.user else { continue };
            // Of somebody's several keys always the same one.
            let kept = known.entry(user.clone()).or_insert_with(|| Arc::clone(caller));
            if caller.api_key < kept.api_key {
                *kept = Arc::clone(caller);
            }
        }
        let (anonymous, asked) = (plan.site.identity.anonymous(), vec![0; plan.limits.len()]);
        let no_headers = Headers::from(&HeaderMap::new());
        let (numbers, later) = (numbers.clone(), BinaryHeap::new());
        Ok(Self { plan, limits, numbers, kept, known, anonymous, no_headers, later, foreseen: 0, asked })
    }

    /// Gives a limit other numbers, over what was used. `Err` says why it can't have them; nothing has changed then.
    pub fn set_numbers(&mut self, limit: &str, numbers: LimitNumbers, at: Timestamp) -> Result<(), String> {
        let mut all = self.numbers.clone();
        all.insert(limit.to_owned(), numbers);
        self.rebuild(all, at)
    }

    /// Forgets what was used at all limits, as a store does that has lost its memory.
    pub fn forget(&mut self, at: Timestamp) -> Result<(), String> {
        self.kept = Kept::seeded(SEED);
        self.later = std::mem::take(&mut self.later).into_iter().filter_map(without_what_it_held).collect();
        self.rebuild(self.numbers.clone(), at)
    }

    fn rebuild(&mut self, numbers: BTreeMap<String, LimitNumbers>, at: Timestamp) -> Result<(), String> {
        let over = RuntimeNumbers { overrides: &numbers, overlay: None };
        self.plan = self.plan.with_numbers(&self.limits, over, &mut self.kept, None, at)?;
        self.numbers = numbers;
        Ok(())
    }

    /// All limits, by their indices.
    pub fn limits(&self) -> Vec<LimitFacts> {
        let facts = |limit: &crate::limit::Limit| LimitFacts {
            name: limit.name().to_owned(),
            numbers: limit.settings.numbers.clone(),
            soft: limit.settings.soft,
            key: limit.settings.key.to_string(),
            cost: limit.settings.cost,
            is_watching: limit.settings.dry_run,
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

    /// The names of all routes, by their indices.
    pub fn routes(&self) -> Vec<String> {
        self.plan.site.routes.iter().map(|route| route.name.to_string()).collect()
    }

    /// How often a limit was asked.
    pub fn asked(&self, limit: usize) -> u64 {
        self.asked[limit]
    }

    /// Whether the configuration lets a forecaster change numbers, which nobody does here.
    pub fn adapts(&self) -> bool {
        self.plan.site.adaptive.is_some()
    }

    /// Judges a request, after everything that happens before it. `report` gets each judgement with its tag: that of a
    /// request that a shaper delays may come later.
    pub fn judge(&mut self, past: &Past<'_>, tag: T, mut report: impl FnMut(T, Judgement)) {
        while self.later.peek().is_some_and(|Reverse(next)| next.at <= past.at.as_nanos())
            || self.later.len() >= MOST_LATER
        {
            self.happen(&mut report);
        }
        let mut judgement = Judgement { route: None, verdict: Verdict::NoRoute, would_refuse: Vec::new() };
        let routed = match self.route(past) {
            Ok(routed) => routed,
            Err(verdict) => return report(tag, Judgement { verdict, ..judgement }),
        };
        judgement.route = Some(routed.route);
        let (stages, took) = (Stages::new(), past.took.unwrap_or_default());
        let waiting = Waiting { tag, judgement, routed, stages, held: Vec::new(), waited: Duration::ZERO, took };
        self.go_on(waiting, past.at, &mut report);
    }

    /// Lets everything happen that is still to come.
    pub fn finish(&mut self, mut report: impl FnMut(T, Judgement)) {
        while !self.later.is_empty() {
            self.happen(&mut report);
        }
    }

    /// The limits that a request would be checked against: their indices, and the request's keys. What can't be known is
    /// left out.
    pub fn accounts(&self, past: &Past<'_>, found: &mut Vec<(usize, Key)>) {
        found.clear();
        let Ok(Routed { client, upstream, .. }) = self.route(past) else { return };
        for (asked, _) in [client, upstream].into_iter().flatten() {
            found.extend(asked.iter().map(|asked| (asked.limit, asked.key)));
        }
    }

    /// Which route a request takes, and which limits are asked about it on whose account.
    fn route(&self, past: &Past<'_>) -> Result<Routed, Verdict> {
        let site = &self.plan.site;
        if !site.admin_apart && is_local(past.path) {
            return Err(Verdict::Local);
        }
        let host = Host::read(past.host.as_bytes()).ok_or(Verdict::NoRoute)?;
        let method = Method::from_bytes(past.method.as_bytes()).map_err(|_| Verdict::NoRoute)?;
        let headers = headers(past.headers);
        let asking = Asking {
            ip: past.ip.to_canonical(),
            caller: self.caller(past),
            is_identified: true,
            host: host.name(),
            method: &method,
            path: past.path,
            headers: headers.as_ref().unwrap_or(&self.no_headers),
        };
        let resolved = resolve(site, asking).ok_or(Verdict::NoRoute)?;
        let [client, upstream] = [Side::Client, Side::Upstream].map(|side| accounts(&self.plan, &resolved, side));
        Ok(Routed { route: resolved.route_index(), client, upstream })
    }

    /// Who it was: what the configuration knows of that user, and what the request itself tells.
    fn caller(&self, past: &Past<'_>) -> Arc<Caller> {
        let known = past.user.and_then(|user| self.known.get(user));
        match (known, past.user, past.tier) {
            (Some(known), _, None) => Arc::clone(known),
            (Some(known), _, tier) => Arc::new(Caller { tier: tier.map(Into::into), ..Caller::clone(known) }),
            (None, None, None) => Arc::clone(&self.anonymous),
            (None, user, tier) => {
                Arc::new(Caller { user: user.map(Into::into), tier: tier.map(Into::into), ..Caller::default() })
            }
        }
    }

    /// Asks limits. What they gave, or what keeps the request away.
    fn ask(&mut self, asks: Asks, judgement: &mut Judgement, now: Timestamp) -> Result<Vec<Asked>, Verdict> {
        let (mut asked, keyless) = match asks {
            Ok(asks) => asks,
            Err(Denied::NoKey { limit, .. }) => {
                self.asked[limit] += 1;
                return Err(Verdict::Lacking { limit });
            }
            // Its path can be read in more ways than can be asked about together. The rest is of limits that were asked.
            Err(Denied::TooMany | Denied::Limit { .. } | Denied::StoreAway { .. }) => return Err(Verdict::NoRoute),
        };
        let decided = decide_in_memory(&self.plan, &mut asked, &mut judgement.would_refuse, now);
        // Limits on a dry run are asked about what the others admit.
        for one in asked.iter().filter(|one| one.decision.is_some()) {
            self.asked[one.limit] += 1;
        }
        decided.map_err(|(by, retry_after)| Verdict::Refused { limit: asked[by].limit, retry_after })?;
        judgement.would_refuse.extend(keyless);
        Ok(asked)
    }

    fn foresee(&mut self, at: Timestamp, what: What<T>) {
        self.later.push(Reverse(Later { at: at.as_nanos(), number: self.foreseen, what }));
        self.foreseen += 1;
    }

    fn happen(&mut self, report: &mut impl FnMut(T, Judgement)) {
        let Some(Reverse(Later { at, what, .. })) = self.later.pop() else { return };
        let now = Timestamp::from_nanos(at);
        match what {
            What::GoesOn(waiting) => self.go_on(*waiting, now, report),
            What::Ends(mut slots) => give_back(&self.plan, &mut slots, false, || now),
        }
    }

    /// Lets a request pass its stages, until it has to wait for one or its verdict is known. If one rejects, what was taken
    /// at the others comes back.
    fn go_on(&mut self, mut waiting: Waiting<T>, mut now: Timestamp, report: &mut impl FnMut(T, Judgement)) {
        loop {
            match waiting.stages.next() {
                Step::Check(side) => {
                    let asks = waiting.routed.take(side);
                    match self.ask(asks, &mut waiting.judgement, now) {
                        Ok(more) => {
                            waiting.stages.admitted(wait_of(&self.plan, &more));
                            waiting.held.extend(more);
                        }
                        Err(verdict) => {
                            give_back(&self.plan, &mut waiting.held, true, || now);
                            return report(waiting.tag, Judgement { verdict, ..waiting.judgement });
                        }
                    }
                }
                Step::Wait(wait) => {
                    waiting.waited += wait;
                    now = after(now, wait);
                    // Where no limit is asked any more, its verdict is known at once; but it is under way until later.
                    if waiting.routed.has_upstream_limits() {
                        return self.foresee(now, What::GoesOn(Box::new(waiting)));
                    }
                }
                Step::Attempt => break,
            }
        }
        let Waiting { tag, mut judgement, mut held, waited, took, .. } = waiting;
        held.retain(Asked::is_slot);
        if !held.is_empty() {
            self.foresee(after(now, took), What::Ends(held));
        }
        judgement.verdict = Verdict::Admitted { wait: waited };
        report(tag, judgement);
    }
}

/// What is still to happen where nobody remembers what was taken.
fn without_what_it_held<T>(Reverse(later): Reverse<Later<T>>) -> Option<Reverse<Later<T>>> {
    let Later { at, number, what } = later;
    match what {
        What::Ends(_) => None,
        What::GoesOn(mut waiting) => {
            waiting.held.clear();
            Some(Reverse(Later { at, number, what: What::GoesOn(waiting) }))
        }
    }
}

fn after(now: Timestamp, span: Duration) -> Timestamp {
    let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    Timestamp::from_nanos(now.as_nanos().saturating_add(nanos))
}

/// Those that can be headers.
fn headers(pairs: &[(&str, &str)]) -> Option<Headers> {
    if pairs.is_empty() {
        return None;
    }
    let mut map = HeaderMap::with_capacity(pairs.len());
    for (name, value) in pairs {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(*name), HeaderValue::from_str(value)) {
            map.append(name, value);
        }
    }
    Some(Headers::from(&map))
}

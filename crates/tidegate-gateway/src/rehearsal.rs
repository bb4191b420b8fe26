//! What a configuration would have done to requests that were: the gateway's own routes, keys and limits, at the times at which they came.
//! There is no gateway, no clock and no Redis: limits that are shared there are counted in memory here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tidegate_policy::{Cost, Rule, Timestamp};
use tidegate_store::{Key, Sharing};

use crate::config::numbers::LimitNumbers;
use crate::config::own_paths::is_local;
use crate::facts::Facts;
use crate::fields::Fields;
use crate::identity::Caller;
use crate::limits::{Asked, Denied, accounts, decide_in_memory, give_back, wait_of};
use crate::plan::{Kept, Plan, RouteLimits};
use crate::settings::Settings;
use crate::vetting::Host;

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
    /// What they are entitled to, if that is told; of users with an API key the configuration knows it otherwise.
    pub tier: Option<&'a str>,
    /// Header fields, as far as they are known.
    pub headers: &'a [(&'a str, &'a str)],
    /// How long its answer took, if that is known: so long it held places in flight.
    pub took: Option<Duration>,
}

/// What would have become of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Which route it would have taken, by its place.
    pub route: Option<usize>,
    /// Whether it would have gone.
    pub verdict: Verdict,
    /// Limits that only watch and would have refused, by their places.
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
    /// A limit would have refused it.
    Refused {
        /// Which one, by its place; of several, the one that keeps it away longest.
        limit: usize,
        /// When to come back; never, if none.
        retry_after: Option<Duration>,
    },
    /// A limit's key can't be built, and the limit refuses such requests.
    Lacking {
        /// Which one, by its place.
        limit: usize,
    },
    /// No route is for it, or nobody can tell which one.
    NoRoute,
    /// The gateway itself would have answered it.
    Local,
}

/// A limit, for whoever tells of it.
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
    /// Whether it only watches.
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
    /// Those with an API key, by their names.
    known: HashMap<Box<str>, Arc<Caller>>,
    anonymous: Arc<Caller>,
    no_fields: Fields,
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
    /// A shaper lets a request go: the upstream's limits are asked about it.
    Leaves(Box<Leaving<T>>),
    /// Its answer has ended: places in flight come back.
    Ends(Vec<Asked>),
}

/// Limits to be asked, and those that only watch and lack a key.
type Asks = Result<(Vec<Asked>, Vec<usize>), Denied>;

/// Where a request goes.
struct Routed {
    route: usize,
    /// Limits of its client.
    client: Asks,
    /// Limits of its upstream.
    upstream: Asks,
}

/// A request between the limits of its client and those of its upstream.
struct Leaving<T> {
    tag: T,
    judgement: Judgement,
    held: Vec<Asked>,
    asks: Asks,
    wait: Duration,
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
        let mut kept = Kept::seeded(SEED);
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
        let no_fields = Fields::from(&HeaderMap::new());
        Ok(Self { plan, known, anonymous, no_fields, later: BinaryHeap::new(), foreseen: 0, asked })
    }

    /// All limits, by their places.
    pub fn limits(&self) -> Vec<LimitFacts> {
        let facts = |limit: &crate::limits::Limit| LimitFacts {
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
            for (tier, place) in &limit.settings.tiers {
                if let Some(place) = place {
                    limits[*place].tier_of = Some((limit.name().to_owned(), tier.to_string()));
                }
            }
        }
        limits
    }

    /// The names of all routes, by their places.
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

    /// Judges a request, and lets everything happen that happens before it. Judgements are `told` with their tags: that of a request that a
    /// shaper keeps may come later.
    pub fn judge(&mut self, past: &Past<'_>, tag: T, mut told: impl FnMut(T, Judgement)) {
        while self.later.peek().is_some_and(|Reverse(next)| next.at <= past.at.as_nanos())
            || self.later.len() >= MOST_LATER
        {
            self.happen(&mut told);
        }
        let mut judgement = Judgement { route: None, verdict: Verdict::NoRoute, would_refuse: Vec::new() };
        let Routed { route, client, upstream } = match self.route(past) {
            Ok(routed) => routed,
            Err(verdict) => return told(tag, Judgement { verdict, ..judgement }),
        };
        judgement.route = Some(route);
        let held = match self.ask(client, &mut judgement, past.at) {
            Ok(held) => held,
            Err(verdict) => return told(tag, Judgement { verdict, ..judgement }),
        };
        let (wait, took) = (wait_of(&self.plan, &held), past.took.unwrap_or_default());
        let leaving = Leaving { tag, judgement, held, asks: upstream, wait, took };
        if wait.is_zero() || leaving.asks.as_ref().is_ok_and(|(asks, keyless)| asks.is_empty() && keyless.is_empty()) {
            // Nobody is asked any more, so it may leave at once; but it is under way until later.
            self.leave(leaving, after(past.at, wait), &mut told);
        } else {
            self.foresee(after(past.at, wait), What::Leaves(Box::new(leaving)));
        }
    }

    /// Lets everything happen that is still to come.
    pub fn finish(&mut self, mut told: impl FnMut(T, Judgement)) {
        while !self.later.is_empty() {
            self.happen(&mut told);
        }
    }

    /// On whose accounts a request goes, at all limits that it would be asked about: their places and keys. What can't be told is left out.
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
        let found = site.find(host.name(), &method, past.path).ok_or(Verdict::NoRoute)?;
        let (route, caller, fields) = (&site.routes[found.route], self.caller(past), fields(past.headers));
        let upstream = &site.upstreams[route.upstream].settings;
        let facts = Facts {
            ip: past.ip.to_canonical(),
            caller: &caller,
            tier: caller.tier.as_deref().unwrap_or(&site.default_tier),
            route: &route.name,
            path: &found.path,
            upstream: &upstream.name,
            method: past.method,
            host: host.name(),
            fields: fields.as_ref().unwrap_or(&self.no_fields),
        };
        let client = if found.is_ambiguous() {
            let limits: Vec<_> = [route.limits()].into_iter().chain(found.other_limits(site)).collect();
            accounts(&self.plan, &limits, &facts)
        } else {
            accounts(&self.plan, &[route.limits()], &facts)
        };
        let upstream = accounts(&self.plan, &[RouteLimits { route: &route.name, limits: &upstream.limits }], &facts);
        Ok(Routed { route: found.route, client, upstream })
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
        // Limits that only watch are asked about what the others admit.
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

    fn happen(&mut self, told: &mut impl FnMut(T, Judgement)) {
        let Some(Reverse(Later { at, what, .. })) = self.later.pop() else { return };
        let now = Timestamp::from_nanos(at);
        match what {
            What::Leaves(leaving) => self.leave(*leaving, now, told),
            What::Ends(mut places) => give_back(&self.plan, &mut places, false, || now),
        }
    }

    /// The upstream's limits. If they refuse, what the client's took comes back.
    fn leave(&mut self, leaving: Leaving<T>, now: Timestamp, told: &mut impl FnMut(T, Judgement)) {
        let Leaving { tag, mut judgement, mut held, asks, wait, took } = leaving;
        let more = match self.ask(asks, &mut judgement, now) {
            Ok(more) => more,
            Err(verdict) => {
                give_back(&self.plan, &mut held, true, || now);
                return told(tag, Judgement { verdict, ..judgement });
            }
        };
        let more_wait = wait_of(&self.plan, &more);
        held.extend(more);
        held.retain(Asked::is_place);
        if !held.is_empty() {
            self.foresee(after(now, more_wait + took), What::Ends(held));
        }
        judgement.verdict = Verdict::Admitted { wait: wait + more_wait };
        told(tag, judgement);
    }
}

fn after(now: Timestamp, span: Duration) -> Timestamp {
    let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    Timestamp::from_nanos(now.as_nanos().saturating_add(nanos))
}

/// Those that can be header fields.
fn fields(headers: &[(&str, &str)]) -> Option<Fields> {
    if headers.is_empty() {
        return None;
    }
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(*name), HeaderValue::from_str(value)) {
            map.append(name, value);
        }
    }
    Some(Fields::from(&map))
}

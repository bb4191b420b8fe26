use std::fmt;
use std::hash::BuildHasher;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_policy::{Decision, MAX_LEVELS, RefusedBy, Rule, Timestamp, longest_refusal};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::exact::Charge;
use crate::lease::LeaseTerms;
use crate::leased::Turns;
use crate::limit::{SharedLevel, SharedLimit, Sharing};
use crate::link::{LONGEST_PAUSE, Link, Observer, Unavailable};
use crate::local::{LocalTicket, check_local};
use crate::owed::Owed;
use crate::script::Scripts;
use crate::{Council, CouncilTerms, Document, Name, Topology, Unshareable};

/// What happens to requests while Redis is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailureMode {
    /// They pass, unlimited. Nobody is told but the [`Observer`].
    #[default]
    Open,
    /// They are refused.
    Closed,
    /// They are limited in memory, by this process alone, starting from an unused limit: with N processes up to N limits come on top of
    /// what was used in Redis.
    Local,
}

impl FailureMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Open, Self::Closed, Self::Local];

    /// Its name, as configurations and metrics have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Local => "local",
        }
    }
}

/// How a [`Store`] reaches Redis, and what it does when it can't.
#[derive(Clone)]
pub struct StoreConfig {
    /// Where Redis is.
    pub topology: Topology,
    /// Limits of one namespace are checked together on one master; scale by having several.
    pub namespace: Name,
    /// The longest a request waits for Redis: from 1 ms to 60 s.
    pub budget: Duration,
    /// What happens to requests while Redis is away.
    pub on_failure: FailureMode,
    /// How much is taken in advance, for limits that are leased: from 1 to 2³⁰ tokens, for 1 ms to 1 h.
    pub lease: LeaseTerms,
    /// Is told what happens between us and Redis.
    pub observer: Observer,
}

impl StoreConfig {
    /// What [`budget`](Self::budget) may be.
    pub const BUDGET: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);

    /// The usual settings: 20 ms for a call, fail open, leases of up to 1000 tokens for a second.
    pub fn new(topology: Topology, namespace: Name) -> Self {
        Self {
            topology,
            namespace,
            budget: Duration::from_millis(20),
            on_failure: FailureMode::default(),
            lease: LeaseTerms::default(),
            observer: Arc::new(|_| {}),
        }
    }
}

/// Limits shared through Redis. Clones are the same store.
#[derive(Clone)]
pub struct Store(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) namespace: Name,
    pub(crate) on_failure: FailureMode,
    pub(crate) lease: LeaseTerms,
    pub(crate) budget: Duration,
    pub(crate) link: Arc<Link>,
    pub(crate) scripts: Scripts,
    pub(crate) turns: Turns,
    pub(crate) owed: Owed,
    /// The one it was connected on, which outlives whoever asks.
    pub(crate) runtime: Handle,
    next_id: AtomicU64,
}

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Redis, or a lease from it.
    Shared,
    /// Redis is away: the mode decided, or this process' own memory.
    Failure(FailureMode),
}

/// What a request is told, and what it takes to return what it was charged.
#[derive(Debug)]
#[must_use = "a limit whose verdicts nobody follows limits nothing"]
pub struct Verdict {
    /// Whether it may go.
    pub admitted: bool,
    /// Who decided.
    pub source: Source,
    /// What each level said, in their order; empty if none was asked.
    pub decisions: Vec<Decision>,
    /// The refusing level that keeps it away longest, and for how long (`None`: for ever). While Redis is away and the mode is `closed`,
    /// no level has refused: it names the first, and the longest pause until Redis is tried again.
    pub refused_by: Option<RefusedBy>,
    /// What was charged.
    pub charged: Charged,
}

/// What a request was charged, to [give it back](Store::give_back). Dropping it gives nothing back.
#[derive(Debug, Default)]
pub struct Charged {
    pub(crate) exact: Vec<Charge>,
    pub(crate) local: Vec<LocalTicket>,
}

impl Charged {
    /// Only the places in flight: what must come back when a request is done, while what it spent stays spent.
    #[must_use]
    pub fn only_places(mut self) -> Self {
        self.exact.retain(Charge::is_place);
        self.local.retain(LocalTicket::is_place);
        self
    }

    /// Takes over what is charged in `other`.
    pub fn append(&mut self, mut other: Self) {
        self.exact.append(&mut other.exact);
        self.local.append(&mut other.local);
    }

    /// Whether there is nothing to give back.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.local.is_empty()
    }
}

impl Verdict {
    pub(crate) fn new(source: Source, decisions: Vec<Decision>, charged: Charged) -> Self {
        let refused_by = longest_refusal(decisions.iter().copied());
        Self { admitted: refused_by.is_none(), source, decisions, refused_by, charged }
    }
}

/// A setting of a [`StoreConfig`] that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidConfig {
    /// Which setting.
    pub field: &'static str,
    /// What is allowed.
    pub allowed: &'static str,
}

impl fmt::Display for InvalidConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` must be {}", self.field, self.allowed)
    }
}

impl std::error::Error for InvalidConfig {}

impl StoreConfig {
    fn check(&self) -> Result<(), InvalidConfig> {
        if !Self::BUDGET.contains(&self.budget) {
            return Err(InvalidConfig { field: "budget", allowed: "from 1 ms to 60 s" });
        }
        if !LeaseTerms::SPAN.contains(&self.lease.span) {
            return Err(InvalidConfig { field: "lease.span", allowed: "from 1 ms to 1 h" });
        }
        if !LeaseTerms::TOKENS.contains(&self.lease.tokens) {
            return Err(InvalidConfig { field: "lease.tokens", allowed: "from 1 to 2^30" });
        }
        Ok(())
    }
}

impl Store {
    /// Connects. If Redis can't be used the store starts in its failure mode and goes on trying, whatever the reason: also for a wrong
    /// password, address or certificate. The observer is told, and [`is_down`](Self::is_down) says so.
    pub async fn connect(config: StoreConfig) -> Result<Self, InvalidConfig> {
        config.check()?;
        let StoreConfig { topology, namespace, budget, on_failure, lease, observer } = config;
        let probe = format!("tidegate:{{{}}}::probe", namespace.as_str());
        let link = Link::open(topology, budget, probe, observer).await;
        // What different processes name must never have the same id: 32 random bits, then a counter; 52 bits in all.
        let random = std::hash::RandomState::new().hash_one(std::process::id()) & 0xffff_ffff;
        let next_id = AtomicU64::new(random << 20);
        let (scripts, turns, owed, runtime) =
            (Scripts::default(), Turns::default(), Owed::default(), Handle::current());
        let inner = Inner { namespace, on_failure, lease, budget, link, scripts, turns, owed, runtime, next_id };
        Ok(Self(Arc::new(inner)))
    }

    /// A limit of this store. Its name and algorithm are what it is known by: whoever uses the same ones in the same namespace shares its
    /// counts. `max_keys` bounds what this process keeps in memory for it: leases, and counts while Redis is away.
    pub fn limit(
        &self,
        name: Name,
        rule: impl Into<Rule>,
        sharing: Sharing,
        max_keys: NonZeroUsize,
    ) -> Result<SharedLimit, Unshareable> {
        SharedLimit::new(&self.0.namespace, name, rule.into(), sharing, max_keys)
    }

    /// The text under `namespace:name`, for whatever all who share this store must know besides its counts.
    pub fn document(&self, name: &Name) -> Document {
        Document::new(self.clone(), format!("{}:{}", self.0.namespace.as_str(), name.as_str()))
    }

    /// A seat in the council of this name, in which all who share this store agree on who adapts what. It begins with the first meeting.
    pub fn council(&self, name: &Name, terms: CouncilTerms) -> Result<Council, InvalidConfig> {
        Council::new(self.clone(), name, terms)
    }

    /// Whether Redis counts as away.
    pub fn is_down(&self) -> bool {
        self.0.link.is_down()
    }

    /// How often Redis was reached again after it had counted as away.
    pub fn reconnections(&self) -> u32 {
        self.0.link.epoch()
    }

    /// Asks all levels together: the request is charged at every one of them, or, if any refuses, at none.
    ///
    /// All levels must be limits of this store. `now` is the caller's clock: it counts for leases and while Redis is away; otherwise
    /// Redis' own clock does. Dropping the returned future is safe: what Redis then charges is given back. It takes no longer than the
    /// budget.
    ///
    /// # Panics
    /// With more than [`MAX_LEVELS`] levels, or a limit of another namespace.
    pub async fn check(&self, levels: &[SharedLevel<'_>], now: Timestamp) -> Verdict {
        let (inner, count) = (&self.0, levels.len());
        assert!(count <= MAX_LEVELS, "{count} levels; at most {MAX_LEVELS} can be checked together");
        let at_home = levels.iter().all(|level| *level.limit.namespace() == inner.namespace);
        assert!(at_home, "only limits of the namespace {:?} can be checked here", inner.namespace.as_str());
        if levels.is_empty() {
            return Verdict::new(Source::Shared, Vec::new(), Charged::default());
        }
        if let Some(verdict) = inner.check_in_hand(levels, now) {
            return verdict;
        }
        let asking = async {
            if levels.iter().all(|level| level.limit.sharing() == Sharing::Exact) {
                inner.check_exact(levels).await
            } else {
                inner.check_leased(levels, now).await
            }
        };
        let answer = timeout(inner.budget, asking).await.unwrap_or(Err(Unavailable));
        answer.unwrap_or_else(|Unavailable| match inner.on_failure {
            FailureMode::Local => check_local(levels, now),
            mode => {
                let admitted = mode == FailureMode::Open;
                let refused_by = (!admitted).then_some(RefusedBy { level: 0, retry_after: Some(LONGEST_PAUSE) });
                let source = Source::Failure(mode);
                Verdict { admitted, source, decisions: Vec::new(), refused_by, charged: Charged::default() }
            }
        })
    }

    /// How many places in flight are free and Redis does not know it yet, because it was away. They are given back when it is there
    /// again: at most 10,000, the latest ones.
    pub fn owed(&self) -> usize {
        self.0.owed.count()
    }

    /// Gives back what a request was charged, as [`tidegate_policy::Limiter::give_back`] says. Redis is told in a task of its own, which
    /// goes on if the returned future is dropped. If it can't be reached, places in flight are given back when it is there again (see
    /// [`owed`](Self::owed)); whatever else it charged stays charged.
    pub async fn give_back(&self, charged: Charged, now: Timestamp) {
        for ticket in charged.local {
            ticket.give_back(now);
        }
        if !charged.exact.is_empty() {
            let inner = Arc::clone(&self.0);
            // It can only fail if the runtime shuts down, and then nobody waits here.
            let _ended = tokio::spawn(async move { inner.give_back_exact(charged.exact).await }).await;
        }
    }
}

impl Inner {
    /// A number that nobody else has.
    pub(crate) fn next_id(&self) -> u64 {
        (self.next_id.fetch_add(1, Ordering::Relaxed) & ((1 << 52) - 1)).max(1)
    }
}

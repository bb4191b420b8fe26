use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tidegate_policy::{MAX_LEVELS, RejectedBy, Rule, Timestamp};
use tokio::time::timeout;

use crate::charge::Charged;
use crate::config::{InvalidConfig, StoreConfig};
use crate::document::Document;
use crate::election::{Election, Lifetimes};
use crate::exact;
use crate::key::Name;
use crate::leased::Leases;
use crate::limit::{SharedLevel, SharedLimit, Sharing};
use crate::link::{LONGEST_PAUSE, Link, Unavailable};
use crate::local;
use crate::numbers::Unshareable;
use crate::owed::Owed;
use crate::session::Session;
use crate::verdict::{FailureMode, Source, Verdict};

/// Limits shared through Redis. Clones are the same store.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    namespace: Name,
    on_failure: FailureMode,
    budget: Duration,
    link: Arc<Link>,
    owed: Arc<Owed>,
    leases: Arc<Leases>,
}

impl Store {
    /// Connects. If Redis can't be used the store starts in its failure mode and goes on trying, whatever the reason:
    /// also for a wrong password, address or certificate. The observer hears of it, and [`is_down`](Self::is_down) says
    /// so.
    pub async fn connect(config: StoreConfig) -> Result<Self, InvalidConfig> {
        config.check()?;
        let StoreConfig { topology, namespace, budget, on_failure, lease, observer } = config;
        let probe = format!("tidegate:{{{}}}::probe", namespace.as_str());
        let link = Link::open(topology, budget, probe, observer).await;
        let owed = Arc::new(Owed::new(Arc::new(Session::new(Arc::clone(&link)))));
        let leases = Arc::new(Leases::new(Arc::clone(&owed), lease, budget));
        Ok(Self(Arc::new(Inner { namespace, on_failure, budget, link, owed, leases })))
    }

    /// A limit of this store. Its name and algorithm are what it is known by: processes that use the same ones in the
    /// same namespace share its counts. `max_keys` bounds what this process keeps in memory for it: leases, and counts
    /// while Redis is away.
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
        Document::new(Arc::clone(&self.0.link), format!("{}:{}", self.0.namespace.as_str(), name.as_str()))
    }

    /// This process as a member of the [election](crate::election) of this name, by which all who share this store
    /// agree on which of them leads. It takes part from its first heartbeat on.
    pub fn election(&self, name: &Name, lifetimes: Lifetimes) -> Result<Election, InvalidConfig> {
        Election::new(Arc::clone(&self.0.link), &self.0.namespace, name, lifetimes)
    }

    /// Whether Redis counts as away.
    pub fn is_down(&self) -> bool {
        self.0.link.is_down()
    }

    /// How often Redis was reached again after it had counted as away.
    pub fn reconnections(&self) -> u32 {
        self.0.link.epoch()
    }

    /// Asks all levels together: the request is charged at every one of them, or, if any rejects, at none.
    ///
    /// All levels must be limits of this store. `now` is the caller's clock: it counts for leases and while Redis is
    /// away; otherwise Redis' own clock does. Dropping the returned future is safe: what Redis then charges is given
    /// back. It takes no longer than the budget.
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
        if let Some(verdict) = inner.leases.check_in_hand(levels, now) {
            return verdict;
        }
        let asking = async {
            if levels.iter().all(|level| level.limit.sharing() == Sharing::Exact) {
                exact::check(&inner.owed, levels).await
            } else {
                inner.leases.check(levels, now).await
            }
        };
        let verdict = timeout(inner.budget, asking).await.unwrap_or(Err(Unavailable));
        verdict.unwrap_or_else(|Unavailable| decide_without_redis(inner.on_failure, levels, now))
    }

    /// How many slots are free and Redis does not know it yet, because it was away. They are given back when it is
    /// there again: at most 10,000, the latest ones.
    pub fn owed(&self) -> usize {
        self.0.owed.count()
    }

    /// Gives back what a request was charged, as [`tidegate_policy::Limiter::give_back`] says. A task of its own
    /// reports it to Redis, and goes on if the returned future is dropped. If Redis can't be reached, slots are given
    /// back when it is there again (see [`owed`](Self::owed)); whatever else it charged stays charged.
    pub async fn give_back(&self, charged: Charged, now: Timestamp) {
        for ticket in charged.local {
            ticket.give_back(now);
        }
        if !charged.exact.is_empty() {
            let owed = Arc::clone(&self.0.owed);
            // It can only fail if the runtime shuts down, and then nobody waits here.
            let _ended = tokio::spawn(async move { owed.give_back(charged.exact).await }).await;
        }
    }
}

/// While Redis is away the failure mode decides.
fn decide_without_redis(mode: FailureMode, levels: &[SharedLevel<'_>], now: Timestamp) -> Verdict {
    let rejected_by = match mode {
        FailureMode::Local => return local::check(levels, now),
        FailureMode::Open => None,
        FailureMode::Closed => Some(RejectedBy { level: 0, retry_after: Some(LONGEST_PAUSE) }),
    };
    let (admitted, source) = (rejected_by.is_none(), Source::Failure(mode));
    Verdict { admitted, source, decisions: Vec::new(), rejected_by, charged: Charged::default() }
}

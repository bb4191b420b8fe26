//! A policy in force for an upstream, in simulated time: the objects are the gateway's own.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_gateway::settings::{PolicySettings, RetrySettings};
use tidegate_policy::breaker::{Breaker, Phase};
use tidegate_policy::bulkhead::Bulkhead;
use tidegate_policy::journey::Terms;
use tidegate_policy::retry::{HedgeDelay, RetryBudget};
use tidegate_policy::{FailureSet, InvalidSetting};

/// What breakers have become since somebody looked: whether one opened, and the text for people.
#[derive(Clone, Default)]
pub(super) struct Transitions(Arc<Mutex<Vec<(bool, String)>>>);

impl Transitions {
    fn push(&self, opened: bool, text: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((opened, text));
    }

    /// Takes all of them.
    pub(super) fn take(&self) -> Vec<(bool, String)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(super) struct Interaction {
    /// The indices of its policy and its upstream.
    pub(super) of: (usize, usize),
    pub(super) terms: Terms,
    pub(super) retry: Option<RetrySettings>,
    /// What the breaker counts as failures.
    pub(super) failures: FailureSet,
    pub(super) breaker: Option<Arc<Breaker>>,
    pub(super) budget: Option<RetryBudget>,
    pub(super) hedge: Option<HedgeDelay>,
    /// Those that wait for a slot are known by the numbers of their passages.
    pub(super) bulkhead: Option<Bulkhead<u64>>,
}

impl Interaction {
    pub(super) fn new(
        of: (usize, usize),
        policy: &PolicySettings,
        upstream: &str,
        transitions: &Transitions,
    ) -> Result<Self, InvalidSetting> {
        let breaker = policy.breaker.map(Breaker::new).transpose()?;
        let (transitions, name) = (transitions.clone(), format!("{upstream} (policy {})", policy.name));
        let breaker = breaker.map(|breaker| {
            Arc::new(breaker.with_listener(move |transition| {
                transitions.push(transition.to == Phase::Open, format!("breaker of {name} {transition}"));
            }))
        });
        Ok(Self {
            of,
            terms: policy.terms,
            retry: policy.retry.clone(),
            failures: policy.failures,
            breaker,
            budget: policy.retry.as_ref().map(|retry| RetryBudget::new(retry.budget)).transpose()?,
            hedge: policy.retry.as_ref().and_then(|retry| retry.hedge).map(HedgeDelay::new).transpose()?,
            bulkhead: policy.bulkhead.map(Bulkhead::new).transpose()?,
        })
    }
}

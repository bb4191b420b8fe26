//! Interactions: a policy in force for an upstream, with what its breaker, its retry budget and its bulkhead know. All
//! workers share it, and it outlives a reload.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tidegate_policy::breaker::{Breaker, Call, Phase, Transition, Verdict};
use tidegate_policy::endpoints::Cause;
use tidegate_policy::journey::{NoRetry, Terms};
use tidegate_policy::retry::{HedgeDelay, RetryBudget};
use tidegate_policy::{FailureSet, InvalidSetting, Timestamp};
use tidegate_serve::{Counter, Log};
use tidegate_wait::Bulkhead;

use crate::attempt_hold::RecordedCall;
use crate::settings::{PolicySettings, RetrySettings};

/// A policy in force for an upstream.
pub(crate) struct Interaction {
    pub(crate) policy: Box<str>,
    pub(crate) upstream: Box<str>,
    pub(crate) terms: Terms,
    pub(crate) retry: Option<RetrySettings>,
    /// What the breaker counts as failures.
    pub(crate) failures: FailureSet,
    pub(crate) breaker: Option<Arc<Breaker>>,
    pub(crate) budget: Option<Arc<RetryBudget>>,
    pub(crate) hedge: Option<Arc<HedgeDelay>>,
    pub(crate) bulkhead: Option<Bulkhead>,
    pub(crate) stats: Arc<InteractionStats>,
}

/// What is counted of an interaction, besides what its parts count.
#[derive(Default)]
pub(crate) struct InteractionStats {
    /// Failures that were worth another attempt and got none, in the order of [`NOT_REPEATED`].
    not_repeated: [Counter; NOT_REPEATED.len()],
    /// Attempts that were repeated.
    pub(crate) retries: Counter,
    /// Attempts that limits, the breaker or the bulkhead rejected after their pause.
    pub(crate) rejected_retries: Counter,
    /// Attempts that were made beside another.
    pub(crate) hedges: Counter,
    /// Those of them that brought the response.
    pub(crate) hedges_won: Counter,
    /// Requests sent again because a kept connection had ended.
    pub(crate) resent: Counter,
    /// Requests that waited for a slot of the bulkhead until their time was over.
    pub(crate) waited_in_vain: Counter,
}

/// Why a failure that is worth another attempt gets none, with the words for it in metrics.
pub(crate) const NOT_REPEATED: [(NoRetry, &str); 5] = [
    (NoRetry::NotRepeatable, "unsafe"),
    (NoRetry::Exhausted, "attempts"),
    (NoRetry::NoTime, "time"),
    (NoRetry::NoBudget, "budget"),
    (NoRetry::BreakerOpen, "breaker"),
];

impl InteractionStats {
    /// Counts a failure that is not followed by another attempt.
    pub(crate) fn not_repeated(&self, why: NoRetry) {
        if let Some(index) = NOT_REPEATED.iter().position(|(known, _)| *known == why) {
            self.not_repeated[index].inc();
        }
    }

    /// Such failures by word.
    pub(crate) fn all_not_repeated(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NOT_REPEATED.iter().zip(&self.not_repeated).map(|((_, word), counter)| (*word, counter.get()))
    }
}

impl Interaction {
    /// The policy for the upstream, which has limits of its own or has none. What is known of an interaction of the
    /// same names is kept.
    pub(crate) fn new(
        policy: &PolicySettings,
        upstream: &str,
        has_limits: bool,
        known: Option<&Self>,
        log: Option<&Log>,
    ) -> Result<Self, String> {
        let invalid =
            |part: &'static str| move |invalid: InvalidSetting| format!("policies.{}.{part}.{}", policy.name, invalid);
        let breaker = match (policy.breaker, known.and_then(|known| known.breaker.as_ref())) {
            (None, _) => None,
            (Some(settings), Some(known)) => {
                known.change(settings).map_err(invalid("breaker"))?;
                Some(Arc::clone(known))
            }
            (Some(settings), None) => {
                let breaker = Breaker::new(settings).map_err(invalid("breaker"))?;
                let listener = log.map(|log| listener(log, &policy.name, upstream));
                Some(Arc::new(if let Some(listener) = listener { breaker.with_listener(listener) } else { breaker }))
            }
        };
        let budget = match (&policy.retry, known.and_then(|known| known.budget.as_ref())) {
            (None, _) => None,
            (Some(retry), Some(known)) => {
                known.change(retry.budget).map_err(invalid("retry.budget"))?;
                Some(Arc::clone(known))
            }
            (Some(retry), None) => Some(Arc::new(RetryBudget::new(retry.budget).map_err(invalid("retry.budget"))?)),
        };
        let hedge = match (policy.retry.as_ref().and_then(|it| it.hedge), known.and_then(|known| known.hedge.as_ref()))
        {
            (None, _) => None,
            (Some(settings), Some(known)) => {
                known.change(settings).map_err(invalid("retry.hedge"))?;
                Some(Arc::clone(known))
            }
            (Some(settings), None) => Some(Arc::new(HedgeDelay::new(settings).map_err(invalid("retry.hedge"))?)),
        };
        let bulkhead = match (policy.bulkhead, known.and_then(|known| known.bulkhead.as_ref())) {
            (None, _) => None,
            (Some(settings), Some(known)) => {
                known.change(settings).map_err(invalid("bulkhead"))?;
                Some(known.clone())
            }
            (Some(settings), None) => Some(Bulkhead::new(settings).map_err(invalid("bulkhead"))?),
        };
        Ok(Self {
            policy: policy.name.clone(),
            upstream: upstream.into(),
            terms: Terms { has_limits, ..policy.terms },
            retry: policy.retry.clone(),
            failures: policy.failures,
            breaker,
            budget,
            hedge,
            bulkhead,
            stats: known.map_or_else(Arc::default, |known| Arc::clone(&known.stats)),
        })
    }
}

impl Interaction {
    /// A call has been responded to. Returns what has to know if its body breaks off.
    pub(crate) fn responded(
        &self,
        call: Call,
        status: StatusCode,
        took: Duration,
        now: Timestamp,
    ) -> Option<RecordedCall> {
        let breaker = self.breaker.as_ref()?;
        let is_failure = self.failures.has_status(status.as_u16());
        let verdict = if is_failure { Verdict::Failure } else { Verdict::Success };
        let generation = breaker.record(call, verdict, took, now);
        // One failure is enough.
        let recorded = || RecordedCall { breaker: Arc::clone(breaker), generation, failures: self.failures };
        (!is_failure).then(recorded)
    }

    /// A call has got no response. A way to fail that does not count says nothing.
    pub(crate) fn failed(&self, call: Call, cause: Cause, took: Duration, now: Timestamp) {
        if let Some(breaker) = self.breaker.as_ref().filter(|_| self.failures.has(cause)) {
            breaker.record(call, Verdict::Failure, took, now);
        }
    }

    /// A first attempt has had its response after this time, or none for so long.
    pub(crate) fn note_latency(&self, status: Option<StatusCode>, took: Duration, now: Timestamp) {
        let Some(hedge) = &self.hedge else { return };
        // How soon an upstream fails says nothing about how long its responses take.
        let is_failure = status.zip(self.retry.as_ref()).is_some_and(|(status, it)| it.on.has_status(status.as_u16()));
        if !is_failure {
            hedge.note(took, now);
        }
    }

    /// A request is sent again, because its kept connection had ended. That leaves less for retries.
    pub(crate) fn note_resent(&self, now: Timestamp) {
        self.stats.resent.inc();
        if let Some(budget) = &self.budget {
            budget.spend(now);
        }
    }
}

/// Logs each transition of a breaker.
fn listener(log: &Log, policy: &str, upstream: &str) -> impl Fn(&Transition) + Send + Sync + 'static {
    let (log, name) = (log.clone(), format!("breaker of `{upstream}` (policy `{policy}`)"));
    move |transition| {
        let line = format!("{name} {transition}");
        if transition.to == Phase::Closed { log.info("Breaker", line) } else { log.warn("Breaker", line) }
    }
}

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tidegate_policy::journey::{FailedAttempt, Journey, RetryTerms, Step, Terms};
use tidegate_policy::retry::{Backoff, RetryBudget};

use crate::clock::Clock;

/// How often something is tried, with which pauses, and within which time.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    attempts: u32,
    backoff: Backoff,
    timeout: Option<Duration>,
    budget: Option<Arc<RetryBudget>>,
    clock: Clock,
    random: RandomState,
}

/// Whether an error is worth another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// It is.
    Yes,
    /// It is not: trying again would not help, or would do harm.
    No,
    /// It is, but not before this time has passed.
    After(Duration),
}

impl From<bool> for Again {
    fn from(is_worth_it: bool) -> Self {
        if is_worth_it { Self::Yes } else { Self::No }
    }
}

impl RetryPolicy {
    /// At most so many attempts, the first included, with these pauses between them.
    pub fn new(attempts: u32, backoff: Backoff) -> Self {
        Self { attempts, backoff, timeout: None, budget: None, clock: Clock::start(), random: RandomState::new() }
    }

    /// No attempt begins after this time, counted from the beginning of the first. An attempt that is under way goes
    /// on.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Retries of all who share this budget are bounded together.
    #[must_use]
    pub fn with_budget(mut self, budget: Arc<RetryBudget>) -> Self {
        self.budget = Some(budget);
        self
    }

    fn begin(&self) -> Retrying<'_> {
        let retry = Some(RetryTerms { attempts: self.attempts.max(1), backoff: self.backoff });
        let now = self.clock.now();
        if let Some(budget) = &self.budget {
            budget.call_began(now);
        }
        Retrying {
            policy: self,
            journey: Journey::new(Terms { timeout: self.timeout, retry, ..Terms::default() }, now),
        }
    }
}

/// One call with its attempts.
struct Retrying<'a> {
    policy: &'a RetryPolicy,
    journey: Journey,
}

impl Retrying<'_> {
    /// An attempt has failed. Returns how long to pause before the next one, if there is one.
    fn failed(&mut self, again: Again) -> Option<Duration> {
        let now = self.policy.clock.now();
        let retry_after = if let Again::After(after) = again { Some(after) } else { None };
        let failed = FailedAttempt { is_retryable: again != Again::No, is_repeatable: true, retry_after };
        let random = self.policy.random.hash_one(now.as_nanos());
        let take = || self.policy.budget.as_ref().is_none_or(|budget| budget.take(now));
        self.journey.failed(failed, now, random, take).ok()?;
        match self.journey.next(now) {
            Step::Pause(pause) => Some(pause),
            // A failed attempt that may be repeated is followed by a pause.
            Step::Ask
            | Step::Check
            | Step::Delay(_)
            | Step::Enter(_)
            | Step::AskAgain
            | Step::Attempt { .. }
            | Step::TimedOut => None,
        }
    }

    /// Begins an attempt. False if no time is left for it, because the pause lasted longer than planned.
    fn begin_attempt(&mut self) -> bool {
        self.journey.next(self.policy.clock.now()) != Step::TimedOut
    }
}

/// Does something, and does it again while it fails in a way that `again` finds worth it and the policy permits it.
/// Returns the last error.
///
/// Only what does no harm when it is done twice should be done again.
pub async fn retry<T, E, F, A>(
    policy: &RetryPolicy,
    again: impl Fn(&E) -> A,
    mut attempt: impl FnMut() -> F,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
    A: Into<Again>,
{
    let mut retrying = policy.begin();
    // The first attempt begins in any case.
    retrying.begin_attempt();
    loop {
        let error = match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let Some(pause) = retrying.failed(again(&error).into()) else { return Err(error) };
        tokio::time::sleep(pause).await;
        if !retrying.begin_attempt() {
            return Err(error);
        }
    }
}

/// The same for threads: blocks this one.
pub fn retry_blocking<T, E, A>(
    policy: &RetryPolicy,
    again: impl Fn(&E) -> A,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E>
where
    A: Into<Again>,
{
    let mut retrying = policy.begin();
    retrying.begin_attempt();
    loop {
        let error = match attempt() {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let Some(pause) = retrying.failed(again(&error).into()) else { return Err(error) };
        std::thread::sleep(pause);
        if !retrying.begin_attempt() {
            return Err(error);
        }
    }
}

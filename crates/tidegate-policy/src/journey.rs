//! The way of a request through the policies around its attempts: what comes next, and when it ends.
//!
//! A [`Journey`] decides for one request; it owns the order of the steps and nothing else. Its driver asks the breaker,
//! checks limits, enters the bulkhead, sleeps and sends, and reports how that went: with the real clock, or in the time
//! of a simulation.

use std::time::Duration;

use crate::Timestamp;
use crate::retry::Backoff;

/// What a journey has to pass, and how much time it has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    /// From its beginning to the head of the response, all attempts included.
    pub timeout: Option<Duration>,
    /// The same for each attempt.
    pub attempt_timeout: Option<Duration>,
    /// Whether a circuit breaker is asked before each attempt.
    pub has_breaker: bool,
    /// Whether the upstream has limits, which are checked before each attempt.
    pub has_limits: bool,
    /// Whether each attempt takes a slot of a bulkhead, and how long it may wait for one.
    pub bulkhead: Option<Duration>,
    /// When a failed attempt is repeated.
    pub retry: Option<RetryTerms>,
}

/// When a failed attempt is repeated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryTerms {
    /// The most attempts, the first included.
    pub attempts: u32,
    /// How long to pause before each.
    pub backoff: Backoff,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Ask the circuit breaker. If it rejects, the journey ends.
    Ask,
    /// Check the upstream's limits, and report their wait with [`Journey::admitted`]. If they reject, the journey ends.
    Check,
    /// Let this time pass: a shaper delays the attempt.
    Delay(Duration),
    /// Take a slot of the bulkhead, waiting for this long at most. If there is none, the journey ends.
    Enter(Duration),
    /// Ask the breaker whether it still permits the call, because time has passed, or permits another one after an
    /// attempt that could not be sent. If it does not, the journey ends.
    AskAgain,
    /// Send the request. Report a failure with [`Journey::failed`].
    Attempt {
        /// The head of the response must have come by then.
        within: Option<Duration>,
    },
    /// Let this time pass before the next attempt, which may be none. Nothing is held until then.
    Pause(Duration),
    /// No time is left.
    TimedOut,
}

/// How an attempt failed, as far as it decides whether there is another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailedAttempt {
    /// Whether it failed in a way that is worth another attempt.
    pub is_retryable: bool,
    /// Whether the request can be sent again: it is known whole, and sending it twice does no harm.
    pub is_repeatable: bool,
    /// How long the upstream wants to be left alone. Longer than the time that is left, or without a timeout than the
    /// longest pause, it ends the attempts.
    pub retry_after: Option<Duration>,
}

/// Why there is no other attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoRetry {
    /// The failure is not worth one, or there are no retries.
    NotRetryable,
    /// The request can't be sent again.
    NotRepeatable,
    /// All attempts were made.
    Exhausted,
    /// The time is too short for the pause.
    NoTime,
    /// The budget for retries is used up.
    NoBudget,
    /// The breaker rejects the next attempt already. Its driver knows.
    BreakerOpen,
}

/// Where the way goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Ask,
    Check,
    Enter,
    AskAgain,
    Attempt,
}

/// One request on its way through its policies.
#[derive(Clone, Copy, Debug)]
pub struct Journey {
    terms: Terms,
    began: Timestamp,
    next: Next,
    /// What must pass before `next`.
    delay: Duration,
    /// Planned after a failed attempt.
    pause: Option<Duration>,
    last_pause: Duration,
    /// Whether time has passed since the breaker was asked.
    has_waited: bool,
    /// Attempts that could not be sent, and went to another endpoint at once.
    unsent: u32,
    /// If the steps are those of an attempt beside another, or that is under way: how many had begun before it.
    before_hedge: Option<u32>,
    attempts: u32,
}

impl Journey {
    /// A request that begins its way.
    pub fn new(terms: Terms, began: Timestamp) -> Self {
        Self {
            terms,
            began,
            next: Next::Ask,
            delay: Duration::ZERO,
            pause: None,
            last_pause: Duration::ZERO,
            has_waited: false,
            unsent: 0,
            before_hedge: None,
            attempts: 0,
        }
    }

    /// The next step.
    pub fn next(&mut self, now: Timestamp) -> Step {
        if let Some(pause) = self.pause.take() {
            self.last_pause = pause;
            return Step::Pause(pause);
        }
        let left = self.time_left(now);
        if left.is_some_and(|left| left.is_zero()) {
            return Step::TimedOut;
        }
        if !self.delay.is_zero() {
            let delay = std::mem::take(&mut self.delay);
            if left.is_some_and(|left| delay >= left) {
                return Step::TimedOut;
            }
            self.has_waited = true;
            return Step::Delay(delay);
        }
        loop {
            match self.next {
                Next::Ask => {
                    self.next = Next::Check;
                    if self.terms.has_breaker {
                        return Step::Ask;
                    }
                }
                Next::Check => {
                    self.next = Next::Enter;
                    if self.terms.has_limits {
                        return Step::Check;
                    }
                }
                Next::Enter => {
                    self.next = Next::AskAgain;
                    if let Some(wait) = self.terms.bulkhead {
                        let wait = if self.before_hedge.is_some() { Duration::ZERO } else { wait };
                        return Step::Enter(left.map_or(wait, |left| wait.min(left)));
                    }
                }
                Next::AskAgain => {
                    self.next = Next::Attempt;
                    if self.has_waited && self.terms.has_breaker {
                        return Step::AskAgain;
                    }
                }
                Next::Attempt => return self.attempt(left),
            }
        }
    }

    fn attempt(&mut self, left: Option<Duration>) -> Step {
        self.attempts += 1;
        (self.next, self.has_waited) = (Next::Ask, false);
        let within = match (self.terms.attempt_timeout, left) {
            (Some(attempt), Some(left)) => Some(attempt.min(left)),
            (one, other) => one.or(other),
        };
        Step::Attempt { within }
    }

    /// The upstream's limits admit the attempt, after this wait.
    pub fn admitted(&mut self, wait: Duration) {
        self.delay = wait;
    }

    /// Time has passed in a step that did not have to take any: the breaker is asked again.
    pub fn waited(&mut self) {
        self.has_waited = true;
    }

    /// An attempt has failed. Plans the next one, or says why there is none. `take_budget` takes a retry from the
    /// budget, if there is one: it is asked last. `random` is any number, all of them equally likely.
    pub fn failed(
        &mut self,
        failed: FailedAttempt,
        now: Timestamp,
        random: u64,
        take_budget: impl FnOnce() -> bool,
    ) -> Result<(), NoRetry> {
        let Some(retry) = self.terms.retry else { return Err(NoRetry::NotRetryable) };
        if !failed.is_retryable {
            return Err(NoRetry::NotRetryable);
        }
        if !failed.is_repeatable {
            return Err(NoRetry::NotRepeatable);
        }
        if self.made() >= retry.attempts {
            return Err(NoRetry::Exhausted);
        }
        let pause = retry.backoff.pause(self.made(), self.last_pause, random);
        let pause = pause.max(failed.retry_after.unwrap_or_default());
        // Without a timeout, the upstream could make the request wait for as long as it likes.
        if self.time_left(now).map_or(pause > retry.backoff.max(), |left| pause >= left) {
            return Err(NoRetry::NoTime);
        }
        if !take_budget() {
            return Err(NoRetry::NoBudget);
        }
        (self.pause, self.before_hedge) = (Some(pause), None);
        Ok(())
    }

    /// An attempt could not be sent, and goes to another endpoint at once, with what it holds of limits and of the
    /// bulkhead: only the breaker is asked again. That is no retry: it has no pause and does not count for the most
    /// attempts. The driver bounds how often it happens.
    pub fn elsewhere(&mut self) {
        self.unsent += 1;
        (self.next, self.has_waited, self.before_hedge) = (Next::AskAgain, true, None);
    }

    /// Attempts that count: those that went to another endpoint at once are part of the one that followed.
    const fn made(&self) -> u32 {
        self.attempts.saturating_sub(self.unsent)
    }

    /// Plans an attempt beside one that has waited long for its response, or returns why there is none. The steps up to
    /// it follow. It never waits: if a step rejects or would take time, or the budget is used up when it is about to be
    /// sent, the driver leaves it out and reports that with [`go_without_hedge`](Self::go_without_hedge).
    pub fn hedge(&mut self, now: Timestamp) -> Result<(), NoRetry> {
        let Some(retry) = self.terms.retry else { return Err(NoRetry::NotRetryable) };
        if self.made() >= retry.attempts {
            return Err(NoRetry::Exhausted);
        }
        if self.time_left(now).is_some_and(|left| left.is_zero()) {
            return Err(NoRetry::NoTime);
        }
        (self.next, self.has_waited, self.before_hedge) = (Next::Ask, false, Some(self.attempts));
        Ok(())
    }

    /// The attempt that [`hedge`](Self::hedge) planned is not made, though its steps may have come to it.
    pub fn go_without_hedge(&mut self) {
        self.attempts = self.before_hedge.take().unwrap_or(self.attempts);
        (self.next, self.has_waited, self.delay) = (Next::Ask, false, Duration::ZERO);
    }

    /// Whether an attempt within this time has less than half of the most it may have, because the rest went by before:
    /// if it gets no response, that says nothing about the upstream.
    pub fn is_short(&self, within: Duration) -> bool {
        let most = self.terms.attempt_timeout.into_iter().chain(self.terms.timeout).min();
        most.is_some_and(|most| within < most / 2)
    }

    /// How many attempts have begun.
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How much time is left for the head of the response; `None` if it is not bounded.
    pub fn time_left(&self, now: Timestamp) -> Option<Duration> {
        Some(self.terms.timeout?.saturating_sub(now.since(self.began)))
    }
}

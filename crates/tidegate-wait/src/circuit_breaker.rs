use std::fmt;
use std::sync::Arc;

use tidegate_policy::InvalidSetting;
use tidegate_policy::breaker::{Breaker, BreakerSettings, Rejected, Transition, Verdict};

use crate::clock::Clock;

/// A circuit breaker around calls. Clones are the same breaker.
#[derive(Clone, Debug)]
pub struct CircuitBreaker {
    breaker: Arc<Breaker>,
    clock: Clock,
}

/// Why a call gave no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError<E> {
    /// The breaker rejected it: nothing was called.
    Open(Rejected),
    /// The call itself failed.
    Failed(E),
}

impl<E: fmt::Display> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(rejected) => rejected.fmt(f),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for CallError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open(rejected) => Some(rejected),
            Self::Failed(error) => error.source(),
        }
    }
}

impl CircuitBreaker {
    /// A closed breaker.
    pub fn new(settings: BreakerSettings) -> Result<Self, InvalidSetting> {
        Ok(Self { breaker: Arc::new(Breaker::new(settings)?), clock: Clock::start() })
    }

    /// The same, and `listener` gets each change of its state, from the thread that causes it.
    pub fn with_listener(
        settings: BreakerSettings,
        listener: impl Fn(&Transition) + Send + Sync + 'static,
    ) -> Result<Self, InvalidSetting> {
        let breaker = Breaker::new(settings)?.with_listener(listener);
        Ok(Self { breaker: Arc::new(breaker), clock: Clock::start() })
    }

    /// The breaker itself: to look at it, or to force its state.
    pub fn breaker(&self) -> &Arc<Breaker> {
        &self.breaker
    }

    /// Calls something, unless the breaker is open. `counts` says which errors count as failures; others are successes,
    /// such as an error of the caller's. Dropping the future says nothing about what was called.
    pub async fn call<T, E, F>(
        &self,
        counts: impl FnOnce(&E) -> bool,
        work: impl FnOnce() -> F,
    ) -> Result<T, CallError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        let began = self.clock.now();
        let call = self.breaker.ask(began).map_err(CallError::Open)?;
        let result = work().await;
        let ended = self.clock.now();
        self.breaker.record(call, verdict(&result, counts), ended.since(began), ended);
        result.map_err(CallError::Failed)
    }

    /// The same for threads.
    pub fn call_blocking<T, E>(
        &self,
        counts: impl FnOnce(&E) -> bool,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, CallError<E>> {
        let began = self.clock.now();
        let call = self.breaker.ask(began).map_err(CallError::Open)?;
        let result = work();
        let ended = self.clock.now();
        self.breaker.record(call, verdict(&result, counts), ended.since(began), ended);
        result.map_err(CallError::Failed)
    }
}

fn verdict<T, E>(result: &Result<T, E>, counts: impl FnOnce(&E) -> bool) -> Verdict {
    match result {
        Err(error) if counts(error) => Verdict::Failure,
        Ok(_) | Err(_) => Verdict::Success,
    }
}

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::machine::{Asked, Machine};
use super::settings::BreakerSettings;
use super::snapshot::BreakerSnapshot;
use super::transition::{Forced, Transition};
use crate::Timestamp;
use crate::invalid_setting::InvalidSetting;
use crate::lock::lock;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It worked.
    Success,
    /// It failed in a way that the breaker counts.
    Failure,
}

/// A call that a breaker rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// When a call may go through at the earliest. `None`: that depends on the probes that are under way, or on an
    /// operator.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry_after {
            Some(after) => write!(f, "the circuit breaker is open for another {after:?}"),
            None => f.write_str("the circuit breaker is not closed"),
        }
    }
}

impl std::error::Error for Rejected {}

/// Which state of a breaker a call belongs to. What is reported of a call counts only while that state lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(u64);

/// A call that a breaker lets through, from [`Breaker::ask`] to [`Breaker::record`].
///
/// Dropping it instead means that the call says nothing: the caller left before it ended. The slot of a probe is then
/// free for another.
#[derive(Debug)]
#[must_use = "dropping it means that the call says nothing"]
pub struct Call {
    generation: Generation,
    /// Of a probe: whose slot it has.
    probe_of: Option<Arc<Breaker>>,
}

impl Call {
    const fn new(generation: u64, probe_of: Option<Arc<Breaker>>) -> Self {
        Self { generation: Generation(generation), probe_of }
    }

    /// The state that it belongs to.
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether it is a probe of a half-open breaker.
    pub const fn is_probe(&self) -> bool {
        self.probe_of.is_some()
    }

    /// It is recorded: no slot is left to give back.
    fn settle(mut self) -> Generation {
        self.probe_of = None;
        self.generation
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(breaker) = self.probe_of.take() {
            breaker.give_back_probe(self.generation);
        }
    }
}

type Listener = Box<dyn Fn(&Transition) + Send + Sync>;

/// A circuit breaker, for all threads. See the [module](crate::breaker).
pub struct Breaker {
    /// The generation, and in the lowest bit whether the machine must be asked. While the breaker is closed, calls go
    /// through without a lock.
    word: AtomicU64,
    machine: Mutex<Machine>,
    listener: Option<Listener>,
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker").field("word", &self.word).finish_non_exhaustive()
    }
}

const fn word(machine: &Machine) -> u64 {
    machine.generation() << 1 | !machine.is_closed() as u64
}

impl Breaker {
    /// A closed breaker.
    pub fn new(settings: BreakerSettings) -> Result<Self, InvalidSetting> {
        let machine = Machine::new(settings.checked()?);
        Ok(Self { word: AtomicU64::new(word(&machine)), machine: Mutex::new(machine), listener: None })
    }

    /// The same, and `listener` gets each transition, from the thread that causes it. It must not take long: the call
    /// waits for it. It may ask the breaker.
    #[must_use]
    pub fn with_listener(mut self, listener: impl Fn(&Transition) + Send + Sync + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// Asks whether a call may go through. Report how it ended with [`record`](Self::record), or drop it if it says
    /// nothing.
    #[inline]
    pub fn ask(self: &Arc<Self>, now: Timestamp) -> Result<Call, Rejected> {
        let word = self.word.load(Ordering::Acquire);
        if word & 1 == 0 { Ok(Call::new(word >> 1, None)) } else { self.ask_machine(now) }
    }

    #[cold]
    fn ask_machine(self: &Arc<Self>, now: Timestamp) -> Result<Call, Rejected> {
        let asked = self.with_machine(|machine| machine.ask(now));
        match asked {
            Asked::Passes { generation, is_probe } => Ok(Call::new(generation, is_probe.then(|| Arc::clone(self)))),
            Asked::Rejected { retry_after } => Err(Rejected { retry_after }),
        }
    }

    /// Whether a call may still go through that has waited since it was let through: the breaker may have opened.
    #[inline]
    pub fn still_permits(&self, call: &Call) -> bool {
        let word = self.word.load(Ordering::Acquire);
        word & 1 == 0 || word >> 1 == call.generation().0
    }

    /// Whether it would reject a call now. Unlike [`ask`](Self::ask) that counts nothing and lets nothing through.
    pub fn rejects(&self, now: Timestamp) -> bool {
        self.word.load(Ordering::Acquire) & 1 != 0 && lock(&self.machine).rejects(now)
    }

    /// Records how a call ended and how long it took. Returns its generation, for [`broke_off`](Self::broke_off).
    #[inline]
    pub fn record(&self, call: Call, verdict: Verdict, took: Duration, now: Timestamp) -> Generation {
        let generation = call.settle();
        let is_failure = verdict == Verdict::Failure;
        self.with_machine(|machine| ((), machine.record(generation.0, is_failure, took, now)));
        generation
    }

    /// What a recorded call began has failed later on, for example the body of its response: that is one more failure.
    pub fn broke_off(&self, generation: Generation, now: Timestamp) {
        self.with_machine(|machine| ((), machine.broke_off(generation.0, now)));
    }

    /// Obeys an operator, until the next such order.
    pub fn force(&self, forced: Forced, now: Timestamp) {
        self.with_machine(|machine| ((), machine.force(forced, now)));
    }

    /// Takes over other settings. What it counted stays, unless the window changes.
    pub fn change(&self, settings: BreakerSettings) -> Result<(), InvalidSetting> {
        let settings = settings.checked()?;
        self.with_machine(|machine| {
            machine.change(settings);
            ((), None)
        });
        Ok(())
    }

    /// What it is and has counted.
    pub fn snapshot(&self, now: Timestamp) -> BreakerSnapshot {
        lock(&self.machine).snapshot(now)
    }

    fn give_back_probe(&self, generation: Generation) {
        lock(&self.machine).give_back_probe(generation.0);
    }

    /// Takes a step of the machine, and reports a transition when the lock is free again.
    #[inline]
    fn with_machine<T>(&self, step: impl FnOnce(&mut Machine) -> (T, Option<Transition>)) -> T {
        let mut machine = lock(&self.machine);
        let (result, transition) = step(&mut machine);
        let now = word(&machine);
        if self.word.load(Ordering::Relaxed) != now {
            self.word.store(now, Ordering::Release);
        }
        drop(machine);
        if let (Some(transition), Some(listener)) = (transition, &self.listener) {
            listener(&transition);
        }
        result
    }
}

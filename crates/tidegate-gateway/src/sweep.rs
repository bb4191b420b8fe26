//! Deadlines: one coarse sweep a worker instead of a timer a request.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often deadlines are looked at. None fires early, and none later than twice this.
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// No deadline.
const NONE: u64 = u64::MAX;

/// A deadline of something that waits: it is woken when its time has come, and then sees that it [has](Self::has_passed).
pub(crate) struct Deadline {
    now_millis: Arc<AtomicU64>,
    at_millis: AtomicU64,
    passed: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Deadline {
    /// Sets the deadline, counted from now. One that has passed meanwhile, and that nobody has seen yet, counts no more.
    pub(crate) fn set(&self, after: Duration) {
        self.passed.store(false, Ordering::Relaxed);
        let after = u64::try_from((after + TICK).as_millis()).unwrap_or(NONE / 2);
        self.at_millis.store(self.now_millis.load(Ordering::Relaxed).saturating_add(after), Ordering::Relaxed);
    }

    /// Sets it anew, if there is one that has not passed.
    pub(crate) fn postpone(&self, after: Duration) {
        if self.at_millis.load(Ordering::Relaxed) != NONE {
            self.set(after);
        }
    }

    /// Takes the deadline away.
    pub(crate) fn clear(&self) {
        self.passed.store(false, Ordering::Relaxed);
        self.at_millis.store(NONE, Ordering::Relaxed);
    }

    /// Whether its time has come.
    pub(crate) fn has_passed(&self) -> bool {
        self.passed.load(Ordering::Relaxed)
    }

    /// The same, and forgets it.
    pub(crate) fn take_passed(&self) -> bool {
        self.has_passed() && self.passed.swap(false, Ordering::Relaxed)
    }

    /// Whom to wake.
    pub(crate) fn watch(&self, context: &Context<'_>) {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
    }

    /// Ends it now, as if its time had come.
    pub(crate) fn end(&self) {
        self.passed.store(true, Ordering::Relaxed);
        self.wake();
    }

    pub(crate) fn wake(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// All deadlines of a worker.
pub(crate) struct Sweep {
    started: Instant,
    now_millis: Arc<AtomicU64>,
    deadlines: Mutex<Vec<Arc<Deadline>>>,
}

impl Sweep {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), now_millis: Arc::default(), deadlines: Mutex::default() })
    }

    /// A deadline that is not set yet. It is swept until nobody holds it any more.
    pub(crate) fn deadline(&self) -> Arc<Deadline> {
        let deadline = Arc::new(Deadline {
            now_millis: Arc::clone(&self.now_millis),
            at_millis: AtomicU64::new(NONE),
            passed: AtomicBool::new(false),
            waker: Mutex::default(),
        });
        self.deadlines.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&deadline));
        deadline
    }

    /// Milliseconds since the worker began, as of the last tick.
    pub(crate) fn now_millis(&self) -> u64 {
        self.now_millis.load(Ordering::Relaxed)
    }

    /// Sweeps for ever, and calls `each` at every tick; about once a second with `true`.
    pub(crate) async fn run(self: Arc<Self>, mut each: impl FnMut(bool)) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut count = 0_u32;
        loop {
            ticks.tick().await;
            let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(NONE - 1);
            self.now_millis.store(now, Ordering::Relaxed);
            self.sweep(now);
            count = count.wrapping_add(1);
            each(count.is_multiple_of(50));
        }
    }

    fn sweep(&self, now: u64) {
        let mut deadlines = self.deadlines.lock().unwrap_or_else(PoisonError::into_inner);
        deadlines.retain(|deadline| {
            if Arc::strong_count(deadline) == 1 {
                return false;
            }
            if deadline.at_millis.load(Ordering::Relaxed) <= now {
                deadline.clear();
                deadline.end();
            }
            true
        });
        if deadlines.capacity() > 1_024 && deadlines.len() * 4 < deadlines.capacity() {
            deadlines.shrink_to_fit();
        }
    }

    /// Wakes everyone, so that they look at what has changed.
    pub(crate) fn wake_all(&self) {
        self.deadlines.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|deadline| deadline.wake());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_is_set_anew_has_not_passed_whatever_came_before() {
        let sweep = Sweep::new();
        let deadline = sweep.deadline();
        deadline.set(Duration::ZERO);
        sweep.sweep(1_000);
        assert!(deadline.has_passed());
        // The request came in the very moment in which the connection's time was up: it is served.
        deadline.clear();
        assert!(!deadline.has_passed());
        deadline.set(Duration::ZERO);
        sweep.sweep(1_000);
        deadline.set(Duration::from_secs(10));
        assert!(!deadline.has_passed());
    }
}

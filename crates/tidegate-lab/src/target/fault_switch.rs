use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::timeout_at;

use super::Faults;

/// The faults that are on, until they are switched off or their time is over.
pub(super) struct FaultSwitch(watch::Sender<Switched>);

#[derive(Clone, Copy, Default)]
struct Switched {
    faults: Faults,
    until: Option<Instant>,
}

impl Switched {
    fn at(&self, now: Instant) -> Faults {
        if self.until.is_some_and(|until| now >= until) { Faults::default() } else { self.faults }
    }
}

impl FaultSwitch {
    pub(super) fn new() -> Self {
        Self(watch::Sender::default())
    }

    /// These instead of those before, for so long.
    pub(super) fn set(&self, faults: Faults, span: Option<Duration>) {
        self.0.send_replace(Switched { faults, until: span.map(|span| Instant::now() + span) });
    }

    /// What goes wrong now.
    pub(super) fn now(&self) -> Faults {
        let switched = self.0.borrow();
        if switched.until.is_some() { switched.at(Instant::now()) } else { switched.faults }
    }

    /// What goes wrong now, and for how long still.
    pub(super) fn now_and_left(&self) -> (Faults, Option<Duration>) {
        let (now, switched) = (Instant::now(), *self.0.borrow());
        let left = switched.until.map(|until| until.saturating_duration_since(now)).filter(|left| !left.is_zero());
        (switched.at(now), left)
    }

    /// Waits until nothing hangs.
    pub(super) async fn hang_is_over(&self) {
        if !self.now().hang {
            return;
        }
        let mut switched = self.0.subscribe();
        loop {
            let current = *switched.borrow_and_update();
            if !current.at(Instant::now()).hang {
                return;
            }
            let changed = switched.changed();
            match current.until {
                // The next look shows what has changed. The sender can't be gone, because it is ours.
                Some(until) => drop(timeout_at(until.into(), changed).await),
                None => drop(changed.await),
            }
        }
    }
}

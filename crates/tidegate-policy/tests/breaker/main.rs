//! Circuit breakers: held to a naive model, a million seeded events; each rule as a story; settings; threads.

#![allow(clippy::cast_precision_loss, reason = "counts far below 2^53")]

mod laws;
mod model;
mod rules;
mod settings;
mod threads;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_policy::Timestamp;
use tidegate_policy::breaker::{Breaker, BreakerSettings, Call, Rejected, Transition, Verdict};

const NOW: Timestamp = Timestamp::from_nanos(1_790_000_000_000_000_000);

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A breaker, and the transitions that it reports.
fn observed(settings: BreakerSettings) -> (Arc<Breaker>, Arc<Mutex<Vec<Transition>>>) {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&reported);
    let breaker = Breaker::new(settings).expect("valid settings");
    let breaker = breaker.with_listener(move |transition| listener.lock().expect("no panic").push(*transition));
    (Arc::new(breaker), reported)
}

fn breaker(settings: BreakerSettings) -> Arc<Breaker> {
    observed(settings).0
}

/// A call that ends at once.
fn call(breaker: &Arc<Breaker>, verdict: Verdict, now: Timestamp) -> Result<(), Rejected> {
    slow_call(breaker, verdict, Duration::ZERO, now)
}

fn slow_call(breaker: &Arc<Breaker>, verdict: Verdict, took: Duration, now: Timestamp) -> Result<(), Rejected> {
    let call: Call = breaker.ask(now)?;
    breaker.record(call, verdict, took, now);
    Ok(())
}

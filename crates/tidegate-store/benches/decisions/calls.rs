//! The policies around a call: breaker, retry budget, bulkhead, choice of an endpoint.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_policy::Timestamp;
use tidegate_policy::breaker::{Breaker, BreakerSettings, SlowCalls, Verdict, Window};
use tidegate_policy::bulkhead::{Bulkhead, BulkheadSettings};
use tidegate_policy::endpoints::{Balancer, BalancerSettings, EndpointState, Outcome, Tried, Weight};
use tidegate_policy::retry::{BudgetSettings, HedgeDelay, HedgeSettings, RetryBudget};

use crate::rounds::{median, time};

const CALLS: u64 = 200_000;
const START: u64 = 1_790_000_000_000_000_000;
const TOOK: Duration = Duration::from_millis(3);
/// The goal for a breaker, in nanoseconds a call.
const BREAKER_GOAL: f64 = 30.0;

/// Nanoseconds a call, one millisecond after the other, in one thread.
pub(crate) fn calls() -> Value {
    println!("\nns a call, without contention   (median of 15 rounds)");
    let mut report = serde_json::Map::new();
    let slow = Some(SlowCalls { threshold: Duration::from_secs(2), share: 0.5 });
    for (name, window) in
        [("breaker_calls", Window::Calls(100)), ("breaker_time", Window::Time(Duration::from_secs(10)))]
    {
        let breaker =
            Arc::new(Breaker::new(BreakerSettings { window, slow, ..BreakerSettings::default() }).expect("valid"));
        let nanos = rounds(|now| {
            if let Ok(call) = breaker.ask(now) {
                breaker.record(call, Verdict::Success, black_box(TOOK), now);
            }
        });
        add(&mut report, name, nanos, crate::verdict(nanos <= BREAKER_GOAL));
    }
    let budget = RetryBudget::new(BudgetSettings::default()).expect("valid");
    add(&mut report, "retry_budget", rounds(|now| budget.call_began(now)), "");
    let hedge = HedgeDelay::new(HedgeSettings::default()).expect("valid");
    let nanos = rounds(|now| {
        let _ = black_box(hedge.delay(now));
        hedge.note(black_box(TOOK), now);
    });
    add(&mut report, "hedge_delay", nanos, "computed anew every 100 ms of its time");
    let bulkhead = Bulkhead::<()>::new(BulkheadSettings { limit: 64, queue: 0 }).expect("valid");
    let nanos = rounds(|_| {
        let _ = black_box(bulkhead.enter(false, || ()));
        let _ = black_box(bulkhead.leave());
    });
    add(&mut report, "bulkhead", nanos, "");
    let endpoint = |name: &str| (Arc::new(EndpointState::new(name)), Weight::ONE);
    let pool = Balancer::new(["a", "b", "c", "d"].map(endpoint), BalancerSettings::default());
    let mut random = 7_u64;
    let nanos = rounds(|now| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if let Some(in_flight) = pool.choose(now, random, 0, &Tried::new()).and_then(|index| pool.begin(index, now)) {
            pool.end(in_flight, Outcome::Success { took: TOOK }, now);
        }
    });
    add(&mut report, "balancer", nanos, "four endpoints, least requests");
    report.into()
}

fn add(report: &mut serde_json::Map<String, Value>, name: &str, nanos: f64, note: &str) {
    println!("  {name:<18} {nanos:>9.1}  {note}");
    report.insert(name.to_owned(), json!(nanos));
}

fn rounds(mut call: impl FnMut(Timestamp)) -> f64 {
    let mut begun = 0;
    let mut round = || {
        time(CALLS, |calls| {
            for _ in 0..calls {
                begun += 1;
                call(Timestamp::from_nanos(START + begun * 1_000_000));
            }
        })
    };
    median((0..15).map(|_| round()).collect())
}

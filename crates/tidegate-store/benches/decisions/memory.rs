//! The limiters by themselves, and in the keyed store.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_policy::state::SlidingLogState;
use tidegate_policy::{
    Concurrency, Cost, FixedWindow, Gcra, Keyed, LeakyBucket, Limiter, Rate, Rule, SlidingCounter, SlidingLog,
    Timestamp, TokenBucket,
};

use crate::rounds::{median, time};

const START: u64 = 1_790_000_000_000_000_000;

/// Every algorithm at `limit` a second. The log and the concurrency limit keep their entries only for as long as they
/// matter.
fn rules(limit: u64) -> Vec<Rule> {
    let (second, rate) = (Duration::from_secs(1), Rate::new(limit, Duration::from_secs(1)).expect("a rate"));
    vec![
        FixedWindow::new(limit, second).expect("a limit").into(),
        SlidingCounter::new(limit, second).expect("a limit").into(),
        SlidingLog::new(limit, second).expect("a limit").into(),
        TokenBucket::new(rate, limit).expect("a limit").into(),
        LeakyBucket::new(rate, limit - 1).expect("a limit").into(),
        Gcra::new(rate, limit).expect("a limit").into(),
        Concurrency::new(limit, second).expect("a limit").into(),
    ]
}

/// Nanoseconds a decision: the bare step on one key, and with the store around it, when all are admitted and when
/// nearly all are rejected.
pub(crate) fn algorithms() -> Value {
    const STEPS: u64 = 200_000;
    println!("ns a decision        bare step   in the store: admitted  rejected   (median of 15 rounds)");
    let mut report = serde_json::Map::new();
    for (open, tight) in rules(1_000).into_iter().zip(rules(7)) {
        let round = |rule: Rule, gap: u64, bare: bool| {
            let store = Keyed::<u64, Rule>::new(rule, NonZeroUsize::new(100_000).expect("not zero"));
            let mut state = Default::default();
            time(STEPS, |steps| {
                for step in 0..steps {
                    let now = Timestamp::from_nanos(START + step * gap);
                    if bare {
                        let _ = black_box(rule.check(black_box(&mut state), Cost::ONE, now));
                    } else {
                        let _ = black_box(store.check(black_box(&7), Cost::ONE, now));
                    }
                }
            })
        };
        let rounds = |rule, gap, bare| median((0..15).map(|_| round(rule, gap, bare)).collect());
        // One each millisecond, which 1,000 a second allow; one each microsecond, which 7 a second do not.
        let (bare, admitted, rejected) =
            (rounds(open, 1_000_000, true), rounds(open, 1_000_000, false), rounds(tight, 1_000, false));
        let name = open.algorithm().name();
        println!("  {name:<18} {bare:>9.1} {admitted:>24.1} {rejected:>9.1}");
        report.insert(name.to_owned(), json!({ "bare": bare, "store_admitted": admitted, "store_refused": rejected }));
    }
    report.into()
}

/// Bytes a key takes beyond the key itself, at a million keys of eight bytes.
pub(crate) fn bytes_per_key() -> Value {
    const KEYS: usize = 1_000_000;
    println!("\nbytes a key beyond the key, at a million keys (goal: at most 64)");
    let mut report = serde_json::Map::new();
    for rule in rules(10) {
        let store = Keyed::<u64, Rule>::new(rule, NonZeroUsize::new(KEYS).expect("not zero"));
        for key in 0..KEYS as u64 {
            let _ = store.check(&key, Cost::ONE, Timestamp::from_nanos(START));
        }
        let bytes = store.table_bytes() as f64 / store.len() as f64 - size_of::<u64>() as f64;
        let name = rule.algorithm().name();
        let note = match rule {
            Rule::SlidingLog(_) | Rule::Concurrency(_) => {
                format!("and its log: {} bytes, and 16 an admission", size_of::<SlidingLogState>())
            }
            Rule::FixedWindow(_)
            | Rule::SlidingCounter(_)
            | Rule::TokenBucket(_)
            | Rule::LeakyBucket(_)
            | Rule::Gcra(_) => crate::verdict(bytes <= 64.0).to_owned(),
        };
        println!("  {name:<18} {bytes:>9.1}  {note}");
        report.insert(name.to_owned(), json!(bytes));
    }
    report.into()
}

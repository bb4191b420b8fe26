//! GCRA here and in the `governor` crate, keyed both, each reading the same clock once a decision.

use std::hint::black_box;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use governor::clock::{Clock as _, MonotonicClock};
use governor::{Quota, RateLimiter};
use serde_json::{Value, json};
use tidegate_policy::{Cost, Gcra, Keyed, Rate, Timestamp};

use crate::rounds::{Duel, duel, time};

const KEYS: u64 = 1_000_000;

/// Scatters steps over the keys.
fn key(step: u64) -> u64 {
    (step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % KEYS
}

/// Runs `run(thread, step)` on each thread at once, and returns nanoseconds a step of each thread.
fn on_threads(threads: u64, steps: u64, run: impl Fn(u64) + Sync) -> f64 {
    if threads == 1 {
        return time(steps, |steps| (0..steps).for_each(&run));
    }
    let start_line = Barrier::new(threads as usize);
    let times = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..threads)
            .map(|thread| {
                let (start_line, run) = (&start_line, &run);
                scope.spawn(move || {
                    start_line.wait();
                    time(steps, |steps| (0..steps).for_each(|step| run(thread * steps + step)))
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().expect("no panic")).collect::<Vec<_>>()
    });
    times.iter().sum::<f64>() / threads as f64
}

pub(crate) fn compare() -> Value {
    let quota = Quota::per_second(NonZeroU32::new(1_000_000_000).expect("not zero"));
    let limit =
        Gcra::new(Rate::new(1_000_000_000, Duration::from_secs(1)).expect("a rate"), 1_000_000_000).expect("a limit");
    let store = || Keyed::<u64, Gcra>::new(limit, NonZeroUsize::new(2 * KEYS as usize).expect("not zero"));

    let governor = RateLimiter::<u64, _, _, _>::keyed(quota);
    let ours = store();
    let tsc = quanta::Clock::new();
    let origin = tsc.raw();
    let now = || Timestamp::from_nanos(1_790_000_000_000_000_000 + tsc.delta_as_nanos(origin, tsc.raw()));

    let governor_std = RateLimiter::<u64, _, _, _>::dashmap_with_clock(quota, MonotonicClock);
    let ours_std = store();
    let started = MonotonicClock.now();
    let now_std =
        || Timestamp::from_nanos(1_790_000_000_000_000_000 + Instant::now().duration_since(started).as_nanos() as u64);

    println!("\nGCRA, keyed: ns a decision     ours   governor   ratio   goal ≤ 1.00   (clock read included)");
    let mut report = serde_json::Map::new();
    let mut row = |name: &str, Duel { ours, theirs, ratio }: Duel| {
        let goal = crate::verdict(ratio <= 1.0);
        println!("  {name:<26} {ours:>8.1} {theirs:>10.1} {ratio:>7.2}   {goal}");
        report.insert(name.to_owned(), json!({ "ours_ns": ours, "governor_ns": theirs, "ratio": ratio }));
    };
    let step = |steps, threads, key: fn(u64) -> u64| {
        let we_check = |step| {
            let _ = black_box(ours.check(black_box(&key(step)), Cost::ONE, now()));
        };
        let they_check = |step| {
            let _decision = black_box(governor.check_key(black_box(&key(step))));
        };
        duel(41, || on_threads(threads, steps, we_check), || on_threads(threads, steps, they_check))
    };
    row("hot key", step(300_000, 1, |_| 7));
    row("a million keys", step(2_000_000, 1, key));
    row("2 threads, hot key", step(300_000, 2, |_| 7));
    row("2 threads, a million keys", step(1_000_000, 2, key));
    let we_check = |_| {
        let _ = black_box(ours_std.check(black_box(&7), Cost::ONE, now_std()));
    };
    let they_check = |_| {
        let _decision = black_box(governor_std.check_key(black_box(&7)));
    };
    row("hot key, std's clock", duel(41, || on_threads(1, 300_000, we_check), || on_threads(1, 300_000, they_check)));
    report.into()
}

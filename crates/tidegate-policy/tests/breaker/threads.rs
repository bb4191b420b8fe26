//! Many threads at once.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_policy::breaker::{BreakerSettings, Phase, Verdict, Window};

use super::{NOW, breaker, millis, seconds};

const THREADS: u64 = 4;
const CALLS: u64 = 50_000;

#[test]
fn each_call_is_counted_once_whatever_the_threads_do() {
    let settings =
        BreakerSettings { window: Window::Calls(20), open: millis(5), probes: 3, ..BreakerSettings::default() };
    let breaker = breaker(settings);
    let (passed, rejected) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..THREADS {
            let (breaker, passed, rejected) = (&breaker, &passed, &rejected);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed);
                for number in 0..CALLS {
                    let now = NOW + millis(number / 8);
                    match breaker.ask(now) {
                        Ok(call) => {
                            let verdict = if rng.u32(0..3) == 0 { Verdict::Failure } else { Verdict::Success };
                            breaker.record(call, verdict, seconds(0), now);
                            passed.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(_) => {
                            rejected.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let snapshot = breaker.snapshot(NOW + seconds(3_600));
    let totals = snapshot.totals;
    assert_eq!(totals.successes + totals.failures + totals.late, passed.load(Ordering::Relaxed));
    assert_eq!(totals.rejected, rejected.load(Ordering::Relaxed));
    assert!(totals.transitions.iter().all(|count| *count > 0), "{totals:?}");
    assert!(snapshot.phase != Phase::HalfOpen || snapshot.probes <= 3);
}

/// Threads that find the breaker half-open at the same moment get no more than its probes.
#[test]
fn as_many_probes_go_out_as_may_at_the_same_moment() {
    for _ in 0..200 {
        let settings = BreakerSettings { failures: None, consecutive: Some(1), ..BreakerSettings::default() };
        let breaker = breaker(settings);
        let asked = breaker.ask(NOW).expect("closed");
        breaker.record(asked, Verdict::Failure, seconds(0), NOW);
        let together = std::sync::Barrier::new(8);
        let probes: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        together.wait();
                        breaker.ask(NOW + seconds(30)).ok()
                    })
                })
                .collect();
            let calls: Vec<_> = threads.into_iter().filter_map(|thread| thread.join().expect("no panic")).collect();
            calls.len()
        });
        assert_eq!(probes, 3);
    }
}

//! A limit without keys decides as a keyed one does for a single key.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tidegate_policy::{
    Concurrency, Cost, Direct, FixedWindow, Gcra, Keyed, LeakyBucket, Rate, Rule, SlidingCounter, SlidingLog,
    Timestamp, TokenBucket,
};

const SECOND: Duration = Duration::from_secs(1);

fn all_rules(limit: u64) -> Vec<Rule> {
    let rate = Rate::per_second(limit).expect("a rate");
    vec![
        FixedWindow::new(limit, SECOND).expect("a limit").into(),
        SlidingCounter::new(limit, SECOND).expect("a limit").into(),
        SlidingLog::new(limit, SECOND).expect("a limit").into(),
        TokenBucket::new(rate, limit).expect("a limit").into(),
        LeakyBucket::new(rate, limit - 1).expect("a limit").into(),
        Gcra::new(rate, limit).expect("a limit").into(),
        Concurrency::new(limit, SECOND).expect("a limit").into(),
    ]
}

#[test]
fn it_decides_takes_returns_and_changes_as_a_keyed_limit_of_one_key_does() {
    for (rule, other) in all_rules(5).into_iter().zip(all_rules(9)) {
        let mut rng = fastrand::Rng::with_seed(7);
        let direct = Direct::new(rule);
        let keyed = Keyed::<u64, Rule>::new(rule, NonZeroUsize::MIN);
        let (mut now, mut tickets) = (Timestamp::from_nanos(1), Vec::new());
        for step in 0..10_000 {
            now = now + Duration::from_millis(rng.u64(0..300));
            let cost = Cost::new(rng.u32(1..4)).expect("a cost");
            match rng.u32(0..10) {
                0..5 => assert_eq!(direct.check(cost, now), keyed.check(&1, cost, now), "step {step}: {rule:?}"),
                5..8 => {
                    let max_wait = Duration::from_millis(rng.u64(0..1_000));
                    let (ours, theirs) =
                        (direct.take_within(cost, now, max_wait), keyed.take_within(&1, cost, now, max_wait));
                    assert_eq!(ours, theirs, "step {step}: {rule:?}");
                    tickets.extend(ours.1.zip(theirs.1));
                }
                8 if !tickets.is_empty() => {
                    let (ours, theirs) = tickets.swap_remove(rng.usize(0..tickets.len()));
                    direct.give_back(ours, now);
                    keyed.give_back(&1, theirs, now);
                }
                _ => {
                    let next = if direct.limiter() == rule { &other } else { &rule };
                    direct.change(next, now);
                    keyed.change(next, now);
                }
            }
        }
    }
}

#[test]
fn eight_threads_racing_for_n_tokens_get_exactly_n() {
    let limit = Direct::new(FixedWindow::new(10_000, SECOND).expect("a limit"));
    let admitted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    let decision = limit.check(Cost::ONE, Timestamp::default());
                    admitted.fetch_add(decision.is_admitted().into(), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 10_000);
}

#[test]
fn a_moment_of_the_system_clock_is_a_timestamp_and_one_before_1970_is_the_epoch() {
    let later = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789);
    assert_eq!(Timestamp::from(later), Timestamp::from_nanos(1_700_000_000_123_456_789));
    assert_eq!(Timestamp::from(SystemTime::UNIX_EPOCH - SECOND), Timestamp::default());
}

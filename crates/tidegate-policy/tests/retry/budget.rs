//! Budgets: never more retries than they permit, and never fewer.

use std::time::Duration;

use fastrand::Rng;
use tidegate_policy::Timestamp;
use tidegate_policy::retry::{BudgetSettings, RetryBudget};

const EVENTS: u64 = 1_000_000;
const EVENTS_A_WALK: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;

/// All that happened, each with its time.
#[derive(Default)]
struct Log {
    calls: Vec<u64>,
    retries: Vec<u64>,
}

impl Log {
    /// How many of these are in the second that now is in, or in the nine before.
    fn recent(times: &[u64], now: u64) -> u64 {
        times.iter().filter(|at| now / SECOND < *at / SECOND + 10).count() as u64
    }

    fn left(&self, settings: BudgetSettings, now: u64) -> u64 {
        let budget = settings.share * Self::recent(&self.calls, now) as f64 + settings.floor * 10.0;
        ((budget + 1e-9).floor() as u64).saturating_sub(Self::recent(&self.retries, now))
    }
}

#[test]
fn a_budget_permits_what_the_model_permits() {
    let (mut permitted, mut denied) = (0_u64, 0_u64);
    for seed in 0..EVENTS / EVENTS_A_WALK {
        let mut rng = Rng::with_seed(seed);
        let share = [0.0, 0.1, 0.2, 1.0][rng.usize(0..4)];
        let settings = BudgetSettings { share, floor: [0.0, 0.1, 0.5, 3.0][rng.usize(0..4)] };
        let budget = RetryBudget::new(settings).expect("valid");
        let mut log = Log::default();
        let mut now = [0, 1_790_000_000 * SECOND, (u64::MAX >> 1) - (1 << 45)][rng.usize(0..3)];
        for _ in 0..EVENTS_A_WALK {
            let at = Timestamp::from_nanos(now);
            match rng.u32(0..10) {
                0..4 => {
                    budget.call_began(at);
                    log.calls.push(now);
                }
                4..8 => {
                    let expected = log.left(settings, now) > 0;
                    assert_eq!(budget.take(at), expected);
                    if expected {
                        log.retries.push(now);
                    }
                    permitted += u64::from(expected);
                    denied += u64::from(!expected);
                }
                8 if rng.u32(0..10) == 0 => {
                    budget.spend(at);
                    log.retries.push(now);
                }
                8 => now += rng.u64(0..SECOND / 2),
                _ => {
                    let most = if rng.u32(0..50) == 0 { 15 * SECOND } else { SECOND / 100 };
                    now += rng.u64(0..most);
                }
            }
            let at = Timestamp::from_nanos(now);
            assert_eq!(budget.snapshot(at).left, log.left(settings, now));
        }
    }
    assert!(permitted > 50_000 && denied > 50_000, "{permitted} {denied}");
}

/// When everything fails and everybody retries as often as they may.
#[test]
fn an_upstream_that_always_fails_sees_a_fifth_more_calls_and_the_floor() {
    for (share, floor) in [(0.2, 10.0), (0.2, 0.0), (0.0, 10.0), (0.5, 1.0)] {
        let budget = RetryBudget::new(BudgetSettings { share, floor }).expect("valid");
        let (mut sent, mut calls, mut rng) = (0_u64, 0_u64, Rng::with_seed(3));
        let mut now = 1_790_000_000 * SECOND;
        let began = now;
        for _ in 0..EVENTS {
            now += rng.u64(0..2 * SECOND / 1_000);
            let at = Timestamp::from_nanos(now);
            budget.call_began(at);
            (calls, sent) = (calls + 1, sent + 1);
            // Each call is made up to five times.
            sent += (0..4).take_while(|_| budget.take(at)).count() as u64;
        }
        let seconds = (now - began) as f64 / SECOND as f64;
        // What the floor permits in ten seconds may be used at once at the beginning.
        let most = (1.0 + share) * calls as f64 + floor * (seconds + 10.0);
        assert!(sent as f64 <= most, "{sent} above {most}");
        assert!(sent as f64 > 0.99 * most, "{sent} far below {most}: calls fail that could be repeated");
    }
}

/// A service that idles has no calls from which a share could come.
#[test]
fn the_floor_permits_retries_after_any_idle_time() {
    let budget = RetryBudget::new(BudgetSettings { share: 0.2, floor: 1.0 }).expect("valid");
    let mut now = Timestamp::from_nanos(1_790_000_000 * SECOND);
    for _ in 0..3 {
        budget.call_began(now);
        let taken = (0..100).take_while(|_| budget.take(now)).count();
        assert_eq!(taken, 10, "ten seconds of the floor");
        now = now + Duration::from_secs(3_600);
    }
}

#[test]
fn threads_together_take_no_more_than_one_would() {
    let budget = RetryBudget::new(BudgetSettings { share: 0.2, floor: 0.0 }).expect("valid");
    let now = Timestamp::from_nanos(1_790_000_000 * SECOND);
    let taken: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    (0..50_000)
                        .filter(|_| {
                            budget.call_began(now);
                            budget.take(now)
                        })
                        .count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert!((39_000..=40_000).contains(&taken), "{taken}");
    let snapshot = budget.snapshot(now);
    assert_eq!((snapshot.calls, snapshot.retries), (200_000, taken as u64));
}

#[test]
fn what_makes_no_sense_is_rejected_by_name() {
    let new = |share, floor| RetryBudget::new(BudgetSettings { share, floor }).expect_err("invalid").to_string();
    assert_eq!(new(-0.1, 1.0), "`share` must be between 0 and 10, got -0.1");
    assert_eq!(new(f64::NAN, 1.0), "`share` must be between 0 and 10, got NaN");
    assert_eq!(new(0.2, f64::INFINITY), "`floor` must be between 0 and 1000000, got inf");
}

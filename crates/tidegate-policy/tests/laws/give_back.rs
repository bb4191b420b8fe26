//! Giving back what was taken, where time refills: never more than if it had never been taken.

use tidegate_policy::state::Receipt;
use tidegate_policy::{Cost, Decision, Gcra, LeakyBucket, Limiter, Rate, Timestamp, TokenBucket};

use crate::{STARTS, STEPS_A_WALK, build_rate};
use tidegate_testkit::oracle::{BucketOracle, Oracle};
use tidegate_testkit::walk::{Numbers, Step, Walk};

/// Whatever is given back, and however late, those who really went stay within the definition.
fn those_who_went_stay_within_the_limit<L: Limiter>(build: fn(Numbers) -> L) {
    for seed in 0..300 {
        let mut walk = Walk::new(seed, &STARTS);
        walk.may_go_back = false;
        let numbers = walk.numbers();
        let (limiter, mut went) = (build(numbers), BucketOracle::new(numbers));
        let mut state = L::State::default();
        let mut receipts: Vec<Receipt> = Vec::new();
        for _ in 0..STEPS_A_WALK {
            let step = walk.step(numbers);
            let now = Timestamp::from_nanos(walk.now);
            match step {
                Step::GiveBack if !receipts.is_empty() => {
                    let receipt = receipts.swap_remove(walk.rng().usize(0..receipts.len()));
                    limiter.give_back(&mut state, &receipt, now);
                    went.undo(receipt.cost().get().into(), receipt.at().as_nanos(), walk.now);
                }
                Step::Ask { cost } => {
                    let cost = Cost::new(cost).expect("a cost");
                    if limiter.decide(&state, cost, now).is_admitted() {
                        assert!(
                            went.admits(cost.get().into(), walk.now),
                            "seed {seed}: more went than the limit allows"
                        );
                        receipts.push(limiter.take(&mut state, cost, now));
                        went.admit(cost.get().into(), walk.now);
                    }
                }
                Step::GiveBack | Step::Change(_) => {}
            }
        }
    }
}

#[test]
fn a_token_bucket_never_returns_what_time_has_refilled() {
    those_who_went_stay_within_the_limit(|n| TokenBucket::new(build_rate(n), n.limit).expect("small numbers"));
}

#[test]
fn gcra_never_returns_what_time_has_refilled() {
    those_who_went_stay_within_the_limit(|n| Gcra::new(build_rate(n), n.limit).expect("small numbers"));
}

/// Ten tokens, one a second. Five are taken, and returned six seconds later, when the bucket is full without them and
/// someone else has taken eight: adding five to the level would let fifteen go at once.
#[test]
fn a_late_give_back_does_not_fill_a_bucket_twice() {
    let second = |s: u64| Timestamp::from_nanos(s * 1_000_000_000);
    let bucket = TokenBucket::new(Rate::per_second(1).expect("a rate"), 10).expect("a bucket");
    let cost = |tokens| Cost::new(tokens).expect("a cost");
    let mut state = Default::default();
    let five = bucket.take(&mut state, cost(5), second(0));
    bucket.take(&mut state, cost(8), second(6));
    bucket.give_back(&mut state, &five, second(6));
    assert_eq!(bucket.decide(&state, Cost::ONE, second(6)).remaining(), 1, "two are left, before this one");
}

/// Taken and returned at once, with nobody in between, is as if nothing had been.
fn at_once_restores<L: Limiter>(limiter: &L, capacity: u64)
where
    L::State: Clone,
{
    let mut rng = fastrand::Rng::with_seed(7);
    let mut state = L::State::default();
    let mut now = 1_000_u64;
    for _ in 0..10_000 {
        now += rng.u64(0..3_000);
        let (at, cost) = (Timestamp::from_nanos(now), Cost::new(rng.u32(1..=capacity as u32)).expect("a cost"));
        if !limiter.decide(&state, cost, at).is_admitted() {
            continue;
        }
        let before = state.clone();
        let receipt = limiter.take(&mut state, cost, at);
        limiter.give_back(&mut state, &receipt, at);
        for later in [now, now + 1, now + 500, now + 1_000_000] {
            let later = Timestamp::from_nanos(later);
            assert_eq!(limiter.decide(&state, cost, later), limiter.decide(&before, cost, later));
        }
        if rng.bool() {
            limiter.take(&mut state, cost, at);
        }
    }
}

#[test]
fn what_is_returned_at_once_was_never_taken() {
    let numbers = Numbers { limit: 7, tokens: 3, span: 1_000 };
    at_once_restores(&TokenBucket::new(build_rate(numbers), 7).expect("small"), 7);
    at_once_restores(&Gcra::new(build_rate(numbers), 7).expect("small"), 7);
    at_once_restores(&LeakyBucket::new(build_rate(numbers), 6).expect("small"), 7);
}

/// A departure whose successors already know their times stays unused, or two would leave at the same moment.
#[test]
fn leaky_departures_keep_their_distance_when_some_are_given_back() {
    for seed in 0..300 {
        let mut walk = Walk::new(seed, &STARTS);
        walk.may_go_back = false;
        let numbers = walk.numbers();
        let limiter = LeakyBucket::new(build_rate(numbers), numbers.limit - 1).expect("small numbers");
        let mut state = Default::default();
        let mut departures: Vec<(u64, Receipt)> = Vec::new();
        for _ in 0..STEPS_A_WALK {
            let step = walk.step(numbers);
            let now = Timestamp::from_nanos(walk.now);
            match step {
                Step::GiveBack => {
                    // Only one that has not left yet can change its mind.
                    let waiting = departures.iter().position(|(departs, _)| *departs > walk.now);
                    if let Some(index) = waiting {
                        let index = walk.rng().usize(index..departures.len());
                        let (_, receipt) = departures.remove(index);
                        limiter.give_back(&mut state, &receipt, now);
                    }
                }
                Step::Ask { cost } => {
                    let cost = Cost::new(cost).expect("a cost");
                    if let Decision::Admit { wait, .. } = limiter.decide(&state, cost, now) {
                        let departs = walk.now + wait.as_nanos() as u64;
                        if let Some((before, receipt)) = departures.last() {
                            let apart = u64::from(receipt.cost().get()) * numbers.span / numbers.tokens;
                            assert!(departs >= before + apart.saturating_sub(1), "seed {seed}: left too early");
                        }
                        departures.push((departs, limiter.take(&mut state, cost, now)));
                    }
                }
                Step::Change(_) => {}
            }
        }
    }
}

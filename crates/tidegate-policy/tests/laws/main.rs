//! The laws every algorithm keeps, each against its own oracle, a million seeded steps each.
//!
//! For every step, with costs above one, idle gaps, clock jumps both ways, and changes of numbers: a request is
//! admitted if and only if the definition admits it; `retry_after` is the earliest admission if nobody else comes;
//! `remaining` and `reset_after` are true; a rejected request changes nothing; an unused state decides like a new one.

mod give_back;

use std::fmt::Debug;
use std::time::Duration;

use tidegate_policy::state::Receipt;
use tidegate_policy::{
    Concurrency, Cost, Decision, FixedWindow, Gcra, InvalidLimit, LeakyBucket, Limiter, Rate, Rule, SlidingCounter,
    SlidingLog, Timestamp, TokenBucket,
};
use tidegate_testkit::oracle::{BucketOracle, FixedWindowOracle, LeakyOracle, LogOracle, Oracle, SlidingCounterOracle};
use tidegate_testkit::walk::{Numbers, Step, Walk};

const STEPS: u64 = 1_000_000;
const STEPS_A_WALK: u64 = 1_000;
/// The epoch, a moment after it, our days, and shortly before the end of time.
const STARTS: [u64; 4] = [0, 1_000_000_007, 1_790_000_000_000_000_000, (u64::MAX >> 1) - (1 << 33)];

fn build_rate(numbers: Numbers) -> Rate {
    Rate::new(numbers.tokens, Duration::from_nanos(numbers.span)).expect("a small rate")
}

fn span(numbers: Numbers) -> Duration {
    Duration::from_nanos(numbers.span)
}

/// What a give-back may be held to.
#[derive(Clone, Copy, PartialEq)]
enum GiveBack {
    /// As if the request had never come.
    Exact,
    /// Not more than that: what time has refilled since is not returned.
    AtMost,
}

struct Suite<L, O> {
    build: fn(Numbers) -> Result<L, InvalidLimit>,
    give_back: GiveBack,
    oracle: std::marker::PhantomData<O>,
}

impl<L, O> Suite<L, O>
where
    L: Limiter + Debug,
    L::State: Clone + PartialEq + Debug,
    O: Oracle,
{
    fn new(give_back: GiveBack, build: fn(Numbers) -> Result<L, InvalidLimit>) -> Self {
        Self { build, give_back, oracle: std::marker::PhantomData }
    }

    fn run(&self) {
        for seed in 0..STEPS / STEPS_A_WALK {
            self.walk(seed);
        }
    }

    fn walk(&self, seed: u64) {
        let mut walk = Walk::new(seed, &STARTS);
        let numbers = walk.numbers();
        let mut oracle = O::new(numbers);
        let mut limiter = (self.build)(numbers).expect("small numbers");
        let mut state = L::State::default();
        let mut receipts: Vec<Receipt> = Vec::new();
        for step in 0..STEPS_A_WALK {
            let context = format!("seed {seed} step {step}");
            match walk.step(oracle.numbers()) {
                Step::Change(numbers) => {
                    let new = (self.build)(numbers).expect("small numbers");
                    new.adopt(&mut state, &limiter, Timestamp::from_nanos(walk.now));
                    limiter = new;
                    oracle.change(numbers, walk.now);
                    receipts.clear();
                }
                Step::GiveBack if self.give_back == GiveBack::Exact && !receipts.is_empty() => {
                    let receipt = receipts.swap_remove(walk.rng().usize(0..receipts.len()));
                    limiter.give_back(&mut state, &receipt, Timestamp::from_nanos(walk.now));
                    oracle.undo(receipt.cost().get().into(), receipt.at().as_nanos(), walk.now);
                }
                Step::GiveBack => {}
                Step::Ask { cost } => {
                    let cost = Cost::new(cost).expect("a cost");
                    let decision = ask(&limiter, &mut state, &mut oracle, cost, walk.now, &mut receipts, &context);
                    walk.retry_at = decision.retry_after().map(|after| walk.now + after.as_nanos() as u64);
                }
            }
            receipts.truncate(32);
        }
    }
}

/// One request, and every law about it.
fn ask<L, O>(
    limiter: &L,
    state: &mut L::State,
    oracle: &mut O,
    cost: Cost,
    now: u64,
    receipts: &mut Vec<Receipt>,
    context: &str,
) -> Decision
where
    L: Limiter + Debug,
    L::State: Clone + PartialEq + Debug,
    O: Oracle,
{
    let (tokens, limit, at) = (u64::from(cost.get()), oracle.numbers().limit, Timestamp::from_nanos(now));
    let decision = limiter.decide(state, cost, at);
    let context = format!("{context}: {limiter:?} {state:?} cost {tokens} at {now} → {decision:?}");
    assert_eq!(decision.is_admitted(), oracle.admits(tokens, now), "admitted against the definition: {context}");
    if limiter.spent(state, at) == 0 {
        let new = limiter.decide(&L::State::default(), cost, at);
        let shown = |decision: Decision| (decision.is_admitted(), decision.remaining(), decision.retry_after());
        assert_eq!(shown(decision), shown(new), "unused, but not like new: {context}");
    }

    let before = state.clone();
    let wait = oracle.wait(now);
    assert_eq!(limiter.check(state, cost, at), decision, "checked otherwise than decided: {context}");
    match decision {
        Decision::Admit { wait: decided, .. } => {
            assert_eq!(decided.as_nanos(), u128::from(wait), "wait: {context}");
            let mut again = before;
            receipts.push(limiter.take(&mut again, cost, at));
            oracle.admit(tokens, now);
        }
        Decision::Reject { retry_after, .. } => {
            assert_eq!(*state, before, "a rejected request changed the state: {context}");
            match retry_after.map(|after| now + after.as_nanos() as u64) {
                None => assert!(tokens > limit, "never, though it would fit: {context}"),
                Some(retry) => {
                    assert!(retry > now, "rejected, yet it may come back at once: {context}");
                    admits_from(retry, limiter, state, oracle, cost, &context);
                }
            }
        }
    }

    let left = decision.remaining();
    assert!(left == 0 || oracle.admits(left, now), "fewer remain than reported: {context}");
    assert!(!oracle.admits(left + 1, now), "more remain than reported: {context}");
    let reset = now + decision.reset_after().as_nanos() as u64;
    let whole = Cost::new(limit as u32).expect("a limit");
    if reset > now {
        admits_from(reset, limiter, state, oracle, whole, &format!("reset: {context}"));
    } else {
        assert!(oracle.admits(limit, now), "reset is now, but some is used: {context}");
    }
    decision
}

/// From `moment` on, and not a nanosecond earlier, a request of `cost` is admitted: by the definition and by the
/// limiter.
fn admits_from<L: Limiter, O: Oracle>(
    moment: u64,
    limiter: &L,
    state: &L::State,
    oracle: &O,
    cost: Cost,
    context: &str,
) {
    if moment > Timestamp::MAX.as_nanos() {
        return; // past the end of time nobody can come
    }
    let tokens = cost.get().into();
    assert!(oracle.admits(tokens, moment), "too early: {context}");
    assert!(!oracle.admits(tokens, moment - 1), "too late: {context}");
    assert!(limiter.decide(state, cost, Timestamp::from_nanos(moment)).is_admitted(), "rejected then: {context}");
    assert!(
        !limiter.decide(state, cost, Timestamp::from_nanos(moment - 1)).is_admitted(),
        "admitted before: {context}"
    );
}

#[test]
fn fixed_window_keeps_the_laws() {
    Suite::<_, FixedWindowOracle>::new(GiveBack::Exact, |n| FixedWindow::new(n.limit, span(n))).run();
}

#[test]
fn sliding_counter_keeps_the_laws() {
    Suite::<_, SlidingCounterOracle>::new(GiveBack::Exact, |n| SlidingCounter::new(n.limit, span(n))).run();
}

#[test]
fn sliding_log_keeps_the_laws() {
    Suite::<_, LogOracle>::new(GiveBack::Exact, |n| SlidingLog::new(n.limit, span(n))).run();
}

#[test]
fn concurrency_keeps_the_laws() {
    Suite::<_, LogOracle>::new(GiveBack::Exact, |n| Concurrency::new(n.limit, span(n))).run();
}

#[test]
fn token_bucket_keeps_the_laws() {
    Suite::<_, BucketOracle>::new(GiveBack::AtMost, |n| TokenBucket::new(build_rate(n), n.limit)).run();
}

#[test]
fn gcra_keeps_the_laws() {
    Suite::<_, BucketOracle>::new(GiveBack::AtMost, |n| Gcra::new(build_rate(n), n.limit)).run();
}

#[test]
fn leaky_bucket_keeps_the_laws() {
    Suite::<_, LeakyOracle>::new(GiveBack::AtMost, |n| LeakyBucket::new(build_rate(n), n.limit - 1)).run();
}

#[test]
fn a_rule_keeps_the_laws_of_the_algorithm_it_holds() {
    Suite::<Rule, LogOracle>::new(GiveBack::Exact, |n| Ok(SlidingLog::new(n.limit, span(n))?.into())).run();
    Suite::<Rule, BucketOracle>::new(GiveBack::AtMost, |n| Ok(Gcra::new(build_rate(n), n.limit)?.into())).run();
}

//! What makes no sense is rejected where it is built, with the field's name; what can't be foreseen is a decision.
//! Never a panic.

use std::num::NonZeroUsize;
use std::time::Duration;

use tidegate_policy::{
    Algorithm, Concurrency, Cost, FixedWindow, Gcra, InvalidLimit, Keyed, LONGEST_SPAN, LeakyBucket, Limiter, Rate,
    Rule, SlidingCounter, SlidingLog, Timestamp, TokenBucket,
};

const SECOND: Duration = Duration::from_secs(1);

fn rate(tokens: u64, per: Duration) -> Rate {
    Rate::new(tokens, per).expect("a rate")
}

#[test]
fn every_number_that_makes_no_sense_is_named() {
    let (huge, forever) = (u64::MAX, Duration::MAX);
    let one = rate(1, SECOND);
    let log_max = SlidingLog::MAX_LIMIT + 1;
    let cases: [(Option<InvalidLimit>, &str); 24] = [
        (FixedWindow::new(0, SECOND).err(), "`limit` must be greater than zero, got 0"),
        (FixedWindow::new(1, Duration::ZERO).err(), "`window` must be greater than zero"),
        (FixedWindow::new(huge, SECOND).err(), "`limit` must be at most 4294967295, got 18446744073709551615"),
        (FixedWindow::new(1, forever).err(), "`window` must be at most 1152921504 s"),
        (SlidingCounter::new(0, SECOND).err(), "`limit` must be greater than zero, got 0"),
        (SlidingCounter::new(1, Duration::ZERO).err(), "`window` must be greater than zero"),
        (SlidingCounter::new(huge, SECOND).err(), "`limit` must be at most 4294967295, got"),
        (SlidingCounter::new(1, forever).err(), "`window` must be at most 1152921504 s"),
        (SlidingLog::new(0, SECOND).err(), "`limit` must be greater than zero, got 0"),
        (SlidingLog::new(log_max, SECOND).err(), "`limit` must be at most 1048576, got 1048577"),
        (SlidingLog::new(1, Duration::ZERO).err(), "`window` must be greater than zero"),
        (SlidingLog::new(1, forever).err(), "`window` must be at most 1152921504 s"),
        (Concurrency::new(0, SECOND).err(), "`limit` must be greater than zero, got 0"),
        (Concurrency::new(huge, SECOND).err(), "`limit` must be at most"),
        (Concurrency::new(1, Duration::ZERO).err(), "`hold` must be greater than zero"),
        (Concurrency::new(1, forever).err(), "`hold` must be at most 1152921504 s"),
        (TokenBucket::new(one, 0).err(), "`capacity` must be greater than zero"),
        (TokenBucket::new(one, huge).err(), "`capacity` must be at most"),
        (Gcra::new(one, 0).err(), "`burst` must be greater than zero"),
        (Gcra::new(one, huge).err(), "`burst` must be at most"),
        (LeakyBucket::new(one, huge).err(), "`queue` must be at most"),
        (Rate::new(0, SECOND).err(), "`tokens` must be greater than zero"),
        (Rate::new(1, Duration::ZERO).err(), "`per` must be greater than zero"),
        (Rate::new(huge, forever).err(), "`tokens` must be at most 4294967295, got 18446744073709551615"),
    ];
    for (error, text) in cases {
        let error = error.unwrap_or_else(|| panic!("accepted what should say {text}")).to_string();
        assert!(error.starts_with(text), "{error:?} does not start with {text:?}");
    }
    let slow = TokenBucket::new(rate(1, Duration::from_secs(86_400)), u32::MAX.into());
    assert!(matches!(slow, Err(InvalidLimit::TooFine { .. })), "{slow:?}");
    let slow = TokenBucket::new(rate(1, LONGEST_SPAN), 2);
    assert!(matches!(slow, Err(InvalidLimit::TooLong { .. })), "{slow:?}");
}

/// All algorithms at the largest numbers they accept.
fn extremes() -> Vec<Rule> {
    let max = u64::from(u32::MAX);
    let fast = rate(max, Duration::from_nanos(1));
    vec![
        FixedWindow::new(max, LONGEST_SPAN).expect("allowed").into(),
        FixedWindow::new(1, Duration::from_nanos(1)).expect("allowed").into(),
        SlidingCounter::new(max, LONGEST_SPAN).expect("allowed").into(),
        SlidingCounter::new(1, Duration::from_nanos(1)).expect("allowed").into(),
        SlidingLog::new(SlidingLog::MAX_LIMIT, LONGEST_SPAN).expect("allowed").into(),
        Concurrency::new(SlidingLog::MAX_LIMIT, LONGEST_SPAN).expect("allowed").into(),
        TokenBucket::new(fast, max).expect("allowed").into(),
        TokenBucket::new(rate(1, LONGEST_SPAN), 1).expect("allowed").into(),
        Gcra::new(fast, max).expect("allowed").into(),
        Gcra::new(rate(1, LONGEST_SPAN), 1).expect("allowed").into(),
        LeakyBucket::new(fast, max - 1).expect("allowed").into(),
        LeakyBucket::new(rate(1, LONGEST_SPAN), 0).expect("allowed").into(),
    ]
}

#[test]
fn the_largest_numbers_at_the_oddest_times_never_panic() {
    let moments = [0, 1, u64::MAX, 1 << 62, 5, u64::MAX >> 1, (u64::MAX >> 1) - 1, 0, 1 << 60];
    let costs = [1, 2, u32::MAX, 1 << 20];
    for rule in extremes() {
        let mut state = Default::default();
        for _ in 0..3 {
            for now in moments.map(Timestamp::from_nanos) {
                for cost in costs.into_iter().filter_map(Cost::new) {
                    let decision = rule.check(&mut state, cost, now);
                    rule.spent(&state, now);
                    if decision.is_admitted() {
                        let receipt = rule.take(&mut Default::default(), cost, now);
                        rule.give_back(&mut state.clone(), &receipt, now);
                    }
                }
            }
        }
        for other in extremes() {
            other.adopt(&mut state.clone(), &rule, Timestamp::MAX);
        }
    }
}

#[test]
fn at_the_end_of_time_the_limit_still_holds() {
    let (hour, one) = (Duration::from_secs(3_600), rate(1, Duration::from_secs(3_600)));
    let rules: [Rule; 7] = [
        FixedWindow::new(5, hour).expect("a limit").into(),
        SlidingCounter::new(5, hour).expect("a limit").into(),
        SlidingLog::new(5, hour).expect("a limit").into(),
        Concurrency::new(5, hour).expect("a limit").into(),
        TokenBucket::new(one, 5).expect("a limit").into(),
        Gcra::new(one, 5).expect("a limit").into(),
        LeakyBucket::new(one, 4).expect("a limit").into(),
    ];
    for rule in rules {
        let mut state = Default::default();
        let admitted =
            (0..20).filter(|_| rule.check(&mut state, Cost::ONE, Timestamp::from_nanos(u64::MAX)).is_admitted());
        assert_eq!(admitted.count(), 5, "{rule:?}");
    }
}

#[test]
fn a_cost_above_the_whole_limit_is_rejected_for_ever_and_remembered_nowhere() {
    let users = Keyed::<u64, Rule>::new(
        FixedWindow::new(5, SECOND).expect("a limit").into(),
        NonZeroUsize::new(10).expect("not zero"),
    );
    let decision = users.check(&1, Cost::new(6).expect("a cost"), Timestamp::from_nanos(0));
    assert_eq!((decision.is_admitted(), decision.retry_after(), decision.remaining()), (false, None, 5));
    assert!(users.is_empty());
}

#[test]
fn an_algorithm_is_known_by_its_name_alone() {
    for algorithm in Algorithm::ALL {
        assert_eq!(algorithm.name().parse(), Ok(*algorithm));
    }
    let error = "bucket".parse::<Algorithm>().expect_err("no such algorithm").to_string();
    assert!(error.contains("`bucket`") && error.contains("`gcra`"), "{error}");
}

use super::*;

fn windowed(algorithm: Algorithm, limit: u64, seconds: u64) -> LimitNumbers {
    let values = Values { limit: Some(limit), window: Some(Duration::from_secs(seconds)), ..Values::default() };
    LimitNumbers::new(algorithm, values, 0).expect("numbers")
}

fn bucket(capacity: u64, fill_rate: f64) -> LimitNumbers {
    let values = Values { capacity: Some(capacity), fill_rate: Some(fill_rate), ..Values::default() };
    LimitNumbers::new(Algorithm::TokenBucket, values, 0).expect("numbers")
}

#[test]
fn a_fractional_rate_is_the_fraction_it_says() {
    for (written, tokens, seconds) in [(0.1, 1, 10), (2.5, 5, 2), (5.0, 5, 1), (0.000_001, 1, 1_000_000)] {
        let expected = Rate::new(tokens, Duration::from_secs(seconds)).expect("a rate");
        assert_eq!(exact_rate(written), Some(expected), "{written}");
    }
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-9, 0.123_456_7, 1e12] {
        assert_eq!(exact_rate(wrong), None, "{wrong}");
    }
}

#[test]
fn seconds_are_rounded_to_the_microsecond_and_bounded() {
    assert_eq!(seconds(0.1), Some(Duration::from_millis(100)));
    assert_eq!(seconds(1e-7), Some(Duration::ZERO));
    for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e10] {
        assert_eq!(seconds(wrong), None, "{wrong}");
    }
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    use Algorithm::{Concurrency, FixedWindow, Gcra, LeakyBucket, TokenBucket};
    let none = Values::default();
    let second = Some(Duration::from_secs(1));
    for (algorithm, values, field) in [
        (FixedWindow, Values { window: second, ..none }, "limit"),
        (FixedWindow, Values { limit: Some(5), ..none }, "window"),
        (FixedWindow, Values { limit: Some(0), window: second, ..none }, "limit"),
        (FixedWindow, Values { limit: Some(5), window: Some(Duration::ZERO), ..none }, "window"),
        (TokenBucket, Values { limit: Some(5), window: second, ..none }, "capacity"),
        (TokenBucket, Values { capacity: Some(5), ..none }, "fillRate"),
        (TokenBucket, Values { capacity: Some(5), fill_rate: Some(-1.0), ..none }, "fillRate"),
        (TokenBucket, Values { capacity: Some(0), fill_rate: Some(1.0), ..none }, "capacity"),
        (Gcra, Values { capacity: Some(0), fill_rate: Some(1.0), ..none }, "capacity"),
        (LeakyBucket, Values { fill_rate: Some(1.0), ..none }, "capacity"),
        (Concurrency, Values { limit: Some(5), hold: Some(Duration::ZERO), ..none }, "hold"),
    ] {
        let error = LimitNumbers::new(algorithm, values, 0).expect_err(field);
        assert_eq!(error.field, field, "{algorithm} {values:?}: {error}");
    }
}

#[test]
fn another_algorithm_has_the_numbers_set_before_or_the_closest() {
    let fixed = windowed(Algorithm::FixedWindow, 100, 60);
    let switched = |from: &LimitNumbers, to| from.with_algorithm(to, &Values::default(), 0, any).expect("a rule");
    let token = switched(&fixed, Algorithm::TokenBucket);
    assert_eq!(token.to_string(), "algorithm=token, capacity=100, fillRate=1.667");
    let back = switched(&token, Algorithm::FixedWindow);
    assert_eq!(back.to_string(), fixed.to_string());

    let both = switched(&bucket(50, 5.0).remembering(&fixed), Algorithm::SlidingCounter);
    assert_eq!(both.to_string(), "algorithm=sliding, limit=100, window=60");
}

/// Everything is accepted that makes a rule.
#[expect(clippy::unnecessary_wraps, reason = "a test's stand-in for one that rejects")]
fn any(_: &LimitNumbers) -> Result<(), InvalidNumbers> {
    Ok(())
}

/// A rate of nothing refills in no time that can be computed; asked for from outside, it was a panic.
#[test]
fn a_rate_that_makes_no_sense_is_rejected_by_those_that_need_one_and_dropped_by_others() {
    let token = bucket(5, 1.0);
    for rate in [0.0, -3.0, 1e-300] {
        let given = Values { fill_rate: Some(rate), ..Values::default() };
        for algorithm in Algorithm::ALL {
            let switched = token.with_algorithm(*algorithm, &given, 0, any);
            if has_bucket(*algorithm) {
                let error = switched.expect_err("no rate");
                assert_eq!(error.field, "fillRate", "{rate}: {error}");
            } else {
                let kept = switched.expect("a rule").values().fill_rate;
                assert_eq!(kept, Some(1.0), "{algorithm}: what was set before");
            }
        }
    }
}

#[test]
fn numbers_of_other_algorithms_that_are_good_for_none_are_dropped() {
    let own = *windowed(Algorithm::FixedWindow, 5, 1).values();
    let zero = Some(Duration::ZERO);
    for (given, kept) in [
        (Values { capacity: Some(0), fill_rate: Some(0.0), hold: zero, ..own }, own),
        (Values { capacity: Some(7), fill_rate: Some(-1.0), ..own }, Values { capacity: Some(7), ..own }),
        (
            Values { capacity: Some(4_294_967_295), fill_rate: Some(1e6), ..own },
            Values { capacity: Some(4_294_967_295), fill_rate: Some(1e6), ..own },
        ),
        (Values { capacity: Some(4_294_967_295), fill_rate: Some(0.000_001), ..own }, own),
    ] {
        let made = LimitNumbers::new(Algorithm::FixedWindow, given, 0).expect("a rule");
        assert_eq!(*made.values(), kept, "{given:?}");
    }
    let own = Values { capacity: Some(0), fill_rate: Some(5.0), ..Values::default() };
    let given = Values { limit: Some(0), window: zero, ..own };
    let leaky = LimitNumbers::new(Algorithm::LeakyBucket, given, 0).expect("a queue of nothing is one");
    assert_eq!(*leaky.values(), own, "what its own algorithm has a use for stays");
}

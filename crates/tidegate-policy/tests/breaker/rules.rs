//! Each rule of a breaker as a story.

use tidegate_policy::breaker::{BreakerSettings, Forced, Phase, SlowCalls, Trigger, Verdict, Window};

use super::{NOW, breaker, call, millis, observed, seconds, slow_call};

const QUIET: BreakerSettings = BreakerSettings {
    window: Window::Calls(10),
    minimum: 5,
    failures: Some(0.5),
    slow: None,
    consecutive: None,
    open: seconds(30),
    growth: 1.0,
    longest_open: seconds(300),
    probes: 3,
    probe_timeout: seconds(30),
};

/// A provider's policy: the last 50 calls, half of them failed or took 2 s, open for 30 s, 5 probes.
#[test]
fn half_of_fifty_calls_slow_or_failed_opens_for_thirty_seconds() {
    let settings = BreakerSettings {
        window: Window::Calls(50),
        minimum: 50,
        slow: Some(SlowCalls { threshold: seconds(2), share: 0.5 }),
        probes: 5,
        ..QUIET
    };
    for is_slow in [false, true] {
        let (breaker, reported) = observed(settings);
        for number in 0..50 {
            assert_eq!(breaker.snapshot(NOW).phase, Phase::Closed, "after {number}");
            let is_bad = number % 2 == 0;
            let (verdict, took) = match (is_bad, is_slow) {
                (true, true) => (Verdict::Success, seconds(2)),
                (true, false) => (Verdict::Failure, seconds(0)),
                (false, _) => (Verdict::Success, millis(1_999)),
            };
            slow_call(&breaker, verdict, took, NOW).expect("it is closed");
        }
        let transition = reported.lock().expect("no panic")[0];
        let expected =
            if is_slow { Trigger::Slow { slow: 25, calls: 50 } } else { Trigger::Failures { failures: 25, calls: 50 } };
        assert_eq!((transition.trigger, transition.open_for), (expected, Some(seconds(30))));
        for number in 0..5 {
            let at = NOW + seconds(30);
            assert_eq!(breaker.ask(NOW + millis(29_999)).err().is_some(), number == 0);
            call(&breaker, Verdict::Success, at).expect("a probe");
        }
        assert_eq!(breaker.snapshot(NOW).phase, Phase::Closed);
    }
}

/// The counting form: 5 failures in a row, 30 s, 3 successes.
#[test]
fn five_failures_in_a_row_open_and_three_successes_close() {
    let breaker = breaker(BreakerSettings { failures: None, consecutive: Some(5), ..QUIET });
    for verdict in [[Verdict::Failure; 4].as_slice(), &[Verdict::Success], &[Verdict::Failure; 5]].concat() {
        call(&breaker, verdict, NOW).expect("it is closed");
    }
    assert_eq!(call(&breaker, Verdict::Success, NOW).expect_err("open").retry_after, Some(seconds(30)));
    let later = NOW + seconds(30);
    for _ in 0..3 {
        assert_ne!(breaker.snapshot(later).phase, Phase::Closed);
        call(&breaker, Verdict::Success, later).expect("a probe");
    }
    assert_eq!(breaker.snapshot(later).phase, Phase::Closed);
}

#[test]
fn each_reopening_lasts_longer_until_it_has_closed() {
    let breaker = breaker(BreakerSettings {
        failures: None,
        consecutive: Some(1),
        growth: 2.0,
        longest_open: seconds(100),
        probes: 1,
        ..QUIET
    });
    let mut now = NOW;
    call(&breaker, Verdict::Failure, now).expect("closed");
    for span in [30, 60, 100, 100] {
        assert_eq!(breaker.ask(now).expect_err("open").retry_after, Some(seconds(span)));
        now = now + seconds(span);
        call(&breaker, Verdict::Failure, now).expect("a probe");
    }
    now = now + seconds(100);
    call(&breaker, Verdict::Success, now).expect("a probe");
    call(&breaker, Verdict::Failure, now).expect("closed");
    assert_eq!(breaker.ask(now).expect_err("open").retry_after, Some(seconds(30)));
}

#[test]
fn no_more_probes_go_out_than_may_and_those_that_never_end_have_failed() {
    let (breaker, reported) = observed(BreakerSettings { failures: None, consecutive: Some(1), ..QUIET });
    call(&breaker, Verdict::Failure, NOW).expect("closed");
    let later = NOW + seconds(30);
    let probes: Vec<_> = (0..3).map(|_| breaker.ask(later).expect("a probe")).collect();
    assert_eq!(breaker.ask(later).expect_err("all probes are out").retry_after, None);
    assert_eq!(breaker.ask(later + millis(29_999)).expect_err("they may still end").retry_after, None);
    let reopened = breaker.ask(later + seconds(30)).expect_err("they have failed");
    assert_eq!(reopened.retry_after, Some(seconds(30)));
    assert_eq!(reported.lock().expect("no panic").last().map(|last| last.trigger), Some(Trigger::ProbesTimedOut));
    for probe in probes {
        breaker.record(probe, Verdict::Success, seconds(60), later + seconds(60));
    }
    assert_eq!(breaker.snapshot(later).totals.late, 3);
}

/// A client that leaves says nothing. Its probe must not block the breaker.
#[test]
fn a_probe_that_is_dropped_makes_room_for_another() {
    let breaker = breaker(BreakerSettings { failures: None, consecutive: Some(1), probes: 1, ..QUIET });
    call(&breaker, Verdict::Failure, NOW).expect("closed");
    let later = NOW + seconds(30);
    assert!(breaker.rejects(NOW) && !breaker.rejects(later), "that can be seen without a probe");
    let probe = breaker.ask(later).expect("a probe");
    assert!(breaker.rejects(later) && breaker.ask(later).is_err());
    drop(probe);
    assert!(!breaker.rejects(later));
    call(&breaker, Verdict::Success, later).expect("another probe");
    assert_eq!(breaker.snapshot(later).phase, Phase::Closed);
}

/// The verdict of an event stream is given at its head. If it breaks later, that counts once more.
#[test]
fn a_body_that_breaks_off_is_one_more_failure_while_the_state_lasts() {
    let breaker = breaker(BreakerSettings { failures: None, consecutive: Some(2), ..QUIET });
    let generations: Vec<_> = (0..3)
        .map(|_| {
            let asked = breaker.ask(NOW).expect("closed");
            breaker.record(asked, Verdict::Success, seconds(0), NOW)
        })
        .collect();
    breaker.broke_off(generations[0], NOW);
    assert_eq!(breaker.snapshot(NOW).phase, Phase::Closed);
    breaker.broke_off(generations[1], NOW);
    assert_eq!(breaker.snapshot(NOW).phase, Phase::Open);
    breaker.broke_off(generations[2], NOW);
    assert_eq!(breaker.snapshot(NOW).totals.late, 1);
}

#[test]
fn an_operators_word_holds_until_it_is_taken_back() {
    let breaker = breaker(BreakerSettings { failures: None, consecutive: Some(2), ..QUIET });
    breaker.force(Forced::Open, NOW);
    assert_eq!(breaker.ask(NOW + seconds(3_600)).expect_err("forced").retry_after, None);
    breaker.force(Forced::Closed, NOW);
    for _ in 0..10 {
        call(&breaker, Verdict::Failure, NOW).expect("it never opens");
    }
    assert_eq!(breaker.snapshot(NOW).failures_in_a_row, 10);
    breaker.force(Forced::Disabled, NOW);
    call(&breaker, Verdict::Failure, NOW).expect("all go through");
    assert_eq!(breaker.snapshot(NOW).totals.failures, 10, "none counts");
    breaker.force(Forced::Auto, NOW);
    call(&breaker, Verdict::Failure, NOW).expect("closed");
    assert!(breaker.ask(NOW).is_err(), "the failures before count again");
}

#[test]
fn a_reload_keeps_the_phase_and_starts_probes_anew() {
    let settings = BreakerSettings { failures: None, consecutive: Some(1), probes: 2, ..QUIET };
    let breaker = breaker(settings);
    call(&breaker, Verdict::Failure, NOW).expect("closed");
    breaker.change(BreakerSettings { open: seconds(60), ..settings }).expect("valid");
    assert_eq!(breaker.ask(NOW).expect_err("open").retry_after, Some(seconds(30)), "as long as it was");
    let later = NOW + seconds(30);
    let probes = [breaker.ask(later).expect("one"), breaker.ask(later).expect("two")];
    breaker.change(BreakerSettings { probes: 1, ..settings }).expect("valid");
    for probe in probes {
        breaker.record(probe, Verdict::Failure, seconds(0), later);
    }
    call(&breaker, Verdict::Success, later).expect("the only probe now");
    assert_eq!(breaker.snapshot(later).phase, Phase::Closed);
}

/// Clocks step back, and calls end in another order than they began.
#[test]
fn a_clock_that_steps_back_loses_nothing() {
    let settings = BreakerSettings { window: Window::Time(seconds(10)), minimum: 4, failures: Some(1.0), ..QUIET };
    let breaker = breaker(settings);
    for at in [100, 50, 99, 0] {
        call(&breaker, Verdict::Failure, NOW + seconds(at)).expect("closed");
    }
    assert_eq!(breaker.snapshot(NOW + seconds(100)).phase, Phase::Open);
}

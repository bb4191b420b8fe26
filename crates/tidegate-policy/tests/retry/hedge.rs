//! When another attempt is made beside a slow one: to the latencies themselves.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;
use tidegate_policy::Timestamp;
use tidegate_policy::retry::{HedgeDelay, HedgeSettings};

const STEPS: usize = 1_000_000;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(1_700_000_000_000_000_000 + millis * 1_000_000)
}

fn hedge(quantile: f64) -> HedgeDelay {
    HedgeDelay::new(HedgeSettings { quantile, min_delay: Duration::ZERO }).expect("valid")
}

/// The definition: of those latencies, the one that so large a share does not exceed.
fn quantile(latencies: &[Duration], share: f64) -> Duration {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    sorted[((share * sorted.len() as f64).ceil() as usize).max(1) - 1]
}

#[test]
fn it_is_the_quantile_and_at_most_an_eighth_more() {
    let mut rng = Rng::with_seed(1);
    for share in [0.5, 0.9, 0.95, 0.999] {
        for (least, most) in [(0, 40), (1_000, 2_000_000), (3_000_000, 3_000_000), (0, u64::MAX / 4)] {
            let hedge = hedge(share);
            let latencies: Vec<_> = (0..2_000).map(|_| Duration::from_nanos(rng.u64(least..=most))).collect();
            for latency in &latencies {
                hedge.note(*latency, at(0));
            }
            let (delay, exact) = (hedge.delay(at(0)).expect("enough is known"), quantile(&latencies, share));
            assert!(delay >= exact && delay <= exact + exact / 8, "{share} of {least} to {most}: {delay:?}, {exact:?}");
        }
    }
}

/// What is older than twenty seconds counts no more, what is younger than ten always does.
#[test]
fn a_million_latencies_agree_with_the_recent_ones() {
    let (mut rng, hedge) = (Rng::with_seed(2), hedge(0.9));
    let mut recent: VecDeque<(u64, Duration)> = VecDeque::new();
    let (mut now, mut compared) = (0, 0);
    for step in 0..STEPS {
        now += if rng.u32(0..20_000) == 0 { rng.u64(0..40_000) } else { rng.u64(0..8) };
        // They become slower and faster.
        let scale = 1 + (now / 3_000) % 50;
        let latency = Duration::from_micros(rng.u64(1..1_000) * scale);
        hedge.note(latency, at(now));
        recent.push_back((now, latency));
        while recent.front().is_some_and(|(noted, _)| now - noted > 20_000) {
            recent.pop_front();
        }
        if step % 1_000 != 999 {
            continue;
        }
        now += 100; // the last delay is fresh no longer
        let young = recent.iter().filter(|(noted, _)| now - noted < 10_000).map(|(_, latency)| *latency);
        let (young, all): (Vec<_>, Vec<_>) = (young.collect(), recent.iter().map(|(_, latency)| *latency).collect());
        match hedge.delay(at(now)) {
            None => assert!(young.len() < 50, "{} are known", young.len()),
            Some(delay) => {
                assert!(all.len() >= 50, "only {} are known", all.len());
                // Those that count are all of the young ones and some of the others.
                let slower = |bound: Duration, of: &[Duration]| of.iter().filter(|latency| **latency > bound).count();
                let faster = |bound: Duration, of: &[Duration]| of.iter().filter(|latency| **latency < bound).count();
                let older = all.len() - young.len();
                let most_slower = (young.len() + older) as f64 * 0.1 + 1.0;
                assert!(slower(delay, &young) as f64 <= most_slower, "{delay:?} is too short");
                let lowest = (delay * 8 / 9).saturating_sub(Duration::from_nanos(1));
                let most_faster = (young.len() + older) as f64 * 0.9 + 1.0;
                assert!(faster(lowest, &young) as f64 <= most_faster, "{delay:?} is too long");
                compared += 1;
            }
        }
    }
    assert!(compared > 900, "{compared}");
}

#[test]
fn nothing_is_known_at_first_and_after_a_long_silence() {
    let hedge = hedge(0.9);
    for count in 1..=50 {
        assert_eq!(hedge.delay(at(0)), None, "{count}");
        hedge.note(Duration::from_millis(count), at(0));
    }
    assert!(hedge.delay(at(0)).is_some());
    assert!(hedge.delay(at(19_999)).is_some(), "at most twenty seconds");
    assert_eq!(hedge.delay(at(20_100)), None, "they are forgotten");
    // A clock that jumps back changes nothing.
    hedge.note(Duration::from_millis(1), at(40_000));
    (0..60).for_each(|_| hedge.note(Duration::from_millis(1), at(5)));
    assert!(hedge.delay(at(5)).is_some());
}

#[test]
fn a_delay_is_not_below_the_least_and_follows_its_settings() {
    let hedge = hedge(0.5);
    (1..=100).for_each(|millis| hedge.note(Duration::from_millis(millis), at(0)));
    let settings = |quantile, millis| HedgeSettings { quantile, min_delay: Duration::from_millis(millis) };
    let delay = |quantile, millis| {
        hedge.change(settings(quantile, millis)).expect("valid");
        hedge.delay(at(0)).expect("what was known is known")
    };
    assert_eq!(delay(0.5, 5_000), Duration::from_secs(5));
    assert!(delay(0.99, 1) > delay(0.9, 1) && delay(0.9, 1) > delay(0.5, 1));
}

#[test]
fn settings_that_make_no_sense_are_errors() {
    for (quantile, found) in [(0.49, "0.49"), (1.0, "1"), (f64::NAN, "NaN"), (-1.0, "-1")] {
        let invalid = HedgeDelay::new(HedgeSettings { quantile, ..HedgeSettings::default() }).expect_err("invalid");
        assert_eq!(invalid.to_string(), format!("`quantile` must be between 0.5 and 0.999, got {found}"));
    }
    let invalid = HedgeSettings { min_delay: Duration::MAX, ..HedgeSettings::default() }.checked();
    assert_eq!(invalid.expect_err("invalid").field, "min_delay");
}

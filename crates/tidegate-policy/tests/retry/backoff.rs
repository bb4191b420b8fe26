//! Pauses: how they grow, and that they are spread as their jitter says.

use std::time::Duration;

use fastrand::Rng;
use tidegate_policy::retry::{Backoff, Jitter};

const PAUSES: usize = 1_000_000;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn backoff(factor: f64, jitter: Jitter) -> Backoff {
    Backoff::new(millis(200), millis(2_000), factor, jitter).expect("valid")
}

#[test]
fn pauses_grow_by_the_factor_up_to_the_longest() {
    let none = Jitter::None;
    for (factor, expected) in [
        (1.0, [200, 200, 200, 200, 200, 200]),
        (2.0, [200, 400, 800, 1_600, 2_000, 2_000]),
        (10.0, [200, 2_000, 2_000, 2_000, 2_000, 2_000]),
    ] {
        let backoff = backoff(factor, none);
        let pauses: Vec<Duration> = (1..=6).map(|retry| backoff.pause(retry, Duration::ZERO, 7)).collect();
        assert_eq!(pauses, expected.map(millis));
    }
    assert_eq!(backoff(100.0, none).pause(u32::MAX, Duration::MAX, u64::MAX), millis(2_000));
}

/// A third retry: 200 ms, 400 ms, 800 ms.
#[test]
fn jitter_spreads_evenly_over_its_range() {
    for (jitter, least, most) in [
        (Jitter::Full, 0, 800),
        (Jitter::Equal, 400, 800),
        (Jitter::Share(0.3), 560, 1_040),
        (Jitter::Decorrelated, 200, 1_200),
    ] {
        let backoff = backoff(2.0, jitter);
        let last = millis(400);
        assert_eq!(backoff.range(3, last), (millis(least), millis(most)), "{jitter:?}");
        let mut rng = Rng::with_seed(1);
        let mut tenths = [0_usize; 10];
        for _ in 0..PAUSES {
            let pause = backoff.pause(3, last, rng.u64(..));
            assert!((millis(least)..=millis(most)).contains(&pause), "{jitter:?}: {pause:?}");
            let share = pause.saturating_sub(millis(least)).as_secs_f64() / millis(most - least).as_secs_f64();
            tenths[((share * 10.0) as usize).min(9)] += 1;
        }
        // Ten standard deviations of a tenth of a million draws.
        let expected = PAUSES / 10;
        assert!(tenths.iter().all(|count| count.abs_diff(expected) < 3_000), "{jitter:?}: {tenths:?}");
    }
}

/// A pause that is spread around the longest one must not become the longest one half of the time.
#[test]
fn a_share_leaves_room_below_the_longest() {
    let backoff = backoff(2.0, Jitter::Share(0.3));
    let (least, most) = backoff.range(10, millis(2_000));
    assert!(most <= millis(2_000) && most > millis(1_999), "{most:?}");
    assert!(least > millis(1_070) && least < millis(1_080), "{least:?}");
}

#[test]
fn decorrelated_pauses_follow_the_last_one_and_stay_in_their_bounds() {
    let backoff = backoff(2.0, Jitter::Decorrelated);
    let mut rng = Rng::with_seed(2);
    let mut last = Duration::ZERO;
    for retry in 1..=100_000 {
        let (least, most) = backoff.range(retry, last);
        assert_eq!(least, millis(200));
        assert_eq!(most, (last.max(millis(200)) * 3).min(millis(2_000)));
        last = backoff.pause(retry, last, rng.u64(..));
        assert!((least..=most).contains(&last));
    }
}

#[test]
fn contradictions_are_rejected_by_name() {
    let new =
        |base, max, factor, jitter| Backoff::new(millis(base), max, factor, jitter).expect_err("invalid").to_string();
    let max = millis(2_000);
    assert_eq!(new(3_000, max, 2.0, Jitter::None), "`base` must be at most `max`, which is 2s, got 3s");
    assert_eq!(new(1, max, 0.9, Jitter::None), "`factor` must be between 1 and 100, got 0.9");
    assert_eq!(new(1, max, f64::NAN, Jitter::None), "`factor` must be between 1 and 100, got NaN");
    assert_eq!(new(1, max, 2.0, Jitter::Share(1.1)), "`jitter` must be above 0 and at most 1, got 1.1");
    assert!(new(1, Duration::MAX, 2.0, Jitter::None).starts_with("`max` must be at most 1152921504 s"));
}

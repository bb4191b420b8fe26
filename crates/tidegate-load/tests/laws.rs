//! What every profile and schedule must keep to.
#![allow(clippy::float_cmp, reason = "numbers that are set are compared, not computed ones")]
#![allow(clippy::cast_precision_loss, reason = "figures far below 2^52")]

use std::time::Duration;

use tidegate_load::{Arrivals, Profile, Schedule, Shape};

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Shapes with easy and odd numbers, each with the time it is watched for.
fn shapes() -> Vec<(Shape, f64)> {
    vec![
        (Shape::Constant { rate: 50.0 }, 10.0),
        (Shape::Constant { rate: 0.7 }, 100.0),
        (Shape::Constant { rate: 12_345.6 }, 3.0),
        (Shape::Burst { base: 100.0, spike: 500.0, spike_length: 5.0, period: 60.0 }, 200.0),
        (Shape::Burst { base: 0.0, spike: 300.0, spike_length: 0.3, period: 1.7 }, 20.0),
        (Shape::Burst { base: 20.0, spike: 0.0, spike_length: 2.0, period: 3.0 }, 20.0),
        (Shape::Sine { least: 50.0, most: 150.0, period: 120.0 }, 300.0),
        (Shape::Sine { least: 0.0, most: 77.7, period: 3.3 }, 50.0),
        (Shape::Ramp { from: 0.0, to: 200.0, length: 30.0 }, 40.0),
        (Shape::Ramp { from: 200.0, to: 0.0, length: 30.0 }, 40.0),
        (Shape::Ramp { from: 99.0, to: 99.0, length: 10.0 }, 20.0),
    ]
}

fn profiles() -> Vec<Profile> {
    let one = shapes().into_iter().map(|(shape, length)| Profile::of(shape, seconds(length)));
    let all = Profile::sequence(shapes().into_iter().map(|(shape, length)| (shape, seconds(length))));
    let silent = Shape::Constant { rate: 0.0 };
    let gaps =
        shapes().into_iter().flat_map(|(shape, length)| [(silent.clone(), seconds(1.5)), (shape, seconds(length))]);
    one.chain([all, Profile::sequence(gaps)]).collect()
}

/// The rate is what the formulas of docs/load.md say.
#[test]
fn rates_are_those_of_the_formulas() {
    let burst = Shape::Burst { base: 100.0, spike: 500.0, spike_length: 5.0, period: 60.0 };
    for (time, rate) in [(0.0, 100.0), (54.9, 100.0), (55.0, 500.0), (59.9, 500.0), (60.0, 100.0), (115.5, 500.0)] {
        assert_eq!(burst.rate(time), rate, "{time}");
    }
    let sine = Shape::Sine { least: 50.0, most: 150.0, period: 120.0 };
    for (time, rate) in [(0.0, 100.0), (30.0, 150.0), (60.0, 100.0), (90.0, 50.0), (120.0, 100.0), (10.0, 125.0)] {
        assert!((sine.rate(time) - rate).abs() < 1e-9, "{time}");
    }
}

/// Summed up in fine steps. What that misses is at most a step times what the rate has changed by, jumps included.
#[test]
fn what_is_expected_is_the_integral_of_the_rate() {
    for profile in profiles() {
        let (length, steps) = (profile.length().as_secs_f64(), 200_000);
        let step = length / f64::from(steps);
        let (mut sum, mut variation, mut last) = (0.0, 0.0, profile.rate(Duration::ZERO));
        for index in 0..steps {
            let rate = profile.rate(seconds((f64::from(index) + 0.5) * step));
            sum += rate * step;
            variation += (rate - last).abs();
            last = rate;
            if index % 1_000 == 0 {
                let until = seconds(f64::from(index + 1) * step);
                let (expected, allowed) = (profile.expected(until), step * (variation + 1.0) + 1e-9 * sum);
                assert!((expected - sum).abs() <= allowed, "{profile:?} at {until:?}: {expected}, {sum} ± {allowed}");
            }
        }
        assert!(step * variation < 0.02 * profile.total(), "{profile:?}: {} of {}", step * variation, profile.total());
        assert!((profile.expected(profile.length()) - profile.total()).abs() < 1e-6, "{profile:?}");
    }
}

/// Even arrivals are within one of the integral at every instant: right before and right after each of them.
#[test]
fn an_even_schedule_follows_the_integral() {
    for profile in profiles() {
        let (mut count, mut last) = (0.0, Duration::ZERO);
        for due in Schedule::new(profile.clone(), &Arrivals::Even) {
            assert!(due >= last && due <= profile.length(), "{profile:?}: {due:?} after {last:?}");
            let expected = profile.expected(due);
            assert!((expected - count).abs() < 1e-3, "{profile:?}: {count} at {due:?}, {expected} expected");
            (count, last) = (count + 1.0, due);
        }
        assert!((0.0..=1.0).contains(&(count - profile.total() + 1e-9)), "{profile:?}: {count} of {}", profile.total());
    }
}

/// Nothing is due while the rate is zero.
#[test]
fn nobody_comes_in_silence() {
    for profile in profiles() {
        for arrivals in [Arrivals::Even, Arrivals::Poisson { seed: 7 }] {
            for due in Schedule::new(profile.clone(), &arrivals) {
                let (before, after) = (due.saturating_sub(seconds(1e-6)), due + seconds(1e-6));
                assert!(profile.rate(before) > 0.0 || profile.rate(after) > 0.0, "{profile:?}: {due:?}");
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_times_and_another_one_others() {
    for profile in profiles() {
        let times = |seed| Schedule::new(profile.clone(), &Arrivals::Poisson { seed }).take(50).collect::<Vec<_>>();
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
    }
}

/// Counts of a Poisson process in a time are Poisson: mean and variance are the integral. Over 400 seeds both estimates
/// must lie within 3.29 of their standard errors, which chance leaves once in a thousand.
#[test]
fn poisson_counts_have_the_mean_and_the_variance_of_the_integral() {
    for profile in profiles() {
        let window = (profile.length().mul_f64(0.3), profile.length().mul_f64(0.6));
        let mean = profile.expected(window.1) - profile.expected(window.0);
        if !(5.0..20_000.0).contains(&mean) {
            continue;
        }
        let runs = 400;
        let counts: Vec<f64> = (0..runs)
            .map(|seed| {
                let times = Schedule::new(profile.clone(), &Arrivals::Poisson { seed });
                let within = times.take_while(|due| *due < window.1).filter(|due| *due >= window.0);
                f64::from(u32::try_from(within.count()).expect("few"))
            })
            .collect();
        let n = 400.0;
        let average = counts.iter().sum::<f64>() / n;
        let variance = counts.iter().map(|count| (count - average).powi(2)).sum::<f64>() / (n - 1.0);
        assert!((average - mean).abs() < 3.29 * (mean / n).sqrt(), "{profile:?}: mean {average}, {mean} expected");
        // The variance of the sample variance of a Poisson distribution: (2μ²n/(n−1) + μ) / n.
        let error = ((2.0 * mean * mean * n / (n - 1.0) + mean) / n).sqrt();
        assert!((variance - mean).abs() < 3.29 * error, "{profile:?}: variance {variance}, {mean} expected");
    }
}

/// Kolmogorov and Smirnov: what passes of the integral between two arrivals is exponential with mean 1.
#[test]
fn times_between_poisson_arrivals_are_exponential() {
    for (number, profile) in profiles().into_iter().enumerate() {
        let times: Vec<Duration> =
            Schedule::new(profile.clone(), &Arrivals::Poisson { seed: number as u64 }).take(20_000).collect();
        if times.len() < 200 {
            continue;
        }
        let mut gaps: Vec<f64> =
            times.windows(2).map(|pair| profile.expected(pair[1]) - profile.expected(pair[0])).collect();
        gaps.sort_by(f64::total_cmp);
        let n = gaps.len() as f64;
        let distance = gaps.iter().enumerate().map(|(index, gap)| {
            let (is, below) = (1.0 - (-gap).exp(), index as f64 / n);
            (is - below).abs().max((below + 1.0 / n - is).abs())
        });
        let distance = distance.fold(0.0, f64::max);
        // 1.95 / √n is exceeded once in a thousand.
        assert!(distance < 1.95 / n.sqrt(), "{profile:?}: {distance} of {}", 1.95 / n.sqrt());
    }
}

/// Each burst is reported once to those who look from time to time, whatever their steps.
#[test]
fn bursts_are_reported_when_they_begin() {
    let shape = Shape::Burst { base: 10.0, spike: 50.0, spike_length: 10.0, period: 60.0 };
    let burst = Profile::of(shape, Duration::from_secs(300));
    let calm = Profile::of(Shape::Constant { rate: 5.0 }, Duration::from_secs(300));
    let attacks = [(1.0, 20), (80.0, 5), (1.0, 30), (60.0, 7)];
    let attacks = attacks.map(|(rate, length)| (Shape::Constant { rate }, Duration::from_secs(length)));
    let reported = |profile: &Profile, step: f64| -> Vec<(f64, f64)> {
        let mut last = Duration::ZERO;
        let looks = (1..).map(|number| f64::from(number) * step).take_while(|time| *time < 320.0);
        let mut reported = Vec::new();
        for now in looks.map(Duration::from_secs_f64) {
            reported.extend(profile.burst_between(last, now).map(|(time, rate)| (time.as_secs_f64(), rate)));
            last = now;
        }
        reported
    };
    for step in [0.1, 0.35, 2.0] {
        assert_eq!(reported(&burst, step), [50.0, 110.0, 170.0, 230.0, 290.0].map(|time| (time, 50.0)), "by {step}");
        assert_eq!(reported(&Profile::sequence(attacks.clone()), step), [(20.0, 80.0), (55.0, 60.0)], "by {step}");
        assert_eq!(reported(&calm, step), []);
    }
}

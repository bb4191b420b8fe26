//! Load by the second, drawn from a seed.

use std::f64::consts::TAU;

use tidegate_forecast::Series;

/// The first second of every series here.
pub(crate) const START: i64 = 1_700_000_000;

/// A series and whether it has a cycle.
pub(crate) struct Generated {
    pub(crate) name: &'static str,
    pub(crate) is_periodic: bool,
    pub(crate) series: Series,
}

/// How many come in a second in which so many are expected and each comes independently of the others.
pub(crate) fn poisson(random: &mut fastrand::Rng, mean: f64) -> f64 {
    if mean > 30.0 {
        let (radius, angle) = ((-2.0 * random.f64().max(1e-12).ln()).sqrt(), TAU * random.f64());
        return (mean + mean.sqrt() * radius * angle.cos()).round().max(0.0);
    }
    let (least, mut product, mut count) = ((-mean).exp(), random.f64(), 0.0);
    while product >= least {
        product *= random.f64();
        count += 1.0;
    }
    count
}

/// `high` in the last `length` of each `period` seconds, else `low`.
pub(crate) fn burst(second: f64, period: f64, length: f64, low: f64, high: f64) -> f64 {
    if second.rem_euclid(period) >= period - length { high } else { low }
}

/// Between `low` and `high` in a sine wave.
pub(crate) fn sine(second: f64, period: f64, low: f64, high: f64) -> f64 {
    f64::midpoint(low, high) + (high - low) / 2.0 * (TAU * second / period).sin()
}

/// One value a second.
pub(crate) fn by_second(values: impl IntoIterator<Item = f64>) -> Series {
    let mut series = Series::new(1, 1_000_000);
    for (second, value) in values.into_iter().enumerate() {
        assert!(series.put(START + second as i64, value), "{value}");
    }
    series
}

/// Each second a step up or down by at most 10, from 200 on.
pub(crate) fn walk(random: &mut fastrand::Rng) -> impl Iterator<Item = f64> {
    let mut at = 200.0;
    std::iter::repeat_with(move || {
        at = f64::clamp(at + (random.f64() - 0.5) * 20.0, 5.0, 2_000.0);
        at
    })
}

/// The load of the table in the docs, 40 minutes of each kind.
pub(crate) fn all(seed: u64) -> Vec<Generated> {
    const SECONDS: usize = 2_400;
    let random = &mut fastrand::Rng::with_seed(seed);
    let seconds = || (0..SECONDS).map(|second| second as f64);
    let spikes = |second| burst(second, 60.0, 10.0, 100.0, 500.0);
    let of = |name, is_periodic, values: Vec<f64>| Generated { name, is_periodic, series: by_second(values) };
    vec![
        of("burst, even", true, seconds().map(spikes).collect()),
        of("burst", true, seconds().map(|second| poisson(random, spikes(second))).collect()),
        of(
            "burst of 37.4 s",
            true,
            seconds().map(|second| poisson(random, burst(second, 37.4, 7.4, 80.0, 300.0))).collect(),
        ),
        of("sine", true, seconds().map(|second| poisson(random, sine(second, 90.0, 100.0, 500.0))).collect()),
        of("constant", false, seconds().map(|_| poisson(random, 200.0)).collect()),
        of("walk", false, walk(random).take(SECONDS).collect()),
        of("walk, Poisson", false, {
            let means: Vec<f64> = walk(random).take(SECONDS).collect();
            means.into_iter().map(|mean| poisson(random, mean)).collect()
        }),
    ]
}

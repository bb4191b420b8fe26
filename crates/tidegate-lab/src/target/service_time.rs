use std::f64::consts::TAU;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fastrand::Rng;

use super::contention::seconds;
use super::duration_text;

/// How long a request is served, when nothing slows it down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServiceTime {
    /// Always the same.
    Fixed(Duration),
    /// Exponential: mostly short, at times much longer; the standard deviation is the mean.
    Exponential {
        /// The mean.
        mean: Duration,
    },
    /// Log-normal, as service times of real systems mostly are: a body around the middle and a long tail.
    LogNormal {
        /// The mean.
        mean: Duration,
        /// The standard deviation of the time's logarithm. With 0.5 the 99th percentile is 2.8 times the mean, with 1
        /// 6.2 times.
        sigma: f64,
    },
}

/// The longest mean.
const LONGEST_MEAN: Duration = Duration::from_secs(60);
/// The largest `sigma`. Beyond it nearly all of the mean comes from a few requests that are too rare to be seen.
const LARGEST_SIGMA: f64 = 3.0;

impl ServiceTime {
    /// The mean.
    pub fn mean(&self) -> Duration {
        match self {
            Self::Fixed(mean) | Self::Exponential { mean } | Self::LogNormal { mean, .. } => *mean,
        }
    }

    /// Draws one.
    pub fn draw(&self, random: &mut Rng) -> Duration {
        match self {
            Self::Fixed(time) => *time,
            Self::Exponential { mean } => seconds(-above_zero(random).ln() * mean.as_secs_f64()),
            Self::LogNormal { mean, sigma } => {
                let exponent = sigma * normal(random) - sigma * sigma / 2.0;
                seconds(mean.as_secs_f64() * exponent.exp())
            }
        }
    }
}

/// Evenly from (0, 1], so that there is a logarithm.
fn above_zero(random: &mut Rng) -> f64 {
    1.0 - random.f64()
}

/// The standard normal distribution, by Box and Muller. Their second number is not kept: one state less.
fn normal(random: &mut Rng) -> f64 {
    (-2.0 * above_zero(random).ln()).sqrt() * (TAU * random.f64()).cos()
}

/// Why a text can't be read as a service time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidServiceTime(String);

impl fmt::Display for InvalidServiceTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidServiceTime {}

const EXPECTED: &str = "must be a time such as 5ms, exponential:5ms or lognormal:5ms:0.5";

impl FromStr for ServiceTime {
    type Err = InvalidServiceTime;

    fn from_str(text: &str) -> Result<Self, InvalidServiceTime> {
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            [time] | ["fixed", time] => Ok(Self::Fixed(mean(time)?)),
            ["exponential", time] => Ok(Self::Exponential { mean: mean(time)? }),
            ["lognormal", time, sigma] => Ok(Self::LogNormal { mean: mean(time)?, sigma: read_sigma(sigma)? }),
            ["lognormal", _] => {
                Err(InvalidServiceTime(format!("sigma is missing; {EXPECTED} (sigma from 0 to {LARGEST_SIGMA})")))
            }
            _ => Err(InvalidServiceTime(format!("{EXPECTED}, got {text:?}"))),
        }
    }
}

fn mean(text: &str) -> Result<Duration, InvalidServiceTime> {
    let Some(time) = duration_text::read(text) else {
        return Err(InvalidServiceTime(format!("{EXPECTED}, with a unit (us, ms or s), got {text:?}")));
    };
    if time > LONGEST_MEAN {
        return Err(InvalidServiceTime(format!("must be at most 60s, got {text}")));
    }
    Ok(time)
}

fn read_sigma(text: &str) -> Result<f64, InvalidServiceTime> {
    let sigma = text.parse().ok().filter(|sigma| (0.0..=LARGEST_SIGMA).contains(sigma));
    sigma.ok_or_else(|| InvalidServiceTime(format!("sigma must be from 0 to {LARGEST_SIGMA}, got {text:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWN: u32 = 200_000;
    const MEAN: Duration = Duration::from_millis(5);

    /// Mean, standard deviation and 99th percentile of many, in means.
    fn figures(time: ServiceTime) -> (f64, f64, f64) {
        let mut random = Rng::with_seed(7);
        let mut drawn: Vec<f64> =
            (0..DRAWN).map(|_| time.draw(&mut random).as_secs_f64() / MEAN.as_secs_f64()).collect();
        let mean = drawn.iter().sum::<f64>() / f64::from(DRAWN);
        let variance = drawn.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / f64::from(DRAWN - 1);
        drawn.sort_by(f64::total_cmp);
        (mean, variance.sqrt(), drawn[drawn.len() * 99 / 100])
    }

    /// A band of five standard errors around what theory says.
    fn holds(measured: f64, theory: f64, standard_error: f64) -> bool {
        (measured - theory).abs() < 5.0 * standard_error
    }

    #[test]
    fn fixed_is_always_the_same() {
        let mut random = Rng::with_seed(1);
        let fixed = ServiceTime::Fixed(MEAN);
        assert!((0..100).all(|_| fixed.draw(&mut random) == MEAN));
        assert_eq!(random.u64(..), Rng::with_seed(1).u64(..), "and takes nothing of the chances");
    }

    #[test]
    fn exponential_has_the_mean_the_deviation_and_the_tail_it_says() {
        let (mean, deviation, p99) = figures(ServiceTime::Exponential { mean: MEAN });
        let n = f64::from(DRAWN);
        assert!(holds(mean, 1.0, (1.0 / n).sqrt()), "{mean}");
        // The variance of the sample variance is (9 - 1) / n.
        assert!(holds(deviation * deviation, 1.0, (8.0 / n).sqrt()), "{deviation}");
        // Of a quantile: sqrt(q (1 - q) / n) / density, which is 1 - q here.
        assert!(holds(p99, 100_f64.ln(), (0.0099 / n).sqrt() / 0.01), "{p99}");
    }

    #[test]
    fn lognormal_has_the_mean_the_deviation_and_the_tail_it_says() {
        for (sigma, tail) in [(0.5, 2.824), (1.0, 6.212)] {
            let (mean, deviation, p99) = figures(ServiceTime::LogNormal { mean: MEAN, sigma });
            let variance = f64::exp(sigma * sigma) - 1.0;
            let n = f64::from(DRAWN);
            assert!(holds(mean, 1.0, (variance / n).sqrt()), "{mean}");
            assert!((deviation / variance.sqrt() - 1.0).abs() < 0.05, "{deviation}");
            assert!((p99 / tail - 1.0).abs() < 0.03, "{p99}");
        }
        let (mean, deviation, _) = figures(ServiceTime::LogNormal { mean: MEAN, sigma: 0.0 });
        assert!((mean - 1.0).abs() < 1e-6 && deviation < 1e-6);
    }

    #[test]
    fn the_same_seed_draws_the_same_times() {
        for time in [ServiceTime::Exponential { mean: MEAN }, ServiceTime::LogNormal { mean: MEAN, sigma: 1.0 }] {
            let drawn = |seed| -> Vec<Duration> {
                let mut random = Rng::with_seed(seed);
                (0..100).map(|_| time.draw(&mut random)).collect()
            };
            assert_eq!(drawn(3), drawn(3));
            assert_ne!(drawn(3), drawn(4));
        }
    }

    #[test]
    fn texts_are_read() {
        for (text, time) in [
            ("5ms", ServiceTime::Fixed(MEAN)),
            ("fixed:0.005s", ServiceTime::Fixed(MEAN)),
            ("0", ServiceTime::Fixed(Duration::ZERO)),
            ("60s", ServiceTime::Fixed(LONGEST_MEAN)),
            ("exponential:5000us", ServiceTime::Exponential { mean: MEAN }),
            ("lognormal:5ms:0.5", ServiceTime::LogNormal { mean: MEAN, sigma: 0.5 }),
        ] {
            assert_eq!(text.parse(), Ok(time), "{text}");
            assert_eq!(time.mean().as_millis() % 5, 0);
        }
    }

    #[test]
    fn what_is_wrong_is_reported_with_what_is_expected() {
        for (text, expected) in [
            ("", "with a unit (us, ms or s), got \"\""),
            ("5", "must be a time such as 5ms"),
            ("5", "with a unit (us, ms or s), got \"5\""),
            ("-5ms", "got \"-5ms\""),
            ("nans", "got \"nans\""),
            ("61s", "must be at most 60s, got 61s"),
            ("gauss:5ms", "exponential:5ms or lognormal:5ms:0.5, got \"gauss:5ms\""),
            ("exponential:5ms:1", "a time such as"),
            ("exponential:", "got \"\""),
            ("lognormal:5ms", "sigma is missing"),
            ("lognormal:5ms:-1", "sigma must be from 0 to 3, got \"-1\""),
            ("lognormal:5ms:nan", "got \"nan\""),
            ("lognormal:5ms:3.1", "got \"3.1\""),
        ] {
            let error = text.parse::<ServiceTime>().expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}

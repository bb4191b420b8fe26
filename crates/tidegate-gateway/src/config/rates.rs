//! Numbers of different algorithms, compared and made by what they let through in the long run.

use std::time::Duration;

use tidegate_policy::Algorithm;

use super::model::Numbers;
use super::numbers::{InvalidNumbers, LimitNumbers, figure, has_bucket};
use super::span::Span;

/// What a limit lets through, whatever its algorithm: so much in the long run, so much at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// By which algorithm.
    pub algorithm: Algorithm,
    /// Requests a second in the long run.
    pub rate_per_second: f64,
    /// The time in which what may come at once comes back: a window, or a bucket from empty to full.
    pub span: Duration,
}

/// More than a limit of any algorithm can count.
const MOST: f64 = 1e15;
/// A window keeps its length if rounding its limit costs no more than this share of the rate.
const COARSEST: f64 = 0.02;
const FUZZ: f64 = 1e-9;

impl Shape {
    /// How many requests may come at once.
    pub fn quota(&self) -> f64 {
        self.rate_per_second * self.span.as_secs_f64()
    }

    /// The numbers that come closest without letting more through, and that `accepts` takes. A window whose limit would be a fraction, or so
    /// small that rounding shows, becomes longer: one request at least comes in each.
    pub fn numbers<E: From<InvalidNumbers>>(
        &self,
        soft: u64,
        accepts: impl Fn(&LimitNumbers) -> Result<(), E>,
    ) -> Result<LimitNumbers, E> {
        let quota = self.quota();
        // Comparing also refuses what is no number.
        let counts = (0.0..MOST).contains(&quota);
        let algorithm = Some(self.algorithm.name().to_owned());
        if has_bucket(self.algorithm) {
            let least = u64::from(self.algorithm != Algorithm::LeakyBucket);
            let capacity = if counts { (quota.round() as u64).max(least) } else { u64::MAX };
            let numbers = Numbers { algorithm, capacity: Some(capacity), ..Numbers::default() };
            return LimitNumbers::with_rate(&numbers, self.rate_per_second, down, soft, accepts);
        }
        let is_coarse = down(quota) < (1.0 - COARSEST) * quota;
        let shape = if counts && is_coarse { self.whole() } else { *self };
        let limit = if counts { down(shape.quota()) as u64 } else { u64::MAX };
        let window = Span::seconds(micros(shape.span.as_secs_f64()) / 1e6);
        let numbers = LimitNumbers::new(Numbers { algorithm, limit: Some(limit), window, ..Numbers::default() }, soft)?;
        accepts(&numbers)?;
        Ok(numbers)
    }

    /// The same rate, over a time in which a whole number of requests comes: the next one.
    #[must_use]
    pub fn whole(&self) -> Self {
        let quota = self.quota();
        let micros = micros(up(quota).max(1.0) / self.rate_per_second);
        let span = Duration::try_from_secs_f64(micros / 1e6).unwrap_or(self.span);
        Self { span, ..*self }
    }
}

/// A window's length in microseconds, as windows have it; rather longer, for then the rate is no higher.
fn micros(seconds: f64) -> f64 {
    up(seconds * 1e6)
}

/// What arithmetic leaves of a whole number is one.
fn down(number: f64) -> f64 {
    (number * (1.0 + FUZZ)).floor()
}

fn up(number: f64) -> f64 {
    (number * (1.0 - FUZZ)).ceil()
}

impl LimitNumbers {
    /// What they let through; none for a concurrency limit, which has no rate.
    pub fn shape(&self) -> Option<Shape> {
        if self.algorithm() == Algorithm::Concurrency {
            return None;
        }
        let span = self.quota_span();
        let rate = self.fill_rate().unwrap_or_else(|| figure(self.quota()) / span.as_secs_f64());
        (rate.is_finite() && rate > 0.0).then_some(Shape { algorithm: self.algorithm(), rate_per_second: rate, span })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(json: &str) -> LimitNumbers {
        LimitNumbers::new(serde_json::from_str(json).expect("JSON"), 0).expect("numbers")
    }

    #[expect(clippy::unnecessary_wraps, reason = "a test's stand-in for one that refuses")]
    fn any(_: &LimitNumbers) -> Result<(), InvalidNumbers> {
        Ok(())
    }

    #[test]
    fn the_same_shape_at_another_rate() {
        for (from, rate, to) in [
            (r#"{"algorithm": "fixed", "limit": 100, "window": 1}"#, 250.0, "algorithm=fixed, limit=250, window=1"),
            (r#"{"algorithm": "fixed", "limit": 100, "window": 60}"#, 5.0, "algorithm=fixed, limit=300, window=60"),
            (r#"{"algorithm": "sliding", "limit": 3, "window": 0.5}"#, 0.1, "algorithm=sliding, limit=1, window=10"),
            (r#"{"algorithm": "fixed", "limit": 1, "window": 0.001}"#, 250.0, "algorithm=fixed, limit=1, window=0.004"),
            (
                r#"{"algorithm": "sliding_log", "limit": 7, "window": 1}"#,
                6.3,
                "algorithm=sliding_log, limit=7, window=1.111112",
            ),
            (r#"{"algorithm": "fixed", "limit": 200, "window": 1}"#, 145.8, "algorithm=fixed, limit=145, window=1"),
            (
                r#"{"algorithm": "token", "capacity": 200, "fillRate": 50}"#,
                25.0,
                "algorithm=token, capacity=100, fillRate=25",
            ),
            (r#"{"algorithm": "gcra", "capacity": 2, "fillRate": 50}"#, 1.0, "algorithm=gcra, capacity=1, fillRate=1"),
            (
                r#"{"algorithm": "leaky", "capacity": 0, "fillRate": 50}"#,
                60.1234,
                "algorithm=leaky, capacity=0, fillRate=60.123",
            ),
        ] {
            let shape = numbers(from).shape().expect("a rate");
            let at_rate = Shape { rate_per_second: rate, ..shape };
            let made: Result<_, InvalidNumbers> = at_rate.numbers(0, any);
            assert_eq!(made.expect(from).to_string(), to, "{from}");
        }
        assert_eq!(numbers(r#"{"algorithm": "concurrency", "limit": 5}"#).shape(), None);
    }

    #[test]
    fn what_no_limit_can_have_is_refused() {
        for rate in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            for algorithm in [Algorithm::FixedWindow, Algorithm::TokenBucket] {
                let shape = Shape { algorithm, rate_per_second: rate, span: Duration::from_secs(1) };
                let made: Result<_, InvalidNumbers> = shape.numbers(0, any);
                assert!(made.is_err(), "{rate}: {made:?}");
            }
        }
    }
}

//! The shape of a limit: what it admits, whatever its algorithm. Numbers of different algorithms are compared, and
//! made, by it.

use std::time::Duration;

use crate::Algorithm;
use crate::numbers::{InvalidNumbers, LimitNumbers, Values, figure, has_bucket, seconds};

/// What a limit admits, whatever its algorithm: so much in the long run, so much at once.
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

    /// The numbers that come closest without admitting more, and that `accepts` takes. A window whose limit would be a
    /// fraction, or so small that rounding shows, becomes longer: one request at least comes in each.
    pub fn numbers<E: From<InvalidNumbers>>(
        &self,
        soft: u64,
        accepts: impl Fn(&LimitNumbers) -> Result<(), E>,
    ) -> Result<LimitNumbers, E> {
        let quota = self.quota();
        // Comparing also rejects what is not a number.
        let counts = (0.0..MOST).contains(&quota);
        if has_bucket(self.algorithm) {
            let least = u64::from(self.algorithm != Algorithm::LeakyBucket);
            let capacity = if counts { (quota.round() as u64).max(least) } else { u64::MAX };
            let values = Values { capacity: Some(capacity), ..Values::default() };
            return LimitNumbers::with_rate(self.algorithm, values, self.rate_per_second, down, soft, accepts);
        }
        let is_coarse = down(quota) < (1.0 - COARSEST) * quota;
        let shape = if counts && is_coarse { self.whole() } else { *self };
        let limit = if counts { down(shape.quota()) as u64 } else { u64::MAX };
        let window = seconds(micros(shape.span.as_secs_f64()) / 1e6);
        let values = Values { limit: Some(limit), window, ..Values::default() };
        let numbers = LimitNumbers::new(self.algorithm, values, soft)?;
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
    /// What they admit; none for a concurrency limit, which has no rate.
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

    fn windowed(algorithm: Algorithm, limit: u64, window: f64) -> LimitNumbers {
        let values = Values { limit: Some(limit), window: seconds(window), ..Values::default() };
        LimitNumbers::new(algorithm, values, 0).expect("numbers")
    }

    fn bucket(algorithm: Algorithm, capacity: u64, fill_rate: f64) -> LimitNumbers {
        let values = Values { capacity: Some(capacity), fill_rate: Some(fill_rate), ..Values::default() };
        LimitNumbers::new(algorithm, values, 0).expect("numbers")
    }

    #[expect(clippy::unnecessary_wraps, reason = "a test's stand-in for one that rejects")]
    fn any(_: &LimitNumbers) -> Result<(), InvalidNumbers> {
        Ok(())
    }

    #[test]
    fn the_same_shape_at_another_rate() {
        use Algorithm::{FixedWindow, Gcra, LeakyBucket, SlidingCounter, SlidingLog, TokenBucket};
        for (from, rate, to) in [
            (windowed(FixedWindow, 100, 1.0), 250.0, "algorithm=fixed, limit=250, window=1"),
            (windowed(FixedWindow, 100, 60.0), 5.0, "algorithm=fixed, limit=300, window=60"),
            (windowed(SlidingCounter, 3, 0.5), 0.1, "algorithm=sliding, limit=1, window=10"),
            (windowed(FixedWindow, 1, 0.001), 250.0, "algorithm=fixed, limit=1, window=0.004"),
            (windowed(SlidingLog, 7, 1.0), 6.3, "algorithm=sliding_log, limit=7, window=1.111112"),
            (windowed(FixedWindow, 200, 1.0), 145.8, "algorithm=fixed, limit=145, window=1"),
            (bucket(TokenBucket, 200, 50.0), 25.0, "algorithm=token, capacity=100, fillRate=25"),
            (bucket(Gcra, 2, 50.0), 1.0, "algorithm=gcra, capacity=1, fillRate=1"),
            (bucket(LeakyBucket, 0, 50.0), 60.1234, "algorithm=leaky, capacity=0, fillRate=60.123"),
        ] {
            let shape = from.shape().expect("a rate");
            let at_rate = Shape { rate_per_second: rate, ..shape };
            let made: Result<_, InvalidNumbers> = at_rate.numbers(0, any);
            assert_eq!(made.expect(to).to_string(), to, "{from}");
        }
        let in_flight = Values { limit: Some(5), ..Values::default() };
        assert_eq!(LimitNumbers::new(Algorithm::Concurrency, in_flight, 0).expect("numbers").shape(), None);
    }

    #[test]
    fn what_no_limit_can_have_is_rejected() {
        for rate in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            for algorithm in [Algorithm::FixedWindow, Algorithm::TokenBucket] {
                let shape = Shape { algorithm, rate_per_second: rate, span: Duration::from_secs(1) };
                let made: Result<_, InvalidNumbers> = shape.numbers(0, any);
                assert!(made.is_err(), "{rate}: {made:?}");
            }
        }
    }
}

//! The numbers of a limit: an algorithm and its values, checked and turned into the [`Rule`] that decides.
//!
//! A limit that is chosen at run time, by a file or an API, has some of these values: limit and window, capacity and
//! fill rate. [`LimitNumbers`] are values that make a rule. [`Shape`](crate::shape::Shape) compares them across
//! algorithms.

use std::fmt;
use std::time::Duration;

use crate::{
    Algorithm, Concurrency, FixedWindow, Gcra, InvalidLimit, LeakyBucket, Rate, Rule, SlidingCounter, SlidingLog,
    TokenBucket,
};

const DEFAULT_HOLD: Duration = Duration::from_secs(3_600);

/// The values of all algorithms. Each algorithm needs some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Values {
    /// Requests in a window, or in flight.
    pub limit: Option<u64>,
    /// Length of the window.
    pub window: Option<Duration>,
    /// Requests that may come at once, or wait in a shaper's queue.
    pub capacity: Option<u64>,
    /// Requests a second in the long run.
    pub fill_rate: Option<f64>,
    /// The longest a request may hold its slot.
    pub hold: Option<Duration>,
}

impl Values {
    /// These, and those of `others` where one is missing.
    #[must_use]
    pub fn or(self, others: &Self) -> Self {
        Self {
            limit: self.limit.or(others.limit),
            window: self.window.or(others.window),
            capacity: self.capacity.or(others.capacity),
            fill_rate: self.fill_rate.or(others.fill_rate),
            hold: self.hold.or(others.hold),
        }
    }
}

/// A length of time as limits have it: seconds, rounded to the microsecond. None if it is negative, not a number or
/// longer than 10,000,000,000 s.
pub fn seconds(seconds: f64) -> Option<Duration> {
    // What people write has no more decimals, and 0.1 is then a tenth.
    let micros = (seconds * 1e6).round();
    (0.0..1e16).contains(&micros).then(|| Duration::from_micros(micros as u64))
}

/// An algorithm and values that make a rule. Values of other algorithms are kept for a later switch.
///
/// ```
/// use std::time::Duration;
/// use tidegate_policy::Algorithm;
/// use tidegate_policy::numbers::{LimitNumbers, Values};
///
/// let values = Values { limit: Some(100), window: Some(Duration::from_secs(60)), ..Values::default() };
/// let numbers = LimitNumbers::new(Algorithm::FixedWindow, values, 0)?;
/// assert_eq!(numbers.to_string(), "algorithm=fixed, limit=100, window=60");
/// assert_eq!(numbers.rule(0)?.algorithm(), Algorithm::FixedWindow);
/// # Ok::<(), tidegate_policy::numbers::InvalidNumbers>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LimitNumbers {
    algorithm: Algorithm,
    values: Values,
}

/// What is wrong with the numbers of a limit: which field, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidNumbers {
    /// The field at fault.
    pub field: &'static str,
    /// What is wrong, and what is allowed.
    pub reason: String,
}

impl fmt::Display for InvalidNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.field, self.reason)
    }
}

impl std::error::Error for InvalidNumbers {}

fn invalid(field: &'static str, reason: impl Into<String>) -> InvalidNumbers {
    InvalidNumbers { field, reason: reason.into() }
}

fn named(error: &InvalidLimit) -> InvalidNumbers {
    let (field, reason) = match error {
        InvalidLimit::Zero { field } => (*field, "must be greater than zero".to_owned()),
        InvalidLimit::TooLarge { field, max, .. } => (*field, format!("must be at most {max}")),
        InvalidLimit::TooLong { field } => (*field, "is too long".to_owned()),
        InvalidLimit::TooFine { field, .. } => (*field, format!("can't be kept exactly at this rate: {error}")),
    };
    let field_of_values = match field {
        "burst" | "queue" | "capacity" => "capacity",
        "tokens" | "per" | "rate" => "fillRate",
        "limit" => "limit",
        "hold" => "hold",
        _ => "window",
    };
    invalid(field_of_values, reason)
}

impl LimitNumbers {
    /// These values, if they make a rule. `soft` is what may come on top of the limit.
    pub fn new(algorithm: Algorithm, values: Values, soft: u64) -> Result<Self, InvalidNumbers> {
        let numbers = Self { algorithm, values }.without_unusable();
        numbers.rule(soft)?;
        Ok(numbers)
    }

    /// Without values of other algorithms that none of them can use. A client that sends one form for all algorithms
    /// leaves zeros there and means nothing by them; kept, they would be in the way of a later switch.
    fn without_unusable(mut self) -> Self {
        const SECOND: Duration = Duration::from_secs(1);
        let values = &mut self.values;
        if has_bucket(self.algorithm) {
            values.limit.take_if(|limit| FixedWindow::new(*limit, SECOND).is_err());
        } else {
            let is_bucket =
                |capacity, rate| exact_rate(rate).is_some_and(|rate| TokenBucket::new(rate, capacity).is_ok());
            // At one in a nanosecond whatever has a count can be counted.
            values.capacity.take_if(|capacity| !is_bucket(*capacity, 1e9));
            values.fill_rate.take_if(|rate| !is_bucket(1, *rate));
            if let (Some(capacity), Some(rate)) = (values.capacity, values.fill_rate)
                && !is_bucket(capacity, rate)
            {
                (values.capacity, values.fill_rate) = (None, None);
            }
        }
        if has_bucket(self.algorithm) || self.algorithm == Algorithm::Concurrency {
            values.window.take_if(|window| FixedWindow::new(1, *window).is_err());
        }
        if self.algorithm != Algorithm::Concurrency {
            values.hold.take_if(|hold| Concurrency::new(1, *hold).is_err());
        }
        self
    }

    /// Which algorithm they are for.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The values, with those kept for other algorithms.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// The rule that decides by them, with `soft` on top.
    pub fn rule(&self, soft: u64) -> Result<Rule, InvalidNumbers> {
        let built = match self.algorithm {
            Algorithm::FixedWindow => {
                FixedWindow::new(self.limit()?.saturating_add(soft), self.window()?).map(Rule::from)
            }
            Algorithm::SlidingCounter => {
                SlidingCounter::new(self.limit()?.saturating_add(soft), self.window()?).map(Rule::from)
            }
            Algorithm::SlidingLog => {
                SlidingLog::new(self.limit()?.saturating_add(soft), self.window()?).map(Rule::from)
            }
            Algorithm::TokenBucket => {
                let capacity = self.capacity()?.saturating_add(soft);
                TokenBucket::new(self.rate()?, capacity).map(Rule::from)
            }
            Algorithm::Gcra => Gcra::new(self.rate()?, self.capacity()?.saturating_add(soft)).map(Rule::from),
            Algorithm::LeakyBucket if soft > 0 => return Err(invalid("soft", "can't be combined with `leaky`")),
            Algorithm::LeakyBucket => LeakyBucket::new(self.rate()?, self.capacity()?).map(Rule::from),
            Algorithm::Concurrency => Concurrency::new(self.limit()?.saturating_add(soft), self.hold()).map(Rule::from),
        };
        built.map_err(|error| named(&error))
    }

    /// The same limit under another algorithm, with the values that are `given`. What it needs besides are values set
    /// before, or else those that come closest to the present ones and that `accepts` takes: not every store can hold
    /// all that makes a rule.
    pub fn with_algorithm<E: From<InvalidNumbers>>(
        &self,
        algorithm: Algorithm,
        given: &Values,
        soft: u64,
        accepts: impl Fn(&Self) -> Result<(), E>,
    ) -> Result<Self, E> {
        let given = Self { algorithm, values: *given }.without_unusable().values;
        let laid_over = Self { algorithm: self.algorithm, values: given.or(&self.values) };
        // Nothing is close to numbers that make no sense; and what is given may make sense under the new algorithm
        // alone.
        let present = if laid_over.rule(soft).is_ok() { &laid_over } else { self };
        present.rule(soft)?;
        let (quota, span) = (present.quota(), present.quota_span().max(Duration::from_millis(1)));
        let mut values = laid_over.values;
        match algorithm {
            Algorithm::FixedWindow | Algorithm::SlidingCounter | Algorithm::SlidingLog => {
                let whole = span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0));
                values.limit.get_or_insert(quota);
                values.window.get_or_insert(Duration::from_secs(whole));
            }
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                values.capacity.get_or_insert(quota);
                if values.fill_rate.is_none() {
                    let rate = figure(quota) / span.as_secs_f64();
                    return Self::with_rate(algorithm, values, rate, f64::round, soft, accepts);
                }
            }
            Algorithm::Concurrency => {
                values.limit.get_or_insert(quota);
            }
        }
        let found = Self::new(algorithm, values, soft)?;
        accepts(&found)?;
        Ok(found)
    }

    /// With a rate as near to `rate` as can be kept exactly: from the thousandth (or the millionth, if it is slow) to
    /// the whole, rounded so.
    pub(crate) fn with_rate<E: From<InvalidNumbers>>(
        algorithm: Algorithm,
        values: Values,
        rate: f64,
        round: impl Fn(f64) -> f64,
        soft: u64,
        accepts: impl Fn(&Self) -> Result<(), E>,
    ) -> Result<Self, E> {
        let finest = if rate < 1.0 { 6 } else { 3 };
        let tries = (0..=finest).rev().map(|decimals| {
            let scale = 10_f64.powi(decimals);
            let fill_rate = Some(round(rate * scale) / scale);
            let built = Self::new(algorithm, Values { fill_rate, ..values }, soft)?;
            accepts(&built)?;
            Ok(built)
        });
        let mut first = None;
        for built in tries {
            match built {
                Ok(built) => return Ok(built),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| invalid("fillRate", "is missing").into()))
    }

    /// Without the values that are kept for other algorithms: equal where two limits decide alike.
    #[must_use]
    pub fn relevant(&self) -> Self {
        let Values { limit, window, capacity, fill_rate, .. } = self.values;
        let none = Values::default();
        let values = match self.algorithm {
            Algorithm::FixedWindow | Algorithm::SlidingCounter | Algorithm::SlidingLog => {
                Values { limit, window, ..none }
            }
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => Values { capacity, fill_rate, ..none },
            Algorithm::Concurrency => Values { limit, hold: Some(self.hold()), ..none },
        };
        Self { algorithm: self.algorithm, values }
    }

    /// These numbers, and what `before` remembers for other algorithms.
    #[must_use]
    pub fn remembering(self, before: &Self) -> Self {
        Self { values: self.values.or(&before.values), ..self }
    }

    /// How many requests the limit admits at once when unused: the `q` of a policy.
    pub fn quota(&self) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => self.values.capacity,
            Algorithm::FixedWindow | Algorithm::SlidingCounter | Algorithm::SlidingLog | Algorithm::Concurrency => {
                self.values.limit
            }
        }
        .unwrap_or(1)
    }

    /// The time in which that quota comes back: the `w` of a policy. Zero for a concurrency limit.
    pub fn quota_span(&self) -> Duration {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                let rate = self.values.fill_rate.unwrap_or(1.0);
                Duration::try_from_secs_f64(figure(self.quota()) / rate).unwrap_or(Duration::MAX)
            }
            Algorithm::Concurrency => Duration::ZERO,
            Algorithm::FixedWindow | Algorithm::SlidingCounter | Algorithm::SlidingLog => {
                self.values.window.unwrap_or(Duration::ZERO)
            }
        }
    }

    /// Requests a second in the long run, where the algorithm has such a value.
    pub fn fill_rate(&self) -> Option<f64> {
        self.values.fill_rate.filter(|_| has_bucket(self.algorithm))
    }

    fn limit(&self) -> Result<u64, InvalidNumbers> {
        self.values.limit.ok_or_else(|| self.lacks("limit"))
    }

    fn capacity(&self) -> Result<u64, InvalidNumbers> {
        self.values.capacity.ok_or_else(|| self.lacks("capacity"))
    }

    fn window(&self) -> Result<Duration, InvalidNumbers> {
        self.values.window.ok_or_else(|| self.lacks("window"))
    }

    fn hold(&self) -> Duration {
        self.values.hold.unwrap_or(DEFAULT_HOLD)
    }

    fn rate(&self) -> Result<Rate, InvalidNumbers> {
        let rate = self.values.fill_rate.ok_or_else(|| self.lacks("fillRate"))?;
        exact_rate(rate).ok_or_else(|| {
            invalid("fillRate", format!("must be 0.000001 to 4294967295 with at most 6 decimals, got {rate}"))
        })
    }

    fn lacks(&self, field: &'static str) -> InvalidNumbers {
        invalid(field, format!("is missing; `{}` needs it", self.algorithm))
    }
}

/// For logs: `algorithm=sliding, limit=500, window=60`.
impl fmt::Display for LimitNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Values { limit, window, capacity, fill_rate, hold } = self.relevant().values;
        write!(f, "algorithm={}", self.algorithm)?;
        limit.map_or(Ok(()), |limit| write!(f, ", limit={limit}"))?;
        window.map_or(Ok(()), |window| write!(f, ", window={}", window.as_secs_f64()))?;
        capacity.map_or(Ok(()), |capacity| write!(f, ", capacity={capacity}"))?;
        fill_rate.map_or(Ok(()), |rate| write!(f, ", fillRate={rate}"))?;
        hold.map_or(Ok(()), |hold| write!(f, ", hold={}", hold.as_secs_f64()))
    }
}

/// Whether an algorithm's values are a capacity and a rate.
pub fn has_bucket(algorithm: Algorithm) -> bool {
    match algorithm {
        Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => true,
        Algorithm::FixedWindow | Algorithm::SlidingCounter | Algorithm::SlidingLog | Algorithm::Concurrency => false,
    }
}

/// A count to derive a rate from.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn figure(count: u64) -> f64 {
    count as f64
}

/// `rate` a second, as the exact fraction its decimals say: 0.1 is one in ten seconds.
fn exact_rate(rate: f64) -> Option<Rate> {
    if !(rate.is_finite() && rate > 0.0) {
        return None;
    }
    let text = rate.to_string();
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    let places = u32::try_from(decimals.len()).ok().filter(|places| *places <= 6)?;
    let tokens: u64 = format!("{whole}{decimals}").parse().ok()?;
    let mut seconds = 10_u64.pow(places);
    let mut tokens = tokens;
    while seconds > 1 && tokens.is_multiple_of(10) {
        (tokens, seconds) = (tokens / 10, seconds / 10);
    }
    // 2,147,483.648 is more than `Rate` can count in a thousand seconds; but in one second a thousandth is noise there.
    Rate::new(tokens, Duration::from_secs(seconds)).ok()
}

#[cfg(test)]
mod tests;

//! The numbers of a limit: read, checked, turned into the rule that decides.

use std::fmt;
use std::time::Duration;

use tidegate_policy::{
    Algorithm, Concurrency, FixedWindow, Gcra, InvalidLimit, LeakyBucket, Rate, Rule, SlidingCounter, SlidingLog,
    TokenBucket,
};

use super::model::{Limit, Numbers};
use super::span::Span;

const DEFAULT_HOLD: Span = Span::from_secs(3_600);

/// Numbers that make a rule. Those of other algorithms are kept for a later switch.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitNumbers {
    algorithm: Algorithm,
    numbers: Numbers,
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
    let seeds_word = match field {
        "burst" | "queue" | "capacity" => "capacity",
        "tokens" | "per" | "rate" => "fillRate",
        "limit" => "limit",
        "hold" => "hold",
        _ => "window",
    };
    invalid(seeds_word, reason)
}

impl LimitNumbers {
    /// These numbers, if they make a rule. `soft` is what may come on top of the limit.
    pub fn new(numbers: Numbers, soft: u64) -> Result<Self, InvalidNumbers> {
        let name = numbers
            .algorithm
            .as_deref()
            .ok_or_else(|| invalid("algorithm", format!("is missing; one of {}", names())))?;
        let algorithm =
            name.parse().map_err(|_| invalid("algorithm", format!("is {name:?}; one of {} is allowed", names())))?;
        let numbers = Self { algorithm, numbers }.without_nonsense();
        numbers.rule(soft)?;
        Ok(numbers)
    }

    /// Without numbers of other algorithms that are good for none of them. Whoever sends one form for all algorithms leaves zeros there and
    /// means nothing by them; kept, they would be in the way of whoever switches later.
    fn without_nonsense(mut self) -> Self {
        const SECOND: Duration = Duration::from_secs(1);
        let numbers = &mut self.numbers;
        if has_bucket(self.algorithm) {
            numbers.limit.take_if(|limit| FixedWindow::new(*limit, SECOND).is_err());
        } else {
            let is_bucket =
                |capacity, rate| exact_rate(rate).is_some_and(|rate| TokenBucket::new(rate, capacity).is_ok());
            // At one in a nanosecond whatever has a count can be counted.
            numbers.capacity.take_if(|capacity| !is_bucket(*capacity, 1e9));
            numbers.fill_rate.take_if(|rate| !is_bucket(1, *rate));
            if let (Some(capacity), Some(rate)) = (numbers.capacity, numbers.fill_rate)
                && !is_bucket(capacity, rate)
            {
                (numbers.capacity, numbers.fill_rate) = (None, None);
            }
        }
        if has_bucket(self.algorithm) || self.algorithm == Algorithm::Concurrency {
            numbers.window.take_if(|window| FixedWindow::new(1, window.get()).is_err());
        }
        if self.algorithm != Algorithm::Concurrency {
            numbers.hold.take_if(|hold| Concurrency::new(1, hold.get()).is_err());
        }
        self
    }

    /// The numbers as written in a file.
    pub fn of_limit(limit: &Limit, soft: u64) -> Result<Self, InvalidNumbers> {
        Self::new(written(limit), soft)
    }

    /// The numbers as written in a file, under another algorithm. None if there are none that could be had where the limit keeps its
    /// counts.
    pub fn of_limit_under(limit: &Limit, algorithm: &str, with_redis: bool) -> Option<Self> {
        let (soft, sharing) = (limit.soft.count(), limit.kept_in(with_redis).sharing());
        let accepts = |numbers: &Self| {
            let rule = numbers.rule(soft)?;
            let shared = sharing.map_or(Ok(()), |sharing| sharing.check(&rule));
            shared.map_err(|error| invalid("algorithm", error.to_string()))
        };
        let present = Self::of_limit(limit, soft).ok()?;
        // What is written for that very algorithm is judged by it, though the present one has no use for it.
        present.with_algorithm(algorithm.parse().ok()?, &written(limit), soft, accepts).ok()
    }

    /// Which algorithm they are for.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
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
            Algorithm::Concurrency => {
                Concurrency::new(self.limit()?.saturating_add(soft), self.hold().get()).map(Rule::from)
            }
        };
        built.map_err(|error| named(&error))
    }

    /// The same under another algorithm, with the numbers that are `given`; what it needs besides are numbers set before, or else such as
    /// come closest to the present ones and as `accepts` takes: not every place that keeps counts can hold all that makes a rule.
    pub fn with_algorithm<E: From<InvalidNumbers>>(
        &self,
        algorithm: Algorithm,
        given: &Numbers,
        soft: u64,
        accepts: impl Fn(&Self) -> Result<(), E>,
    ) -> Result<Self, E> {
        let given = Self { algorithm, numbers: given.clone() }.without_nonsense().numbers;
        let laid_over = self.with(&given);
        // Nothing is close to numbers that make no sense; and what is given may make sense under the new algorithm alone.
        let present = if laid_over.rule(soft).is_ok() { &laid_over } else { self };
        present.rule(soft)?;
        let (quota, span) = (present.quota(), present.quota_span().max(Duration::from_millis(1)));
        let mut numbers = laid_over.numbers.clone();
        numbers.algorithm = Some(algorithm.name().to_owned());
        match algorithm {
            Algorithm::FixedWindow | Algorithm::SlidingCounter | Algorithm::SlidingLog => {
                let whole = span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0));
                numbers.limit.get_or_insert(quota);
                numbers.window.get_or_insert(Span::from_secs(whole));
            }
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                numbers.capacity.get_or_insert(quota);
                if numbers.fill_rate.is_none() {
                    let rate = figure(quota) / span.as_secs_f64();
                    return Self::with_rate(&numbers, rate, f64::round, soft, accepts);
                }
            }
            Algorithm::Concurrency => {
                numbers.limit.get_or_insert(quota);
            }
        }
        let found = Self::new(numbers, soft)?;
        accepts(&found)?;
        Ok(found)
    }

    /// With a rate as near to `rate` as can be kept exactly: from the thousandth (or the millionth, if it is slow) to the whole, rounded so.
    pub(super) fn with_rate<E: From<InvalidNumbers>>(
        numbers: &Numbers,
        rate: f64,
        round: impl Fn(f64) -> f64,
        soft: u64,
        accepts: impl Fn(&Self) -> Result<(), E>,
    ) -> Result<Self, E> {
        let finest = if rate < 1.0 { 6 } else { 3 };
        let tries = (0..=finest).rev().map(|decimals| {
            let scale = 10_f64.powi(decimals);
            let fill_rate = Some(round(rate * scale) / scale);
            let built = Self::new(Numbers { fill_rate, ..numbers.clone() }, soft)?;
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

    /// The numbers, with those kept for other algorithms.
    pub fn all(&self) -> &Numbers {
        &self.numbers
    }

    /// The numbers that count, as the seed's JSON has them.
    pub fn relevant(&self) -> Numbers {
        let Numbers { limit, window, capacity, fill_rate, .. } = self.numbers.clone();
        let algorithm = Some(self.algorithm.name().to_owned());
        let none = Numbers { algorithm, ..Numbers::default() };
        match self.algorithm {
            Algorithm::FixedWindow | Algorithm::SlidingCounter | Algorithm::SlidingLog => {
                Numbers { limit, window, ..none }
            }
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                Numbers { capacity, fill_rate, ..none }
            }
            Algorithm::Concurrency => Numbers { limit, hold: Some(self.hold()), ..none },
        }
    }

    /// What these numbers say, and what `before` remembers for other algorithms.
    #[must_use]
    pub fn remembering(mut self, before: &Self) -> Self {
        let Numbers { limit, window, capacity, fill_rate, hold, .. } = &before.numbers;
        self.numbers.limit = self.numbers.limit.or(*limit);
        self.numbers.window = self.numbers.window.or(*window);
        self.numbers.capacity = self.numbers.capacity.or(*capacity);
        self.numbers.fill_rate = self.numbers.fill_rate.or(*fill_rate);
        self.numbers.hold = self.numbers.hold.or(*hold);
        self
    }

    /// These, and over them what `numbers` names.
    fn with(&self, numbers: &Numbers) -> Self {
        let given = Self { algorithm: self.algorithm, numbers: numbers.clone() };
        given.remembering(self)
    }

    /// How many requests the limit lets through at once when unused: the `q` of a policy.
    pub fn quota(&self) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => self.numbers.capacity,
            _ => self.numbers.limit,
        }
        .unwrap_or(1)
    }

    /// The time in which that quota comes back: the `w` of a policy. Zero for a concurrency limit.
    pub fn quota_span(&self) -> Duration {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                let rate = self.numbers.fill_rate.unwrap_or(1.0);
                Duration::try_from_secs_f64(figure(self.quota()) / rate).unwrap_or(Duration::MAX)
            }
            Algorithm::Concurrency => Duration::ZERO,
            _ => self.numbers.window.map_or(Duration::ZERO, Span::get),
        }
    }

    /// Requests a second in the long run, for people; none for a concurrency limit.
    pub fn fill_rate(&self) -> Option<f64> {
        self.numbers.fill_rate.filter(|_| has_bucket(self.algorithm))
    }

    fn limit(&self) -> Result<u64, InvalidNumbers> {
        self.numbers.limit.ok_or_else(|| self.lacks("limit"))
    }

    fn capacity(&self) -> Result<u64, InvalidNumbers> {
        self.numbers.capacity.ok_or_else(|| self.lacks("capacity"))
    }

    fn window(&self) -> Result<Duration, InvalidNumbers> {
        self.numbers.window.map(Span::get).ok_or_else(|| self.lacks("window"))
    }

    fn hold(&self) -> Span {
        self.numbers.hold.unwrap_or(DEFAULT_HOLD)
    }

    fn rate(&self) -> Result<Rate, InvalidNumbers> {
        let rate = self.numbers.fill_rate.ok_or_else(|| self.lacks("fillRate"))?;
        exact_rate(rate).ok_or_else(|| {
            invalid("fillRate", format!("is {rate}; from 0.000001 to 4294967295, with at most 6 decimals, is allowed"))
        })
    }

    fn lacks(&self, field: &'static str) -> InvalidNumbers {
        invalid(field, format!("is missing; `{}` needs it", self.algorithm))
    }
}

/// For logs: `algorithm=sliding, limit=500, window=60`.
impl fmt::Display for LimitNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Numbers { limit, window, capacity, fill_rate, hold, .. } = self.relevant();
        write!(f, "algorithm={}", self.algorithm)?;
        limit.map_or(Ok(()), |limit| write!(f, ", limit={limit}"))?;
        window.map_or(Ok(()), |window| write!(f, ", window={}", window.get().as_secs_f64()))?;
        capacity.map_or(Ok(()), |capacity| write!(f, ", capacity={capacity}"))?;
        fill_rate.map_or(Ok(()), |rate| write!(f, ", fillRate={rate}"))?;
        hold.map_or(Ok(()), |hold| write!(f, ", hold={}", hold.get().as_secs_f64()))
    }
}

fn written(limit: &Limit) -> Numbers {
    Numbers {
        algorithm: Some(limit.algorithm.clone()),
        limit: limit.limit,
        window: limit.window,
        capacity: limit.capacity,
        fill_rate: limit.fill_rate,
        hold: limit.hold,
    }
}

/// Whether an algorithm's numbers are a capacity and a rate.
pub(crate) fn has_bucket(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket)
}

/// A count as a figure to look at, or to derive a rate from.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn figure(count: u64) -> f64 {
    count as f64
}

fn names() -> String {
    let names: Vec<&str> = Algorithm::ALL.iter().map(|algorithm| algorithm.name()).collect();
    names.join(", ")
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
mod tests {
    use super::*;

    fn numbers(json: &str) -> Numbers {
        serde_json::from_str(json).expect("valid JSON")
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
    fn what_is_missing_or_wrong_is_named() {
        for (json, field) in [
            (r#"{"limit": 5, "window": 1}"#, "algorithm"),
            (r#"{"algorithm": "magic"}"#, "algorithm"),
            (r#"{"algorithm": "fixed", "window": 1}"#, "limit"),
            (r#"{"algorithm": "fixed", "limit": 5}"#, "window"),
            (r#"{"algorithm": "fixed", "limit": 0, "window": 1}"#, "limit"),
            (r#"{"algorithm": "fixed", "limit": 5, "window": 0}"#, "window"),
            (r#"{"algorithm": "token", "limit": 5, "window": 1}"#, "capacity"),
            (r#"{"algorithm": "token", "capacity": 5}"#, "fillRate"),
            (r#"{"algorithm": "token", "capacity": 5, "fillRate": -1}"#, "fillRate"),
            (r#"{"algorithm": "token", "capacity": 0, "fillRate": 1}"#, "capacity"),
            (r#"{"algorithm": "gcra", "burst": 0, "fillRate": 1}"#, "capacity"),
            (r#"{"algorithm": "leaky", "fillRate": 1}"#, "capacity"),
        ] {
            let error = LimitNumbers::new(numbers(json), 0).expect_err(json);
            assert_eq!(error.field, field, "{json}: {error}");
        }
    }

    #[test]
    fn another_algorithm_has_the_numbers_set_before_or_the_closest() {
        let fixed =
            LimitNumbers::new(numbers(r#"{"algorithm": "fixed", "limit": 100, "window": 60}"#), 0).expect("fixed");
        let switched = |from: &LimitNumbers, to| from.with_algorithm(to, &Numbers::default(), 0, any).expect("a rule");
        let token = switched(&fixed, Algorithm::TokenBucket);
        assert_eq!(token.to_string(), "algorithm=token, capacity=100, fillRate=1.667");
        let back = switched(&token, Algorithm::FixedWindow);
        assert_eq!(back.to_string(), fixed.to_string());

        let other =
            LimitNumbers::new(numbers(r#"{"algorithm": "token", "capacity": 50, "fillRate": 5}"#), 0).expect("token");
        let both = switched(&other.remembering(&fixed), Algorithm::SlidingCounter);
        assert_eq!(both.to_string(), "algorithm=sliding, limit=100, window=60");
    }

    /// Everything is accepted that makes a rule.
    #[expect(clippy::unnecessary_wraps, reason = "a test's stand-in for one that refuses")]
    fn any(_: &LimitNumbers) -> Result<(), InvalidNumbers> {
        Ok(())
    }

    /// A rate of nothing refills in no time that can be told; asked for from outside, it was a panic.
    #[test]
    fn a_rate_that_makes_no_sense_is_refused_by_those_that_need_one_and_dropped_by_others() {
        let token =
            LimitNumbers::new(numbers(r#"{"algorithm": "token", "capacity": 5, "fillRate": 1}"#), 0).expect("token");
        for json in [r#"{"fillRate": 0}"#, r#"{"fillRate": -3}"#, r#"{"fillRate": 1e-300}"#] {
            for algorithm in Algorithm::ALL {
                let switched = token.with_algorithm(*algorithm, &numbers(json), 0, any);
                if has_bucket(*algorithm) {
                    let error = switched.expect_err(json);
                    assert_eq!(error.field, "fillRate", "{json}: {error}");
                } else {
                    assert_eq!(switched.expect(json).all().fill_rate, Some(1.0), "{algorithm}: what was set before");
                }
            }
        }
    }

    #[test]
    fn numbers_of_other_algorithms_that_are_good_for_none_are_dropped() {
        for (fixed, kept) in [
            (r#""capacity": 0, "fillRate": 0, "hold": 0"#, ""),
            (r#""capacity": 7, "fillRate": -1"#, r#", "capacity": 7"#),
            (r#""capacity": 4294967295, "fillRate": 1000000"#, r#", "capacity": 4294967295, "fillRate": 1000000"#),
            (r#""capacity": 4294967295, "fillRate": 0.000001"#, ""),
        ] {
            let own = r#""algorithm": "fixed", "limit": 5, "window": 1"#;
            let made = LimitNumbers::new(numbers(&format!("{{{own}, {fixed}}}")), 0).expect(fixed);
            assert_eq!(*made.all(), numbers(&format!("{{{own}{kept}}}")), "{fixed}");
        }
        let own = r#"{"algorithm": "leaky", "capacity": 0, "fillRate": 5}"#;
        let leaky = own.replace('}', r#", "limit": 0, "window": 0}"#);
        let leaky = LimitNumbers::new(numbers(&leaky), 0).expect("a queue of nothing is one");
        assert_eq!(*leaky.all(), numbers(own), "what its own algorithm has a use for stays");
    }

    /// Redis counts up to 2^53 where memory counts further: one decimal less, and it holds the rate too.
    #[test]
    fn the_closest_rate_is_the_closest_that_is_accepted() {
        for (limit, window) in [(8_000, 86_400), (5_000_000, 60)] {
            let json = format!(r#"{{"algorithm": "fixed", "limit": {limit}, "window": {window}}}"#);
            let fixed = LimitNumbers::new(numbers(&json), 0).expect("fixed");
            let shareable = |numbers: &LimitNumbers| {
                let rule = numbers.rule(0)?;
                tidegate_store::Sharing::Exact.check(&rule).map_err(|error| invalid("fillRate", error.to_string()))
            };
            let token = |accepts: &dyn Fn(&LimitNumbers) -> Result<(), InvalidNumbers>| {
                let token = fixed.with_algorithm(Algorithm::TokenBucket, &Numbers::default(), 0, accepts);
                token.expect("one decimal less would do").fill_rate().expect("a rate")
            };
            let (finest, coarser, wanted) = (token(&any), token(&shareable), f64::from(limit) / f64::from(window));
            assert!((finest - wanted).abs() < (coarser - wanted).abs(), "{finest}, {coarser} for {wanted}");
            assert!((coarser / wanted - 1.0).abs() < 0.05, "{coarser} for {wanted}");
        }
    }
}

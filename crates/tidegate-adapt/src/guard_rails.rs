//! Guard rails: whatever is recommended, this much of it may happen.

use std::fmt;
use std::time::Duration;

use tidegate_policy::Algorithm;
use tidegate_policy::numbers::{InvalidNumbers, LimitNumbers, has_bucket};
use tidegate_policy::shape::Shape;

/// Bounds of what a forecast may do, in requests a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rails {
    /// Never above; none is three times the operator's rate.
    pub ceiling: Option<f64>,
    /// Never below.
    pub floor: f64,
    /// The largest step, as a factor.
    pub step: f64,
    /// Between two changes.
    pub dwell: Duration,
    /// Between two changes of the algorithm.
    pub algorithm_dwell: Duration,
}

impl Rails {
    /// Those of an operator who sets none.
    pub const DEFAULT: Self = Self {
        ceiling: None,
        floor: 5.0,
        step: 3.0,
        dwell: Duration::from_secs(1),
        algorithm_dwell: Duration::from_secs(300),
    };
}

impl Default for Rails {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Without a ceiling of the operator's it is so many times the operator's rate.
const USUAL_CEILING: f64 = 3.0;
/// What may come at once is at most what comes in so long, unless the operator admits more at once: a small rate over a
/// long window, or with a deep bucket, would admit a spike that no rate shows.
const LONGEST_SPAN: Duration = Duration::from_secs(10);

/// What arithmetic leaves of equal numbers.
const TINY: f64 = 1e-6;

/// What is left out when whole numbers are made.
const ROUNDING: f64 = 0.01;

/// A bound that was reached, in requests a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cap {
    /// [`Rails::ceiling`].
    Ceiling(f64),
    /// [`Rails::floor`].
    Floor(f64),
    /// [`Rails::step`].
    Step(f64),
    /// What may come at once, in requests.
    Burst(f64),
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ceiling(rate) => write!(f, "{} req/s (ceiling)", rounded(*rate)),
            Self::Floor(rate) => write!(f, "{} req/s (floor)", rounded(*rate)),
            Self::Step(rate) => write!(f, "{} req/s (largest step)", rounded(*rate)),
            Self::Burst(quota) => write!(f, "{} requests (at once)", rounded(*quota)),
        }
    }
}

/// A rate for people: no more than three decimals.
pub fn rounded(rate: f64) -> f64 {
    (rate * 1_000.0).round() / 1_000.0
}

/// What is left of a recommendation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bounded {
    pub(crate) numbers: LimitNumbers,
    pub(crate) caps: Vec<Cap>,
    /// The algorithm that was recommended, if it may not be had yet.
    pub(crate) not_yet: Option<Algorithm>,
}

/// What recommendations are judged beside.
#[derive(Clone, Copy)]
pub(crate) struct Guard<'a> {
    pub(crate) rails: &'a Rails,
    /// The operator's numbers.
    pub(crate) base: &'a Shape,
    /// The numbers in force, as far as they were recommended.
    pub(crate) held: &'a Shape,
    /// Whether the algorithm may be another.
    pub(crate) may_switch: bool,
    /// What the limit admits on top.
    pub(crate) soft: u64,
}

/// Whether a limit could have these numbers, where it keeps its counts; an error says why not.
pub type Accepts<'a> = &'a dyn Fn(&LimitNumbers) -> Result<(), String>;

impl Guard<'_> {
    /// Never above. The operator's own rate is always good.
    pub(crate) fn ceiling(rails: &Rails, base: &Shape) -> f64 {
        let base = base.rate_per_second;
        rails.ceiling.map_or(USUAL_CEILING * base, |ceiling| ceiling.max(base))
    }

    /// Never below.
    pub(crate) fn floor(rails: &Rails, base: &Shape) -> f64 {
        rails.floor.min(base.rate_per_second)
    }

    /// What may happen of `wanted`. An error says why nothing may.
    pub(crate) fn bound(&self, wanted: &Shape, accepts: Accepts<'_>) -> Result<Bounded, String> {
        let mut caps = Vec::new();
        let mut rate = wanted.rate_per_second;
        let (floor, ceiling) = (Self::floor(self.rails, self.base), Self::ceiling(self.rails, self.base));
        if rate > ceiling {
            rate = ceiling;
            caps.push(Cap::Ceiling(ceiling));
        } else if rate < floor {
            rate = floor;
            caps.push(Cap::Floor(floor));
        }
        // A step away from what is in force is bounded; a step back to what the operator said is not.
        let (base, held) = (self.base.rate_per_second, self.held.rate_per_second);
        let (least, most) = ((held / self.rails.step).min(base), (held * self.rails.step).max(base));
        if rate > most || rate < least {
            rate = rate.clamp(least, most);
            // What was capped before would still have been too far.
            caps = vec![Cap::Step(rate)];
        }
        let may_have = wanted.algorithm == self.held.algorithm || self.may_switch;
        let shape = if may_have { *wanted } else { kept_by(self.held, wanted) };
        let shape = self.at_once(&shape, rate, &mut caps);
        let numbers = made(&shape, floor, self.soft, accepts)?;
        Ok(Bounded { numbers, caps, not_yet: (!may_have).then_some(wanted.algorithm) })
    }

    /// What of these numbers may be in force here, wherever they were decided: they have taken their steps there.
    /// None if nothing may.
    pub(crate) fn within(&self, numbers: LimitNumbers, accepts: Accepts<'_>) -> Option<LimitNumbers> {
        let wanted = numbers.shape()?;
        let (floor, ceiling) = (Self::floor(self.rails, self.base), Self::ceiling(self.rails, self.base));
        let (rate, mut caps) = (wanted.rate_per_second, Vec::new());
        let shape = self.at_once(&wanted, rate.clamp(floor, ceiling), &mut caps);
        let is_near = |rate: f64, other: f64| (rate - other).abs() <= ROUNDING * other;
        if is_near(rate, shape.rate_per_second) && is_near(wanted.quota(), shape.quota()) && accepts(&numbers).is_ok() {
            return Some(numbers);
        }
        made(&shape, floor, self.soft, accepts).ok()
    }

    /// The shape that was wanted, at this rate, with no more at once than may be.
    fn at_once(&self, wanted: &Shape, rate: f64, caps: &mut Vec<Cap>) -> Shape {
        let mut shape = at_rate(wanted, rate);
        let longest = self.base.span.max(LONGEST_SPAN);
        if shape.span > longest {
            shape.span = longest;
            caps.push(Cap::Burst(shape.quota()));
        }
        // A bucket that is all but empty, or a window of a moment, rejects what its rate would admit.
        let least = Self::floor(self.rails, self.base).min(self.base.quota());
        if shape.quota() < least * (1.0 - TINY) && shape.algorithm != Algorithm::LeakyBucket {
            shape.span = Duration::try_from_secs_f64(least / rate).unwrap_or(shape.span);
            caps.push(Cap::Burst(least));
        }
        shape
    }
}

/// Numbers of this shape. They admit no more, and rounding leads no lower than `floor`.
pub(crate) fn made(shape: &Shape, floor: f64, soft: u64, accepts: Accepts<'_>) -> Result<LimitNumbers, String> {
    let with = |shape: &Shape| shape.numbers(soft, |numbers| accepts(numbers).map_err(Unusable));
    let numbers = with(shape)?;
    let is_low = numbers.shape().is_some_and(|made| made.rate_per_second < floor * (1.0 - TINY));
    // What can't be had exactly is had nearby.
    let exact = (is_low && !has_bucket(shape.algorithm)).then(|| with(&shape.whole()).ok()).flatten();
    Ok(exact.unwrap_or(numbers))
}

/// What is wanted, by the algorithm that is held. A bucket admits at once what is wanted to come at once; what a window
/// admits at once, its length says.
pub(crate) fn kept_by(held: &Shape, wanted: &Shape) -> Shape {
    let span = if has_bucket(held.algorithm) { wanted.span } else { held.span };
    Shape { algorithm: held.algorithm, span, ..*wanted }
}

/// The same at another rate.
pub(crate) fn at_rate(shape: &Shape, rate_per_second: f64) -> Shape {
    Shape { rate_per_second, ..*shape }
}

/// Why numbers can't be had.
#[derive(Debug)]
struct Unusable(String);

impl From<InvalidNumbers> for Unusable {
    fn from(invalid: InvalidNumbers) -> Self {
        Self(invalid.to_string())
    }
}

impl From<Unusable> for String {
    fn from(unusable: Unusable) -> Self {
        unusable.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAILS: Rails = Rails {
        ceiling: None,
        floor: 5.0,
        step: 2.5,
        dwell: Duration::from_secs(1),
        algorithm_dwell: Duration::from_secs(300),
    };

    fn fixed(rate: f64, seconds: u64) -> Shape {
        Shape { algorithm: Algorithm::FixedWindow, rate_per_second: rate, span: Duration::from_secs(seconds) }
    }

    fn token(rate: f64, quota: f64) -> Shape {
        let span = Duration::from_secs_f64(quota / rate);
        Shape { algorithm: Algorithm::TokenBucket, rate_per_second: rate, span }
    }

    fn bounded(rails: &Rails, base: Shape, held: Shape, may_switch: bool, wanted: Shape) -> Result<Bounded, String> {
        Guard { rails, base: &base, held: &held, may_switch, soft: 0 }.bound(&wanted, &|_| Ok(()))
    }

    #[test]
    fn rates_stay_within_ceiling_floor_and_step() {
        let (low, high) =
            (Rails { ceiling: Some(50.0), ..RAILS }, Rails { ceiling: Some(1_000.0), floor: 90.0, ..RAILS });
        for (rails, base, held, wanted, expected, caps) in [
            (RAILS, 100.0, 100.0, 130.0, 130, &[][..]),
            (RAILS, 100.0, 100.0, 260.0, 250, &[Cap::Step(250.0)]),
            (RAILS, 100.0, 250.0, 1e18, 300, &[Cap::Ceiling(300.0)]),
            (RAILS, 100.0, 100.0, 1e300, 250, &[Cap::Step(250.0)]),
            (RAILS, 100.0, 100.0, 39.0, 40, &[Cap::Step(40.0)]),
            (RAILS, 100.0, 40.0, 1e-9, 16, &[Cap::Step(16.0)]),
            (RAILS, 100.0, 8.0, 1.0, 5, &[Cap::Floor(5.0)]),
            // Back to the operator's number, however far that is, and no further than it in the same step.
            (RAILS, 100.0, 300.0, 100.0, 100, &[]),
            (RAILS, 100.0, 300.0, 30.0, 100, &[Cap::Step(100.0)]),
            (RAILS, 100.0, 10.0, 100.0, 100, &[]),
            (RAILS, 100.0, 10.0, 120.0, 100, &[Cap::Step(100.0)]),
            // The operator's number is good, whatever the rails say.
            (low, 100.0, 100.0, 130.0, 100, &[Cap::Ceiling(100.0)]),
            (low, 100.0, 100.0, 60.0, 60, &[]),
            (high, 40.0, 40.0, 30.0, 40, &[Cap::Floor(40.0)]),
            (high, 40.0, 40.0, 100.0, 100, &[]),
        ] {
            let made = bounded(&rails, fixed(base, 1), fixed(held, 1), true, fixed(wanted, 1)).expect("it can be had");
            assert_eq!(made.numbers.to_string(), format!("algorithm=fixed, limit={expected}, window=1"), "{wanted}");
            assert_eq!(made.caps, caps, "{wanted}");
        }
    }

    #[test]
    fn a_small_rate_does_not_admit_much_at_once() {
        for (base, wanted, expected) in [
            (fixed(100.0, 1), token(50.0, 200.0), "algorithm=token, capacity=200, fillRate=50"),
            (fixed(100.0, 1), token(50.0, 1e9), "algorithm=token, capacity=500, fillRate=50"),
            (fixed(100.0, 1), fixed(100.0, 3_600), "algorithm=fixed, limit=1000, window=10"),
            (fixed(100.0, 60), fixed(80.0, 60), "algorithm=fixed, limit=4800, window=60"),
            (fixed(100.0, 1), token(100.0, 1.0), "algorithm=token, capacity=5, fillRate=100"),
            (token(100.0, 2.0), token(100.0, 1.0), "algorithm=token, capacity=2, fillRate=100"),
        ] {
            let made = bounded(&RAILS, base, base, true, wanted).expect("it can be had");
            assert_eq!(made.numbers.to_string(), expected);
        }
    }

    #[test]
    fn a_window_of_a_moment_leads_no_higher_than_any_other() {
        let base = fixed(100.0, 1);
        let moment = Shape { span: Duration::from_millis(1), ..fixed(1_000.0, 1) };
        let made = bounded(&RAILS, base, base, true, moment).expect("it can be had");
        assert_eq!(made.numbers.to_string(), "algorithm=fixed, limit=5, window=0.02");
        // A limit of such windows can be lowered too.
        let base = Shape { span: Duration::from_millis(10), ..fixed(100.0, 1) };
        let made = bounded(&RAILS, base, base, true, at_rate(&base, 50.0)).expect("it can be had");
        assert_eq!(made.numbers.to_string(), "algorithm=fixed, limit=1, window=0.02");
    }

    /// Windows from a millisecond to an hour, all algorithms, whatever is wanted.
    #[test]
    fn whatever_is_wanted_the_rate_stays_within_its_bounds() {
        let mut random = fastrand::Rng::with_seed(20);
        let algorithms = [
            Algorithm::FixedWindow,
            Algorithm::SlidingCounter,
            Algorithm::SlidingLog,
            Algorithm::TokenBucket,
            Algorithm::Gcra,
            Algorithm::LeakyBucket,
        ];
        let mut made_of_each = [0; 6];
        for _ in 0..40_000 {
            let mut span = || Duration::from_secs_f64(10_f64.powf(random.f64() * 6.556 - 3.0));
            let (base_span, held_span, wanted_span) = (span(), span(), span());
            let mut rate = |decades: f64, from: f64| 10_f64.powf(random.f64() * decades + from);
            let base = Shape { span: base_span, ..fixed(rate(4.0, 0.0), 1) };
            let rails =
                Rails { floor: rate(2.0, -1.0), ceiling: Some(rate(4.0, 0.0)), step: 1.0 + rate(1.0, 0.0), ..RAILS };
            let (floor, ceiling) = (Guard::floor(&rails, &base), Guard::ceiling(&rails, &base));
            let held = Shape { span: held_span, ..fixed(rate(2.0, 0.0).clamp(floor, ceiling), 1) };
            let index = random.usize(..algorithms.len());
            let wanted_rate = 10_f64.powf(random.f64() * 9.0 - 3.0);
            let wanted = Shape { algorithm: algorithms[index], rate_per_second: wanted_rate, span: wanted_span };
            let Ok(made) = bounded(&rails, base, held, random.bool(), wanted) else { continue };
            made_of_each[index] += 1;
            let found = made.numbers.shape().expect("a rate").rate_per_second;
            let step = (held.rate_per_second * rails.step).max(base.rate_per_second);
            let case = format!("{wanted:?} beside {base:?}, {held:?}, {floor}, {ceiling}: {}", made.numbers);
            assert!(found <= ceiling * (1.0 + 1e-6) && found <= step * (1.0 + 1e-6), "{case}");
            // Windows are whole microseconds, rates of buckets whole thousandths.
            assert!(found >= floor * (1.0 - 2e-3), "{case}");
        }
        assert!(made_of_each.iter().all(|made| *made > 3_000), "{made_of_each:?}");
    }

    #[test]
    fn an_algorithm_that_may_not_be_had_yet_lends_its_rate() {
        let base = fixed(100.0, 60);
        let made = bounded(&RAILS, base, base, false, token(50.0, 200.0)).expect("it can be had");
        assert_eq!(made.numbers.to_string(), "algorithm=fixed, limit=3000, window=60");
        assert_eq!(made.not_yet, Some(Algorithm::TokenBucket));
    }

    #[test]
    fn what_the_limit_can_not_have_is_rejected() {
        let base = fixed(100.0, 1);
        let guard = Guard { rails: &RAILS, base: &base, held: &base, may_switch: true, soft: 0 };
        assert_eq!(guard.bound(&base, &|_| Err("no room".to_owned())), Err("no room".to_owned()));
    }
}

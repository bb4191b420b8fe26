//! From a forecast to limits: a configuration with its reason in words. It has no clock and no state.

mod bursts;
mod need;

use serde_json::{Value, json};

use crate::numbers::{Bucketed, Numbers, Windowed};
use crate::{Forecast, History};
use bursts::Bursts;
use need::{Rise, need, rises};

/// What an advice is based on.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// When, in seconds since 1970 by the gateway's clock: what times in the advice count from.
    pub timestamp: f64,
    /// What is expected; none, while nothing is known.
    pub forecast: Option<&'a Forecast>,
    /// What came.
    pub history: History<'a>,
    /// What of it is load: the same without idle time.
    pub load: History<'a>,
    /// The numbers in force.
    pub numbers: &'a Numbers,
    /// The operator's, to which limits return.
    pub base: &'a Numbers,
    /// What bounds it.
    pub bounds: Bounds,
}

/// What bounds an advice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Requests a second that the target bears, if that is known.
    pub capacity: Option<f64>,
    /// The highest rate that the gateway accepts, if it reports one.
    pub ceiling: Option<f64>,
    /// Never fewer requests a second.
    pub floor: f64,
    /// Whether another algorithm may be advised.
    pub may_switch: bool,
}

impl Bounds {
    fn highest(self) -> f64 {
        let bound = self.capacity.unwrap_or(f64::INFINITY).min(self.ceiling.unwrap_or(f64::INFINITY));
        bound.max(self.floor)
    }
}

/// What the limits should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// From now on.
    pub numbers: Numbers,
    /// The highest second that is expected, as likely to be exceeded as not.
    pub predicted: f64,
    /// For how many seconds it holds.
    pub valid_for: f64,
    /// Why, in words.
    pub reason: String,
    /// Later changes.
    pub schedule: Vec<Step>,
}

/// A later change.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// In so many seconds.
    pub after: f64,
    /// From then on.
    pub numbers: Numbers,
    /// Why, in words, at that moment.
    pub reason: String,
}

/// A forecast that the target can't bear is one whose highest second is this many times its capacity.
const UNBEARABLE: f64 = 1.5;
/// What is let through of the capacity then, by limits that may be used up at once.
const TIGHTENED: f64 = 0.8;
/// Limits over more seconds than this let bursts through at whatever rate they come.
const EVEN_SPAN: f64 = 2.0;
/// Of a limit that will be all used: what is admitted at once is what the target bears in so many seconds, or a short
/// queue before it would overflow.
const AT_ONCE: f64 = 0.1;
/// A bucket that holds less rejects by chance what its rate would admit.
const LEAST_AT_ONCE: f64 = 10.0;
/// From this share of what may be admitted on a limit will be all used. More is not seen: what an attack brings is
/// learnt as the capacity.
const FULL: f64 = 0.95;
/// What was seen so stays so down to this share: no to and fro.
const STILL_FULL: f64 = 0.8;
/// How long an advice to tighten holds, in seconds; others hold as long as the forecast.
const TIGHT_FOR: f64 = 30.0;
/// How often an algorithm's window must be longer than a burst for another algorithm to be better.
const LONG_WINDOW: f64 = 10.0;
/// From so many seconds on a rise is a long one.
const LONG_RISE: f64 = 30.0;

/// Why something that was raised is so no longer.
const RISE_ENDS: &str = "the rise is over";
const FORECAST_ENDS: &str = "the forecast has ended and no newer one has come";

impl Advice {
    /// As responses have it.
    pub fn to_json(&self) -> Value {
        let mut response = self.numbers.to_json();
        let to_the_thousandth = |number: f64| (number * 1_000.0).round() / 1_000.0;
        response["predictedRps"] = json!(to_the_thousandth(self.predicted));
        response["validFor"] = json!(to_the_thousandth(self.valid_for));
        response["reason"] = json!(self.reason);
        if !self.schedule.is_empty() {
            let step = |step: &Step| {
                let mut value = step.numbers.to_step();
                value["after"] = json!(to_the_thousandth(step.after));
                value["reason"] = json!(step.reason);
                value
            };
            response["schedule"] = self.schedule.iter().map(step).collect();
        }
        response
    }
}

/// What the limits should be.
///
/// Never above what the target bears, never below the floor. Between those: the operator's numbers, and more in time
/// for a rise that can be borne. Ahead of one that can't be borne, limits that a burst may use up at once are tightened
/// to 80 % of the capacity; those that let requests through evenly stand at the capacity, which is what the target can
/// do, and short windows become buckets, which are more even.
pub fn advise(situation: &Situation<'_>) -> Advice {
    let Some(forecast) = situation.forecast else {
        let numbers = bounded(situation.base, situation.bounds);
        let reason = "nothing is known yet".to_owned();
        return Advice { numbers, predicted: 0.0, valid_for: TIGHT_FOR * 2.0, reason, schedule: Vec::new() };
    };
    let advice = match bucketed(situation, forecast) {
        Some(advice) => advice,
        None => unbucketed(situation, forecast),
    };
    within(advice, situation.bounds.highest())
}

fn unbucketed(situation: &Situation<'_>, forecast: &Forecast) -> Advice {
    let shape = switched(situation, forecast);
    tightened(situation, forecast, &shape).unwrap_or_else(|| raised(situation, forecast, &shape))
}

/// Nothing of it above the bound, whatever rounding has done.
fn within(mut advice: Advice, bound: f64) -> Advice {
    advice.numbers = advice.numbers.within(bound);
    for step in &mut advice.schedule {
        step.numbers = step.numbers.clone().within(bound);
    }
    advice
}

fn bounded(numbers: &Numbers, bounds: Bounds) -> Numbers {
    let rate = numbers.rate();
    let within = rate.min(bounds.highest());
    if within < rate { numbers.with_rate(within) } else { numbers.clone() }
}

/// The operator's numbers under the algorithm that fits the traffic, and why it is another one.
struct Shape {
    numbers: Numbers,
    reason: Option<String>,
    /// How much is admitted at once, at most, from which rate on.
    evened: Option<Evened>,
}

/// A limit that will be all used.
#[derive(Clone, Copy)]
struct Evened {
    from_rate: f64,
    at_once: u64,
}

impl Shape {
    fn of(numbers: Numbers) -> Self {
        Self { numbers, reason: None, evened: None }
    }

    /// The same at this rate.
    fn at(&self, rate: f64) -> Numbers {
        let raised = if rate > self.numbers.rate() { self.numbers.with_rate(rate) } else { self.numbers.clone() };
        match (self.evened, raised) {
            (Some(evened), Numbers::Bucket { algorithm, capacity, fill_rate }) if rate >= evened.from_rate => {
                Numbers::Bucket { algorithm, capacity: capacity.min(evened.at_once), fill_rate }
            }
            (_, raised) => raised,
        }
    }
}

fn switched(situation: &Situation<'_>, forecast: &Forecast) -> Shape {
    let base = bounded(situation.base, situation.bounds);
    let is_long = rises(&need(forecast, situation.history, 1.0), situation.base.rate())
        .iter()
        .any(|rise| (rise.end - rise.begin) as f64 >= LONG_RISE);
    match base {
        Numbers::Window { algorithm: Windowed::Fixed, limit, window }
            if situation.bounds.may_switch && window >= LONG_WINDOW && is_long =>
        {
            let reason =
                format!("a rise of more than {LONG_RISE} s is expected: a sliding window has no edges to slip through");
            let numbers = Numbers::Window { algorithm: Windowed::Sliding, limit, window };
            Shape { reason: Some(reason), ..Shape::of(numbers) }
        }
        Numbers::Window { limit, window, .. } if window <= EVEN_SPAN => {
            match evened(situation, forecast, limit, window) {
                Some(evened) => {
                    let numbers =
                        Numbers::Bucket { algorithm: Bucketed::Token, capacity: limit, fill_rate: base.rate() };
                    let reason =
                        "all that may be admitted will be used: a bucket admits it evenly, a window all at once";
                    Shape { numbers, reason: Some(reason.to_owned()), evened: Some(evened) }
                }
                None => Shape::of(base),
            }
        }
        Numbers::Window { .. } | Numbers::Bucket { .. } => Shape::of(base),
    }
}

/// How a short window is evened out, if all will be used that may be admitted and the target can't bear a window's
/// worth of it at once.
fn evened(situation: &Situation<'_>, forecast: &Forecast, limit: u64, window: f64) -> Option<Evened> {
    let bounds = situation.bounds;
    let capacity = bounds.capacity.filter(|_| bounds.may_switch)?;
    let borne = (capacity * AT_ONCE).max(LEAST_AT_ONCE);
    let is_bucket = matches!(situation.numbers, Numbers::Bucket { .. });
    let full = bounds.highest() * if is_bucket { STILL_FULL } else { FULL };
    let is_full = forecast.highest(0.5) >= full && borne < bounds.highest() * window;
    is_full.then(|| Evened { from_rate: bounds.highest() * FULL, at_once: limit.min(borne.round() as u64) })
}

/// A bucket instead of a long window, where short bursts come again and again: it refills as fast as requests come
/// on the average, and holds as much as a burst brings on top. When the forecast is over it refills at the operator's
/// rate.
fn bucketed(situation: &Situation<'_>, forecast: &Forecast) -> Option<Advice> {
    let bounds = situation.bounds;
    let is_long = matches!(situation.base, Numbers::Window { window, .. } if *window >= LONG_WINDOW);
    let bursts = Bursts::of(situation.load)
        .or_else(|| Bursts::of(situation.history))
        .filter(|_| is_long && bounds.may_switch)?;
    let usual = bounded(situation.base, bounds).rate();
    let mean = forecast.mean.iter().sum::<f64>() / forecast.mean.len().max(1) as f64;
    let fill_rate = mean.max(usual).min(bounds.highest());
    // What the target bears in four seconds: more at once would be an overload of its own.
    let most = (4.0 * bounds.highest().min(1e9)).max(1.0);
    let capacity = bursts.excess_over(fill_rate).clamp(1.0, most).ceil() as u64;
    let bucket = Numbers::Bucket { algorithm: Bucketed::Token, capacity, fill_rate };
    let valid_for = forecast.mean.len() as f64 * f64::from(forecast.step);
    let is_raised = fill_rate > usual;
    let end = Step { after: valid_for, numbers: bucket.with_rate(usual), reason: FORECAST_ENDS.to_owned() };
    Some(Advice {
        numbers: bucket.with_rate(fill_rate),
        predicted: forecast.highest(0.5),
        valid_for,
        reason: format!("{bursts}; {mean:.0} req/s are expected on the average"),
        schedule: if is_raised { vec![end] } else { Vec::new() },
    })
}

/// The advice ahead of what the target can't bear, if it is to be feared.
fn tightened(situation: &Situation<'_>, forecast: &Forecast, shape: &Shape) -> Option<Advice> {
    let capacity = situation.bounds.capacity?;
    // With confidence: three of four times it will be higher than this.
    let feared = forecast.highest(0.25);
    let predicted = forecast.highest(0.5);
    if feared < capacity * UNBEARABLE || shape.numbers.span() <= EVEN_SPAN {
        return None;
    }
    let rate = (capacity * TIGHTENED).max(situation.bounds.floor).min(shape.numbers.rate());
    let reason = format!(
        "{predicted:.0} req/s are expected, {:.1} times what the target bears ({capacity:.0}): tightened to {rate:.0} \
         req/s",
        predicted / capacity
    );
    let numbers = shape.numbers.with_rate(rate);
    Some(Advice { numbers, predicted, valid_for: TIGHT_FOR, reason, schedule: Vec::new() })
}

/// The operator's numbers, and more in time for rises.
fn raised(situation: &Situation<'_>, forecast: &Forecast, shape: &Shape) -> Advice {
    let usual = &shape.at(shape.numbers.rate());
    let horizon = forecast.mean.len() as f64 * f64::from(forecast.step);
    let predicted = forecast.highest(0.5);
    let needed = need(forecast, situation.history, usual.span());
    let found = rises(&needed, usual.rate());
    // When a step of the forecast is, in seconds from the snapshot.
    let at = |index: usize| {
        (forecast.start - situation.timestamp.floor() as i64) as f64 - situation.timestamp.fract()
            + index as f64 * f64::from(forecast.step)
    };
    let valid_for = horizon + at(0).min(0.0).max(-horizon / 2.0);
    let mut numbers = usual.clone();
    let mut schedule = Vec::new();
    for rise in &found {
        let raised = shape.at(rise.rate.min(situation.bounds.highest()));
        if raised == *usual {
            continue;
        }
        let (begin, end) = (at(rise.begin), at(rise.end));
        if end <= 0.0 {
            // Over, before anybody could know.
            continue;
        }
        if begin <= 0.0 {
            numbers = raised;
        } else if begin < valid_for {
            let reason = reason_at(rise, end - begin, situation.bounds.highest());
            schedule.push(Step { after: begin, numbers: raised, reason });
        }
        // One that goes on beyond what is known ends with it: without another word nothing stays raised.
        let reason = if end < valid_for { RISE_ENDS } else { FORECAST_ENDS }.to_owned();
        schedule.push(Step { after: end.clamp(0.001, valid_for), numbers: usual.clone(), reason });
    }
    let mut reason = reported(&found, forecast, situation, at);
    if let Some(why) = &shape.reason {
        reason = format!("{reason}; {why}");
    }
    Advice { numbers, predicted, valid_for, reason, schedule: in_order(schedule) }
}

/// Without steps that nothing would be seen of: the end of one rise where the next begins.
fn in_order(schedule: Vec<Step>) -> Vec<Step> {
    let mut kept: Vec<Step> = Vec::with_capacity(schedule.len());
    for step in schedule {
        if kept.last().is_some_and(|last| last.after >= step.after) {
            kept.pop();
        }
        kept.push(step);
    }
    kept
}

/// Why a limit is raised, at that moment.
fn reason_at(rise: &Rise, seconds: f64, bound: f64) -> String {
    format!("a rise is due for {seconds:.0} s{}", needed(rise.rate, bound))
}

/// What a rise needs, and what of it may be.
fn needed(rate: f64, bound: f64) -> String {
    if rate > bound {
        return format!("; {bound:.0} req/s of it can be admitted");
    }
    format!("; 19 of 20 of its seconds stay below {rate:.0} req/s")
}

/// What is expected, and what follows from it.
fn reported(found: &[Rise], forecast: &Forecast, situation: &Situation<'_>, at: impl Fn(usize) -> f64) -> String {
    let (middle, high) = (forecast.highest(0.5), forecast.highest(0.9));
    let usual = situation.base.rate();
    let expected = format!("the highest second ahead is expected at {middle:.0} req/s (9 of 10 times below {high:.0})");
    let Some(first) = found.first() else { return format!("{expected}, within {usual:.0} req/s") };
    let when = match at(first.begin) {
        now if now < 0.5 => "now".to_owned(),
        later => format!("in {later:.0} s"),
    };
    let cycle = forecast
        .seasons
        .first()
        .map_or_else(String::new, |season| format!(", every {:.1} s", season.period * f64::from(forecast.step)));
    format!("{expected}{cycle}: a rise is due {when}{}", needed(first.rate, situation.bounds.highest()))
}

//! What a gateway reports of itself.

use serde_json::Value;
use tidegate_input::object::{Allowed, Object};
use tidegate_input::{Problem, Problems, json, moment};

use crate::numbers::Numbers;

/// What a gateway reports of itself. What it sends besides is ignored.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// When, in seconds since 1970 by the gateway's clock.
    pub timestamp: f64,
    /// Requests a second that came since the last one, rejected ones too.
    pub observed: f64,
    /// The share of them that was rejected.
    pub rejected: f64,
    /// The 95th percentile of the target's response time, in seconds; none without a response.
    pub latency: Option<f64>,
    /// Responses of the target with a status of 5xx since the last one.
    pub errors: f64,
    /// The numbers in force.
    pub numbers: Numbers,
    /// The operator's, which limits return to; the ones in force, if these are not sent.
    pub base: Numbers,
    /// Which series this is.
    pub source: String,
    /// Seconds from one snapshot to the next, if it is sent.
    pub interval: Option<f64>,
    /// Above so many requests a second the gateway will not go.
    pub ceiling: Option<f64>,
    /// Requests of each second since the last snapshot.
    pub series: Option<Offered>,
}

/// Requests of each second.
#[derive(Clone, Debug, PartialEq)]
pub struct Offered {
    /// The first second, since 1970.
    pub start: i64,
    /// None where it is not known.
    pub values: Vec<Option<f64>>,
}

const SOME_RATE: Allowed = Allowed::new(0.0..=1e9, "requests a second");
const ANY_RATE: Allowed = Allowed::new(0.0..=f64::MAX, "requests a second");
const SHARE: Allowed = Allowed::new(0.0..=1.0, "a share");
const SECONDS: Allowed = Allowed::new(0.0..=86_400.0, "seconds");
const A_COUNT: Allowed = Allowed::new(0.0..=1e12, "a count");
/// Up to the year 5138.
const MOMENT: Allowed = Allowed::described(0.0..=1e11, "seconds since 1970");
const ONE: Allowed = Allowed::described(1.0..=1.0, "1: a value for each second");
/// The most seconds of a series.
pub(crate) const MOST_SECONDS: usize = 600;
const LONGEST_SOURCE: usize = 256;

impl Snapshot {
    /// Reads one, or says all that is wrong with it.
    pub fn read(text: &[u8]) -> Result<Self, Vec<Problem>> {
        let problems = Problems::default();
        let value = json::read(text)
            .map_err(|error| vec![Problem { path: String::new(), message: format!("must be JSON: {error}") }])?;
        let read = Object::new("", value, &problems).and_then(|mut object| read(&mut object));
        let problems = problems.all();
        read.filter(|_| problems.is_empty()).ok_or(problems)
    }
}

fn read(object: &mut Object<'_>) -> Option<Snapshot> {
    let timestamp = timestamp(object);
    let observed = object.number("observedRps", &SOME_RATE);
    let rejected = object.number_or("rejectedRate", &SHARE, 0.0);
    let latency = if object.has("latencyP95") { object.number("latencyP95", &SECONDS) } else { None };
    let errors = object.number_or("errors5xx", &A_COUNT, 0.0);
    let interval = if object.has("interval") { object.number("interval", &SECONDS) } else { None };
    let ceiling = if object.has("ceilingRps") { object.number("ceilingRps", &ANY_RATE) } else { None };
    let source = object.text("source").unwrap_or_else(|| "default".to_owned());
    if source.len() > LONGEST_SOURCE {
        object.wrong("source", format!("must have at most {LONGEST_SOURCE} bytes, got {}", source.len()));
    }
    let base = object.object("base").and_then(|mut base| Numbers::read(&mut base));
    let series = object.object("series").and_then(|mut series| offered(&mut series));
    let numbers = Numbers::read(object);
    let numbers = numbers?;
    Some(Snapshot {
        timestamp: timestamp?,
        observed: observed?,
        rejected: rejected?,
        latency,
        errors: errors?,
        base: base.unwrap_or_else(|| numbers.clone()),
        numbers,
        source,
        interval,
        ceiling,
        series,
    })
}

/// Seconds, or a date.
fn timestamp(object: &mut Object<'_>) -> Option<f64> {
    let text = object.take("timestamp");
    match text {
        Some(Value::String(text)) => {
            let seconds = moment::unix_nanos(&text).map(|nanos| nanos as f64 / 1e9);
            if seconds.is_none_or(|seconds| !(0.0..=1e11).contains(&seconds)) {
                object.wrong("timestamp", "must be seconds since 1970 or a time such as 2026-01-19T16:30:00Z");
            }
            seconds
        }
        Some(number) => {
            let found = number.as_f64().filter(|seconds| (0.0..=1e11).contains(seconds));
            if found.is_none() {
                object.wrong("timestamp", "must be seconds since 1970 or a time such as 2026-01-19T16:30:00Z");
            }
            found
        }
        None => {
            object.wrong("timestamp", "is missing; must be seconds since 1970 or a time such as 2026-01-19T16:30:00Z");
            None
        }
    }
}

fn offered(series: &mut Object<'_>) -> Option<Offered> {
    let start = series.number("start", &MOMENT);
    series.number_or("step", &ONE, 1.0)?;
    if !series.has("offered") {
        series.wrong("offered", "is missing; must be a list of counts, with null where one is not known");
    }
    let entries = series.list("offered", MOST_SECONDS)?;
    let mut values = Vec::with_capacity(entries.len());
    for (index, entry) in entries.into_iter().enumerate() {
        let value = entry.as_f64().filter(|value| *value >= 0.0);
        if value.is_none() && !entry.is_null() {
            series.problems.add(format!("{}[{index}]", series.at("offered")), "must be a number from 0 on, or null");
        }
        // What no machine can send is not known.
        values.push(value.filter(|value| *value <= 1e9));
    }
    Some(Offered { start: start? as i64, values })
}

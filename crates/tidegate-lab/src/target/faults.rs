use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use tidegate_input::object::{Allowed, Object, shown};
use tidegate_input::{Problem, Problems, json as unique_json};

use super::contention::{LONGEST, stretched};

/// What goes wrong, on purpose. The default is nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// The share of requests that get an error after their service.
    pub errors: f64,
    /// The status of the error.
    pub error_status: u16,
    /// How many times as long services take that begin now.
    pub slowness: f64,
    /// What they take on top, as much as an hour.
    pub delay: Duration,
    /// There are no responses.
    pub hang: bool,
}

impl Default for Faults {
    fn default() -> Self {
        Self { errors: 0.0, error_status: 500, slowness: 1.0, delay: Duration::ZERO, hang: false }
    }
}

const SHARE: Allowed = Allowed::new(0.0..=1.0, "a share");
const FACTOR: Allowed = Allowed::new(1.0..=1_000.0, "a factor");
const DELAY: Allowed = Allowed::new(0.0..=3_600.0, "seconds");
const SPAN: Allowed = Allowed::new(0.001..=86_400.0, "seconds");

impl Faults {
    /// Each by its name, and whether it is on.
    pub fn each(&self) -> [(&'static str, bool); 4] {
        [
            ("errors", self.errors > 0.0),
            ("slowness", self.slowness > 1.0),
            ("delay", !self.delay.is_zero()),
            ("hang", self.hang),
        ]
    }

    /// Whether anything goes wrong.
    pub fn are_on(&self) -> bool {
        self.each().iter().any(|(_, is_on)| *is_on)
    }

    /// How long a service takes that begins now and would take `time`.
    pub fn slowed(&self, time: Duration) -> Duration {
        let stretched = if self.slowness > 1.0 { stretched(time, self.slowness) } else { time };
        stretched.saturating_add(self.delay).min(LONGEST)
    }

    /// Whether this request is one of those that fail. Takes a chance only if there is one.
    pub fn draw_error(&self, random: &mut Rng) -> Option<u16> {
        (self.errors > 0.0 && random.f64() < self.errors).then_some(self.error_status)
    }

    /// Reads what shall go wrong, and for how long.
    pub fn read(text: &[u8]) -> Result<(Self, Option<Duration>), Vec<Problem>> {
        let problems = Problems::default();
        let read = match unique_json::read(text) {
            Ok(value) => Object::new("", value, &problems).and_then(Self::build),
            Err(error) => {
                problems.add("", format!("invalid JSON: {error}"));
                None
            }
        };
        let problems = problems.all();
        read.filter(|_| problems.is_empty()).ok_or(problems)
    }

    fn build(mut object: Object<'_>) -> Option<(Self, Option<Duration>)> {
        let error_status = error_status(&mut object);
        // A status alone is for all requests.
        let share = if error_status.is_some_and(|status| status.is_some()) { 1.0 } else { 0.0 };
        let errors = object.number_or("errors", &SHARE, share);
        let slowness = object.object("slowness").map_or(Some(1.0), |mut slowness| {
            let factor = slowness.number("factor", &FACTOR);
            slowness.end();
            factor
        });
        let delay = object.number_or("delay", &DELAY, 0.0);
        let hang = object.switch_or("hang", false);
        let span = span(&mut object);
        let usual = Self::default();
        let read = (|| {
            let faults = Self {
                errors: errors?,
                error_status: error_status?.unwrap_or(usual.error_status),
                slowness: slowness?,
                delay: Duration::from_secs_f64(delay?),
                hang: hang?,
            };
            if span?.is_some() && !faults.are_on() {
                object.wrong("for", "must come with a fault that lasts so long");
            }
            Some((faults, span?))
        })();
        object.end();
        read
    }

    /// As they are read; `left` is for how long they go on.
    pub fn to_json(&self, left: Option<Duration>) -> Value {
        let mut object = json!({
            "errors": self.errors,
            "errorStatus": self.error_status,
            "slowness": { "factor": self.slowness },
            "delay": self.delay.as_secs_f64(),
            "hang": self.hang,
        });
        if let Some(left) = left {
            object["for"] = left.as_secs_f64().into();
        }
        object
    }
}

/// The outer `None` is a problem.
#[expect(clippy::option_option, reason = "a problem is not the absence of a status")]
fn error_status(object: &mut Object<'_>) -> Option<Option<u16>> {
    let Some(value) = object.take("errorStatus") else { return Some(None) };
    let status = value.as_u64().filter(|status| (400..=599).contains(status));
    if status.is_none() {
        object.wrong("errorStatus", format!("must be a status from 400 to 599, got {}", shown(&value)));
    }
    Some(Some(status? as u16))
}

/// The outer `None` is a problem.
#[expect(clippy::option_option, reason = "a problem is not the absence of an end")]
fn span(object: &mut Object<'_>) -> Option<Option<Duration>> {
    // 0 is out of range, so it means that nothing was sent.
    let span = object.number_or("for", &SPAN, 0.0)?;
    Some((span > 0.0).then(|| Duration::from_secs_f64(span)))
}

#[cfg(test)]
mod tests;

//! What a forecaster responds with, read with suspicion: one field that makes no sense, and nothing of it is used.

use std::time::Duration;

use serde_json::{Map, Value};
use tidegate_policy::Algorithm;
use tidegate_policy::numbers::has_bucket;
use tidegate_policy::shape::Shape;

/// Steps that a schedule may have.
const MOST_STEPS: usize = 64;
/// The longest that a recommendation may hold.
const LONGEST: f64 = 86_400.0;
/// The longest window.
const LONGEST_WINDOW: f64 = 1e9;
/// Characters of a reason that are kept.
const LONGEST_REASON: usize = 300;

/// A recommendation.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// From now on.
    pub top: Shape,
    /// Later, in their order.
    pub steps: Vec<Step>,
    /// The highest rate that is expected while it holds.
    pub predicted: Option<f64>,
    /// How long it holds.
    pub valid_for: Option<Duration>,
    /// In the forecaster's words.
    pub reason: String,
}

/// A later change.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// How long after the snapshot.
    pub after: Duration,
    /// What the limit is to admit from then on.
    pub shape: Shape,
    /// Why it is, if it has a reason of its own.
    pub reason: Option<String>,
}

impl Recommendation {
    /// Reads one. An error says what is wrong with it.
    pub fn read(response: &Value) -> Result<Self, String> {
        let fields = response.as_object().ok_or("it must be a JSON object")?;
        let word = fields.get("algorithm").and_then(Value::as_str).ok_or("`algorithm` is missing")?;
        let algorithm: Algorithm =
            word.parse().map_err(|_| format!("`algorithm` must be a known one, got {:?}", shortened(word)))?;
        if algorithm == Algorithm::Concurrency {
            return Err("`algorithm` must have a rate, got `concurrency`".to_owned());
        }
        let top = shape(algorithm, fields, None)?;
        let predicted = number(fields, "predictedRps")?;
        if predicted.is_some_and(|predicted| predicted < 0.0) {
            return Err("`predictedRps` must not be negative".to_owned());
        }
        let valid_for = positive(fields, "validFor")?;
        if valid_for.is_some_and(|seconds| seconds > LONGEST) {
            return Err(format!("`validFor` must be at most {LONGEST}"));
        }
        let steps = match fields.get("schedule") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(steps)) => schedule(steps, algorithm, fields, valid_for)?,
            Some(_) => return Err("`schedule` must be a list".to_owned()),
        };
        let reason = fields.get("reason").and_then(Value::as_str).unwrap_or_default();
        let valid_for = valid_for.map(Duration::from_secs_f64);
        Ok(Self { top, steps, predicted, valid_for, reason: shortened(reason) })
    }

    /// All shapes that it names, the top first.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = &Shape> {
        [&self.top].into_iter().chain(self.steps.iter().map(|step| &step.shape))
    }
}

/// A text of others, cut to a length that a log bears.
fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_REASON).collect()
}

fn schedule(
    steps: &[Value],
    algorithm: Algorithm,
    top: &Map<String, Value>,
    valid_for: Option<f64>,
) -> Result<Vec<Step>, String> {
    if steps.len() > MOST_STEPS {
        return Err(format!("`schedule` must have at most {MOST_STEPS} steps, got {}", steps.len()));
    }
    if steps.is_empty() {
        return Ok(Vec::new());
    }
    let valid_for = valid_for.ok_or("`validFor` is missing; must be set beside `schedule`")?;
    let mut read = Vec::with_capacity(steps.len());
    let mut before = 0.0;
    for (index, step) in steps.iter().enumerate() {
        let wrong = |what: &str| format!("`schedule[{index}]`: {what}");
        let step = step.as_object().ok_or_else(|| wrong("must be an object"))?;
        let after = positive(step, "after").map_err(|error| wrong(&error))?;
        let after = after.ok_or_else(|| wrong("`after` is missing"))?;
        if after <= before {
            return Err(wrong("`after` must be greater than that of the step before it"));
        }
        if after > valid_for {
            return Err(wrong("`after` must be at most `validFor`"));
        }
        let shape = shape(algorithm, step, Some(top)).map_err(|error| wrong(&error))?;
        let reason = step.get("reason").and_then(Value::as_str).map(shortened);
        read.push(Step { after: Duration::from_secs_f64(after), shape, reason });
        before = after;
    }
    Ok(read)
}

/// The numbers in `fields`; what is missing there is that of `top`.
fn shape(algorithm: Algorithm, fields: &Map<String, Value>, top: Option<&Map<String, Value>>) -> Result<Shape, String> {
    let given = |names: &[&str]| -> Result<f64, String> {
        for fields in [Some(fields), top].into_iter().flatten() {
            for name in names {
                if let Some(number) = positive(fields, name)? {
                    return Ok(number);
                }
            }
        }
        Err(format!("`{}` is missing", names.first().unwrap_or(&"")))
    };
    if has_bucket(algorithm) {
        let (capacity, rate) = (given(&["capacity", "burst"])?, given(&["fillRate", "fill_rate"])?);
        let span =
            Duration::try_from_secs_f64(capacity / rate).map_err(|_| "`capacity` is too large for `fillRate`")?;
        return Ok(Shape { algorithm, rate_per_second: rate, span });
    }
    let window = match top {
        // A window never changes within a schedule.
        Some(top) => positive(top, "window")?,
        None => positive(fields, "window")?,
    };
    let window = window.ok_or("`window` is missing")?;
    if !(0.001..=LONGEST_WINDOW).contains(&window) {
        return Err(format!("`window` must be between 0.001 and {LONGEST_WINDOW}, got {window}"));
    }
    let rate_per_second = given(&["limit"])? / window;
    Ok(Shape { algorithm, rate_per_second, span: Duration::from_secs_f64(window) })
}

/// A number, if there is one.
fn number(fields: &Map<String, Value>, name: &str) -> Result<Option<f64>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number = value.as_f64().filter(|number| number.is_finite());
            number.map(Some).ok_or_else(|| format!("`{name}` must be a number"))
        }
    }
}

/// A number above zero, if there is one.
fn positive(fields: &Map<String, Value>, name: &str) -> Result<Option<f64>, String> {
    match number(fields, name)? {
        Some(number) if number <= 0.0 => Err(format!("`{name}` must be above 0, got {number}")),
        number => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_contracts_examples_are_read() {
        for (response, rate, span, predicted) in [
            (
                json!({"algorithm": "fixed", "window": 1, "limit": 130, "predictedRps": 130, "validFor": 60}),
                130.0,
                1.0,
                130.0,
            ),
            (
                json!({"algorithm": "sliding", "window": 60, "limit": 4800, "predictedRps": 300, "validFor": 30}),
                80.0,
                60.0,
                300.0,
            ),
            (json!({"algorithm": "token", "capacity": 200, "fillRate": 50, "predictedRps": 50}), 50.0, 4.0, 50.0),
        ] {
            let read = Recommendation::read(&response).expect("it is good");
            assert_eq!((read.top.rate_per_second, read.top.span), (rate, Duration::from_secs_f64(span)), "{response}");
            assert_eq!((read.predicted, read.steps.len()), (Some(predicted), 0));
        }
    }

    #[test]
    fn steps_have_what_they_do_not_say_from_the_top() {
        let response = json!({"algorithm": "token", "capacity": 100, "fillRate": 50, "validFor": 60, "unknown": [1],
            "schedule": [{"after": 11.75, "fillRate": 100}, {"after": 60, "capacity": 10, "limit": 5}]});
        let read = Recommendation::read(&response).expect("it is good");
        let steps: Vec<_> = read
            .steps
            .iter()
            .map(|step| (step.after.as_secs_f64(), step.shape.rate_per_second, step.shape.quota()))
            .collect();
        assert_eq!(steps, [(11.75, 100.0, 100.0), (60.0, 50.0, 10.0)]);
        assert_eq!(read.shapes().count(), 3);
    }

    #[test]
    fn an_invalid_recommendation_is_rejected_whole() {
        let good = json!({"algorithm": "fixed", "limit": 100, "window": 1, "validFor": 60,
            "schedule": [{"after": 5, "limit": 50}]});
        assert!(Recommendation::read(&good).is_ok());
        let many: Vec<Value> = (1..=65).map(|after| json!({"after": after, "limit": 5})).collect();
        for (field, value, word) in [
            ("algorithm", json!("magic"), "algorithm"),
            ("algorithm", json!(7), "algorithm"),
            ("algorithm", json!("concurrency"), "concurrency"),
            ("algorithm", json!("token"), "capacity"),
            ("limit", json!(0), "limit"),
            ("limit", json!(-5), "limit"),
            ("limit", json!("100"), "limit"),
            ("limit", Value::Null, "limit"),
            ("window", json!(0), "window"),
            ("window", json!(1e-9), "window"),
            ("window", json!(1e300), "window"),
            ("window", Value::Null, "window"),
            ("validFor", json!(-1), "validFor"),
            ("validFor", json!(1e9), "validFor"),
            ("validFor", Value::Null, "validFor"),
            ("predictedRps", json!(-1), "predictedRps"),
            ("predictedRps", json!([]), "predictedRps"),
            ("schedule", json!({}), "schedule"),
            ("schedule", json!([7]), "schedule[0]"),
            ("schedule", json!([{"limit": 5}]), "after"),
            ("schedule", json!([{"after": 0, "limit": 5}]), "after"),
            ("schedule", json!([{"after": 61, "limit": 5}]), "validFor"),
            ("schedule", json!([{"after": 5, "limit": 5}, {"after": 5, "limit": 6}]), "schedule[1]"),
            ("schedule", json!([{"after": 5, "limit": -5}]), "limit"),
            ("schedule", many.into(), "at most 64 steps, got 65"),
        ] {
            let mut response = good.clone();
            response[field] = value.clone();
            let error = Recommendation::read(&response).expect_err(field);
            assert!(error.contains(word), "{field} {value}: {error}");
        }
        for response in [json!(null), json!([]), json!("x"), json!({})] {
            assert!(Recommendation::read(&response).is_err(), "{response}");
        }
    }

    #[test]
    fn huge_numbers_are_numbers_to_be_capped() {
        let response = json!({"algorithm": "fixed", "limit": 1e300, "window": 1});
        assert!(Recommendation::read(&response).expect("it is one").top.rate_per_second > 1e299);
        let endless = json!({"algorithm": "token", "capacity": 1e300, "fillRate": 1e-300});
        assert!(Recommendation::read(&endless).is_err());
    }
}

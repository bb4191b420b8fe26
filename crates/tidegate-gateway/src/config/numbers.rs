//! The numbers of a limit: from the model to checked [`LimitNumbers`] and back.

pub use tidegate_policy::Algorithm;
use tidegate_policy::numbers::Values;
pub use tidegate_policy::numbers::{InvalidNumbers, LimitNumbers, has_bucket};

use super::model::{Limit, Numbers};
use super::span::Span;

/// Checks the numbers of the model. `soft` is how many requests are admitted above the limit.
pub fn checked(numbers: &Numbers, soft: u64) -> Result<LimitNumbers, InvalidNumbers> {
    LimitNumbers::new(algorithm(numbers)?, values(numbers), soft)
}

/// The algorithm alone.
pub fn algorithm(numbers: &Numbers) -> Result<Algorithm, InvalidNumbers> {
    let name =
        numbers.algorithm.as_deref().ok_or_else(|| invalid("algorithm", format!("is required: one of {}", names())))?;
    name.parse().map_err(|_| invalid("algorithm", format!("must be one of {}, got {name:?}", names())))
}

/// The numbers of a limit in a file.
pub fn of_limit(limit: &Limit, soft: u64) -> Result<LimitNumbers, InvalidNumbers> {
    checked(&of_file(limit), soft)
}

/// The numbers of a limit in a file, converted to another algorithm. None if they can't be converted, or the limit's
/// state can't hold the result.
pub fn of_limit_under(limit: &Limit, algorithm: &str, with_redis: bool) -> Option<LimitNumbers> {
    let (soft, sharing) = (limit.soft.count(), limit.kept_in(with_redis).sharing());
    let accepts = |numbers: &LimitNumbers| {
        let rule = numbers.rule(soft)?;
        let shared = sharing.map_or(Ok(()), |sharing| sharing.check(&rule));
        shared.map_err(|error| invalid("algorithm", error.to_string()))
    };
    let present = of_limit(limit, soft).ok()?;
    // Values written for the other algorithm count, though the current algorithm does not use them.
    present.with_algorithm(algorithm.parse().ok()?, &values(&of_file(limit)), soft, accepts).ok()
}

/// The values alone, unchecked.
pub fn values(numbers: &Numbers) -> Values {
    Values {
        limit: numbers.limit,
        window: numbers.window.map(Span::get),
        capacity: numbers.capacity,
        fill_rate: numbers.fill_rate,
        hold: numbers.hold.map(Span::get),
    }
}

/// Numbers as a file or the API has them, with the values kept for other algorithms.
pub fn written(numbers: &LimitNumbers) -> Numbers {
    let Values { limit, window, capacity, fill_rate, hold } = *numbers.values();
    Numbers {
        algorithm: Some(numbers.algorithm().name().to_owned()),
        limit,
        window: window.map(Span::from),
        capacity,
        fill_rate,
        hold: hold.map(Span::from),
    }
}

fn of_file(limit: &Limit) -> Numbers {
    Numbers {
        algorithm: Some(limit.algorithm.clone()),
        limit: limit.limit,
        window: limit.window,
        capacity: limit.capacity,
        fill_rate: limit.fill_rate,
        hold: limit.hold,
    }
}

/// A count as a floating-point figure.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn figure(count: u64) -> f64 {
    count as f64
}

fn invalid(field: &'static str, reason: impl Into<String>) -> InvalidNumbers {
    InvalidNumbers { field, reason: reason.into() }
}

fn names() -> String {
    let names: Vec<&str> = Algorithm::ALL.iter().map(|algorithm| algorithm.name()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(json: &str) -> Numbers {
        serde_json::from_str(json).expect("valid JSON")
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
            let error = checked(&numbers(json), 0).expect_err(json);
            assert_eq!(error.field, field, "{json}: {error}");
        }
    }

    #[test]
    fn what_was_read_is_written_without_values_that_no_algorithm_could_use() {
        let own = r#""algorithm": "fixed", "limit": 5, "window": 0.25"#;
        let with_zeros = format!(r#"{{{own}, "capacity": 0, "fillRate": 0, "hold": 0}}"#);
        let made = checked(&numbers(&with_zeros), 0).expect("a rule");
        assert_eq!(written(&made), numbers(&format!("{{{own}}}")));
        assert_eq!(
            serde_json::to_string(&written(&made)).expect("JSON"),
            format!("{{{own}}}").replace(": ", ":").replace(", ", ",")
        );
    }

    /// Redis counts up to 2^53 where memory counts further: one decimal less, and it holds the rate too.
    #[test]
    fn the_closest_rate_is_the_closest_that_is_accepted() {
        for (limit, window) in [(8_000, 86_400), (5_000_000, 60)] {
            let json = format!(r#"{{"algorithm": "fixed", "limit": {limit}, "window": {window}}}"#);
            let fixed = checked(&numbers(&json), 0).expect("fixed");
            let any = |_: &LimitNumbers| Ok(());
            let shareable = |numbers: &LimitNumbers| {
                let rule = numbers.rule(0)?;
                tidegate_store::Sharing::Exact.check(&rule).map_err(|error| invalid("fillRate", error.to_string()))
            };
            let token = |accepts: &dyn Fn(&LimitNumbers) -> Result<(), InvalidNumbers>| {
                let token = fixed.with_algorithm(Algorithm::TokenBucket, &Values::default(), 0, accepts);
                token.expect("one decimal less would do").fill_rate().expect("a rate")
            };
            let (finest, coarser, wanted) = (token(&any), token(&shareable), f64::from(limit) / f64::from(window));
            assert!((finest - wanted).abs() < (coarser - wanted).abs(), "{finest}, {coarser} for {wanted}");
            assert!((coarser / wanted - 1.0).abs() < 0.05, "{coarser} for {wanted}");
        }
    }
}

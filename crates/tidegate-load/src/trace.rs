//! Traces in files: a plan on the command line names a CSV file, whose column of rates or of timestamps is put into the
//! plan before it is read.
//!
//! `{"file": "traffic.csv", "column": "rps", "values": "rates", "step": 60}`: `column` is a name of the first line, or
//! a number from 1 on. Without it rates stand in the last column, timestamps in the first. Without `step` the first
//! column says when each rate begins, at equal distances; where there is only one column, a rate lasts a second.

use std::path::Path;

use serde_json::{Map, Value};
use tidegate_input::table::{self, BadLine, Column, Row};
use tidegate_input::{moment, shortened};

/// Puts what stands in a plan's files into the plan; `wrong` gets a path and a reason.
pub(crate) fn resolve(plan: &mut Value, directory: &Path, wrong: impl Fn(String, String)) {
    if let Some(phases) = plan.get_mut("phases").and_then(Value::as_array_mut) {
        for (index, phase) in phases.iter_mut().enumerate() {
            resolve_profile(phase, directory, |path, reason| wrong(format!("phases[{index}].{path}"), reason));
        }
    }
    resolve_profile(plan, directory, wrong);
}

fn resolve_profile(holder: &mut Value, directory: &Path, wrong: impl Fn(String, String)) {
    let Some(profile) = holder.get_mut("profile").filter(|profile| profile["type"] == "trace") else { return };
    let Some(params) = profile.get_mut("params").and_then(Value::as_object_mut) else { return };
    if params.get("file").is_none_or(Value::is_null) {
        return;
    }
    if let Err((field, reason)) = resolve_params(params, directory) {
        wrong(format!("profile.params.{field}"), reason);
        if !params.contains_key("timestamps") {
            // So that it is not reported as missing besides.
            params.entry("rates").or_insert_with(|| vec![0].into());
        }
    }
    // Whatever was wrong with them has been reported.
    for field in ["file", "column", "values"] {
        params.remove(field);
    }
}

type Wrong = (&'static str, String);

fn resolve_params(params: &mut Map<String, Value>, directory: &Path) -> Result<(), Wrong> {
    let given = |field: &str| params.get(field).filter(|value| !value.is_null());
    let Some(name) = given("file").and_then(Value::as_str) else {
        return Err(("file", "must be a path, relative to the plan's directory".to_owned()));
    };
    if given("rates").or(given("timestamps")).is_some() {
        return Err(("file", "must not be set beside `rates` or `timestamps`".to_owned()));
    }
    let are_rates = match given("values").map(Value::as_str) {
        None | Some(Some("rates")) => true,
        Some(Some("timestamps")) => false,
        _ => return Err(("values", "must be `rates` or `timestamps`".to_owned())),
    };
    let column = match given("column") {
        None if are_rates => Column::Last,
        None => Column::First,
        Some(Value::String(name)) => Column::Named(name.clone()),
        Some(value) => {
            let reason = "must be a name in the first line or a number from 1 to 1000";
            let number = value.as_u64().filter(|number| (1..=1_000).contains(number));
            Column::At(number.ok_or_else(|| ("column", reason.to_owned()))? as usize - 1)
        }
    };
    let has_step = given("step").is_some();
    let path = directory.join(name);
    let text = table::bytes(&path, table::MOST_BYTES).map_err(|reason| ("file", reason))?;
    let at_line = |(line, reason): (usize, String)| ("file", format!("{}:{line}: {reason}", path.display()));
    let rows = table::rows(&text, &column).map_err(at_line)?;
    if rows.is_empty() {
        return Err(("file", format!("{}: has no entries", path.display())));
    }
    if are_rates {
        if !has_step && let Some(step) = step(&rows).map_err(at_line)? {
            params.insert("step".to_owned(), step.into());
        }
        params.insert("rates".to_owned(), rates(&rows).map_err(at_line)?);
    } else {
        params.insert("timestamps".to_owned(), timestamps(&rows).map_err(at_line)?);
    }
    Ok(())
}

fn rates(rows: &[Row]) -> Result<Value, BadLine> {
    let rate = |row: &Row| {
        let rate = row.value.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate >= 0.0);
        rate.map(Value::from).ok_or_else(|| {
            (
                row.line,
                format!("a rate must be a number from 0 on, got {:?}{}", shortened(&row.value), hint(&row.value)),
            )
        })
    };
    rows.iter().map(rate).collect()
}

/// How long each rate lasts, by the column of times before it, if there is one.
fn step(rows: &[Row]) -> Result<Option<f64>, BadLine> {
    let time = |row: &Row| row.first.as_deref().map(|text| moment_of(row.line, text)).transpose();
    let [first, second, ..] = rows else { return Ok(None) };
    let (Some(begin), Some(next)) = (time(first)?, time(second)?) else { return Ok(None) };
    let (step, mut last) = (next - begin, begin);
    for row in &rows[1..] {
        let due = time(row)?.unwrap_or(last);
        // A millisecond is what rounding in the file may have cost.
        if due <= last || (due - last - step).abs() > 1_000_000 {
            let reason = "is not as far from the line before as the others; give `step`, or a profile of `steps`, or \
                          `\"values\": \"timestamps\"` if each line is a request";
            return Err((row.line, reason.to_owned()));
        }
        last = due;
    }
    Ok(Some(seconds(step)))
}

fn timestamps(rows: &[Row]) -> Result<Value, BadLine> {
    let Some(first) = rows.first() else { return Ok(Value::Array(Vec::new())) };
    let begin = moment_of(first.line, &first.value)?;
    let mut last = begin;
    let since = |row: &Row| {
        let time = moment_of(row.line, &row.value)?;
        if time < last {
            return Err((row.line, "is before the line that it follows".to_owned()));
        }
        last = time;
        // From the first one on: nothing is lost to the size of the numbers.
        Ok(Value::from(seconds(time - begin)))
    };
    rows.iter().map(since).collect()
}

fn moment_of(line: usize, text: &str) -> Result<i128, BadLine> {
    let expected = "a time must be seconds or such as 2026-01-19T16:30:00.125Z";
    let reason = || format!("{expected}, got {:?}{}", shortened(text), hint(text));
    moment::unix_nanos(text).ok_or_else(|| (line, reason()))
}

/// What may be meant by an invalid entry.
fn hint(text: &str) -> &'static str {
    if text.contains([';', '\t']) {
        "; columns are separated by commas"
    } else if moment::unix_nanos(text).is_some() {
        "; times of requests need `\"values\": \"timestamps\"`"
    } else {
        ""
    }
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of some years are exact")]
fn seconds(nanos: i128) -> f64 {
    nanos as f64 / 1e9
}

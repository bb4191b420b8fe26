//! A series from a file.

use std::path::Path;

use tidegate_serve::moment;
use tidegate_serve::table::{self, BadLine, Column, Row};

use crate::Series;

/// Seconds that a step may have.
const LONGEST_STEP: i128 = 86_400 * 366;
/// The most steps from the first to the last.
const MOST_STEPS: usize = 2_000_000;

/// Reads a CSV file: times in the first column, values in `column`, the last unless it is named. Where there is only one column the values are
/// of one second each. The usual distance of two times is the step; where it is longer there is a gap.
pub fn series_from_csv(path: &Path, column: Option<&str>) -> Result<Series, String> {
    let told = |reason: String| format!("{}: {reason}", path.display());
    let column = match column {
        None => Column::Last,
        Some(text) => match text.parse::<usize>() {
            Ok(number @ 1..=1_000) => Column::At(number - 1),
            _ => Column::Named(text.to_owned()),
        },
    };
    let text = table::bytes(path, table::MOST_BYTES)?;
    let at_line = |(line, reason): BadLine| format!("{}:{line}: {reason}", path.display());
    let rows = table::rows(&text, &column).map_err(at_line)?;
    let values = rows.iter().map(|row| value(row).map_err(at_line)).collect::<Result<Vec<f64>, _>>()?;
    let times = times(&rows).map_err(at_line)?;
    let step = usual_step(&times).ok_or_else(|| told("has fewer than two different times".to_owned()))?;
    let first = times.first().copied().unwrap_or(0);
    let last = times.iter().copied().max().unwrap_or(first);
    let steps = usize::try_from((last - first) / i64::from(step)).unwrap_or(usize::MAX);
    if steps >= MOST_STEPS {
        return Err(told(format!("spans more than {MOST_STEPS} steps of {step} s")));
    }
    let mut series = Series::new(step, steps + 1);
    for ((time, value), row) in times.iter().zip(values).zip(&rows) {
        if !series.put(*time, value) {
            return Err(at_line((row.line, "is before the first line, or its value is above 1e9".to_owned())));
        }
    }
    Ok(series)
}

fn value(row: &Row) -> Result<f64, BadLine> {
    let value = row.value.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    let reason = || format!("{:?} is no value; a number from 0 on is allowed", table::shortened(&row.value));
    value.ok_or_else(|| (row.line, reason()))
}

/// Whole seconds since 1970.
fn times(rows: &[Row]) -> Result<Vec<i64>, BadLine> {
    let time = |(place, row): (usize, &Row)| match &row.first {
        None => Ok(place as i64),
        Some(text) => {
            let told = "is no time; seconds or 2026-01-19T16:30:00Z are allowed";
            let nanos =
                moment::unix_nanos(text).ok_or_else(|| (row.line, format!("{:?} {told}", table::shortened(text))))?;
            i64::try_from(nanos.div_euclid(1_000_000_000)).map_err(|_| (row.line, "is too far away".to_owned()))
        }
    };
    rows.iter().enumerate().map(time).collect()
}

/// The median of the distances, of two the shorter.
fn usual_step(times: &[i64]) -> Option<u32> {
    let mut distances: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0).collect();
    distances.sort_unstable();
    let step = *distances.get(distances.len().checked_sub(1)? / 2)?;
    u32::try_from(step).ok().filter(|step| i128::from(*step) <= LONGEST_STEP)
}

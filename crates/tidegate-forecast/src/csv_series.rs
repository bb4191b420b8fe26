//! A series from a file.

use std::path::Path;

use tidegate_input::table::{self, BadLine, Column, Row};
use tidegate_input::{grouped, moment, shortened};

use crate::{Series, span};

/// Seconds that a step may have.
const LONGEST_STEP: u32 = 86_400 * 366;
/// The most steps from the first to the last.
const MOST_STEPS: usize = 2_000_000;

/// Reads a CSV file: times in the first column, values in `column`, the last unless it is named. Where there is only
/// one column the values are of one second each. The usual distance of two times is the step; where it is longer there
/// is a gap. Lines may come in any order; of several for one step the last counts.
pub fn series_from_csv(path: &Path, column: Option<&str>) -> Result<Series, String> {
    let text = table::bytes(path, table::MOST_BYTES)?;
    let at_line = |(line, reason): BadLine| format!("{}:{line}: {reason}", path.display());
    let rows = table::rows(&text, &chosen(column)).map_err(at_line)?;
    let entry = |(index, row): (usize, &Row)| Ok((time(index, row)?, value(row)?));
    let mut entries = rows.iter().enumerate().map(entry).collect::<Result<Vec<(i64, f64)>, _>>().map_err(at_line)?;
    // By time alone, so that those of one time stay in the order of the file.
    entries.sort_by_key(|(time, _)| *time);
    series(&entries).map_err(|reason| format!("{}: {reason}", path.display()))
}

fn chosen(column: Option<&str>) -> Column {
    match column.map(|text| (text, text.parse::<usize>())) {
        None => Column::Last,
        Some((_, Ok(number @ 1..=1_000))) => Column::At(number - 1),
        Some((text, _)) => Column::Named(text.to_owned()),
    }
}

fn value(row: &Row) -> Result<f64, BadLine> {
    let value = row.value.parse().ok().filter(|value| Series::new(1, 1).takes(0, *value));
    value.ok_or_else(|| {
        let hint = match row.value.to_lowercase().as_str() {
            "" | "nan" | "null" | "none" | "na" => "; where nothing is known, leave the line out",
            text if text.contains([';', '\t']) => "; columns are separated by commas",
            _ => "",
        };
        let text = shortened(&row.value);
        (row.line, format!("a value must be a number from 0 to 1e9, got {text:?}{hint}"))
    })
}

/// Whole seconds since 1970, or since whatever they count from.
fn time(index: usize, row: &Row) -> Result<i64, BadLine> {
    let Some(text) = &row.first else { return Ok(index as i64) };
    let second = moment::unix_nanos(text).and_then(|nanos| i64::try_from(nanos.div_euclid(1_000_000_000)).ok());
    let expected = "a time must be seconds or such as 2026-01-19T16:30:00Z";
    second.ok_or_else(|| (row.line, format!("{expected}, got {:?}", shortened(text))))
}

/// From times, the earliest first, and values.
fn series(entries: &[(i64, f64)]) -> Result<Series, String> {
    let (Some((first, _)), Some((last, _))) = (entries.first(), entries.last()) else {
        return Err("must have lines such as 2026-01-19T16:30:00Z,112, got no values".to_owned());
    };
    let step = usual_step(entries)?;
    let step_of = |second: i64| second.div_euclid(i64::from(step));
    let steps = usize::try_from(step_of(*last) - step_of(*first) + 1).unwrap_or(usize::MAX);
    if steps > MOST_STEPS {
        let (steps, most) = (grouped(steps as u64), grouped(MOST_STEPS as u64));
        return Err(format!("must span at most {most} steps, got {steps} of {}", span(f64::from(step))));
    }
    let mut series = Series::new(step, steps);
    for (second, value) in entries {
        let is_taken = series.put(*second, *value);
        debug_assert!(is_taken, "values were checked, and none is before the first");
    }
    Ok(series)
}

/// The median of the distances, of two the shorter.
fn usual_step(entries: &[(i64, f64)]) -> Result<u32, String> {
    let mut steps: Vec<i64> = entries.windows(2).map(|pair| pair[1].0 - pair[0].0).filter(|step| *step > 0).collect();
    steps.sort_unstable();
    let Some(step) = steps.get(steps.len().saturating_sub(1) / 2) else {
        let values = if entries.len() == 1 { "value" } else { "values" };
        let count = grouped(entries.len() as u64);
        return Err(format!("must have values of at least two different seconds, got {count} {values} of one"));
    };
    let allowed = u32::try_from(*step).ok().filter(|step| *step <= LONGEST_STEP);
    allowed.ok_or_else(|| {
        let (step, longest) = (span(*step as f64), span(f64::from(LONGEST_STEP)));
        format!("must have steps of at most {longest}, got {step}")
    })
}

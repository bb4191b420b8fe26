//! How a run is reported, and with which exit code.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use tidegate_load::Report;

use crate::print;

/// The run's thresholds were not kept.
const THRESHOLDS: u8 = 99;
/// The run proves nothing.
const INVALID: u8 = 98;
/// What was given can't be used.
pub(crate) const BAD_INPUT: u8 = 2;

/// Prints the summary, writes the result if asked, and returns how it went. A run that proves nothing proves nothing
/// about thresholds either, so that comes first.
pub(crate) fn conclude(report: &Report, json: Option<&Path>) -> Result<ExitCode> {
    let written = match json {
        None => Ok(()),
        Some(path) => std::fs::write(path, report.write()).with_context(|| format!("can't write {}", path.display())),
    };
    let has_colours = crate::has_colours();
    // Whether or not the file could be written: a run is not done again for that.
    print(report.summary(has_colours).as_bytes())?;
    written?;
    Ok(if !report.verdict().is_valid() {
        ExitCode::from(INVALID)
    } else if !report.thresholds_hold() {
        ExitCode::from(THRESHOLDS)
    } else {
        ExitCode::SUCCESS
    })
}

/// Whether two paths lead to the same file, which would be lost.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

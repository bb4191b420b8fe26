//! `tidegate load merge`

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use tidegate_load::Report;

use super::outcome::{BAD_INPUT, conclude, is_same};

/// Put the results of several instances together, exactly
///
/// The results must be of the same plan: of its parts (`--part 1/3` and so on), or of the whole plan run several times.
/// Prints the summary of all together. Exit code 98 if one of them is invalid, 99 if a threshold does not hold for all
/// together, 2 if a file is not a result or does not belong to the others.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Result files, as `--json` writes them
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write the result of all together to this file
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(out) = arguments.json.as_deref().filter(|out| arguments.files.iter().any(|file| is_same(file, out))) {
        eprintln!("tidegate: --json {} is one of the results, and would be overwritten", out.display());
        return Ok(ExitCode::from(BAD_INPUT));
    }
    match merged(&arguments.files) {
        Ok(report) => conclude(&report, arguments.json.as_deref()),
        Err(reason) => {
            eprintln!("tidegate: {reason}");
            Ok(ExitCode::from(BAD_INPUT))
        }
    }
}

/// One after the other, so that only two are in memory at a time.
fn merged(files: &[PathBuf]) -> Result<Report, String> {
    let mut unread = None;
    let reports = files.iter().map_while(|path| {
        let name = path.display().to_string();
        let report = report(path).map_err(|reason| unread = Some(format!("{name}: {reason}"))).ok()?;
        Some((name, report))
    });
    let merged = Report::merge(reports).map_err(|error| error.to_string());
    unread.map_or(merged, Err)
}

fn report(path: &Path) -> Result<Report, String> {
    let bytes = read(path).map_err(|error| format!("can't be read: {error}"))?;
    Report::read(&bytes).map_err(|error| error.to_string())
}

/// One byte more than a result may have shows that it has too many.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(Report::MOST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

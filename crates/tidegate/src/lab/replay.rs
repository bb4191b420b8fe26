//! `tidegate lab replay`
#![allow(clippy::doc_markdown, reason = "doc comments here are the text of --help")]

mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::Result;
use clap::{Args, ValueEnum};
use tidegate_gateway::config;
use tidegate_input::Utc;
use tidegate_lab::replay::{Format, Log, MOST_POLICIES, Names, Policy, Recording, Replay, Suggestion, replay, suggest};

use super::live::{STOPPED, stop_on_interrupt};
use super::out::Out;
use crate::load::BAD_INPUT;
use crate::{has_colours, print};

/// Replay recorded traffic through a policy: which requests would have been rejected, when, and by which limit
///
/// LOG is an access log (common, combined, or an object of JSON a line, as the gateway and others write them), or CSV
/// with a column of times; the first line decides which. Several are read one after the other, the oldest first; `-` is
/// standard input: `zcat $(ls -rv access.log.*.gz) | tidegate lab replay - --config gateway.yaml`, the oldest first.
/// The gateway's own limits decide, at the times at which requests came; nothing is sent anywhere.
///
/// Lines need not be in order, within 10 s. Where a log has times in whole seconds, the requests of a second are spread
/// evenly over it. Lines that can't be read are counted and reported; memory does not grow with the log. Adaptation is
/// not replayed.
///
/// --suggest proposes, for each limit of the (first) configuration, about the least numbers of the same form that would
/// have rejected no more than that share of the requests. They fit all that is in the log: --without leaves out whom
/// they are not to fit, such as a scraper.
///
/// Exit codes: 0 done · 2 a log, configuration or option can't be used, and why · 130 Ctrl-C; what was read by then is
/// reported · 1 other errors.
#[derive(Args)]
#[command(after_help = "Examples:\n  tidegate lab replay access.log --config gateway.yaml --out replay\n  \
    tidegate lab replay access.log --config now.yaml --config stricter.yaml\n  \
    tidegate lab replay access.log --config gateway.yaml --suggest 0.1% --without 203.0.113.9\n  \
    tidegate lab replay requests.csv --config gateway.yaml --field client=customer --field header:x-tenant=tenant")]
pub(crate) struct Arguments {
    /// Logs, read one after the other; `-` is standard input
    #[arg(value_name = "LOG", required = true)]
    logs: Vec<PathBuf>,
    /// The gateway's configuration; again for others beside it, up to four
    #[arg(long, value_name = "FILE", required = true)]
    config: Vec<PathBuf>,
    /// How lines are written, if their first one does not show it
    #[arg(long, value_enum)]
    format: Option<Form>,
    /// What a field of JSON or a column of CSV means, if its name does not show it: time, start, took, took_ms,
    /// took_ns, client, method, host, path, request, user, tier, header:NAME
    #[arg(long, value_name = "ROLE=NAME")]
    field: Vec<String>,
    /// Host to assume for log lines without one
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Leave out the requests of this client or user, as the log writes it; again for more of them
    #[arg(long, value_name = "NAME")]
    without: Vec<String>,
    /// Propose numbers that would reject at most this share of the requests: 0.1%, or 0.001
    #[arg(long, value_name = "SHARE", value_parser = share)]
    suggest: Option<f64>,
    /// Write report.html and report.json into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Form {
    Common,
    Combined,
    Json,
    Csv,
}

fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim_end(), 100.0));
    let share = number.parse::<f64>().ok().map(|number| number / unit).filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "must be a share from 0 to less than 1, such as 0.1% or 0.001".to_owned())
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (recording, policies) = match input(arguments) {
        Ok(input) => input,
        Err(reason) => return Ok(bad_input(&reason)),
    };
    let is_stopped = stop_on_interrupt()?;
    let out = arguments.out.as_deref().map(Out::open).transpose()?;
    let found = match replay(&recording, &policies, &is_stopped) {
        Ok(found) => found,
        Err(reason) => return Ok(bad_input(&reason)),
    };
    if found.requests == 0 && !is_stopped.load(Relaxed) {
        return Ok(bad_input(&nothing(&found)));
    }
    for (name, _) in found.without.iter().filter(|(_, count)| *count == 0) {
        eprintln!("tidegate: --without: no request is from {name}");
    }
    if found.late > found.requests / 10 {
        return Ok(bad_input(&format!(
            "{} of {} requests stand more than 10 s too late in the log: sort it by time first, or name its files from \
             the oldest to the newest",
            found.late, found.requests
        )));
    }
    let was_whole = !is_stopped.load(Relaxed);
    print(text::of(&found, has_colours()).as_bytes())?;
    let suggestion = match proposed(arguments, &recording, &policies[0], &is_stopped) {
        Ok(suggestion) => suggestion,
        Err(reason) => return Ok(bad_input(&reason)),
    };
    if let Some(suggestion) = &suggestion {
        print(text::suggestion(suggestion, &found).as_bytes())?;
    }
    if let Some(out) = out {
        let files: Vec<String> = arguments.logs.iter().map(|log| log.display().to_string()).collect();
        out.write(&found.to_json(&files, suggestion.as_ref(), &Utc::now().with_seconds().to_string()))?;
    }
    if !is_stopped.load(Relaxed) {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "tidegate: stopped before the end: {}",
        if was_whole { "nothing is proposed" } else { "this is of what was read by then" }
    );
    Ok(ExitCode::from(STOPPED))
}

fn bad_input(reason: &str) -> ExitCode {
    eprintln!("tidegate: {reason}");
    ExitCode::from(BAD_INPUT)
}

/// What is to be read, and by what it is judged. `Err` says what can't be used.
fn input(arguments: &Arguments) -> Result<(Recording, Vec<Policy>), String> {
    if arguments.config.len() > MOST_POLICIES {
        return Err(format!("--config is given {} times; at most {MOST_POLICIES}", arguments.config.len()));
    }
    let mut names = Names::default();
    for field in &arguments.field {
        names.declare(field).map_err(|reason| format!("--field: {reason}"))?;
    }
    let format = arguments.format.map(|form| match form {
        Form::Common | Form::Combined => Format::Common,
        Form::Json => Format::Json,
        Form::Csv => Format::Csv,
    });
    let policy = |path: &PathBuf| {
        let config = config::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Policy { name: short_name(path, &arguments.config), config })
    };
    let policies = arguments.config.iter().map(policy).collect::<Result<Vec<_>, String>>()?;
    let log = Log { files: arguments.logs.clone(), format, names };
    if arguments.suggest.is_some() && !log.is_repeatable() {
        return Err("--suggest reads the log several times, which standard input can't be: name a file".to_owned());
    }
    Ok((Recording { log, host: arguments.host.clone(), without: arguments.without.clone() }, policies))
}

/// A file's name, with its directories where others are called the same.
fn short_name(path: &Path, all: &[PathBuf]) -> String {
    let name = path.file_name().filter(|name| all.iter().filter(|it| it.file_name() == Some(*name)).count() == 1);
    name.map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Why there is nothing to report.
fn nothing(found: &Replay) -> String {
    match found.read.bad.first() {
        _ if found.left_out() > 0 => format!("all {} requests are left out", found.left_out()),
        None => "the log is empty".to_owned(),
        Some(bad) => format!(
            "none of {} lines can be read as a request; the first is {}:{}: {}",
            found.read.bad_lines, bad.file, bad.line, bad.reason
        ),
    }
}

fn proposed(
    arguments: &Arguments,
    recording: &Recording,
    policy: &Policy,
    is_stopped: &AtomicBool,
) -> Result<Option<Suggestion>, String> {
    match arguments.suggest {
        Some(share) if !is_stopped.load(Relaxed) => suggest(recording, policy, share, is_stopped),
        _ => Ok(None),
    }
}

//! Runs on a terminal.

use std::fmt::Write as _;

use tidegate_lab::report::{Run, Status};
use tidegate_lab::scenario::Figure;
use tidegate_lab::{GroupScores, Report, Scenario};

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const PLAIN: &str = "\x1b[0m";

/// What is shown of each run, and how wide.
const COLUMNS: [(&str, Figure, usize); 16] = [
    ("served", Figure::Served, 9),
    ("amplified", Figure::Amplification, 11),
    ("wait failed", Figure::FailedWait, 13),
    ("open after", Figure::OpenAfter, 12),
    ("refused", Figure::Refused, 10),
    ("attackers", Figure::RefusedAttackers, 11),
    ("honest", Figure::RefusedHonest, 9),
    ("goodput", Figure::Goodput, 10),
    ("worst", Figure::WorstWindow, 8),
    ("over", Figure::OverAdmitted, 9),
    ("under", Figure::UnderAdmitted, 9),
    ("errors", Figure::TargetErrors, 9),
    ("p95", Figure::P95, 10),
    ("p99", Figure::P99, 10),
    ("recovery", Figure::Recovery, 10),
    ("protection", Figure::Protection, 12),
];

/// A scenario and its runs.
pub(crate) fn of(scenario: &Scenario, runs: &[Run], has_colours: bool) -> String {
    let painted =
        |colour: &str, text: &str| if has_colours { format!("{colour}{text}{PLAIN}") } else { text.to_owned() };
    let mut page = format!("{}\n", painted(BOLD, &format!("{}: {}", scenario.name, scenario.title)));
    // Columns without a figure for any run are left out.
    let is_reported = |figure: Figure| {
        // Without attackers they are all honest.
        let decisive = if figure == Figure::RefusedHonest { Figure::RefusedAttackers } else { figure };
        runs.iter().any(|run| value(run, decisive).is_some())
    };
    let mut columns: Vec<_> = COLUMNS.into_iter().filter(|(_, figure, _)| is_reported(*figure)).collect();
    fit(&mut columns);
    let (what, adapts) = if scenario.gateway.is_some() { ("variant", "") } else { ("algorithm", "adapts") };
    let mut head = format!("  {what:<15}{adapts:<8}");
    for (name, _, width) in &columns {
        let _infallible = write!(head, "{name:>width$}");
    }
    page.push_str(&painted(BOLD, &head));
    page.push('\n');
    for run in runs {
        let adapts = if run.variant.adaptation { "yes" } else { "" };
        let mut line = format!("  {:<15}{adapts:<8}", run.variant.name(scenario));
        for (_, figure, width) in &columns {
            let shown = value(run, *figure).map_or_else(|| "–".to_owned(), |value| figure.shown(value));
            let _infallible = write!(line, "{shown:>width$}");
        }
        let _infallible = writeln!(page, "{line}{}", mark(run, &painted));
        // For a run that proves nothing only the reason is shown.
        let is_valid = run.status() != Status::Invalid;
        for checked in run.expectations.iter().filter(|checked| is_valid && !checked.holds()) {
            let comparison = &checked.expectation.comparison;
            let came = checked.value.map_or_else(|| "nothing".to_owned(), |value| comparison.figure.shown(value));
            let _infallible = writeln!(page, "    {}", painted(RED, &format!("expected {comparison}, came {came}")));
        }
        for group in run.scores.iter().flat_map(|scores| &scores.groups).filter(|_| is_valid) {
            let _infallible = writeln!(page, "    {}", group_line(group));
        }
        for note in run.notes.iter().filter(|_| is_valid) {
            let _infallible = writeln!(page, "    {note}");
        }
        if let Some(fault) = &run.fault {
            let _infallible = writeln!(page, "    {}", painted(RED, fault));
        }
    }
    page
}

/// What is left out first where a terminal is too narrow for all of it; the report has it.
const LEAST: [Figure; 7] = [
    Figure::UnderAdmitted,
    Figure::OverAdmitted,
    Figure::Recovery,
    Figure::WorstWindow,
    Figure::Goodput,
    Figure::RefusedAttackers,
    Figure::RefusedHonest,
];
/// Algorithm, whether it adapts, and the verdict.
const AROUND: usize = 25 + 13;

fn fit(columns: &mut Vec<(&str, Figure, usize)>) {
    let width = terminal_size::terminal_size_of(std::io::stdout()).map_or(usize::MAX, |(width, _)| width.0.into());
    for figure in LEAST {
        if AROUND + columns.iter().map(|(_, _, width)| width).sum::<usize>() <= width {
            return;
        }
        columns.retain(|(_, other, _)| *other != figure);
    }
}

/// `shoppers: 100 % served, p99 times 1.02 during faults`
fn group_line(group: &GroupScores) -> String {
    let served = group.served.map_or_else(|| "–".to_owned(), |served| Figure::Served.shown(served));
    let slowdown = group.slowdown.map(|it| format!(", p99 times {} during faults", Figure::Slowdown.shown(it)));
    format!("{}: {served} served{}", group.name, slowdown.unwrap_or_default())
}

fn value(run: &Run, figure: Figure) -> Option<f64> {
    run.scores.as_ref().and_then(|scores| scores.figure(figure))
}

fn mark(run: &Run, painted: &dyn Fn(&str, &str) -> String) -> String {
    match run.status() {
        Status::Passed if run.expectations.is_empty() => String::new(),
        Status::Passed => format!("  {}", painted(GREEN, "as expected")),
        status @ (Status::Failed | Status::Invalid | Status::Skipped) => {
            format!("  {}", painted(RED, &status.name().to_uppercase()))
        }
    }
}

/// All runs in a sentence.
pub(crate) fn verdict(report: &Report, has_colours: bool) -> String {
    let count = |status: Status| report.runs().filter(|(_, run)| run.status() == status).count();
    let all = report.runs().count();
    let failed: Vec<String> = [Status::Failed, Status::Invalid, Status::Skipped]
        .into_iter()
        .map(|status| (count(status), status.name()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    let runs = if all == 1 { "run" } else { "runs" };
    let summary = if failed.is_empty() {
        format!("{all} {runs}, all as expected")
    } else {
        format!("{all} {runs}: {} as expected, {}", count(Status::Passed), failed.join(", "))
    };
    let colour = if failed.is_empty() { GREEN } else { RED };
    if has_colours { format!("{colour}{summary}{PLAIN}\n") } else { format!("{summary}\n") }
}

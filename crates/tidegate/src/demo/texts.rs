//! The texts that the demo prints.

use std::fmt::Write as _;
use std::time::Duration;

use tidegate_lab::report::{Run, Status};
use tidegate_lab::scenario::Figure;
use tidegate_lab::{Event, Scenario, Variant};

use super::ports::Ports;

/// A run's services are started before it, its load begins with a whole second, and everything ends after it.
const AROUND_A_RUN: Duration = Duration::from_millis(1_500);

/// How long it takes altogether, in seconds.
pub(super) fn wall_time(load: Duration, runs: usize) -> u64 {
    (load + AROUND_A_RUN * u32::try_from(runs).unwrap_or(u32::MAX)).as_secs()
}

pub(super) fn opening(ports: &Ports, taken: &[String], seconds: u64) -> String {
    let mut text = format!(
        "Tidegate demo, about {seconds} s; Ctrl-C ends it and still writes the report.\n\
         On 127.0.0.1: load generator {} → gateway {} → target {}, forecaster {}\n",
        ports.load.port(),
        ports.addresses.gateway.port(),
        ports.addresses.target.port(),
        ports.addresses.forecaster.port()
    );
    for sentence in taken {
        let _infallible = writeln!(text, "{sentence}");
    }
    text
}

/// `part 2 of 4, run 1 of 2`
pub(super) fn part(index: usize, count: usize, scenario: &Scenario, variant: Variant) -> String {
    let variants = Variant::all(scenario);
    let run = variants.iter().position(|it| *it == variant).map_or(0, |before| before + 1);
    let part = format!("part {} of {count}", index + 1);
    if variants.len() > 1 { format!("{part}, run {run} of {}", variants.len()) } else { part }
}

/// `Spikes of twice the limit: token, adapts`
pub(super) fn heading(scenario: &Scenario, variant: Variant) -> String {
    format!("{}: {}", scenario.title, how(scenario, variant))
}

fn how(scenario: &Scenario, variant: Variant) -> String {
    if let Some(configuration) = variant.configuration(scenario) {
        return configuration.to_owned();
    }
    match variant.algorithm {
        None => "no limit".to_owned(),
        Some(algorithm) if variant.adaptation => format!("{algorithm}, adapts"),
        Some(algorithm) if scenario.adaptation.is_some() => format!("{algorithm}, does not adapt"),
        Some(algorithm) => algorithm.to_string(),
    }
}

/// Text as it is written in a file, on one line.
pub(super) fn sentences(about: &str) -> String {
    about.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Lines of at most so many letters, as far as words allow.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// In the order in which they happened, without repetitions.
pub(super) fn each(events: &[Event]) -> Vec<&Event> {
    let mut events: Vec<&Event> = events.iter().collect();
    events.sort_by(|one, other| one.at.total_cmp(&other.at));
    events.dedup_by(|next, event| next.text == event.text);
    events
}

/// ` 12.3 s  Redis hangs`
pub(super) fn event(event: &Event, text: &str) -> String {
    format!("{:>5.1} s  {text}", event.at.max(0.0))
}

/// A run that is over, on a line.
pub(super) fn verdict(scenario: &Scenario, run: &Run, has_colours: bool) -> String {
    let (mark, colour, words) = match run.status() {
        Status::Passed => ("✓", "\x1b[32m", ""),
        Status::Failed => ("✗", "\x1b[31m", "not as expected"),
        Status::Invalid => ("✗", "\x1b[31m", "invalid"),
        Status::Skipped => ("✗", "\x1b[31m", "not run"),
    };
    let (colour, plain) = if has_colours { (colour, "\x1b[0m") } else { ("", "") };
    let figure = |name: &str, figure: Figure| {
        let value = run.scores.as_ref().and_then(|scores| scores.figure(figure))?;
        Some(format!("{} {name}", figure.shown(value)))
    };
    let p95 = figure("", Figure::P95).map(|p95| format!("p95 {}", p95.trim_end()));
    let p99 = figure("", Figure::P99).map(|p99| format!("p99 {}", p99.trim_end()));
    let latency = if scenario.gateway.is_some() { p99 } else { p95 };
    let figures = [figure("rejected", Figure::Refused), figure("errors", Figure::TargetErrors), latency];
    let words = Some(words.to_owned()).filter(|words| !words.is_empty());
    let details: Vec<String> =
        words.into_iter().chain(figures.into_iter().flatten()).chain(run.fault.clone()).collect();
    let how = how(scenario, run.variant);
    format!("{colour}{mark}{plain} {:<8}{how:<24}{}\n", scenario.name, details.join(", "))
}

/// After a demo that leaves nothing running.
pub(super) fn what_next() -> String {
    let tidegate = std::env::args().next().unwrap_or_else(|| "tidegate".to_owned());
    format!(
        "\nNext: everything left running, to be tried by hand; and more scenarios, in a second.\n  \
         {tidegate} demo --keep\n  \
         {tidegate} lab simulate --out report\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("incredible", 4), ["incredible"], "a long word stands alone");
        assert_eq!(sentences(" one\n  two\n"), "one two");
    }
}

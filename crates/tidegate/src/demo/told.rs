//! What the demo says.

use std::fmt::Write as _;
use std::time::Duration;

use tidegate_lab::report::Run;
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
         load generator {}  →  gateway {}  →  target {}, forecaster {}\n",
        ports.load, ports.places.gateway, ports.places.target, ports.places.forecaster
    );
    for sentence in taken {
        let _infallible = writeln!(text, "{sentence}");
    }
    text
}

/// `Spikes of twice the limit: token, adapts`
pub(super) fn heading(scenario: &Scenario, variant: Variant) -> String {
    format!("{}: {}", scenario.title, how(scenario, variant))
}

fn how(scenario: &Scenario, variant: Variant) -> String {
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

/// ` 12.3 s  Redis hung begins`
pub(super) fn event(event: &Event) -> String {
    format!("{:>5.1} s  {}", event.at.max(0.0), event.text)
}

/// A run that is over, on a line.
pub(super) fn verdict(scenario: &Scenario, run: &Run, has_colours: bool) -> String {
    let (mark, colour, words) = match run.status() {
        "passed" => ("✓", "\x1b[32m", "as expected"),
        "failed" => ("✗", "\x1b[31m", "NOT as expected"),
        "invalid" => ("✗", "\x1b[31m", "INVALID"),
        _ => ("✗", "\x1b[31m", "not run"),
    };
    let (colour, plain) = if has_colours { (colour, "\x1b[0m") } else { ("", "") };
    let figure = |name: &str, figure: Figure| {
        let value = run.scores.as_ref().and_then(|scores| scores.figure(figure))?;
        Some(format!("{} {name}", figure.shown(value)))
    };
    let p95 = figure("", Figure::P95).map(|p95| format!("p95 {}", p95.trim_end()));
    let outage = figure("refused in the outage", Figure::RefusedInOutage);
    let figures = [figure("refused", Figure::Refused), outage, figure("errors", Figure::TargetErrors), p95];
    let figures: Vec<String> = figures.into_iter().flatten().chain(run.fault.clone()).collect();
    let how = how(scenario, run.variant);
    format!("{colour}{mark}{plain} {:<8}{how:<24}{words}: {}\n", scenario.name, figures.join(", "))
}

/// After a demo that leaves nothing running.
pub(super) fn what_next() -> String {
    let tidegate = std::env::args().next().unwrap_or_else(|| "tidegate".to_owned());
    format!(
        "\nNext:\n  \
         {tidegate} demo --keep                    the same, and everything is left running to be tried by hand\n  \
         {tidegate} lab simulate --out report      more scenarios, through six algorithms, in a second\n"
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

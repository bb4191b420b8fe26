//! A run as a picture on a terminal.

use std::time::{Duration, Instant};

use tidegate_lab::live::Moment;
use tidegate_lab::{EventKind, Scenario, Variant};

use super::figures::{Figures, latest};
use super::screen::{Ink, Line, Screen};
use super::told;

/// Between two pictures.
const PAUSE: Duration = Duration::from_millis(200);
/// Events that are shown, the latest ones.
const EVENTS: usize = 5;
/// What stands before a curve: its name and its latest figure.
const MARGIN: usize = 20;
/// Columns of a second, at most.
const WIDEST_SECOND: usize = 3;

pub(super) struct Panel<'a> {
    scenario: &'a Scenario,
    variant: Variant,
    part: String,
    screen: Screen,
    drawn: Option<Instant>,
}

impl<'a> Panel<'a> {
    pub(super) fn open(scenario: &'a Scenario, variant: Variant, part: &str) -> Self {
        Self { scenario, variant, part: part.to_owned(), screen: Screen::open(), drawn: None }
    }

    pub(super) fn show(&mut self, moment: &Moment<'_>) {
        if self.drawn.is_none_or(|drawn| drawn.elapsed() >= PAUSE) {
            self.drawn = Some(Instant::now());
            let lines = self.lines(moment, Screen::size().0);
            self.screen.draw(&lines);
        }
    }

    fn lines(&self, moment: &Moment<'_>, columns: usize) -> Vec<Line> {
        let mut lines = vec![Line::new(), self.heading(columns)];
        let about = told::sentences(&self.scenario.about);
        let about = told::wrapped(&about, columns.saturating_sub(3).min(100));
        lines.extend(about.into_iter().map(|line| vec![(Ink::Plain, format!(" {line}"))]));
        lines.push(Line::new());
        lines.extend(self.curves(moment, columns));
        lines.push(clock(moment, columns));
        lines.push(Line::new());
        lines.extend(events(moment));
        lines
    }

    fn heading(&self, columns: usize) -> Line {
        let heading = told::heading(self.scenario, self.variant);
        let gap = columns.saturating_sub(heading.chars().count() + self.part.chars().count() + 3).max(2);
        vec![(Ink::Bold, format!(" {heading}")), (Ink::Dim, format!("{:gap$}{}", "", self.part))]
    }

    fn curves(&self, moment: &Moment<'_>, columns: usize) -> Vec<Line> {
        let figures = Figures::of(moment, self.scenario, self.variant);
        let limits = figures.limit.as_deref().unwrap_or_default();
        // All on one scale, so that they can be compared.
        let most = figures.offered.iter().chain(limits).fold(1.0_f64, |most, rate| most.max(*rate));
        let seconds = usize::try_from(moment.duration.as_secs()).unwrap_or(usize::MAX).max(1);
        let room = columns.saturating_sub(MARGIN + 2);
        let width = (room / seconds).clamp(1, WIDEST_SECOND);
        let curve = |name: &str, rates: &[f64], ink: Ink| -> Line {
            let shown = &rates[rates.len().saturating_sub(room / width)..];
            let bars: String = shown.iter().map(|rate| bar(*rate / most).to_string().repeat(width)).collect();
            vec![(Ink::Plain, format!(" {name:<10}{:>7}  ", latest(rates))), (ink, bars)]
        };
        let mut lines = vec![
            curve("offered", &figures.offered, Ink::Plain),
            curve("admitted", &figures.admitted, Ink::Green),
            curve("refused", &figures.refused, Ink::Red),
        ];
        lines.push(match figures.limit.as_deref() {
            Some(limits) => curve("limit", limits, Ink::Yellow),
            None => vec![(Ink::Plain, format!(" {:<10}{:>7}", "limit", "none"))],
        });
        let ink = if figures.errors > 0 { Ink::Red } else { Ink::Plain };
        lines.push(vec![(ink, format!(" {}", figures.sentence(self.scenario.target.workers)))]);
        lines
    }
}

/// How far it is.
fn clock(moment: &Moment<'_>, columns: usize) -> Line {
    let length = columns.saturating_sub(MARGIN + 2).clamp(4, 60);
    #[expect(clippy::cast_precision_loss, reason = "columns of a terminal")]
    let filled = (moment.share() * length as f64) as usize;
    let (elapsed, duration) = (moment.elapsed.as_secs(), moment.duration.as_secs());
    let clock = format!(" {:<17}  ", format!("{elapsed} of {duration} s"));
    vec![(Ink::Dim, clock), (Ink::Plain, "━".repeat(filled)), (Ink::Dim, "─".repeat(length.saturating_sub(filled)))]
}

/// The latest ones, and room for those to come: nothing moves when one does.
fn events(moment: &Moment<'_>) -> Vec<Line> {
    let events = told::each(moment.events);
    let latest = &events[events.len().saturating_sub(EVENTS)..];
    let line = |event: &&tidegate_lab::Event| -> Line {
        let ink = match event.kind {
            EventKind::Fault | EventKind::Attack => Ink::Red,
            EventKind::FailOpen => Ink::Yellow,
            EventKind::Adaptation => Ink::Green,
        };
        vec![(ink, format!(" {}", told::event(event)))]
    };
    let mut lines: Vec<Line> = latest.iter().map(line).collect();
    lines.resize(EVENTS, Line::new());
    lines
}

/// An eighth of a line's height for each eighth of the share; nothing for nothing.
fn bar(share: f64) -> char {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    BARS[((share * 8.0).ceil() as usize).min(8)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_high_as_its_share_and_something_is_never_nothing() {
        for (share, expected) in [(0.0, ' '), (0.001, '▁'), (0.125, '▁'), (0.5, '▄'), (1.0, '█'), (7.0, '█')]
        {
            assert_eq!(bar(share), expected, "{share}");
        }
    }
}

//! A run as a picture on a terminal.

use std::time::{Duration, Instant};

use tidegate_lab::live::Moment;
use tidegate_lab::{EventKind, Scenario, Variant};

use super::figures::{Figures, latest};
use super::screen::{Ink, Line, Screen};
use super::texts;

/// Between two pictures.
const PAUSE: Duration = Duration::from_millis(200);
/// Events that are shown, the latest ones.
const EVENTS: usize = 5;
/// What stands before a curve: its name and its latest figure.
const MARGIN: usize = 20;
/// Columns of a second, at most.
const WIDEST_SECOND: usize = 3;

pub(super) struct Panel<'a> {
    picture: Picture<'a>,
    screen: Screen,
    drawn: Option<Instant>,
}

/// What is drawn.
struct Picture<'a> {
    scenario: &'a Scenario,
    variant: Variant,
    part: String,
}

impl<'a> Panel<'a> {
    pub(super) fn open(scenario: &'a Scenario, variant: Variant, part: &str) -> Self {
        let picture = Picture { scenario, variant, part: part.to_owned() };
        Self { picture, screen: Screen::open(), drawn: None }
    }

    pub(super) fn show(&mut self, moment: &Moment<'_>) {
        if self.drawn.is_none_or(|drawn| drawn.elapsed() >= PAUSE) {
            self.drawn = Some(Instant::now());
            let (columns, rows) = Screen::size();
            let lines = self.picture.lines(moment, columns, rows - 1);
            self.screen.draw(&lines);
        }
    }
}

impl Picture<'_> {
    /// In so many columns and rows. Where there is no room for all of it, words are left out first, then what has
    /// happened.
    fn lines(&self, moment: &Moment<'_>, columns: usize, rows: usize) -> Vec<Line> {
        let about = texts::wrapped(&texts::sentences(&self.scenario.about), columns.saturating_sub(3).min(100));
        let mut about: Vec<Line> = about.into_iter().map(|line| vec![(Ink::Plain, format!(" {line}"))]).collect();
        let mut figures = self.curves(moment, columns);
        figures.push(clock(moment, columns));
        let (mut gap, mut events) = (vec![Line::new()], events(moment));
        let mut heading = self.heading(columns);
        if heading.len() + figures.len() > rows {
            heading.truncate(1);
        }
        let room = rows.saturating_sub(heading.len() + figures.len());
        // A gap before the heading, before the figures and after them.
        if about.len() + events.len() + 3 > room {
            about.clear();
        }
        if about.len() + events.len() + 3 > room {
            (gap, events) = (Vec::new(), Vec::new());
        }
        [&gap, &heading, &about, &gap, &figures, &gap, &events].into_iter().flatten().cloned().collect()
    }

    /// On one line if it is wide enough for both.
    fn heading(&self, columns: usize) -> Vec<Line> {
        let heading = texts::heading(self.scenario, self.variant);
        let room = columns.saturating_sub(heading.chars().count() + self.part.chars().count() + 3);
        let title = (Ink::Bold, format!(" {heading}"));
        if room < 2 {
            return vec![vec![title], vec![(Ink::Dim, format!(" {}", self.part))]];
        }
        vec![vec![title, (Ink::Dim, format!("{:room$}{}", "", self.part))]]
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
            curve("rejected", &figures.rejected, Ink::Red),
        ];
        lines.extend(figures.groups.iter().map(|(name, good)| curve(name, good, Ink::Green)));
        if figures.groups.is_empty() {
            lines.push(match figures.limit.as_deref() {
                Some(limits) => curve("limit", limits, Ink::Yellow),
                None => vec![(Ink::Plain, format!(" {:<10}{:>7}", "limit", figures.other_limit))],
            });
        }
        let ink = |is_bad: bool| if is_bad { Ink::Red } else { Ink::Plain };
        let sentence = figures.sentence(self.scenario.workers());
        lines.push(vec![(ink(figures.errors > 0), format!(" {sentence}"))]);
        lines.extend(figures.of_honest().map(|(reported, is_bad)| vec![(ink(is_bad), format!(" {reported}"))]));
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
    let events = texts::each(moment.events);
    let latest = &events[events.len().saturating_sub(EVENTS)..];
    let line = |event: &&tidegate_lab::Event| -> Line {
        let ink = match event.kind {
            EventKind::Fault | EventKind::Attack => Ink::Red,
            EventKind::FailOpen | EventKind::Endpoint | EventKind::Breaker => Ink::Yellow,
            EventKind::Adaptation => Ink::Green,
        };
        vec![(ink, format!(" {}", texts::event(event, event.short())))]
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
    use tidegate_lab::{DEMO, Levels, Observation};

    use super::*;

    /// In every size of a terminal there is what the picture is for; in large ones there is all of it.
    #[test]
    fn figures_come_before_words() {
        for (name, text) in DEMO {
            let scenario = Scenario::read(name, text).expect("a scenario");
            let observation = Observation::new(scenario.duration(), &scenario.plan.clients);
            let levels = Levels::new(scenario.shared_rate());
            let (elapsed, duration) = (Duration::from_secs(3), scenario.duration());
            let moment = Moment { elapsed, duration, observation: &observation, levels: &levels, events: &[] };
            let variant = Variant::all(&scenario).pop().expect("a run");
            let picture = Picture { scenario: &scenario, variant, part: "part 1 of 1".to_owned() };
            for (columns, rows) in [(100, 30), (60, 15), (40, 8), (12, 9)] {
                let lines: Vec<String> = picture
                    .lines(&moment, columns, rows)
                    .into_iter()
                    .map(|line| line.into_iter().map(|(_, piece)| piece).collect())
                    .collect();
                let index = |words: &str| lines.iter().position(|line| line.contains(words));
                let last = if scenario.gateway.is_some() { "payers" } else { "limit" };
                for words in ["offered", "admitted", "rejected", last, "p95", "3 of"] {
                    assert!(index(words).is_some_and(|index| index < rows), "{words}, {columns}×{rows}: {lines:#?}");
                }
                let about = texts::sentences(&scenario.about);
                let first = about.split(' ').next().expect("words");
                assert_eq!(index(&format!(" {first}")).is_some(), rows == 30, "{columns}×{rows}: {lines:#?}");
            }
        }
    }

    #[test]
    fn a_bar_is_as_high_as_its_share_and_something_is_never_nothing() {
        for (share, expected) in [(0.0, ' '), (0.001, '▁'), (0.125, '▁'), (0.5, '▄'), (1.0, '█'), (7.0, '█')]
        {
            assert_eq!(bar(share), expected, "{share}");
        }
    }
}

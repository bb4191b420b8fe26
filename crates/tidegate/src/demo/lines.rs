//! A run in lines, for files, pipes and logs: no escape codes, one line every two seconds.

use std::fmt::Write as _;

use tidegate_lab::live::Moment;
use tidegate_lab::{Scenario, Variant};

use super::figures::{Figures, latest};
use super::texts;
use crate::print;

/// Seconds between two lines.
const EVERY: u64 = 2;

pub(super) struct Lines<'a> {
    scenario: &'a Scenario,
    variant: Variant,
    /// When the next line is due, in seconds.
    next: u64,
    /// Events that have been printed, and the last of them.
    printed: usize,
    last: String,
}

impl<'a> Lines<'a> {
    pub(super) fn open(scenario: &'a Scenario, variant: Variant, part: &str) -> Self {
        let about = texts::sentences(&scenario.about);
        write_out(&format!("\n{part}, {}\n{about}\n", texts::heading(scenario, variant)));
        Self { scenario, variant, next: EVERY, printed: 0, last: String::new() }
    }

    pub(super) fn show(&mut self, moment: &Moment<'_>) {
        let mut text = String::new();
        for event in texts::each(&moment.events[self.printed..]) {
            if event.text != self.last {
                let _infallible = writeln!(text, "  {}", texts::event(event, &event.text));
                self.last.clone_from(&event.text);
            }
        }
        self.printed = moment.events.len();
        let figures = Figures::of(moment, self.scenario, self.variant);
        if figures.seconds() >= self.next {
            self.next = figures.seconds() + EVERY;
            text.push_str(&self.line(&figures));
        }
        if !text.is_empty() {
            write_out(&text);
        }
    }

    fn line(&self, figures: &Figures) -> String {
        let limit = figures.limit.as_deref().map_or_else(|| figures.other_limit.clone(), latest);
        let honest = figures.of_honest().map_or_else(String::new, |(reported, _)| format!(" · {reported}"));
        let groups: Vec<String> =
            figures.groups.iter().map(|(name, good)| format!("{name} {:>6}", latest(good))).collect();
        let last = if groups.is_empty() { format!("limit {limit:>6}") } else { groups.join("  ") };
        format!(
            "  {:>4} s  offered {:>6}  admitted {:>6}  rejected {:>6}  {last}  {}{honest}\n",
            figures.seconds(),
            latest(&figures.offered),
            latest(&figures.admitted),
            latest(&figures.rejected),
            figures.sentence(self.scenario.workers())
        )
    }
}

/// What can't be written is not worth ending a run for: it shows again when its verdict can't be.
fn write_out(text: &str) {
    let _reported = print(text.as_bytes());
}

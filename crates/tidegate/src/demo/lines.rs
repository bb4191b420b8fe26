//! A run in lines, for files, pipes and logs: no escape codes, one line every two seconds.

use std::fmt::Write as _;

use anyhow::Result;
use tidegate_lab::live::Moment;
use tidegate_lab::{Scenario, Variant};

use super::figures::{Figures, latest};
use super::told;
use crate::print;

/// Seconds between two lines.
const EVERY: u64 = 2;

pub(super) struct Lines<'a> {
    scenario: &'a Scenario,
    variant: Variant,
    /// When the next line is due, in seconds.
    next: u64,
    /// Events that have been told.
    told: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn open(scenario: &'a Scenario, variant: Variant, part: &str) -> Result<Self> {
        let about = told::sentences(&scenario.about);
        print(format!("\n{part}, {}\n{about}\n", told::heading(scenario, variant)).as_bytes())?;
        Ok(Self { scenario, variant, next: EVERY, told: 0 })
    }

    pub(super) fn show(&mut self, moment: &Moment<'_>) {
        let mut text = String::new();
        for event in told::each(&moment.events[self.told..]) {
            let _infallible = writeln!(text, "  {}", told::event(event));
        }
        self.told = moment.events.len();
        if moment.elapsed.as_secs() >= self.next {
            self.next = moment.elapsed.as_secs() + EVERY;
            text.push_str(&self.line(moment));
        }
        // Who reads no more is not worth ending a run for; what can't be written otherwise shows when the report can't be.
        let _told = if text.is_empty() { Ok(()) } else { print(text.as_bytes()) };
    }

    fn line(&self, moment: &Moment<'_>) -> String {
        let figures = Figures::of(moment, self.scenario, self.variant);
        let limit = figures.limit.as_deref().map_or_else(|| "none".to_owned(), latest);
        format!(
            "  {:>4} s  offered {:>6}  admitted {:>6}  refused {:>6}  limit {limit:>6}  {}\n",
            moment.elapsed.as_secs(),
            latest(&figures.offered),
            latest(&figures.admitted),
            latest(&figures.refused),
            figures.sentence(self.scenario.target.workers)
        )
    }
}

//! What can be seen of a run while it goes on: a picture on a terminal, lines elsewhere.

use tidegate_lab::live::Moment;
use tidegate_lab::{Scenario, Variant};

use super::lines::Lines;
use super::panel::Panel;
use crate::is_drawn_on;

/// Shows a run. When it is dropped, what was drawn is removed and the cursor is back.
pub(super) enum View<'a> {
    Panel(Box<Panel<'a>>),
    Lines(Lines<'a>),
}

impl<'a> View<'a> {
    /// Begins to show a run.
    pub(super) fn open(scenario: &'a Scenario, variant: Variant, part: &str) -> Self {
        if is_drawn_on(&std::io::stdout()) {
            Self::Panel(Box::new(Panel::open(scenario, variant, part)))
        } else {
            Self::Lines(Lines::open(scenario, variant, part))
        }
    }

    /// Shows the state of the run, if it is time to.
    pub(super) fn show(&mut self, moment: &Moment<'_>) {
        match self {
            Self::Panel(panel) => panel.show(moment),
            Self::Lines(lines) => lines.show(moment),
        }
    }
}

//! Whose load a forecaster is told of.

use super::seat::Seat;
use crate::config::model::LONGEST_SOURCE;
use crate::limits::Limit;
use crate::settings::AdaptiveSettings;

/// What tells this gateway's load from others', where nobody has given it a name.
#[derive(Default)]
pub(crate) struct Source {
    /// Of what it sees alone: its machine and port.
    pub(crate) alone: String,
    /// Of what it sees together with all who share its limits: where they are shared.
    pub(crate) shared: String,
}

impl Source {
    /// The name of the series for this limit. It is the same after a restart, and at every gateway that shares the limit: what a forecaster has
    /// learnt stays known. Two gateways that know nothing of each other have two, or each would be advised by the mixture of both; unless each
    /// calls a Redis of its own by the same name, which only an operator can tell.
    pub(super) fn of(&self, settings: &AdaptiveSettings, limit: &Limit) -> String {
        if let Some(given) = &settings.source {
            return given.to_string();
        }
        let whose = if Seat::is_for(limit) { &self.shared } else { &self.alone };
        let mut name = format!("{whose}/{}", limit.name());
        name.truncate(name.floor_char_boundary(LONGEST_SOURCE));
        name
    }
}

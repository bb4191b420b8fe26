//! The visible state of adaptation: the history of `GET /config/history`, and metrics. The task that adapts writes it.

mod gauges;
mod history;

use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};
use tidegate_adapt::SeriesNames;
use tidegate_policy::Timestamp;
use tidegate_serve::Exposition;
use tokio::sync::Notify;

use crate::config::model::AdaptiveMode;
use crate::settings::AdaptiveSettings;
use gauges::Gauges;
use history::History;
pub(crate) use history::as_received;

/// The visible state of adaptation.
#[derive(Default)]
pub(crate) struct Adaptation {
    /// Notified when another plan is in force.
    pub(crate) replanned: Notify,
    history: Mutex<History>,
    pub(crate) gauges: Gauges,
    pub(crate) series_names: SeriesNames,
}

impl Adaptation {
    pub(crate) fn new(series_names: SeriesNames) -> Self {
        Self { series_names, ..Self::default() }
    }

    pub(crate) fn record(&self, at: Timestamp, event: &str, fields: Map<String, Value>) {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).push(at, event, fields);
    }

    /// Keeps at most `most` entries of the history from now on.
    pub(crate) fn keep(&self, most: usize) {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).keep(most);
    }

    /// The history as JSON, with the newest entry last.
    pub(crate) fn history(&self, settings: Option<&AdaptiveSettings>) -> Value {
        let entries = self.history.lock().unwrap_or_else(PoisonError::into_inner).entries();
        let limit = settings.map(|settings| &*settings.limit);
        json!({ "mode": mode(settings).word(), "limit": limit, "entries": entries })
    }

    pub(crate) fn write(&self, settings: Option<&AdaptiveSettings>, page: &mut Exposition) {
        self.gauges.write(mode(settings), page);
    }
}

fn mode(settings: Option<&AdaptiveSettings>) -> AdaptiveMode {
    settings.map_or(AdaptiveMode::Off, |settings| settings.mode)
}

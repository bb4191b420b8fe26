//! What is expected of each series, as it was last sent: to be drawn.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::Forecast;

/// The last forecast of each series that is known, so never more than those.
#[derive(Default)]
pub(super) struct Forecasts(Mutex<BTreeMap<String, Forecast>>);

impl Forecasts {
    /// What is expected by now; nothing, if it can't be known.
    pub(super) fn put(&self, source: &str, forecast: Option<Forecast>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match forecast {
            Some(forecast) => drop(known.insert(source.to_owned(), forecast)),
            None => drop(known.remove(source)),
        }
    }

    /// A series is forgotten.
    pub(super) fn forget(&self, source: &str) {
        self.put(source, None);
    }

    /// All of them.
    pub(super) fn to_json(&self) -> Value {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = |(source, forecast): (&String, &Forecast)| {
            let rounded = |level: f64| -> Vec<f64> {
                forecast.quantile(level).iter().map(|value| (value * 1_000.0).round() / 1_000.0).collect()
            };
            json!({
                "source": source,
                "start": forecast.start,
                "step": forecast.step,
                "low": rounded(0.1),
                "middle": rounded(0.5),
                "high": rounded(0.9),
            })
        };
        json!({ "forecasts": known.iter().map(one).collect::<Vec<_>>() })
    }
}

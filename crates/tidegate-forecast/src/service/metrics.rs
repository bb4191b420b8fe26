use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_serve::{Buckets, Counter, Exposition, Histogram, Kind, Process};

use crate::adviser::Found;
use crate::forecaster::Accuracy;

/// What is counted and measured. Of forecasts: the newest one, whichever series it is of.
pub(super) struct Metrics {
    pub(super) responded: Counter,
    pub(super) bad: Counter,
    pub(super) rejected: Counter,
    pub(super) abandoned: Counter,
    pub(super) unwritten: Counter,
    took: Histogram,
    /// How long each model that is timed took to learn last, in nanoseconds.
    learning: Vec<(&'static str, Arc<AtomicU64>)>,
    newest: Mutex<Newest>,
    process: Process,
}

#[derive(Default)]
struct Newest {
    gauges: Vec<(&'static str, &'static str, f64)>,
    weights: BTreeMap<&'static str, f64>,
    accuracy: Accuracy,
}

impl Metrics {
    pub(super) fn new(learning: Vec<(&'static str, Arc<AtomicU64>)>) -> Self {
        let bounds = [1, 5, 10, 25, 50, 100, 200, 500, 1_000, 5_000].map(Duration::from_millis);
        Self {
            responded: Counter::new(),
            bad: Counter::new(),
            rejected: Counter::new(),
            abandoned: Counter::new(),
            unwritten: Counter::new(),
            took: Histogram::new(&Buckets::new(&bounds)),
            learning,
            newest: Mutex::default(),
            process: Process::new(),
        }
    }

    /// An advice was found, after how long.
    pub(super) fn found(&self, found: &Found, accuracy: Accuracy, known: usize, took: Duration) {
        self.took.observe(took);
        let mut gauges = vec![
            ("forecast_limit_rps", "The advised limit, in requests a second.", found.advice.numbers.rate()),
            ("forecast_series_seconds", "Seconds of load that are known.", known as f64),
        ];
        if let Some(capacity) = found.capacity {
            gauges.push(("forecast_capacity_rps", "What the target bears, as set or learnt.", capacity));
        }
        let mut weights = BTreeMap::new();
        if let Some(forecast) = &found.forecast {
            gauges.push(("forecast_predicted_rps", "The highest second that is expected.", forecast.highest(0.5)));
            gauges.push((
                "forecast_predicted_high_rps",
                "The 90 % quantile of the highest second that is expected.",
                forecast.highest(0.9),
            ));
            let cycle = forecast.seasons.first().map_or(0.0, |season| season.period * f64::from(forecast.step));
            gauges.push(("forecast_cycle_seconds", "The length of the strongest cycle; 0 without one.", cycle));
            weights.extend(forecast.members.iter().map(|member| (member.name, member.weight)));
        }
        // A forecast of next to nothing has a hundred zeros behind the point.
        for (_, _, value) in &mut gauges {
            *value = (*value * 1e6).round() / 1e6;
        }
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Newest { gauges, weights, accuracy };
    }

    pub(super) fn page(&self) -> Exposition {
        let mut page = Exposition::new();
        let mut asked = page.family("forecast_requests_total", "Snapshots, by what became of them.", Kind::Counter);
        for (result, counter) in
            [("ok", &self.responded), ("bad", &self.bad), ("busy", &self.rejected), ("abandoned", &self.abandoned)]
        {
            asked.sample(&[("result", result)], counter.get());
        }
        let help = "Times that the state could not be written.";
        page.family("forecast_state_errors_total", help, Kind::Counter).sample(&[], self.unwritten.get());
        let help = "How long an advice took, from the snapshot on.";
        page.family("forecast_advice_seconds", help, Kind::Histogram).histogram(&[], &self.took.snapshot());
        let mut fit = page.family("forecast_fit_seconds", "How long a model last took to learn.", Kind::Gauge);
        for (model, nanos) in &self.learning {
            fit.sample(&[("model", model)], Duration::from_nanos(nanos.load(Ordering::Relaxed)).as_secs_f64());
        }
        self.write_newest(&mut page);
        self.process.write(&mut page);
        page
    }

    fn write_newest(&self, page: &mut Exposition) {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, help, value) in &newest.gauges {
            page.family(name, help, Kind::Gauge).sample(&[], *value);
        }
        if let Some(error) = newest.accuracy.error() {
            let help = "The mean distance of a second from its forecast, as a share of it, lately.";
            page.family("forecast_error_ratio", help, Kind::Gauge).sample(&[], error);
        }
        if let Some(covered) = newest.accuracy.covered() {
            let help = "The share of seconds at or below their 90 % quantile, lately: 0.9 if it is right.";
            page.family("forecast_coverage_ratio", help, Kind::Gauge).sample(&[], covered);
        }
        let mut weights = page.family("forecast_model_weight", "A model's share of the forecast.", Kind::Gauge);
        for (model, weight) in &newest.weights {
            weights.sample(&[("model", model)], *weight);
        }
    }
}

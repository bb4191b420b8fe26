//! Metrics of adaptation.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use tidegate_adapt::{Miss, Verdict};
use tidegate_serve::{Counter, Exposition, Kind};

use crate::config::model::AdaptiveMode;

/// A figure with one writer and many readers.
pub(crate) struct Figure(AtomicU64);

impl Figure {
    const fn unknown() -> Self {
        Self(AtomicU64::new(f64::NAN.to_bits()))
    }

    pub(crate) fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Relaxed);
    }

    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }
}

/// All metrics of adaptation. Figures are NaN until they are known.
pub(crate) struct Gauges {
    responded: Counter,
    missed: [Counter; Miss::WORDS.len()],
    updates: [Counter; Verdict::ALL.len()],
    pub(crate) misses: AtomicU32,
    pub(crate) stale: AtomicBool,
    pub(crate) attack: AtomicBool,
    /// Whether this gateway is the leader: the one that adapts.
    pub(crate) leader: AtomicBool,
    pub(crate) predicted: Figure,
    pub(crate) observed: Figure,
    pub(crate) error: Figure,
    pub(crate) base: Figure,
    pub(crate) ceiling: Figure,
}

impl Default for Gauges {
    fn default() -> Self {
        Self {
            responded: Counter::new(),
            missed: Default::default(),
            updates: Default::default(),
            misses: AtomicU32::new(0),
            stale: AtomicBool::new(false),
            attack: AtomicBool::new(false),
            leader: AtomicBool::new(false),
            predicted: Figure::unknown(),
            observed: Figure::unknown(),
            error: Figure::unknown(),
            base: Figure::unknown(),
            ceiling: Figure::unknown(),
        }
    }
}

impl Gauges {
    /// Resets what is known, at the start or because another gateway is the leader now: old values must not raise
    /// alerts.
    pub(crate) fn begin(&self) {
        self.misses.store(0, Relaxed);
        self.stale.store(false, Relaxed);
        self.attack.store(false, Relaxed);
        for figure in [&self.predicted, &self.observed, &self.error, &self.ceiling] {
            figure.set(f64::NAN);
        }
    }

    /// Counts a request to the forecaster by its result.
    pub(crate) fn asked(&self, miss: Option<&Miss>) {
        let Some(miss) = miss else { return self.responded.inc() };
        let index = Miss::WORDS.iter().position(|word| *word == miss.word());
        index.and_then(|index| self.missed.get(index)).unwrap_or(&self.responded).inc();
    }

    pub(crate) fn decided(&self, verdict: Verdict) {
        let index = Verdict::ALL.iter().position(|other| *other == verdict);
        if let Some(counter) = index.and_then(|index| self.updates.get(index)) {
            counter.inc();
        }
    }

    pub(crate) fn write(&self, mode: AdaptiveMode, page: &mut Exposition) {
        let mut modes = page.family("tidegate_adaptive_mode", "1 for the mode of adaptation.", Kind::Gauge);
        for other in AdaptiveMode::ALL {
            modes.sample(&[("mode", other.word())], other == mode);
        }
        if mode == AdaptiveMode::Off {
            return;
        }
        let mut requests =
            page.family("tidegate_adaptive_requests_total", "Requests to the forecaster, by result.", Kind::Counter);
        requests.sample(&[("result", "ok")], self.responded.get());
        for (word, counter) in Miss::WORDS.iter().zip(&self.missed) {
            requests.sample(&[("result", word)], counter.get());
        }
        let mut updates = page.family(
            "tidegate_adaptive_updates_total",
            "Decisions about recommendations, their steps and measurements, by verdict.",
            Kind::Counter,
        );
        for (verdict, counter) in Verdict::ALL.iter().zip(&self.updates) {
            updates.sample(&[("verdict", verdict.word())], counter.get());
        }
        let mut gauge = |name: &str, help: &str, value: f64| {
            page.family(name, help, Kind::Gauge).sample(&[], value);
        };
        let switch = |switch: &AtomicBool| f64::from(u8::from(switch.load(Relaxed)));
        gauge(
            "tidegate_adaptive_misses",
            "Requests to the forecaster in a row without a usable response.",
            f64::from(self.misses.load(Relaxed)),
        );
        gauge("tidegate_adaptive_stale", "1 after `adaptive.misses` misses in a row.", switch(&self.stale));
        gauge("tidegate_adaptive_attack", "1 while the load counts as an attack.", switch(&self.attack));
        gauge(
            "tidegate_adaptive_holder",
            "1 in the leader: the gateway that adapts the limit for all that share it.",
            switch(&self.leader),
        );
        for (name, help, figure) in [
            ("tidegate_adaptive_predicted_rps", "The highest rate that the forecaster expects.", &self.predicted),
            ("tidegate_adaptive_observed_rps", "Requests offered in the last whole second.", &self.observed),
            (
                "tidegate_adaptive_forecast_error_ratio",
                "Predicted minus observed rate of the last forecast, as a share of the observed rate.",
                &self.error,
            ),
            ("tidegate_adaptive_base_rps", "The operator's rate of the adapted limit.", &self.base),
            ("tidegate_adaptive_ceiling_rps", "The highest rate for the limit now, as measured.", &self.ceiling),
        ] {
            gauge(name, help, figure.get());
        }
    }
}

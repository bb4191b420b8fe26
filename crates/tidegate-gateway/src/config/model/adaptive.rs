//! Adaptation, as written.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_adapt::{LONGEST_SERIES_NAME, Rails, Thresholds};

use super::{DAY, HOUR, TICK};
use crate::config::ranges::single_values;
use crate::config::section::section;
use crate::config::span::Span;

/// Valid rates in requests per second: from about one a day to more than any machine serves.
const RATES: RangeInclusive<f64> = 0.000_01..=1e9;

section! {
    /// Adaptation: the numbers of one limit follow the recommendations of a forecaster and the state of the upstream,
    /// within bounds. Adapted numbers are never stored: after a restart, a reload or a `POST` to `/config/limits` the
    /// operator's numbers are in force.
    #[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Adaptive {
        /// URL of the forecaster: `http://host[:port][/base]` or `https://…`. Requests go to `/v1/limit-config` below
        /// it. Default: none; nothing is adapted.
        pub forecaster: Option<String>;
        /// PEM file with the authorities to trust for `https`. Default: the system's.
        pub ca: Option<PathBuf>;
        /// Whether the limit is adapted. Default: `on` if there is a forecaster.
        pub mode: Option<AdaptiveMode>;
        /// Name of the limit to adapt. It must have `key: global`, no tiers and a cost of 1; it must not be
        /// `concurrency` or `dry_run`.
        pub limit: Option<String>, else "default".to_owned();
        /// Name of the series sent to the forecaster, without control characters. The forecaster stores what it has
        /// learnt under this name, and treats gateways that send the same name as one. Default: machine, port and
        /// limit; for a limit that is shared through Redis, the address of Redis, the namespace and the limit.
        pub source: Option<String>, length 1..=LONGEST_SERIES_NAME;
        /// Time between two requests to the forecaster.
        pub interval: Option<Span>, else Span::from_secs(30), in Span::from_secs(1)..=HOUR;
        /// The longest time for a response of the forecaster. Default: 5 s, or `interval` if that is shorter.
        pub timeout: Option<Span>, in TICK..=Span::from_secs(60);
        /// The highest rate that the limit is raised to, in requests per second, such as the upstream's capacity.
        /// Default: three times the operator's rate.
        pub ceiling: Option<f64>, in RATES;
        /// The lowest rate that the limit is lowered to, in requests per second, or the operator's rate if that is
        /// lower.
        pub floor: Option<f64>, else Rails::DEFAULT.floor, in RATES;
        /// The largest change in one step, as a factor: the rate is at most multiplied or divided by it. A return to
        /// the operator's rate has no bound.
        pub step: Option<f64>, else Rails::DEFAULT.step, in 1.01..=1_000.0;
        /// The shortest time between two changes by the forecast.
        pub dwell: Option<Span>, else Rails::DEFAULT.dwell.into(), in Span::from_secs(0)..=HOUR;
        /// The shortest time between two changes of the algorithm. Until then the current algorithm gets the
        /// recommended rate.
        pub algorithm_dwell: Option<Span>, else Rails::DEFAULT.algorithm_dwell.into(), in Span::from_secs(0)..=DAY;
        /// The upstream counts as overloaded when the 95th percentile of its latency is above this. Default: learnt in
        /// quiet times: twice the usual latency and at least 20 ms more, while the fastest responses are slower too (a
        /// lasting queue, not a short burst).
        pub latency: Option<Span>, in shortest_latency()..=HOUR;
        /// The upstream counts as overloaded when a larger share of its responses fails or has a status of 5xx.
        pub errors: Option<f64>, else Thresholds::DEFAULT.errors, in 0.0..=1.0;
        /// After this many requests in a row without a usable response of the forecaster, the log and a metric report
        /// it.
        pub misses: Option<u32>, else 3, in 1..=1_000;
        /// The most entries in the response to `GET /config/history`.
        pub history: Option<usize>, else 100, in 1..=10_000;
    }
}

fn shortest_latency() -> Span {
    Span::seconds(0.000_1).expect("a tenth of a millisecond is a time")
}

/// Values of `adaptive.mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AdaptiveMode {
    /// It is adapted.
    #[default]
    On,
    /// Decisions are recorded; nothing is changed.
    Shadow,
    /// It is not adapted.
    Off,
}

single_values!(AdaptiveMode);

impl AdaptiveMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::On, Self::Shadow, Self::Off];

    /// As written in a file.
    pub fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Shadow => "shadow",
            Self::Off => "off",
        }
    }
}

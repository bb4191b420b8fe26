//! Adaptation, as it is written.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_adapt::{LONGEST_SERIES_NAME, Rails, Thresholds};

use super::{DAY, HOUR};
use crate::config::section::section;
use crate::config::span::Span;

/// Rates that make sense, in requests per second: from one in about a day to what no machine serves.
const RATES: RangeInclusive<f64> = 0.000_01..=1e9;

section! {
    /// Adaptation: the numbers of one limit follow what a forecaster recommends, within bounds, and what the upstream
    /// can bear. Its numbers are never kept: after a restart, a reload or a `POST` to `/config/limits` the operator's
    /// numbers are in force.
    #[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Adaptive {
        /// Where the forecaster is: `http://host[:port][/base]` or `https://…`; requests go to `/v1/limit-config` below
        /// it. Default: none, and nothing is adapted.
        pub forecaster: Option<String>;
        /// PEM file with the authorities to trust for `https`. Default: the system's.
        pub ca: Option<PathBuf>;
        /// `on`; `shadow` (records what it would do and changes nothing); `off`. Default: `on` if there is a
        /// forecaster.
        pub mode: Option<AdaptiveMode>;
        /// The limit that is adapted. It must be `global`, without tiers, with a cost of 1, not `concurrency` and not
        /// `dry_run`.
        pub limit: Option<String>, else "default".to_owned();
        /// Name of the series sent to the forecaster, without control characters. What the forecaster has learnt is
        /// kept by this name, and gateways that send the same name are taken for one. Default: machine, port and limit;
        /// for a limit that is shared through Redis its address, namespace and limit.
        pub source: Option<String>, length 1..=LONGEST_SERIES_NAME;
        /// How often the forecaster is asked.
        pub interval: Option<Span>, else Span::from_secs(30), in Span::from_secs(1)..=HOUR;
        /// The longest time for a response. Default: 5 s, or `interval` if that is shorter.
        pub timeout: Option<Span>, in Span::from_millis(20)..=Span::from_secs(60);
        /// Requests per second that the limit is never raised above, such as what the upstream can bear. Default: three
        /// times the operator's rate.
        pub ceiling: Option<f64>, in RATES;
        /// Requests per second that the limit is never lowered below, or the operator's rate if that is lower.
        pub floor: Option<f64>, else Rails::DEFAULT.floor, in RATES;
        /// The largest change in one step, as a factor: the rate is at most multiplied or divided by it. A step back to
        /// the operator's rate has no bound.
        pub step: Option<f64>, else Rails::DEFAULT.step, in 1.01..=1_000.0;
        /// The shortest time between two changes by the forecast.
        pub dwell: Option<Span>, else Rails::DEFAULT.dwell.into(), in Span::from_secs(0)..=HOUR;
        /// The shortest time between two changes of the algorithm; until then the present algorithm keeps the
        /// recommended rate.
        pub algorithm_dwell: Option<Span>, else Rails::DEFAULT.algorithm_dwell.into(), in Span::from_secs(0)..=DAY;
        /// The upstream is overloaded when the 95th percentile of its latency is longer. Default: learnt in quiet
        /// times; twice what is usual, and at least 20 ms more, while its fastest responses are slower too: a queue
        /// that stays, not a burst that is worked off.
        pub latency: Option<Span>, in shortest_latency()..=HOUR;
        /// The upstream is overloaded when a larger share of its responses has a status of 5xx or fails.
        pub errors: Option<f64>, else Thresholds::DEFAULT.errors, in 0.0..=1.0;
        /// After this many requests in a row to the forecaster without a usable response an event and a metric report
        /// it.
        pub misses: Option<u32>, else 3, in 1..=1_000;
        /// Entries that `GET /config/history` keeps.
        pub history: Option<usize>, else 100, in 1..=10_000;
    }
}

fn shortest_latency() -> Span {
    Span::seconds(0.000_1).expect("a tenth of a millisecond is a time")
}

/// Whether limits are adapted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AdaptiveMode {
    /// They are.
    #[default]
    On,
    /// What would be done is recorded, nothing is changed.
    Shadow,
    /// They are not.
    Off,
}

impl AdaptiveMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::On, Self::Shadow, Self::Off];

    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Shadow => "shadow",
            Self::Off => "off",
        }
    }
}

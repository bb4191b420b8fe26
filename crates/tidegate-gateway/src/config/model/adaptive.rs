//! Adaptation, as it is written.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::span::Span;

/// Adaptation: the numbers of one limit follow what a forecaster recommends, within bounds, and what the upstream can bear. Its numbers are
/// never kept: a restart, a reload and a `POST` to `/config/limits` begin with the operator's.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Adaptive {
    /// Where the forecaster is: `http://host[:port][/base]` or `https://…`; asked is `/v1/limit-config` below it. Default: none, and nothing is adapted.
    pub forecaster: Option<String>,
    /// PEM file with the authorities to trust for `https`. Default: the system's.
    pub ca: Option<PathBuf>,
    /// `on`; `shadow` (records what it would do and changes nothing); `off`. Default: `on` where there is a forecaster.
    pub mode: Option<AdaptiveMode>,
    /// The limit that is adapted. It must be `global`, without tiers, with a cost of 1, not `concurrency` and not `dry_run`. Default: `default`.
    pub limit: Option<String>,
    /// What the forecaster is to call the load it is told of, up to 200 bytes: what it has learnt is kept by this name, and gateways that tell it the
    /// same name are taken for one. Default: machine, port and limit, or for a limit that is shared through Redis where that is, namespace and limit.
    pub source: Option<String>,
    /// How often the forecaster is asked, 1 s to 1 h. Default: 30 s.
    pub interval: Option<Span>,
    /// The longest an answer may take, 20 ms to 60 s. Default: 5 s, or `interval` if that is shorter.
    pub timeout: Option<Span>,
    /// Requests a second that the limit is never raised above, such as what the upstream can bear. Default: three times the operator's rate.
    pub ceiling: Option<f64>,
    /// Requests a second that the limit is never lowered below. Default: 5, or the operator's rate if that is lower.
    pub floor: Option<f64>,
    /// The largest change in one step, as a factor, 1.01 to 1000: the rate is at most multiplied or divided by it. Back to the operator's rate
    /// every step may lead. Default: 3.
    pub step: Option<f64>,
    /// The least time between two changes by the forecast, 0 to 1 h. Default: 1 s.
    pub dwell: Option<Span>,
    /// The least time between two changes of the algorithm, up to a day; until then the recommended rate is kept by the present algorithm. Default: 5 min.
    pub algorithm_dwell: Option<Span>,
    /// The upstream is overloaded when the 95th percentile of its latency is longer. Default: learnt in quiet times; twice what is usual, and 20 ms
    /// more at least, while its fastest answers are slower too: a queue that stays, not a burst that is worked off.
    pub latency: Option<Span>,
    /// The upstream is overloaded when a larger share of its answers has a status of 5xx or fails, 0 to 1. Default: 0.05.
    pub errors: Option<f64>,
    /// After so many requests to the forecaster in a row without a usable answer an event and a metric say so, 1 to 1000. Default: 3.
    #[schemars(range(min = 1, max = 1_000))]
    pub misses: Option<u32>,
    /// Entries that `GET /config/history` keeps, 1 to 10000. Default: 100.
    #[schemars(range(min = 1, max = 10_000))]
    pub history: Option<usize>,
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

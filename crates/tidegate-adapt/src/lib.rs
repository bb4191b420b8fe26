//! Adaptation: the numbers of one limit follow what a forecaster recommends, within guard rails, and what the
//! upstream can bear.
//!
//! `limit = min(measured ceiling, max(base, forecast))`: the forecaster does `max(base, forecast)`, this crate all
//! the rest. Nothing here reads a clock, does I/O, spawns or waits: a gateway runs these objects with the real clock,
//! a simulation with simulated time. Modules, from the bottom:
//!
//! | module | it … |
//! |---|---|
//! | `second`, `latency` | is what came in one second, and the buckets that latencies are counted in |
//! | `sampler` | makes seconds of counters |
//! | `merged_reports` | adds up the seconds that several gateways report |
//! | `recent_seconds`, `snapshot` | keeps the last seconds, and makes of them what is sent to the forecaster |
//! | `recommendation`, `schedule` | reads what it responds, and says which step of it is due |
//! | `accuracy`, `outage` | judges its forecasts, and counts its missing responses |
//! | `guard_rails` | says what of a recommendation may happen |
//! | `ceiling`, `attack` | finds what the upstream can bear, and when nothing may be learnt |
//! | `decision`, `published_limit` | is what was decided, in words, and as other gateways follow it |
//! | `pilot` | puts them together: which numbers a limit is to have, and why |
//! | `autopilot` | is a pilot with its memory, for programs without a gateway |
//!
//! The README has an example.

mod accuracy;
mod attack;
mod autopilot;
mod ceiling;
mod decision;
mod guard_rails;
mod latency;
mod merged_reports;
mod numbers_json;
mod outage;
mod pilot;
mod published_limit;
mod recent_seconds;
mod recommendation;
mod sampler;
mod schedule;
mod second;
mod series_name;
mod snapshot;

pub use accuracy::Accuracy;
pub use attack::AttackEvent;
pub use autopilot::{Autopilot, AutopilotEvent};
pub use ceiling::{Quantiles, Thresholds};
pub use decision::{Decision, Verdict, difference};
pub use guard_rails::{Accepts, Cap, Rails, rounded};
pub use latency::{SHOWN_MICROS, latency_bounds, latency_bounds_seconds};
pub use merged_reports::{MergedReports, REPORTED_SECONDS};
pub use numbers_json::numbers_json;
pub use outage::{Miss, Missed, Outage, PastOutage};
pub use pilot::{Counting, Events, Pilot};
pub use published_limit::PublishedLimit;
pub use recent_seconds::{Period, RecentSeconds};
pub use recommendation::{Recommendation, Step};
pub use sampler::{Sampler, Totals};
pub use second::Second;
pub use series_name::{LONGEST_SERIES_NAME, SeriesNames};
pub use snapshot::{Snapshot, unix_seconds};

/// The README's example, run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

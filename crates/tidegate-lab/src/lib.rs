//! Experiments: what a limit does to a load, live and in simulated time.
//!
//! A [`Scenario`] says which load comes, what it meets and what goes wrong. [`simulate`] runs it on the very objects
//! that decide in a gateway, without a clock: the same random seed gives the same [`Outcome`]. An [`oracle`] judges
//! every decision by the exact definition of the limit. [`Scores`] are the figures of a run, and a [`Report`] has them
//! for people and machines. The [`target`] is a service to protect, whose capacity is known and whose faults are
//! switched at run time.
//!
//! Modules depend one way, from the top: [`report`] → `scores` → `run` → `pool_record` → [`scenario`] → [`target`].
//! Beside `scores` are [`live`] and `simulation`, which make the outcome of a run.

mod gateway_config;
pub mod live;
mod observation;
pub mod oracle;
mod pool_record;
pub mod replay;
pub mod report;
mod rounding;
mod run;
pub mod scenario;
mod scores;
mod simulation;
pub mod target;

pub use observation::{Observation, Row, Tally};
pub use pool_record::PoolRecord;
pub use report::Report;
pub use run::{Band, Event, EventKind, GatewayCost, Levels, Outage, Outcome, PolicyRecord, Prediction};
pub use scenario::{InvalidScenario, Scenario, Variant};
pub use scores::{FORMULAS, GroupScores, Latency, Peak, Scores, peaks};
pub use simulation::simulate;

/// The parts of the demonstration, in their order: name and text.
pub const DEMO: [(&str, &str); 5] = [
    ("normal", include_str!("../../../scenarios/demo/normal.yaml")),
    ("spikes", include_str!("../../../scenarios/demo/spikes.yaml")),
    ("attack", include_str!("../../../scenarios/demo/attack.yaml")),
    ("outage", include_str!("../../../scenarios/demo/outage.yaml")),
    ("provider", include_str!("../../../scenarios/demo/provider.yaml")),
];

/// The scenarios that come with it: name and text.
pub const SCENARIOS: [(&str, &str); 15] = [
    ("normal", include_str!("../../../scenarios/normal.yaml")),
    ("spikes", include_str!("../../../scenarios/spikes.yaml")),
    ("attack", include_str!("../../../scenarios/attack.yaml")),
    ("attack-by-client", include_str!("../../../scenarios/attack-by-client.yaml")),
    ("boundary", include_str!("../../../scenarios/boundary.yaml")),
    ("outage", include_str!("../../../scenarios/outage.yaml")),
    ("forecaster", include_str!("../../../scenarios/forecaster.yaml")),
    ("endpoint-killed", include_str!("../../../scenarios/endpoint-killed.yaml")),
    ("endpoint-frozen", include_str!("../../../scenarios/endpoint-frozen.yaml")),
    ("endpoint-slow", include_str!("../../../scenarios/endpoint-slow.yaml")),
    ("dead-provider", include_str!("../../../scenarios/dead-provider.yaml")),
    ("slow-provider", include_str!("../../../scenarios/slow-provider.yaml")),
    ("retry-storm", include_str!("../../../scenarios/retry-storm.yaml")),
    ("metastable", include_str!("../../../scenarios/metastable.yaml")),
    ("slow-tail", include_str!("../../../scenarios/slow-tail.yaml")),
];

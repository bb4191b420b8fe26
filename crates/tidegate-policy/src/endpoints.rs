//! Pools of endpoints: which one a request goes to, and which ones get no requests for a while.
//!
//! A [`Balancer`] is a pool. It chooses an endpoint for each attempt, by [`Balance`] and [`Weight`]. What it learns of
//! an endpoint is kept in its [`EndpointState`], which outlives the balancer: when endpoints come and go, a new
//! balancer is built around the states of those that stay.

mod balancer;
mod change;
mod choice;
mod ejection;
mod group;
mod hash_table;
mod health;
mod in_flight;
mod latency;
mod outcome;
mod outliers;
mod schedule;
mod shares;
mod slow_start;
mod snapshot;
mod standing;
mod state;
mod tried;
mod weight;

pub use balancer::{Balance, Balancer, BalancerSettings};
pub use change::Change;
pub use ejection::{EjectionSettings, Reason, SuccessRateSettings};
pub use health::{Health, HealthThresholds};
pub use in_flight::InFlight;
pub use outcome::{Cause, Outcome};
pub use snapshot::EndpointSnapshot;
pub use standing::{Forced, Standing};
pub use state::EndpointState;
pub use tried::{MOST_ATTEMPTED, Tried};
pub use weight::Weight;

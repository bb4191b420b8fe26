//! Load with a plan: how many requests a second ([`Profile`]), when each of them is due ([`Schedule`]), what is sent, by whom ([`Plan`]).
//!
//! All of it is pure: the same plan and seed give the same arrivals, whoever is asked to bear them.

mod assignment;
mod heads;
mod plan;
mod profile;
mod record;
mod report;
mod schedule;
mod trace;

pub use assignment::Assignment;
pub use heads::Heads;
pub use plan::{
    Class, Figure, Group, InvalidPart, InvalidPlan, InvalidThreshold, Outcome, Overrides, Part, Plan, Politeness,
    Request, Threshold, Times,
};
pub use profile::{Profile, Shape};
pub use record::{Cause, Coarse, Counts, End, Fine, Missed, NotAlike, Record, Sample, Spread, Step, StepTally, Tally};
pub use report::{CannotMerge, Ended, InvalidReport, Judged, Reading, Report, Unit, Verdict};
pub use schedule::{Arrivals, Schedule};

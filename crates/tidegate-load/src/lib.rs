//! Load with a plan: how many requests a second ([`Profile`]), when each of them is due ([`Schedule`]), what is sent
//! by which clients ([`Plan`]), how it is sent ([`Run`]), and what became of it ([`Record`], [`Report`]).
//!
//! Plans, schedules and records are pure: the same plan and seed give the same arrivals, whatever the target.

mod agenda;
mod assignment;
mod heads;
mod live;
mod plan;
mod profile;
mod record;
mod report;
mod response;
mod run;
mod schedule;
mod sender;
pub mod service;
mod status_class;
mod trace;
mod trust;
mod wire;

pub use assignment::Assignment;
pub use heads::Heads;
pub use live::{Progress, Totals, Trouble};
pub use plan::{
    After, Class, Comeback, Figure, Group, InvalidPart, InvalidPlan, InvalidThreshold, Outcome, Overrides, Part, Plan,
    ProfileType, Request, Statistic, Threshold, Times,
};
pub use profile::{Profile, Shape};
pub use record::{
    Cause, Coarse, Counts, End, Fine, Latencies, Missed, NotAlike, Record, Sample, Step, StepTally, Tally,
    TimeHistogram,
};
pub use report::{CannotMerge, Ended, InvalidReport, Judged, Reading, Report, Unit, Verdict};
pub use run::{NotConstant, NotStarted, Run};
pub use schedule::{Arrivals, Schedule};
pub use sender::{Observed, Observer, comes_back};
pub use status_class::StatusClass;

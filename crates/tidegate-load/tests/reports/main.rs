//! Reports: what a run came to, whether it can be believed, and that several together are as good as one.
#![allow(clippy::float_cmp, reason = "what is read is what was written, and bounds are whole microseconds")]

mod figures;
mod files;
mod merging;
mod notes;
mod percentiles;
mod run;
mod status_classes;
mod summaries;
mod thresholds;
mod verdicts;

//! The load generator as its user meets it.

#[path = "../support/harness.rs"]
mod harness;
#[path = "../control/outcome.rs"]
mod outcome;

mod merge;

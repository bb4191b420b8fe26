//! The demo as somebody meets it who has just checked the project out.

#[path = "../support/harness.rs"]
mod harness;
#[path = "../control/outcome.rs"]
#[allow(dead_code, reason = "the tests of the gateway use all of it")]
mod outcome;

mod playing;
mod terminal;

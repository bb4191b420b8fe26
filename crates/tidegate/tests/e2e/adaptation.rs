//! The whole platform: load, gateway, forecaster and target as real processes, with and without adaptation.
//!
//! `make adapt` runs the same with longer spikes (`TIDEGATE_ADAPT_PERIOD`, in seconds) and judges times and shares, too
//! (`TIDEGATE_TIMINGS`), which `make test` does not: a machine that stands still for a moment is no fault of
//! adaptation.
#![allow(clippy::float_cmp, clippy::cast_precision_loss, reason = "counts are whole")]
#![allow(clippy::print_stdout, reason = "figures of a run, for `make adapt`")]

mod platform;
mod spikes;
mod trouble;

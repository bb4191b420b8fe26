//! Retries: pauses to their distributions, budgets to a naive model.

#![allow(clippy::cast_precision_loss, reason = "counts far below 2^53")]

mod backoff;
mod budget;
mod failures;

//! Retries: pauses to their distributions, budgets and delays of hedges to naive models.

#![allow(clippy::cast_precision_loss, reason = "counts far below 2^53")]

mod backoff;
mod budget;
mod failures;
mod hedge;

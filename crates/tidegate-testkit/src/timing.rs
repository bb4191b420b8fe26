//! Assertions on the clock. `make test` runs many tests at once and judges none of them; `make timings` judges all, on
//! a quiet machine.

use std::time::{Duration, Instant};

/// Whether times are judged: `TIDEGATE_TIMINGS` is set.
pub fn are_judged() -> bool {
    std::env::var_os("TIDEGATE_TIMINGS").is_some()
}

/// Fails if more than `most` has passed since `start`, where times are judged.
pub fn assert_within(most: Duration, start: Instant, what: &str) {
    let passed = start.elapsed();
    assert!(!are_judged() || passed <= most, "{what}: {passed:?}, {most:?} at most");
}

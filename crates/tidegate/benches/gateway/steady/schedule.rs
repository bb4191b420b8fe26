//! When a client's requests are due.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

pub(crate) enum Schedule {
    /// At times that don't depend on responses: what comes late does not make the rest come later.
    Paced { next: Instant, gap: Duration, end: Instant },
    /// As soon as the response to the last one has come.
    Eager { end: Instant },
}

impl Schedule {
    /// The share of one of several clients in `per_second` requests: all have the same gap, and no two begin at the
    /// same time.
    pub(crate) fn share(start: Instant, time: Duration, per_second: f64, client: usize, clients: usize) -> Self {
        let gap = Duration::from_secs_f64(clients as f64 / per_second);
        Self::Paced { next: start + gap.mul_f64(client as f64 / clients as f64), gap, end: start + time }
    }

    /// Waits until the next request is due, and says since when it is.
    pub(crate) async fn next(&mut self) -> Option<Instant> {
        let now = Instant::now();
        match self {
            Self::Eager { end } => (now < *end).then_some(now),
            Self::Paced { next, gap, end } => {
                let due = *next;
                *next += *gap;
                if due >= *end {
                    return None;
                }
                // Sleeping takes a millisecond at least.
                if due > now {
                    sleep_until(due).await;
                }
                Some(due)
            }
        }
    }

    /// How many requests a client may have under way that can have several.
    pub(crate) fn at_once(&self) -> usize {
        match self {
            Self::Paced { .. } => 32,
            // Otherwise they would have more than their share.
            Self::Eager { .. } => 1,
        }
    }
}

//! Attempts of requests at targets.

use std::time::Duration;

use tidegate_policy::breaker::Call;
use tidegate_policy::endpoints::{Cause, InFlight};

use super::Job;
use crate::target;

/// A request that waits for a target's response.
pub(super) struct Attempt {
    pub(super) passage: u64,
    pub(super) in_flight: InFlight,
    pub(super) started: u64,
    pub(super) job: Job,
    pub(super) stage: TargetStage,
    pub(super) role: Role,
    /// When the policy ends it, if its time is so short that this says nothing about its target.
    pub(super) cut_at: Option<u64>,
}

/// What an attempt is to its request.
pub(super) enum Role {
    First,
    /// Beside the first, which has had no response for long; with its own call at the breaker.
    Hedge(Option<Call>),
    /// After a failed one.
    Another,
}

/// Where an attempt's request is in its target.
#[derive(Clone, Copy)]
pub(super) enum TargetStage {
    /// In the queue.
    Waits(target::Ticket),
    /// A worker has it.
    Served,
    /// The target has no room for it.
    Rejected,
}

/// An attempt that is over.
pub(super) struct EndedAttempt {
    pub(super) passage: u64,
    pub(super) job: Job,
    pub(super) stage: TargetStage,
    pub(super) took: Duration,
    pub(super) role: Role,
}

/// What becomes of an attempt.
pub(super) enum Attempted {
    /// Its target has it. `hedge_at`: when another attempt is made beside it, if any is.
    Sent { job: Job, deadline: u64, hedge_at: Option<u64> },
    /// No target takes it.
    Refused,
}

/// How an attempt has ended.
#[derive(Clone, Copy)]
pub(super) struct Ended {
    /// What the client gets if there is no other.
    pub(super) status: u16,
    /// None: with a response.
    pub(super) cause: Option<Cause>,
    pub(super) was_sent: bool,
    /// Whether the policy ended it so soon that this says nothing about its target.
    pub(super) is_cut: bool,
}

impl Ended {
    /// With a response.
    pub(super) const fn responded(status: u16) -> Self {
        Self { status, cause: None, was_sent: true, is_cut: false }
    }

    /// Its target could not be reached.
    pub(super) const fn refused() -> Self {
        Self { status: 502, cause: Some(Cause::Connect), was_sent: false, is_cut: false }
    }
}

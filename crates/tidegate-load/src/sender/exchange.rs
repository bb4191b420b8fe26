//! A request that is under way, and what became of it.

use std::io;
use std::time::Duration;

use crate::record::Cause;
use crate::response::Received;
use crate::wire::Wire;

/// A request that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// Its number among all of the plan.
    pub(super) number: u64,
    /// The index of its client's group.
    pub(super) group: usize,
    /// Which of the group's clients.
    pub(super) client: u64,
    /// How often it has been sent before.
    pub(super) attempt: u32,
    /// When it should have been sent.
    pub(super) intended: Duration,
    /// When it was.
    pub(super) sent: Duration,
    /// Which of its connection's, where that carries several.
    pub(super) stream: u32,
    /// How often it was handed back by connections that would not take it.
    pub(super) handed_back: u8,
}

/// A request that has ended.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) exchange: Exchange,
    pub(super) end: Result<Received, Failure>,
}

/// Why a request has no response.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) cause: Cause,
    /// In words, for reports.
    pub(super) why: String,
    /// The other side has not looked at it: it can be sent again on another connection, as if it had not been sent.
    pub(super) is_untouched: bool,
}

impl Failure {
    pub(super) fn new(cause: Cause, why: impl Into<String>) -> Self {
        Self { cause, why: why.into(), is_untouched: false }
    }

    /// What an error on a connection that was made means for the request on it.
    pub(super) fn of(error: &io::Error) -> Self {
        Self::new(if Wire::is_mistrust(error) { Cause::Tls } else { Cause::Closed }, error.to_string())
    }
}

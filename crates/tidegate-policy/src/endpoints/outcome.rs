use std::time::Duration;

/// How an attempt on an endpoint ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The endpoint responded.
    Success {
        /// How long it took.
        took: Duration,
    },
    /// The endpoint failed.
    Failure {
        /// What went wrong.
        cause: Cause,
        /// How long it took, if that says something about the endpoint's latency. It raises the estimate if it is
        /// above it, and never lowers it.
        took: Option<Duration>,
    },
    /// It says nothing about the endpoint: the client left, or the gateway itself rejected the request.
    Ignored,
}

/// What went wrong with an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// No connection could be made.
    Connect,
    /// No response came in time.
    Timeout,
    /// The connection broke, or what came on it was not HTTP.
    Broken,
    /// The response's status counts as a failure.
    Status,
}

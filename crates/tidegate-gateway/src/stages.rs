//! The stages that a request passes before it is sent to its upstream, in their order. The order stands here and
//! nowhere else: the handler drives it with the real clock, replay and the simulation drive it in their own time.
//!
//! It has no clock and does nothing itself. Its driver checks limits, waits, sends, and reports the result.

use std::time::Duration;

/// Whose limits a request is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Those of its route, which count by who sends it.
    Client,
    /// Those of its upstream, which protect that upstream from everyone.
    Upstream,
}

/// What a driver has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Check these limits. If one rejects, the request ends, and what it holds is given back.
    Check(Side),
    /// Wait: a shaper delays the request.
    Wait(Duration),
    /// Read the request's body, so that a client that sends it slowly holds nothing of the upstream.
    Collect,
    /// Send the request to its upstream.
    Attempt,
}

/// How far a request has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stages {
    next: Step,
    wait: Duration,
    has_body: bool,
    has_upstream_limits: bool,
}

impl Stages {
    /// The stages of a request with a body or without, to an upstream that has limits or has none.
    pub(crate) fn new(has_body: bool, has_upstream_limits: bool) -> Self {
        Self { next: Step::Check(Side::Client), wait: Duration::ZERO, has_body, has_upstream_limits }
    }

    /// The next step.
    pub(crate) fn next(&mut self) -> Step {
        if !self.wait.is_zero() {
            return Step::Wait(std::mem::take(&mut self.wait));
        }
        let step = self.next;
        self.next = match step {
            Step::Check(Side::Client) if self.has_body => Step::Collect,
            Step::Check(Side::Client) | Step::Collect if self.has_upstream_limits => Step::Check(Side::Upstream),
            Step::Check(Side::Client | Side::Upstream) | Step::Collect | Step::Wait(_) | Step::Attempt => Step::Attempt,
        };
        step
    }

    /// Whether the attempt comes next: nothing can reject the request any more.
    pub(crate) fn is_attempt_next(&self) -> bool {
        self.wait.is_zero() && self.next == Step::Attempt
    }

    /// The limits that were checked admit the request, after this wait.
    pub(crate) fn admitted(&mut self, wait: Duration) {
        self.wait = wait;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Step = Step::Check(Side::Client);
    const UPSTREAM: Step = Step::Check(Side::Upstream);

    /// All steps, with these waits after the limits of the client and of the upstream.
    fn steps(client: u64, upstream: u64) -> Vec<Step> {
        steps_of(Stages::new(false, true), client, upstream)
    }

    fn steps_of(mut stages: Stages, client: u64, upstream: u64) -> Vec<Step> {
        let mut steps = Vec::new();
        loop {
            let is_attempt_next = stages.is_attempt_next();
            let step = stages.next();
            assert_eq!(is_attempt_next, step == Step::Attempt);
            steps.push(step);
            match step {
                Step::Check(Side::Client) => stages.admitted(Duration::from_secs(client)),
                Step::Check(Side::Upstream) => stages.admitted(Duration::from_secs(upstream)),
                Step::Wait(_) | Step::Collect => {}
                Step::Attempt => return steps,
            }
        }
    }

    #[test]
    fn the_client_comes_before_the_upstream_and_each_wait_follows_its_limits() {
        let wait = |seconds| Step::Wait(Duration::from_secs(seconds));
        assert_eq!(steps(0, 0), [CLIENT, UPSTREAM, Step::Attempt]);
        assert_eq!(steps(1, 0), [CLIENT, wait(1), UPSTREAM, Step::Attempt]);
        assert_eq!(steps(0, 2), [CLIENT, UPSTREAM, wait(2), Step::Attempt]);
        assert_eq!(steps(1, 2), [CLIENT, wait(1), UPSTREAM, wait(2), Step::Attempt]);
        assert_eq!(steps_of(Stages::new(false, false), 1, 0), [CLIENT, wait(1), Step::Attempt]);
    }

    /// A rejected request needs no body. While the body comes, nothing of the upstream is held.
    #[test]
    fn the_body_is_read_between_the_limits_of_the_client_and_those_of_the_upstream() {
        let (wait, collect) = (|seconds| Step::Wait(Duration::from_secs(seconds)), Step::Collect);
        assert_eq!(steps_of(Stages::new(true, true), 0, 0), [CLIENT, collect, UPSTREAM, Step::Attempt]);
        assert_eq!(
            steps_of(Stages::new(true, true), 1, 2),
            [CLIENT, wait(1), collect, UPSTREAM, wait(2), Step::Attempt]
        );
        assert_eq!(steps_of(Stages::new(true, false), 1, 0), [CLIENT, wait(1), collect, Step::Attempt]);
    }
}

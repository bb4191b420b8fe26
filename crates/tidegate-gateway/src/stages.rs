//! The stages that a request passes before it is sent on, in their order: the limits of its client, and its body. What
//! comes then, the policies around its attempts and the limits of its upstream, is the order of
//! [`Journey`](tidegate_policy::journey::Journey). The two stand in these places and nowhere else: the handler drives
//! them with the real clock, replay and the simulation drive them in their own time.
//!
//! It has no clock and does nothing itself. Its driver checks limits, waits, reads, and reports the result.

use std::time::Duration;

/// Whose limits a request is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Those of its route, which count by who sends it.
    Client,
    /// Those of its upstream, which protect that upstream from everyone.
    Upstream,
}

/// What a driver has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Check the limits of the client. If one rejects, the request ends, and what it holds is given back.
    Check,
    /// Wait: a shaper delays the request.
    Wait(Duration),
    /// Read the request's body, so that a client that sends it slowly holds nothing of the upstream.
    Collect,
    /// Send the request on: its journey begins.
    SendOn,
}

/// How far a request has come.
#[derive(Clone, Copy, Debug)]
pub struct Stages {
    next: Step,
    wait: Duration,
    has_body: bool,
}

impl Stages {
    /// The stages of a request whose body has to be read, or that has none.
    pub fn new(has_body: bool) -> Self {
        Self { next: Step::Check, wait: Duration::ZERO, has_body }
    }

    /// The next step.
    pub fn next_step(&mut self) -> Step {
        if !self.wait.is_zero() {
            return Step::Wait(std::mem::take(&mut self.wait));
        }
        let step = self.next;
        self.next = if step == Step::Check && self.has_body { Step::Collect } else { Step::SendOn };
        step
    }

    /// The limits that were checked admit the request, after this wait.
    pub fn admitted(&mut self, wait: Duration) {
        self.wait = wait;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All steps, with this wait after the limits of the client.
    fn steps(has_body: bool, seconds: u64) -> Vec<Step> {
        let (mut stages, mut steps) = (Stages::new(has_body), Vec::new());
        loop {
            let step = stages.next_step();
            steps.push(step);
            match step {
                Step::Check => stages.admitted(Duration::from_secs(seconds)),
                Step::Wait(_) | Step::Collect => {}
                Step::SendOn => return steps,
            }
        }
    }

    /// A rejected request needs no body. While the body comes, nothing of the upstream is held.
    #[test]
    fn limits_of_the_client_come_first_then_their_wait_then_the_body() {
        let wait = Step::Wait(Duration::from_secs(1));
        assert_eq!(steps(false, 0), [Step::Check, Step::SendOn]);
        assert_eq!(steps(false, 1), [Step::Check, wait, Step::SendOn]);
        assert_eq!(steps(true, 0), [Step::Check, Step::Collect, Step::SendOn]);
        assert_eq!(steps(true, 1), [Step::Check, wait, Step::Collect, Step::SendOn]);
    }
}

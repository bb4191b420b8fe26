use std::fmt;
use std::time::Duration;

/// What a breaker does with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// All go through, and are counted.
    Closed,
    /// All are rejected.
    Open,
    /// A few go through.
    HalfOpen,
}

impl Phase {
    /// The word for it in logs and the admin API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }

    /// The number for it in metrics.
    pub const fn number(self) -> u8 {
        match self {
            Self::Closed => 0,
            Self::Open => 1,
            Self::HalfOpen => 2,
        }
    }
}

/// What an operator wants of a breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Forced {
    /// Nothing: it decides itself.
    #[default]
    Auto,
    /// It rejects all calls.
    Open,
    /// It counts, and never opens.
    Closed,
    /// All calls go through, and none counts.
    Disabled,
}

impl Forced {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Open, Self::Closed, Self::Disabled];

    /// The word for it in the admin API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Disabled => "disabled",
        }
    }
}

/// A breaker's phase has changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transition {
    /// Transitions of one breaker are numbered from 1. Threads may report them out of order.
    pub number: u64,
    /// The phase before.
    pub from: Phase,
    /// The phase now.
    pub to: Phase,
    /// Why.
    pub trigger: Trigger,
    /// How long it stays open; `None` if it is not open, or until an operator changes that.
    pub open_for: Option<Duration>,
}

/// Why a breaker's phase has changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// Too many calls failed.
    Failures {
        /// How many of them.
        failures: u32,
        /// The calls in the window.
        calls: u32,
    },
    /// Too many calls were slow.
    Slow {
        /// How many of them.
        slow: u32,
        /// The calls in the window.
        calls: u32,
    },
    /// Too many calls in a row failed.
    Consecutive {
        /// How many.
        failures: u32,
    },
    /// It was open for long enough.
    OpenTimeOver,
    /// All probes succeeded.
    ProbesSucceeded,
    /// A probe failed.
    ProbeFailed,
    /// Too many probes were slow.
    ProbesSlow,
    /// Probes did not end in time.
    ProbesTimedOut,
    /// An operator wants it so.
    Operator(Forced),
}

/// What has become of the breaker, and why: `is open for 30 s: 5 of 10 attempts failed`.
impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.to, self.open_for) {
            (Phase::Closed, _) => f.write_str("is closed")?,
            (Phase::HalfOpen, _) => f.write_str("is half-open")?,
            (Phase::Open, Some(span)) => write!(f, "is open for {} s", span.as_secs_f64())?,
            (Phase::Open, None) => f.write_str("is open")?,
        }
        write!(f, ": {}", self.trigger)
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failures { failures, calls } => write!(f, "{failures} of {calls} attempts failed"),
            Self::Slow { slow, calls } => write!(f, "{slow} of {calls} attempts were slow"),
            Self::Consecutive { failures: 1 } => f.write_str("an attempt failed"),
            Self::Consecutive { failures } => write!(f, "{failures} attempts failed in a row"),
            Self::OpenTimeOver => f.write_str("it was open for long enough"),
            Self::ProbesSucceeded => f.write_str("all probes succeeded"),
            Self::ProbeFailed => f.write_str("a probe failed"),
            Self::ProbesSlow => f.write_str("too many probes were slow"),
            Self::ProbesTimedOut => f.write_str("probes did not end in time"),
            Self::Operator(forced) => write!(f, "set to `{}` by an operator", forced.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transition_says_what_and_why() {
        let text =
            |to, trigger, open_for| Transition { number: 1, from: Phase::Closed, to, trigger, open_for }.to_string();
        let failures = Trigger::Failures { failures: 5, calls: 10 };
        let half = Some(Duration::from_millis(500));
        assert_eq!(text(Phase::Open, failures, half), "is open for 0.5 s: 5 of 10 attempts failed");
        let by_operator = Trigger::Operator(Forced::Open);
        assert_eq!(text(Phase::Open, by_operator, None), "is open: set to `open` by an operator");
        assert_eq!(text(Phase::Closed, Trigger::ProbesSucceeded, None), "is closed: all probes succeeded");
    }
}

use std::time::Duration;

use crate::invalid_setting::{InvalidSetting, share};
use crate::timestamp::{LONGEST_SPAN, nanos};

/// The most calls that a window has.
const MOST_CALLS: u32 = 100_000;
/// The most probes.
const MOST_PROBES: u32 = 1_000;

/// When a breaker opens, for how long, and what closes it again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerSettings {
    /// Which calls are looked at.
    pub window: Window,
    /// Shares are judged once so many calls are in the window.
    pub minimum: u32,
    /// It opens when at least this share of the calls failed, above 0 and at most 1.
    pub failures: Option<f64>,
    /// It opens when too many calls are slow.
    pub slow: Option<SlowCalls>,
    /// It opens after so many failures in a row. Calls that are neither a success nor a failure do not end a row.
    pub consecutive: Option<u32>,
    /// How long it stays open the first time.
    pub open: Duration,
    /// By what that is multiplied each time a probe fails, from 1 (never longer) to 10.
    pub growth: f64,
    /// The longest that it stays open.
    pub longest_open: Duration,
    /// So many calls go through while it is half-open. All must succeed to close it.
    pub probes: u32,
    /// Probes that have not ended after this time, counted from the last of them, have failed.
    pub probe_timeout: Duration,
}

/// The calls that a breaker judges by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The last so many, at most 100,000.
    Calls(u32),
    /// Those that ended in this time. It moves on in steps of a thirty-second part.
    Time(Duration),
}

/// When calls are slow, and how many may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowCalls {
    /// A call is slow if it takes at least so long, whether it succeeds or fails.
    pub threshold: Duration,
    /// It opens when at least this share of the calls is slow, above 0 and at most 1.
    pub share: f64,
}

/// Half of the last 100 calls, judged from 10 calls on; open for 30 s; 3 probes, 30 s for them.
impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            window: Window::Calls(100),
            minimum: 10,
            failures: Some(0.5),
            slow: None,
            consecutive: None,
            open: Duration::from_secs(30),
            growth: 1.0,
            longest_open: Duration::from_secs(300),
            probes: 3,
            probe_timeout: Duration::from_secs(60),
        }
    }
}

impl BreakerSettings {
    /// These settings, if a breaker can have them.
    pub fn checked(self) -> Result<Self, InvalidSetting> {
        let invalid = |field, reason: String| Err(InvalidSetting::new(field, reason));
        self.check_window()?;
        if self.minimum == 0 {
            return invalid("minimum", "must be at least 1, got 0".to_owned());
        }
        if let Some(failures) = self.failures {
            share("failures", failures)?;
        }
        if let Some(slow) = self.slow {
            share("slow_calls", slow.share)?;
            span("slow", slow.threshold)?;
        }
        if self.consecutive == Some(0) {
            return invalid("consecutive", "must be at least 1, got 0".to_owned());
        }
        if self.failures.is_none() && self.slow.is_none() && self.consecutive.is_none() {
            return invalid("failures", "must be set if neither `slow` nor `consecutive` is".to_owned());
        }
        span("open", self.open)?;
        span("probe_timeout", self.probe_timeout)?;
        span("longest_open", self.longest_open)?;
        if !(1.0..=10.0).contains(&self.growth) {
            return invalid("growth", format!("must be between 1 and 10, got {}", self.growth));
        }
        if self.growth > 1.0 && self.longest_open < self.open {
            let (longest, open) = (self.longest_open, self.open);
            return invalid("longest_open", format!("must be at least `open`, which is {open:?}, got {longest:?}"));
        }
        if !(1..=MOST_PROBES).contains(&self.probes) {
            return invalid("probes", format!("must be between 1 and {MOST_PROBES}, got {}", self.probes));
        }
        Ok(self)
    }

    fn check_window(&self) -> Result<(), InvalidSetting> {
        match self.window {
            Window::Time(time) => span("window", time),
            Window::Calls(calls) if !(1..=MOST_CALLS).contains(&calls) => {
                let reason = format!("must be between 1 and {MOST_CALLS} calls, got {calls}");
                Err(InvalidSetting::new("window", reason))
            }
            Window::Calls(calls) if self.minimum > calls => {
                let reason = format!("must be at most the calls of `window`, which are {calls}, got {}", self.minimum);
                Err(InvalidSetting::new("minimum", reason))
            }
            Window::Calls(_) => Ok(()),
        }
    }

    /// How long it stays open after so many openings in a row.
    pub(super) fn open_nanos(&self, openings: u32) -> u64 {
        let first = nanos(self.open);
        if self.growth <= 1.0 {
            return first;
        }
        // More steps than that reach the longest time from any first one.
        let steps = openings.saturating_sub(1).min(1_000).cast_signed();
        let grown = self.open.as_secs_f64() * self.growth.powi(steps);
        let grown = Duration::try_from_secs_f64(grown).unwrap_or(Duration::MAX).min(self.longest_open);
        nanos(grown).max(first)
    }
}

/// Checks that a span is above 0 and not too long to count in nanoseconds.
fn span(field: &'static str, span: Duration) -> Result<(), InvalidSetting> {
    if (Duration::from_nanos(1)..=LONGEST_SPAN).contains(&span) {
        Ok(())
    } else {
        let longest = LONGEST_SPAN.as_secs();
        Err(InvalidSetting::new(field, format!("must be above 0 and at most {longest} s, got {span:?}")))
    }
}

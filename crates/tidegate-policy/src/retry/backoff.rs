use std::time::Duration;

use crate::invalid_setting::{InvalidSetting, share};
use crate::timestamp::LONGEST_SPAN;

/// How pauses are spread, so that clients that failed together do not come back together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Jitter {
    /// Not at all.
    None,
    /// Evenly from nothing to the whole pause.
    Full,
    /// Evenly from half of the pause to the whole.
    Equal,
    /// Evenly within this share below and above the pause, above 0 and at most 1.
    Share(f64),
    /// Evenly from the base to three times the last pause.
    Decorrelated,
}

/// How long to pause before a retry: `base`, growing by `factor` with each, up to `max`, spread by a [`Jitter`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    factor: f64,
    jitter: Jitter,
}

impl Backoff {
    /// Pauses from `base` to `max`. A factor of 1 keeps the pause the same; it is at most 100.
    pub fn new(base: Duration, max: Duration, factor: f64, jitter: Jitter) -> Result<Self, InvalidSetting> {
        if max > LONGEST_SPAN {
            let longest = LONGEST_SPAN.as_secs();
            return Err(InvalidSetting::new("max", format!("must be at most {longest} s, got {max:?}")));
        }
        if base > max {
            return Err(InvalidSetting::new("base", format!("must be at most `max`, which is {max:?}, got {base:?}")));
        }
        if !(1.0..=100.0).contains(&factor) {
            return Err(InvalidSetting::new("factor", format!("must be between 1 and 100, got {factor}")));
        }
        if let Jitter::Share(part) = jitter {
            share("jitter", part)?;
        }
        Ok(Self { base, max, factor, jitter })
    }

    /// The longest pause.
    pub const fn max(&self) -> Duration {
        self.max
    }

    /// The shortest and the longest pause before a retry, counted from 1, after a last pause.
    pub fn range(&self, retry: u32, last: Duration) -> (Duration, Duration) {
        let (base, max) = (self.base.as_secs_f64(), self.max.as_secs_f64());
        let steps = retry.saturating_sub(1).min(10_000).cast_signed();
        let grown = |most: f64| (base * self.factor.powi(steps)).min(most);
        let (least, most) = match self.jitter {
            Jitter::None => (grown(max), grown(max)),
            Jitter::Full => (0.0, grown(max)),
            Jitter::Equal => (grown(max) / 2.0, grown(max)),
            // Spread around a pause that leaves room above it: `max` would otherwise be the most frequent one.
            Jitter::Share(share) => {
                let middle = grown(max / (1.0 + share));
                (middle * (1.0 - share), middle * (1.0 + share))
            }
            Jitter::Decorrelated => (base, (last.as_secs_f64().max(base) * 3.0).min(max)),
        };
        let duration = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or(self.max).min(self.max);
        (duration(least), duration(most.max(least)))
    }

    /// How long to pause before a retry, counted from 1, after a last pause. `random` is any number, all of them
    /// equally likely.
    pub fn pause(&self, retry: u32, last: Duration, random: u64) -> Duration {
        let (least, most) = self.range(retry, last);
        least + between(most.saturating_sub(least), random)
    }
}

/// A part of a span: 0 of it for 0, nearly the whole for the largest number.
fn between(span: Duration, random: u64) -> Duration {
    let nanos = (span.as_nanos() * u128::from(random)) >> 64;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

//! When each request is due.
#![allow(clippy::cast_precision_loss, reason = "counts are below 2^53")]

use std::time::Duration;

use fastrand::Rng;

use crate::profile::Profile;

/// How requests are spread over a profile.
#[derive(Clone, Debug)]
pub enum Arrivals {
    /// As evenly as the rate allows: request `i` is due when the integral of the rate has reached `i`.
    Even,
    /// As if many clients came independently of each other: a Poisson process of that rate.
    Poisson {
        /// The same seed gives the same times.
        seed: u64,
    },
}

/// The intended send times of a profile, in their order, counted from its start.
#[derive(Clone, Debug)]
pub struct Schedule {
    profile: Profile,
    /// How much of the integral has passed when the next request is due.
    next: f64,
    rng: Option<Rng>,
}

impl Schedule {
    /// The schedule of a profile.
    pub fn new(profile: Profile, arrivals: &Arrivals) -> Self {
        let mut rng = match arrivals {
            Arrivals::Even => None,
            Arrivals::Poisson { seed } => Some(Rng::with_seed(*seed)),
        };
        let next = rng.as_mut().map_or(0.0, exponential);
        Self { profile, next, rng }
    }

    /// When the next request is due; `None` after the last.
    pub fn due(&self) -> Option<Duration> {
        self.profile.due(self.next)
    }

    /// Goes on to the request so many further.
    pub fn advance(&mut self, count: u64) {
        match &mut self.rng {
            None => self.next += count as f64,
            // One by one, so that the sum is the same to the last bit for every sender.
            Some(rng) => (0..count).for_each(|_| self.next += exponential(rng)),
        }
    }

    /// Follows another profile from here on. What it says of the time before must be the same.
    pub fn change(&mut self, profile: Profile) {
        self.profile = profile;
    }
}

/// Exponentially distributed, with mean 1.
fn exponential(rng: &mut Rng) -> f64 {
    // 1 − u is never 0.
    -(1.0 - rng.f64()).ln()
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let due = self.due()?;
        self.advance(1);
        Some(due)
    }
}

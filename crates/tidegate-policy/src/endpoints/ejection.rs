use std::num::NonZeroU32;
use std::time::Duration;

use super::outcome::Cause;
use crate::Timestamp;
use crate::timestamp::nanos;

/// When an endpoint is ejected for what its requests meet, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EjectionSettings {
    /// So many failures in a row eject an endpoint; `None` switches this rule off. Failures that are more than five
    /// minutes apart are not in a row: with event streams, which never end, nothing else may come between them.
    pub consecutive_failures: Option<NonZeroU32>,
    /// Whether endpoints are compared with each other, and how.
    pub success_rate: Option<SuccessRateSettings>,
    /// How long success rates are counted before they are compared. After each such time without trouble since an
    /// endpoint's return, its next ejection is shorter by one `base` again.
    pub interval: Duration,
    /// How long the first ejection lasts. Each further one in a row is longer by as much.
    pub base: Duration,
    /// The longest that an ejection lasts.
    pub max: Duration,
    /// The largest share of the endpoints that may be out after an ejection, from 0 to 1, rounded down. Those that are
    /// unhealthy, draining or forced down count as well as those that are ejected.
    ///
    /// Whatever the share: while none is ejected, one may be. The last endpoint that is up never is, because without it
    /// requests would go to those that are out.
    pub max_share: f64,
}

/// 5 failures in a row, or a success rate far below the others' in 10 s; 30 s, growing to 300 s; half of the pool.
impl Default for EjectionSettings {
    fn default() -> Self {
        Self {
            consecutive_failures: NonZeroU32::new(5),
            success_rate: Some(SuccessRateSettings::default()),
            interval: Duration::from_secs(10),
            base: Duration::from_secs(30),
            max: Duration::from_secs(300),
            max_share: 0.5,
        }
    }
}

/// When an endpoint's success rate is too far below the others'.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SuccessRateSettings {
    /// So many endpoints must have enough requests, or nothing is compared.
    pub min_endpoints: usize,
    /// So many requests in the interval are enough.
    pub min_requests: u64,
    /// An endpoint is ejected if its rate is below the mean of the others' by more than so many standard deviations of
    /// theirs.
    pub deviations: f64,
    /// It is never ejected if its rate is at least this share of the mean. When all others succeed always, their
    /// standard deviation is zero, and a single failure would be enough.
    pub tolerated_share: f64,
}

/// 5 endpoints with 100 requests each, 1.9 standard deviations, nothing above 95 % of the mean.
impl Default for SuccessRateSettings {
    fn default() -> Self {
        Self { min_endpoints: 5, min_requests: 100, deviations: 1.9, tolerated_share: 0.95 }
    }
}

/// Why an endpoint is ejected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// Too many requests in a row failed.
    ConsecutiveFailures {
        /// What was wrong with the last of them.
        last: Cause,
    },
    /// Fewer of its requests succeeded than of the others'.
    SuccessRate {
        /// Its rate in the last interval, from 0 to 1.
        rate: f64,
        /// The mean of the others' rates.
        others: f64,
    },
}

impl Reason {
    /// The word for it in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConsecutiveFailures { .. } => "consecutive_failures",
            Self::SuccessRate { .. } => "success_rate",
        }
    }
}

impl EjectionSettings {
    /// How many of `endpoints` the largest share is.
    pub(super) fn most_out(&self, endpoints: usize) -> usize {
        // What arithmetic leaves of a whole number is one: 0.29 of 100 is 29.
        const FUZZ: f64 = 1e-9;
        let count = u32::try_from(endpoints).unwrap_or(u32::MAX);
        (f64::from(count) * self.max_share + FUZZ).floor() as usize
    }

    fn interval_nanos(&self) -> u64 {
        nanos(self.interval).max(1)
    }

    /// Which interval `now` is in.
    pub(super) fn interval_number(&self, now: Timestamp) -> u64 {
        now.as_nanos() / self.interval_nanos()
    }

    /// How long the ejection lasts that is number `in_a_row`.
    fn length(&self, in_a_row: u32) -> u64 {
        nanos(self.base).saturating_mul(in_a_row.into()).min(nanos(self.max)).max(1)
    }

    /// The number from which on ejections last no longer than the one before. Counting further would only delay the
    /// way back to short ones.
    fn longest_row(&self) -> u32 {
        u32::try_from(nanos(self.max).div_ceil(nanos(self.base).max(1))).unwrap_or(u32::MAX).max(1)
    }
}

/// What is remembered of one endpoint's ejections.
#[derive(Debug, Default)]
pub(super) struct Ejections {
    /// The one that lasts, or whose end was not reported yet.
    current: Option<(Timestamp, Reason)>,
    in_a_row: u32,
    /// When the last ejection ended, or was last due again.
    calm_since: Timestamp,
}

impl Ejections {
    /// Until when it is ejected, and why. The end may have passed.
    pub(super) const fn current(&self) -> Option<(Timestamp, Reason)> {
        self.current
    }

    pub(super) fn is_ejected(&self, now: Timestamp) -> bool {
        self.current.is_some_and(|(until, _)| now < until)
    }

    /// How many ejections in a row there were: one less for each interval since without trouble.
    pub(super) fn in_a_row(&self, settings: &EjectionSettings, now: Timestamp) -> u32 {
        let calm = now.nanos_since(self.calm_since) / settings.interval_nanos();
        self.in_a_row.saturating_sub(u32::try_from(calm).unwrap_or(u32::MAX))
    }

    /// Ejects it; returns for how long, and how many ejections in a row this is.
    pub(super) fn eject(&mut self, settings: &EjectionSettings, reason: Reason, now: Timestamp) -> (Duration, u32) {
        let in_a_row = self.in_a_row(settings, now).saturating_add(1).min(settings.longest_row());
        let length = settings.length(in_a_row);
        let until = now.later(length);
        *self = Self { current: Some((until, reason)), in_a_row, calm_since: until };
        (Duration::from_nanos(length), in_a_row)
    }

    /// It should have been ejected: no calm time for it.
    pub(super) fn note_trouble(&mut self, settings: &EjectionSettings, now: Timestamp) {
        self.in_a_row = self.in_a_row(settings, now);
        self.calm_since = now;
    }

    /// Forgets an ejection that is over; says whether there was one.
    pub(super) fn take_return(&mut self, now: Timestamp) -> bool {
        self.current.take_if(|(until, _)| *until <= now).is_some()
    }
}

//! Which addresses a name has now, and when it is looked up again. It has no clock and asks nobody: it is handed the
//! time and what lookups have found.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_policy::Timestamp;

use super::lookup_error::LookupError;

/// The most addresses of a name. A name with more is probably a mistake, and each address has its own connections.
pub(crate) const MOST_ADDRESSES: usize = 64;

/// The pause after the first failure; it doubles with each failure that follows.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The largest part of a pause that jitter takes away, so that many gateways do not ask in step.
const JITTER: f64 = 0.25;

/// How long records may be used, whatever their TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TtlBounds {
    pub(crate) min: Duration,
    pub(crate) max: Duration,
}

/// The addresses of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Records {
    pub(crate) addresses: Vec<IpAddr>,
    /// The smallest TTL, aliases included.
    pub(crate) ttl: Duration,
}

/// What a lookup has found for one family.
pub(crate) type Found = Result<Records, LookupError>;

/// What a lookup has found, for each family.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) v4: Found,
    pub(crate) v6: Found,
}

/// What people and endpoints need to know about a name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Addresses {
        added: Vec<IpAddr>,
        removed: Vec<IpAddr>,
    },
    /// The name has more addresses than [`MOST_ADDRESSES`].
    TooMany {
        found: usize,
    },
    /// Lookups fail from now on. The addresses stay.
    Failing {
        error: LookupError,
    },
    /// Lookups succeed again.
    Recovered {
        after: Duration,
    },
}

/// The addresses of a name, and when it is looked up again.
pub(crate) struct Schedule {
    ttl: TtlBounds,
    v4: Family,
    v6: Family,
    /// Of both families: sorted, at most [`MOST_ADDRESSES`].
    addresses: Arc<[IpAddr]>,
    is_too_many: bool,
    /// Lookups in a row in which at least one family failed.
    failures: u32,
    failing_since: Option<Timestamp>,
    due: Timestamp,
}

/// The last good addresses of one family.
#[derive(Default)]
struct Family {
    /// Sorted, at most [`MOST_ADDRESSES`].
    addresses: Vec<IpAddr>,
    /// How many there were.
    found: usize,
}

impl Family {
    fn replace(&mut self, mut addresses: Vec<IpAddr>) {
        for address in &mut addresses {
            *address = address.to_canonical();
        }
        addresses.sort_unstable();
        addresses.dedup();
        self.found = addresses.len();
        addresses.truncate(MOST_ADDRESSES);
        self.addresses = addresses;
    }

    /// Takes in what a lookup has found. Returns the TTL if there are addresses, or whether the lookup has failed.
    fn record(&mut self, found: Found) -> Result<Option<Duration>, LookupError> {
        match found {
            Ok(records) => {
                self.replace(records.addresses);
                Ok(Some(records.ttl))
            }
            // Normal: many names have addresses of one family only.
            Err(error) if error.is_definite() => {
                self.replace(Vec::new());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Schedule {
    /// A name without addresses, due at once.
    pub(crate) fn new(ttl: TtlBounds) -> Self {
        Self {
            ttl,
            v4: Family::default(),
            v6: Family::default(),
            addresses: Arc::new([]),
            is_too_many: false,
            failures: 0,
            failing_since: None,
            due: Timestamp::default(),
        }
    }

    /// The addresses now: of both families, sorted.
    pub(crate) fn addresses(&self) -> &Arc<[IpAddr]> {
        &self.addresses
    }

    /// When the next lookup is due.
    pub(crate) fn due(&self) -> Timestamp {
        self.due
    }

    /// Whether the last lookup has failed for both families.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing_since.is_some()
    }

    /// Takes in what a lookup has found. `jitter` is from 0 to 1.
    pub(crate) fn record(&mut self, outcome: Outcome, now: Timestamp, jitter: f64) -> Vec<Change> {
        match (non_empty(outcome.v4), non_empty(outcome.v6)) {
            (Err(v4), Err(v6)) => self.fail(LookupError::of_both(v4, v6), now, jitter),
            (v4, v6) => self.succeed(v4, v6, now, jitter),
        }
    }

    /// No family has addresses. That may be a mistake of an operator or of a name server: the last good addresses are
    /// more likely to work than none.
    fn fail(&mut self, error: LookupError, now: Timestamp, jitter: f64) -> Vec<Change> {
        self.failures = self.failures.saturating_add(1);
        self.due = now + pause(self.failures, jitter);
        if self.failing_since.is_some() {
            return Vec::new();
        }
        self.failing_since = Some(now);
        vec![Change::Failing { error }]
    }

    /// At least one family has addresses. Of a family that could not be looked up, the last good ones stay.
    fn succeed(&mut self, v4: Found, v6: Found, now: Timestamp, jitter: f64) -> Vec<Change> {
        let (v4, v6) = (self.v4.record(v4), self.v6.record(v6));
        let has_failed = v4.is_err() || v6.is_err();
        self.failures = if has_failed { self.failures.saturating_add(1) } else { 0 };
        let ttls = [v4, v6].into_iter().filter_map(|ttl| ttl.ok().flatten());
        let ttl = ttls.min().unwrap_or(self.ttl.min).min(self.ttl.max).max(self.ttl.min);
        // The other family is asked for again before the TTL is over.
        let wait = if has_failed { pause(self.failures, jitter).min(ttl) } else { ttl };
        self.due = now + wait;
        let mut changes = Vec::new();
        if let Some(since) = self.failing_since.take() {
            changes.push(Change::Recovered { after: now.since(since) });
        }
        self.combine(&mut changes);
        changes
    }

    /// Makes one list of both families.
    fn combine(&mut self, changes: &mut Vec<Change>) {
        let mut addresses: Vec<IpAddr> = self.v4.addresses.iter().chain(&self.v6.addresses).copied().collect();
        addresses.sort_unstable();
        addresses.dedup();
        let is_cut = [&self.v4, &self.v6].iter().any(|family| family.found > family.addresses.len());
        let found = if is_cut { self.v4.found + self.v6.found } else { addresses.len() };
        let is_too_many = found > MOST_ADDRESSES;
        addresses.truncate(MOST_ADDRESSES);
        let added: Vec<IpAddr> = addresses.iter().filter(|ip| !self.addresses.contains(ip)).copied().collect();
        let removed: Vec<IpAddr> = self.addresses.iter().filter(|ip| !addresses.contains(ip)).copied().collect();
        if !added.is_empty() || !removed.is_empty() {
            self.addresses = addresses.into();
            changes.push(Change::Addresses { added, removed });
        }
        if is_too_many && !self.is_too_many {
            changes.push(Change::TooMany { found });
        }
        self.is_too_many = is_too_many;
    }
}

/// A response without addresses counts as one that says that there are none.
fn non_empty(found: Found) -> Found {
    found.and_then(|records| if records.addresses.is_empty() { Err(LookupError::NoAddress) } else { Ok(records) })
}

/// How long to wait after this many failures in a row.
fn pause(failures: u32, jitter: f64) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    let pause = FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE);
    pause.mul_f64(1.0 - JITTER * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::sync::{Arc, PoisonError, RwLock};

use tidegate_policy::{Cost, Keyed, Rule, Timestamp};

use crate::key::{Key, Name};
use crate::lease::Lease;
use crate::numbers::{Numbers, Unshareable};

/// Whether every request asks Redis, or tokens are taken in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One call a request; exact among all who share it.
    Exact,
    /// Tokens are leased and spent locally; never above the limit, under-used by what is leased and unspent.
    Leased,
}

impl Sharing {
    /// Whether a rule can be shared like this.
    pub fn check(self, rule: &Rule) -> Result<(), Unshareable> {
        self.numbers(rule).map(|_| ())
    }

    fn numbers(self, rule: &Rule) -> Result<Numbers, Unshareable> {
        let numbers = Numbers::of(rule)?;
        if self == Self::Leased {
            numbers.check_leasable()?;
        }
        Ok(numbers)
    }
}

/// A named limit whose state is shared. Clones are the same limit.
#[derive(Clone)]
pub struct SharedLimit(Arc<Shared>);

struct Shared {
    namespace: Name,
    name: Name,
    /// What all its Redis keys begin with; the hash tag keeps a namespace on one master.
    prefix: String,
    sharing: Sharing,
    numbers: RwLock<Numbers>,
    /// Decides while Redis is away, where the failure mode says so. It is kept from one outage to the next.
    local: Keyed<Key, Rule>,
    leases: Keyed<Key, Lease>,
}

/// One of the limits of a request: which, by which key, at what cost.
#[derive(Clone, Copy)]
pub struct SharedLevel<'a> {
    /// The limit.
    pub limit: &'a SharedLimit,
    /// The key it counts by.
    pub key: Key,
    /// What it takes.
    pub cost: Cost,
}

impl SharedLimit {
    pub(crate) fn new(
        namespace: &Name,
        name: Name,
        rule: Rule,
        sharing: Sharing,
        max_keys: NonZeroUsize,
    ) -> Result<Self, Unshareable> {
        let numbers = sharing.numbers(&rule)?;
        Ok(Self(Arc::new(Shared {
            prefix: format!("tidegate:{{{}}}:{}", namespace.as_str(), name.as_str()),
            namespace: namespace.clone(),
            name,
            sharing,
            numbers: RwLock::new(numbers),
            local: Keyed::new(rule, max_keys),
            leases: Keyed::new(Lease { capacity: numbers.capacity() }, max_keys),
        })))
    }

    pub(crate) fn namespace(&self) -> &Name {
        &self.0.namespace
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// How it is shared.
    pub fn sharing(&self) -> Sharing {
        self.0.sharing
    }

    /// Sets other numbers: in this process at once; in Redis each key follows at its next request. What was used stays
    /// used; leases under the old numbers are dropped. Another algorithm starts every key anew.
    ///
    /// The same numbers as before change nothing, and drop no lease.
    ///
    /// Processes that share a limit should change it together. While some ask with larger numbers and some with smaller
    /// ones, a bucket admits no more than the larger ones allow; of windows of different lengths, what the smaller
    /// limit cuts off the larger one can use again.
    pub fn change(&self, rule: &Rule, now: Timestamp) -> Result<(), Unshareable> {
        let numbers = self.0.sharing.numbers(rule)?;
        // Held to the end, so that of two changes at once one comes after the other.
        let mut current = self.0.numbers.write().unwrap_or_else(PoisonError::into_inner);
        if self.0.local.limiter() == *rule {
            return Ok(()); // nothing changes, so no lease is dropped
        }
        *current = numbers;
        self.0.local.change(rule, now);
        self.0.leases.change(&Lease { capacity: numbers.capacity() }, now);
        Ok(())
    }

    /// Whether both are the same limit.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn numbers(&self) -> Numbers {
        *self.0.numbers.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn local(&self) -> &Keyed<Key, Rule> {
        &self.0.local
    }

    pub(crate) fn leases(&self) -> &Keyed<Key, Lease> {
        &self.0.leases
    }

    /// The Redis keys of one key of the limit: they carry the limit's name and algorithm, never its numbers.
    pub(crate) fn redis_keys(&self, numbers: &Numbers, key: Key) -> impl Iterator<Item = String> {
        let state = format!("{}:{}:{key}", self.0.prefix, numbers.algorithm);
        let entries = (numbers.key_count() == 2).then(|| format!("{state}:log"));
        std::iter::once(state).chain(entries)
    }
}

//! The share that one client address has of what all clients use together: connections, HTTP/2 streams, connections to
//! an upstream.
//!
//! An address may hold more as long as it holds less than a multiple of what is still free. So an address that is alone
//! may take [`MostHeld`] of the whole. The more addresses take a lot, the less each of them may take, and something is
//! always left for an address that holds little. Nothing has to be configured for each address.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::deadlines::Owner;

/// So many are never more than a share.
pub const FEW: usize = 4;

/// The most of the whole that one address may hold when it is alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MostHeld {
    permille: u64,
}

impl MostHeld {
    /// The whole: addresses are not bounded.
    pub const ALL: Self = Self { permille: 1_000 };

    /// A share between 0 and 1, to the nearest thousandth that is more than 0.
    pub fn new(share: f64) -> Self {
        // A cast of a float saturates.
        Self { permille: ((share * 1_000.0).round() as u64).clamp(1, 1_000) }
    }

    /// Whether an address that holds so many may take one more, while so many are free. An address that holds few may
    /// always have another, or wait for it: a small whole has no shares worth speaking of.
    pub fn permits(self, held: usize, free: usize) -> bool {
        let is_few = held < FEW;
        let (held, free) = (held as u64, free as u64);
        self == Self::ALL || is_few || held.saturating_mul(1_000 - self.permille) < free.saturating_mul(self.permille)
    }
}

/// Endpoints are counted in so many groups. Those that fall into one group are counted together.
pub const GROUPS: usize = 64;

/// What one client address holds.
#[derive(Debug)]
pub struct AddressShare {
    /// The owner of its connections.
    pub owner: Owner,
    /// Its open connections.
    pub connections: AtomicUsize,
    /// Its connections with requests under way. Others can be closed for another client at any time.
    pub busy: AtomicUsize,
    /// Its HTTP/2 requests under way.
    pub streams: AtomicUsize,
    /// Connections to upstreams that its requests use, by group.
    upstream: [AtomicU32; GROUPS],
}

impl Default for AddressShare {
    fn default() -> Self {
        Self {
            owner: Owner::unique(),
            connections: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            upstream: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }
}

impl AddressShare {
    /// Connections to this upstream that its requests use.
    pub fn of_upstream(&self, upstream: Owner) -> &AtomicU32 {
        &self.upstream[upstream.index(GROUPS)]
    }
}

/// Where a connection is counted while it has requests under way.
#[derive(Clone, Debug, Default)]
pub struct BusyConnections {
    /// Together with those of all clients.
    pub all: Arc<AtomicUsize>,
    /// With those of its address, if that has a share.
    pub address: Option<Arc<AddressShare>>,
}

impl BusyConnections {
    /// Counts one more. Returns how many its address had before; 0 if that has no share.
    pub(crate) fn add(&self) -> usize {
        self.all.fetch_add(1, Ordering::Relaxed);
        self.address.as_ref().map_or(0, |address| address.busy.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn remove(&self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
        if let Some(address) = &self.address {
            address.busy.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much of the whole each of some addresses gets that take all they may.
    fn taken(share: f64, whole: usize, addresses: usize) -> Vec<usize> {
        let most = MostHeld::new(share);
        let mut held = vec![0; addresses];
        loop {
            let before: usize = held.iter().sum();
            for address in 0..addresses {
                let free = whole - held.iter().sum::<usize>();
                if free > 0 && most.permits(held[address], free) {
                    held[address] += 1;
                }
            }
            if held.iter().sum::<usize>() == before {
                return held;
            }
        }
    }

    #[test]
    fn an_address_alone_takes_its_share_and_leaves_the_rest() {
        for (share, whole, most) in [(0.8, 4_096, 3_277), (0.5, 10, 5), (0.8, 10, 8), (1.0, 10, 10), (0.001, 10, 4)] {
            assert_eq!(taken(share, whole, 1), [most], "{share} of {whole}");
        }
    }

    #[test]
    fn many_addresses_leave_something_for_one_that_holds_little() {
        for addresses in [2, 50, 500] {
            let held = taken(0.8, 4_096, addresses);
            let left = 4_096 - held.iter().sum::<usize>();
            assert!(left > 0 && MostHeld::new(0.8).permits(0, left), "{addresses} leave {left}");
            assert!(held.iter().max() <= Some(&(held[0] + 1)), "{addresses} have equal shares");
        }
        assert_eq!(4_096 - taken(0.8, 4_096, 50).iter().sum::<usize>(), 20);
    }

    #[test]
    fn if_nothing_is_free_only_those_that_hold_little_may_wait() {
        let most = MostHeld::new(0.8);
        assert!(most.permits(0, 0) && most.permits(3, 0) && !most.permits(4, 0));
        assert!(MostHeld::ALL.permits(usize::MAX, 1), "addresses are not bounded");
    }
}

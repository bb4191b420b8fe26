use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;

use crate::charge::Charge;
use crate::link::{CallError, Link};
use crate::script::{Scripts, Task};

/// What every call about limits needs: the link to Redis, the scripts, and ids for what is taken there.
pub(crate) struct Session {
    pub(crate) link: Arc<Link>,
    pub(crate) scripts: Scripts,
    /// The one it was connected on, which outlives the requests.
    pub(crate) runtime: Handle,
    next_id: AtomicU64,
}

impl Session {
    /// Must be called on the runtime that calls may use later.
    pub(crate) fn new(link: Arc<Link>) -> Self {
        // What different processes name must never have the same id: 32 random bits, then a counter; 52 bits in all.
        let random = std::hash::RandomState::new().hash_one(std::process::id()) & 0xffff_ffff;
        let next_id = AtomicU64::new(random << 20);
        Self { link, scripts: Scripts::default(), runtime: Handle::current(), next_id }
    }

    /// A number that nobody else has.
    pub(crate) fn next_id(&self) -> u64 {
        (self.next_id.fetch_add(1, Ordering::Relaxed) & ((1 << 52) - 1)).max(1)
    }

    /// Returns to Redis what it charged, in one call.
    pub(crate) async fn give_back(&self, charges: impl ExactSizeIterator<Item = &Charge>) -> Result<(), CallError> {
        let (mut keys, mut algorithms) = (Vec::with_capacity(charges.len()), Vec::with_capacity(charges.len()));
        let mut args = vec![String::new()];
        for charge in charges {
            algorithms.push(charge.numbers.algorithm);
            keys.extend(charge.keys.iter().cloned());
            args.push(charge.numbers.algorithm.name().to_owned());
            args.extend(charge.numbers.args.map(|number| number.to_string()));
            args.push(charge.cost.to_string());
            args.extend(charge.receipt.map(|number| number.to_string()));
        }
        let script = self.scripts.get(Task::GiveBack, &algorithms);
        self.link.run(&script, &keys, &args, 1).await.map(drop)
    }
}

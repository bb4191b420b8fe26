//! A cache of verified tokens: checking a signature takes 40 µs (RSA) to 1 ms (P-384), looking its hash up less than 1
//! µs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::Caller;
use super::super::digest::Digest;

/// How many are kept. When the cache is full it is emptied: no order need be kept, and a thousand checks are paid at
/// most once for a thousand new tokens.
pub(super) const CAPACITY: usize = 1024;

/// When a token may be used, leeway included.
#[derive(Clone, Copy)]
pub(super) struct Lifetime {
    pub(super) first_second: u64,
    /// The first second at which it may not be used any more.
    pub(super) end_second: u64,
}

impl Lifetime {
    pub(super) fn check(self, now: u64) -> Result<(), &'static str> {
        if now >= self.end_second {
            Err("it has expired")
        } else if now < self.first_second {
            Err("it is not valid yet")
        } else {
            Ok(())
        }
    }
}

/// The caller of a verified token, and when the token may be used.
#[derive(Clone)]
pub(super) struct Verified {
    pub(super) caller: Arc<Caller>,
    pub(super) lifetime: Lifetime,
}

/// The cache: by the token's hash, so that it holds no tokens.
#[derive(Default)]
pub(super) struct VerifiedTokens {
    by_digest: Mutex<HashMap<Digest, Verified>>,
}

impl VerifiedTokens {
    /// Its lifetime is still to be checked.
    pub(super) fn get(&self, digest: &Digest) -> Option<Verified> {
        self.lock().get(digest).cloned()
    }

    pub(super) fn insert(&self, digest: Digest, verified: Verified) {
        let mut by_digest = self.lock();
        if by_digest.len() >= CAPACITY {
            by_digest.clear();
        }
        by_digest.insert(digest, verified);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Every change is one call to the map, so a thread that died while holding it has left nothing half done.
    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Verified>> {
        self.by_digest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

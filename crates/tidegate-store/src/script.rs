//! The scripts that run inside Redis. Each algorithm has its own file; a script is put together from those a request
//! needs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_policy::Algorithm;

/// What a script does with the limits it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// Decide, and charge all or none.
    Check,
    /// Return what was charged.
    GiveBack,
    /// Take tokens in advance.
    Lease,
}

/// A script as Redis knows it.
pub struct Script {
    /// Its source.
    pub text: String,
    /// The digest by which Redis remembers it.
    pub sha: String,
}

impl Script {
    /// The script for `task` on limits of these algorithms (each named once or more).
    pub fn new(task: Task, algorithms: &[Algorithm]) -> Self {
        let any = |wanted: &[Algorithm]| algorithms.iter().any(|algorithm| wanted.contains(algorithm));
        let mut text = String::from(include_str!("../lua/clock.lua"));
        if any(&[Algorithm::FixedWindow, Algorithm::SlidingCounter]) {
            text.push_str(include_str!("../lua/windows.lua"));
        }
        if any(&[Algorithm::TokenBucket, Algorithm::Gcra, Algorithm::LeakyBucket]) {
            text.push_str(include_str!("../lua/bucket.lua"));
        }
        if any(&[Algorithm::SlidingLog, Algorithm::Concurrency]) {
            text.push_str(include_str!("../lua/log.lua"));
        }
        for algorithm in Algorithm::ALL.iter().filter(|algorithm| algorithms.contains(algorithm)) {
            text.push_str(match algorithm {
                Algorithm::FixedWindow => include_str!("../lua/fixed.lua"),
                Algorithm::SlidingCounter => include_str!("../lua/sliding.lua"),
                Algorithm::SlidingLog => include_str!("../lua/sliding_log.lua"),
                Algorithm::TokenBucket => include_str!("../lua/token.lua"),
                Algorithm::LeakyBucket => include_str!("../lua/leaky.lua"),
                Algorithm::Gcra => include_str!("../lua/gcra.lua"),
                Algorithm::Concurrency => include_str!("../lua/concurrency.lua"),
            });
        }
        text.push_str(match task {
            Task::Check => include_str!("../lua/exact.lua"),
            Task::GiveBack => include_str!("../lua/give_back.lua"),
            Task::Lease => include_str!("../lua/lease.lua"),
        });
        Self::of(text)
    }

    pub(crate) fn of(text: String) -> Self {
        let sha = redis::Script::new(&text).get_hash().to_owned();
        Self { text, sha }
    }
}

/// The scripts used so far: at most one for each task and set of algorithms.
#[derive(Default)]
pub(crate) struct Scripts {
    known: Mutex<HashMap<(Task, u32), Arc<Script>>>,
}

impl Scripts {
    pub(crate) fn get(&self, task: Task, algorithms: &[Algorithm]) -> Arc<Script> {
        let set = algorithms.iter().fold(0, |set, algorithm| set | 1 << *algorithm as u32);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry((task, set)).or_insert_with(|| Arc::new(Script::new(task, algorithms))))
    }
}

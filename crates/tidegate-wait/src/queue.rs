use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use crate::signal::{Signal, lock};

/// Who waits for which key, in the order of arrival. Only the first of a key asks the limit; the others wait until it
/// leaves.
pub(crate) struct Queue<K> {
    waiters: Mutex<Waiters<K>>,
    max_waiting: usize,
}

struct Waiters<K> {
    of: HashMap<K, VecDeque<Arc<Signal>>>,
    count: usize,
}

/// As many are waiting as may.
#[derive(Debug)]
pub(crate) struct Full;

impl<K: Hash + Eq + Clone> Queue<K> {
    pub(crate) fn new(max_waiting: usize) -> Self {
        Self { waiters: Mutex::new(Waiters { of: HashMap::new(), count: 0 }), max_waiting }
    }

    pub(crate) fn is_empty(&self, key: &K) -> bool {
        !lock(&self.waiters).of.contains_key(key)
    }

    /// Joins the queue of `key` at its end.
    pub(crate) fn enter(&self, key: &K) -> Result<Waiter<'_, K>, Full> {
        let mut waiters = lock(&self.waiters);
        if waiters.count >= self.max_waiting {
            return Err(Full);
        }
        let signal = Arc::new(Signal::default());
        waiters.count += 1;
        waiters.of.entry(key.clone()).or_default().push_back(Arc::clone(&signal));
        Ok(Waiter { queue: self, key: key.clone(), signal })
    }

    /// Wakes the first waiter of `key`: something has changed that it should look at.
    pub(crate) fn wake_first(&self, key: &K) {
        let first = lock(&self.waiters).of.get(key).and_then(|queue| queue.front().cloned());
        if let Some(first) = first {
            first.send();
        }
    }
}

/// One who waits in the queue. Dropping it, for whatever reason, lets the next one forward.
pub(crate) struct Waiter<'a, K: Hash + Eq + Clone> {
    queue: &'a Queue<K>,
    key: K,
    pub(crate) signal: Arc<Signal>,
}

impl<K: Hash + Eq + Clone> Waiter<'_, K> {
    pub(crate) fn is_first(&self) -> bool {
        let waiters = lock(&self.queue.waiters);
        waiters.of.get(&self.key).and_then(VecDeque::front).is_some_and(|first| Arc::ptr_eq(first, &self.signal))
    }
}

impl<K: Hash + Eq + Clone> Drop for Waiter<'_, K> {
    fn drop(&mut self) {
        {
            let mut waiters = lock(&self.queue.waiters);
            waiters.count -= 1;
            if let Some(queue) = waiters.of.get_mut(&self.key) {
                queue.retain(|other| !Arc::ptr_eq(other, &self.signal));
                if queue.is_empty() {
                    waiters.of.remove(&self.key);
                }
            }
        }
        self.queue.wake_first(&self.key);
    }
}

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// Who waits for which key, in the order of arrival. Only the first of a key asks the limit; the others wait for him to leave.
pub(crate) struct Line<K> {
    queues: Mutex<Queues<K>>,
    max_waiting: usize,
}

struct Queues<K> {
    of: HashMap<K, VecDeque<Arc<Signal>>>,
    waiting: usize,
}

/// Wakes one who waits. A signal that comes early is kept.
#[derive(Default)]
pub(crate) struct Signal(Mutex<(bool, Option<Waker>)>);

/// There is no room in the line.
#[derive(Debug)]
pub(crate) struct Full;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Signal {
    fn send(&self) {
        let waker = {
            let mut state = lock(&self.0);
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ready once, for each time it was sent (or several at once).
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<()> {
        let mut state = lock(&self.0);
        if std::mem::take(&mut state.0) {
            return Poll::Ready(());
        }
        state.1 = Some(waker.clone());
        Poll::Pending
    }
}

impl<K: Hash + Eq + Clone> Line<K> {
    pub(crate) fn new(max_waiting: usize) -> Self {
        Self { queues: Mutex::new(Queues { of: HashMap::new(), waiting: 0 }), max_waiting }
    }

    pub(crate) fn is_empty(&self, key: &K) -> bool {
        !lock(&self.queues).of.contains_key(key)
    }

    /// Takes a place at the end.
    pub(crate) fn enter(&self, key: &K) -> Result<Place<'_, K>, Full> {
        let mut queues = lock(&self.queues);
        if queues.waiting >= self.max_waiting {
            return Err(Full);
        }
        let signal = Arc::new(Signal::default());
        queues.waiting += 1;
        queues.of.entry(key.clone()).or_default().push_back(Arc::clone(&signal));
        Ok(Place { line: self, key: key.clone(), signal })
    }

    /// Wakes the first in line: something has changed that he should know of.
    pub(crate) fn wake_first(&self, key: &K) {
        let first = lock(&self.queues).of.get(key).and_then(|queue| queue.front().cloned());
        if let Some(first) = first {
            first.send();
        }
    }
}

/// A place in the line; leaving it, by whatever way, lets the next one forward.
pub(crate) struct Place<'a, K: Hash + Eq + Clone> {
    line: &'a Line<K>,
    key: K,
    pub(crate) signal: Arc<Signal>,
}

impl<K: Hash + Eq + Clone> Place<'_, K> {
    pub(crate) fn is_first(&self) -> bool {
        let queues = lock(&self.line.queues);
        queues.of.get(&self.key).and_then(VecDeque::front).is_some_and(|first| Arc::ptr_eq(first, &self.signal))
    }
}

impl<K: Hash + Eq + Clone> Drop for Place<'_, K> {
    fn drop(&mut self) {
        {
            let mut queues = lock(&self.line.queues);
            queues.waiting -= 1;
            if let Some(queue) = queues.of.get_mut(&self.key) {
                queue.retain(|other| !Arc::ptr_eq(other, &self.signal));
                if queue.is_empty() {
                    queues.of.remove(&self.key);
                }
            }
        }
        self.line.wake_first(&self.key);
    }
}

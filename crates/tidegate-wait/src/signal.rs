use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;

/// Wakes one waiter. A signal that comes early is kept.
#[derive(Debug, Default)]
pub(crate) struct Signal(Mutex<(bool, Option<Waker>)>);

/// A thread that panicked while it held one of these locks left no half-done step behind.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Signal {
    pub(crate) fn send(&self) {
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

/// Wakes this thread.
pub(crate) fn unparker() -> Waker {
    Waker::from(Arc::new(Unpark(std::thread::current())))
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

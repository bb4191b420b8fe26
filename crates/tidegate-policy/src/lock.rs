use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Locks for a step of some ten nanoseconds. The thread that holds the lock is all but done, so it pays to look again a
/// few times, further and further apart, before asking the kernel to wait.
///
/// A thread that panicked in a key's `Hash` or `Eq` left no half-done step behind: a poisoned lock is as good as any.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    const LOOKS: u32 = 8;
    for look in 0..LOOKS {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => (0..1_u32 << look).for_each(|_| std::hint::spin_loop()),
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

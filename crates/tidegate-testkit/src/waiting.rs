//! Waiting for what other processes do in their own time, with a bound. Only here do tests sleep.

use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(20);

const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Waits until `condition` holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let found = wait_for(PATIENCE, || condition().then_some(()));
    assert!(found.is_some(), "in vain: {what}");
}

/// The same in a task.
pub async fn wait_until_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < until, "in vain: {what}");
        pause_async(BETWEEN_LOOKS).await;
    }
}

/// Looks again and again until there is something. None if there is nothing after `patience`.
pub fn wait_for<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + patience;
    loop {
        let found = look();
        if found.is_some() || Instant::now() > until {
            return found;
        }
        pause(BETWEEN_LOOKS);
    }
}

/// How a process ended. None if it still runs after `patience`.
pub fn wait_for_exit(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    wait_for(patience, || child.try_wait().expect("it can be asked"))
}

/// Lets time pass, where time itself is what a test is about: a peer that is slow, a moment of a schedule, the time
/// that a response says to wait. What happens is waited for by `wait_until`.
pub fn pause(length: Duration) {
    std::thread::sleep(length);
}

/// The same in a task.
pub async fn pause_async(length: Duration) {
    tokio::time::sleep(length).await;
}

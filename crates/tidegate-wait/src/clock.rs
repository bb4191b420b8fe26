use std::time::SystemTime;

use tidegate_policy::Timestamp;
use tokio::time::Instant;

/// The one source of the time: wall time when it started, plus the monotonic time since. Windows align to the epoch,
/// and setting the machine's clock moves nothing.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    wall: Timestamp,
}

impl Clock {
    /// A clock that shows the wall time now.
    pub fn start() -> Self {
        // A machine whose clock stands before 1970 counts from there: nothing but the windows' borders depends on it.
        Self { started: Instant::now(), wall: SystemTime::now().into() }
    }

    /// What time it was at a moment that was taken with the same monotonic clock: saves reading it twice.
    pub fn at(&self, moment: std::time::Instant) -> Timestamp {
        self.wall + moment.saturating_duration_since(self.started.into_std())
    }

    /// What time it is.
    pub fn now(&self) -> Timestamp {
        self.wall + self.started.elapsed()
    }
}

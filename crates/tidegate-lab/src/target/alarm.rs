use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Wakes sleepers to some ten microseconds.
///
/// The runtime's own timer counts milliseconds: a service of 5 ms would take between 5 and 6.1, and with it the capacity of
/// all workers would be a tenth less than what was asked for. This is one timer of the kernel for all who sleep.
pub(super) struct Alarm {
    timer: AsyncFd<OwnedFd>,
    sleepers: Mutex<Sleepers>,
}

#[derive(Default)]
struct Sleepers {
    by_time: BTreeMap<Bed, Waker>,
    beds: u64,
}

/// When somebody wants to be woken, and a number that tells those apart who want it at the same time.
type Bed = (Instant, u64);

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        #[expect(deprecated, reason = "what it warns of, a file that is not its own, an `OwnedFd` can't be")]
        let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
        Ok(Self { timer, sleepers: Mutex::default() })
    }

    /// Sleeps for so long, never less.
    pub(super) fn sleep(&self, time: Duration) -> Sleep<'_> {
        let number = {
            let mut sleepers = self.sleepers();
            sleepers.beds += 1;
            sleepers.beds
        };
        Sleep { alarm: self, bed: (Instant::now() + time, number), is_in_bed: false }
    }

    /// Wakes whose time has come. As long as nobody runs this, nobody wakes up.
    pub(super) async fn ring(&self) -> io::Error {
        loop {
            match self.timer.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(error) => return error,
            }
            // How often it rang does not matter, and that it did not is no error.
            let _rang = rustix::io::read(&self.timer, &mut [0; 8]);
            for sleeper in self.due() {
                sleeper.wake();
            }
        }
    }

    /// Takes out those whose time has come, and sets the timer for the next.
    fn due(&self) -> Vec<Waker> {
        let mut sleepers = self.sleepers();
        let later = sleepers.by_time.split_off(&(Instant::now(), u64::MAX));
        let due = std::mem::replace(&mut sleepers.by_time, later);
        if let Some(((time, _), _)) = sleepers.by_time.first_key_value() {
            self.set(*time);
        }
        due.into_values().collect()
    }

    fn set(&self, time: Instant) {
        // Nothing at all would stop the timer.
        let left = time.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() },
        };
        let set = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
        debug_assert!(set.is_ok(), "a timer of our own, and a time that is one: {set:?}");
    }

    fn sleepers(&self) -> MutexGuard<'_, Sleepers> {
        // Nothing panics half-way through a change here.
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who sleeps.
pub(super) struct Sleep<'a> {
    alarm: &'a Alarm,
    bed: Bed,
    is_in_bed: bool,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.bed.0 {
            return Poll::Ready(());
        }
        let mut sleepers = self.alarm.sleepers();
        sleepers.by_time.insert(self.bed, context.waker().clone());
        if sleepers.by_time.first_key_value().is_some_and(|(first, _)| *first == self.bed) {
            self.alarm.set(self.bed.0);
        }
        drop(sleepers);
        self.is_in_bed = true;
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if self.is_in_bed {
            self.alarm.sleepers().by_time.remove(&self.bed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn nobody_wakes_too_early_and_everybody_wakes() {
        let alarm = Alarm::new().expect("a timer");
        let sleeper = |micros: u64| {
            let alarm = &alarm;
            async move {
                let (began, time) = (Instant::now(), Duration::from_micros(micros));
                alarm.sleep(time).await;
                assert!(began.elapsed() >= time);
            }
        };
        let all = async { tokio::join!(sleeper(3_000), sleeper(500), sleeper(0), sleeper(500), sleeper(20_000)) };
        tokio::select! {
            error = alarm.ring() => panic!("{error}"),
            slept = timeout(LONG, all) => assert!(slept.is_ok()),
        }
        assert!(alarm.sleepers().by_time.is_empty());
    }

    #[tokio::test]
    async fn who_no_longer_sleeps_leaves_no_bed_and_others_still_wake() {
        let alarm = Alarm::new().expect("a timer");
        let both = async {
            let gone = timeout(Duration::from_millis(2), alarm.sleep(LONG)).await;
            assert!(gone.is_err() && alarm.sleepers().by_time.is_empty());
            // The first to be woken leaves while another sleeps on.
            tokio::join!(
                async {
                    let _gone = timeout(Duration::ZERO, alarm.sleep(Duration::from_millis(5))).await;
                },
                alarm.sleep(Duration::from_millis(10))
            );
        };
        tokio::select! {
            error = alarm.ring() => panic!("{error}"),
            slept = timeout(LONG, both) => assert!(slept.is_ok()),
        }
    }
}

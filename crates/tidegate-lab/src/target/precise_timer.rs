use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Keeps things until their time comes, to some ten microseconds.
///
/// The runtime's own timer counts milliseconds: a service of 5 ms would take between 5 and 6.1, and the capacity of all
/// workers would be a tenth less than configured. This is one timer of the kernel for all.
pub(super) struct PreciseTimer<T> {
    timer: AsyncFd<OwnedFd>,
    kept: Mutex<Kept<T>>,
}

struct Kept<T> {
    by_time: BTreeMap<(Instant, u64), T>,
    /// When each comes, by its number.
    times: HashMap<u64, Instant>,
}

impl<T> PreciseTimer<T> {
    pub(super) fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        #[expect(deprecated, reason = "what it warns of, a file that is not its own, an `OwnedFd` can't be")]
        let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
        Ok(Self { timer, kept: Mutex::new(Kept { by_time: BTreeMap::new(), times: HashMap::new() }) })
    }

    /// Keeps something for so long, never less, under a number that is used once.
    pub(super) fn keep(&self, number: u64, time: Duration, what: T) {
        let due = Instant::now() + time;
        let mut kept = self.kept();
        kept.times.insert(number, due);
        kept.by_time.insert((due, number), what);
        if kept.by_time.first_key_value().is_some_and(|(first, _)| *first == (due, number)) {
            self.set(due);
        }
    }

    /// Takes something out before its time.
    pub(super) fn take(&self, number: u64) -> Option<T> {
        let mut kept = self.kept();
        let due = kept.times.remove(&number)?;
        kept.by_time.remove(&(due, number))
    }

    /// Hands over everything when its time has come. Nothing is handed over unless this runs.
    pub(super) async fn run(&self, hand_over: impl Fn(T)) -> io::Error {
        loop {
            match self.timer.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(error) => return error,
            }
            // How often it went off does not matter; reading a timer that has not is not an error either.
            let _count = rustix::io::read(&self.timer, &mut [0; 8]);
            self.due().into_iter().for_each(&hand_over);
        }
    }

    /// Takes out what is due, and sets the timer for the next.
    fn due(&self) -> Vec<T> {
        let mut kept = self.kept();
        let later = kept.by_time.split_off(&(Instant::now(), u64::MAX));
        let due = std::mem::replace(&mut kept.by_time, later);
        for (_, number) in due.keys() {
            kept.times.remove(number);
        }
        if let Some(((time, _), _)) = kept.by_time.first_key_value() {
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

    fn kept(&self) -> MutexGuard<'_, Kept<T>> {
        // Nothing panics half-way through a change here.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use tokio::time::timeout;

    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn everything_comes_in_its_order_and_nothing_too_early() {
        let (timer, began) = (PreciseTimer::new().expect("a timer"), Instant::now());
        for (number, millis) in [(1, 20), (2, 3), (3, 0), (4, 3), (5, 10)] {
            timer.keep(number, Duration::from_millis(millis), (number, millis));
        }
        assert_eq!(timer.take(5), Some((5, 10)), "before its time");
        assert_eq!((timer.take(5), timer.take(9)), (None, None));
        let (order, last) = (RefCell::new(Vec::new()), tokio::sync::Notify::new());
        let running = timer.run(|(number, millis)| {
            assert!(began.elapsed() >= Duration::from_millis(millis));
            order.borrow_mut().push(number);
            if number == 1 {
                last.notify_one();
            }
        });
        tokio::select! {
            error = running => panic!("{error}"),
            came = timeout(LONG, last.notified()) => assert!(came.is_ok()),
        }
        assert_eq!(*order.borrow(), [3, 2, 4, 1]);
        assert!(timer.kept().by_time.is_empty() && timer.kept().times.is_empty());
    }

    #[tokio::test]
    async fn what_is_added_while_it_runs_comes_too() {
        let (timer, last) = (PreciseTimer::new().expect("a timer"), tokio::sync::Notify::new());
        timer.keep(0, Duration::ZERO, 0_u64);
        let running = timer.run(|number| match number {
            5 => last.notify_one(),
            _ => timer.keep(number + 1, Duration::from_micros(number * 100), number + 1),
        });
        tokio::select! {
            error = running => panic!("{error}"),
            came = timeout(LONG, last.notified()) => assert!(came.is_ok()),
        }
    }
}

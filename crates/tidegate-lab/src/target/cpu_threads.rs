use std::collections::VecDeque;
use std::hint::black_box;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Threads that use CPU time, one for each worker: services compete for real cores, and the thread that responds does
/// not. Each `T` is a service under way.
pub(super) struct CpuThreads<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    jobs: Mutex<Jobs<T>>,
    work: Condvar,
}

/// Never more than there are threads, for each has a worker.
struct Jobs<T> {
    waiting: VecDeque<(Duration, T)>,
    over: bool,
}

impl<T: Send + 'static> CpuThreads<T> {
    /// Starts so many threads, which end each service with `end`.
    pub(super) fn start(threads: usize, end: fn(T)) -> io::Result<Self> {
        let jobs = Jobs { waiting: VecDeque::new(), over: false };
        let pool = Self { shared: Arc::new(Shared { jobs: Mutex::new(jobs), work: Condvar::new() }) };
        for _ in 0..threads {
            let shared = Arc::clone(&pool.shared);
            thread::Builder::new().name("burner".to_owned()).stack_size(64 * 1024).spawn(move || shared.run(end))?;
        }
        Ok(pool)
    }

    /// Burns so much CPU time for a service, and ends it. If its client leaves, the work goes on to its end, as it
    /// would in a service that does not look whether anybody still waits.
    pub(super) fn burn(&self, time: Duration, service: T) {
        self.shared.jobs().waiting.push_back((time, service));
        self.shared.work.notify_one();
    }
}

impl<T> Drop for CpuThreads<T> {
    fn drop(&mut self) {
        self.shared.jobs().over = true;
        self.shared.work.notify_all();
    }
}

impl<T> Shared<T> {
    fn jobs(&self) -> MutexGuard<'_, Jobs<T>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, end: fn(T)) {
        loop {
            let waited = self.work.wait_while(self.jobs(), |jobs| jobs.waiting.is_empty() && !jobs.over);
            let mut jobs = waited.unwrap_or_else(PoisonError::into_inner);
            if jobs.over {
                return;
            }
            let job = jobs.waiting.pop_front();
            drop(jobs);
            if let Some((time, service)) = job {
                burn(time);
                end(service);
            }
        }
    }
}

/// Uses so much CPU time of this thread, however long that takes.
fn burn(time: Duration) {
    let end = cpu_time() + time;
    while cpu_time() < end {
        // Some ten microseconds between two looks at the clock, which is a system call.
        let mut number = 1_u64;
        for step in 0..10_000 {
            number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step));
        }
    }
}

/// What this thread has used until now.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_burned_and_not_waited_for() {
        let (before, time) = (cpu_time(), Duration::from_millis(20));
        burn(time);
        assert!(cpu_time() >= before + time);
        let before = cpu_time();
        burn(Duration::ZERO);
        assert!(cpu_time() < before + time);
    }
}

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use queue::{Pushed, Queue};
use rotation::Rotation;
use writer::{Target, Writer};

mod queue;
mod rotation;
mod writer;

/// How long the last handle, when dropped, waits for what was accepted to be written.
const PATIENCE_ON_DROP: Duration = Duration::from_secs(2);

/// Lines to standard output or to a file, written by a thread of their own.
///
/// [`send`](Self::send) copies the line into a bounded buffer and returns; it never waits for the output. If the
/// buffer is full, because the disk or the reader of the pipe is too slow, the line is dropped and counted. A quiet
/// sink writes a line at once; a busy one writes ten times a second, or when half of the buffer is full, so that most
/// lines cost their sender a short lock and a copy, and no system call.
///
/// Clones write to the same output. When the last one is dropped, it waits up to two seconds for what was accepted to
/// be written; [`flush_and_close`](Self::flush_and_close) does the same with a time of your own, and says how it went.
#[derive(Clone)]
pub struct Sink {
    owner: Arc<Owner>,
}

/// What all clones of a [`Sink`] hold together, and its writer does not: its end is the end of the sink.
struct Owner {
    shared: Arc<Shared>,
}

/// What senders and the writer share.
struct Shared {
    queue: Mutex<Queue>,
    /// There is something for the writer to do.
    work: Condvar,
    /// The writer has done something, or has ended.
    progress: Condvar,
    dropped: AtomicU64,
    write_errors: AtomicU64,
    last_write_error: Mutex<Option<String>>,
    reopening: Mutex<Reopening>,
}

/// What became of the reopenings of a [`Sink`]'s file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reopening {
    /// How many have failed.
    pub failed: u64,
    /// The path and the reason if the last one has failed: lines still go to the old file.
    pub error: Option<String>,
}

impl Sink {
    /// Lines to standard output, where up to `capacity_lines` (of 1 KiB on average) may wait.
    pub fn stdout(capacity_lines: usize) -> io::Result<Self> {
        // Not through `io::Stdout`: its lock would be held while the pipe is full, against everybody else who prints.
        let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Self::start(Target::Stream(Box::new(out)), capacity_lines)
    }

    /// Lines to the end of the file at `path`, which is created if need be; up to `capacity_lines` (of 1 KiB on
    /// average) may wait.
    pub fn file(path: impl Into<PathBuf>, capacity_lines: usize) -> io::Result<Self> {
        Self::start(Target::open(path.into(), None)?, capacity_lines)
    }

    /// The same for a file that does not grow without end: before a line would make it larger than `largest_bytes`, it
    /// becomes `path.1`, what was that becomes `path.2`, and so on; `kept` of them stay. A line is never torn apart. If
    /// that fails, the error is noted and the file grows.
    pub fn rotating(
        path: impl Into<PathBuf>,
        capacity_lines: usize,
        largest_bytes: u64,
        kept: usize,
    ) -> io::Result<Self> {
        let rotation = Rotation { largest_bytes, kept };
        Self::start(Target::open(path.into(), Some(rotation))?, capacity_lines)
    }

    /// Lines to anything else, for example a pipe; up to `capacity_lines` (of 1 KiB on average) may wait.
    pub fn stream(out: impl Write + Send + 'static, capacity_lines: usize) -> io::Result<Self> {
        Self::start(Target::Stream(Box::new(out)), capacity_lines)
    }

    fn start(target: Target, capacity_lines: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue::new(capacity_lines)),
            work: Condvar::new(),
            progress: Condvar::new(),
            dropped: AtomicU64::new(0),
            write_errors: AtomicU64::new(0),
            last_write_error: Mutex::new(None),
            reopening: Mutex::default(),
        });
        let writer = Writer::new(Arc::clone(&shared), target);
        thread::Builder::new().name("sink".to_owned()).spawn(move || writer.run())?;
        Ok(Self { owner: Arc::new(Owner { shared }) })
    }

    /// Accepts a line, or drops and counts it if the buffer is full or the sink is closed. Never waits for the output.
    ///
    /// A missing newline at the end is added. What stands inside is written as it is: a sender that passes on what
    /// others said escapes their newlines, as [`Log`](crate::Log) does.
    pub fn send(&self, line: impl AsRef<[u8]>) {
        self.send_within(line, usize::MAX);
    }

    /// The same for lines that must leave room for others: accepted only while fewer than `most_lines` wait.
    pub fn send_within(&self, line: impl AsRef<[u8]>, most_lines: usize) {
        let shared = &self.owner.shared;
        let pushed = shared.queue().push(line.as_ref(), most_lines);
        match pushed {
            Pushed::Quietly => {}
            // After the lock is gone, lest the writer wake up only to wait for it.
            Pushed::WakeWriter => shared.work.notify_one(),
            Pushed::Rejected => {
                shared.dropped.fetch_add(1, Relaxed);
            }
        }
    }

    /// How many lines were lost: the buffer was full, the sink closed, or writing failed.
    pub fn dropped(&self) -> u64 {
        self.owner.shared.dropped.load(Relaxed)
    }

    /// How often writing, reopening or rotating failed. The writer goes on after each.
    pub fn errors(&self) -> u64 {
        self.write_errors() + self.reopening().failed
    }

    /// How often writing or rotating failed.
    pub fn write_errors(&self) -> u64 {
        self.owner.shared.write_errors.load(Relaxed)
    }

    /// What the last of these errors was.
    pub fn last_write_error(&self) -> Option<String> {
        lock(&self.owner.shared.last_write_error).clone()
    }

    /// How often reopening failed, and why if the last one did.
    pub fn reopening(&self) -> Reopening {
        lock(&self.owner.shared.reopening).clone()
    }

    /// Asks the writer to open the file anew, after a rotation has moved it away. If that fails, it keeps the old one
    /// and notes the error; [`flush`](Self::flush) waits for the outcome. Anything but a file stays as it is.
    pub fn reopen(&self) {
        self.owner.shared.queue().ask_to_reopen();
        self.owner.shared.work.notify_one();
    }

    /// Waits until everything sent, and a reopening asked for, before this call is done, at most for `timeout`; says
    /// whether it is. (Lines that could not be written count as done: see [`errors`](Self::errors).)
    pub fn flush(&self, timeout: Duration) -> bool {
        let shared = &self.owner.shared;
        let mut queue = shared.queue();
        let goal = queue.ask_to_flush();
        shared.work.notify_one();
        shared.wait_until(queue, timeout, |queue| queue.has_reached(goal))
    }

    /// Ends the sink, for all of its clones: nothing more is accepted, and what was is written. Waits for that at most
    /// for `timeout`, and says whether it is done.
    pub fn flush_and_close(&self, timeout: Duration) -> bool {
        let shared = &self.owner.shared;
        let mut queue = shared.queue();
        queue.close();
        shared.work.notify_one();
        shared.wait_until(queue, timeout, Queue::has_ended)
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").field("dropped", &self.dropped()).field("errors", &self.errors()).finish_non_exhaustive()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        // A caller that closed the sink before has already waited.
        if queue.close() {
            self.shared.work.notify_one();
            self.shared.wait_until(queue, PATIENCE_ON_DROP, Queue::has_ended);
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Waits until the writer has come so far that `is_done`, at most for `timeout`; says whether it has.
    fn wait_until(&self, queue: MutexGuard<'_, Queue>, timeout: Duration, is_done: impl Fn(&Queue) -> bool) -> bool {
        let waited = self.progress.wait_timeout_while(queue, timeout, |queue| !is_done(queue));
        let (queue, _timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
        is_done(&queue)
    }

    fn note_write_error(&self, error: String) {
        *lock(&self.last_write_error) = Some(error);
        self.write_errors.fetch_add(1, Relaxed);
    }

    fn note_reopening(&self, error: Option<String>) {
        let mut reopening = lock(&self.reopening);
        reopening.failed += u64::from(error.is_some());
        reopening.error = error;
    }
}

/// Nothing panics half-way through a change here, so what a poisoned lock guards is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

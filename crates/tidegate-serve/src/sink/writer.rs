use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use super::Shared;
use super::queue::{Batch, WriterState};
use super::rotation::Rotation;

/// How long a busy sink gathers lines between two writes.
const LINGER: Duration = Duration::from_millis(100);

/// How long to wait before trying an output again that somebody has set to non-blocking.
const RETRY: Duration = Duration::from_millis(10);

/// A buffer that has grown beyond this is made smaller again when little of it is used.
const KEPT_BYTES: usize = 64 * 1024;

/// Where the lines go.
pub(super) enum Target {
    File { path: PathBuf, file: File, rotation: Option<Rotation> },
    Stream(Box<dyn Write + Send>),
}

/// The thread's side of a [`Sink`](super::Sink).
pub(super) struct Writer {
    shared: Arc<Shared>,
    target: Target,
    /// A write has failed within a line: the next one must not be glued to what is there of it.
    torn: bool,
}

impl Target {
    pub(super) fn open(path: PathBuf, rotation: Option<Rotation>) -> io::Result<Self> {
        let file = open_for_append(&path)?;
        Ok(Self::File { path, file, rotation })
    }

    /// How many bytes of these lines go into the file before it must make room for another.
    fn fitting(&self, lines: &[u8]) -> usize {
        match self {
            // The system is asked, rather than counting: others may truncate the file. What is no file has no size.
            Self::File { file, rotation: Some(rotation), .. } => {
                rotation.fitting(file.metadata().map_or(0, |file| file.len()), lines)
            }
            Self::File { .. } | Self::Stream(_) => lines.len(),
        }
    }

    /// Puts the file aside and begins a new one.
    fn rotate(&mut self) -> Result<(), String> {
        let Self::File { path, file, rotation: Some(rotation) } = self else { return Ok(()) };
        let rotated = rotation.make_room(path).and_then(|()| open_for_append(path));
        *file = rotated.map_err(|error| format!("rotating {}: {error}", path.display()))?;
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), String> {
        if let Self::File { path, file, .. } = self {
            *file = open_for_append(path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    fn out(&mut self) -> &mut dyn Write {
        match self {
            Self::File { file, .. } => file,
            Self::Stream(stream) => stream,
        }
    }
}

fn open_for_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, target: Target) -> Self {
        Self { shared, target, torn: false }
    }

    pub(super) fn run(mut self) {
        let mut spare = Vec::new();
        loop {
            let batch = self.next_batch(spare);
            self.write(&batch.bytes);
            if batch.reopen {
                self.reopen();
            }
            self.shared.queue().finish(batch.goal, batch.last);
            self.shared.progress.notify_all();
            if batch.last {
                return;
            }
            spare = emptied(batch.bytes);
            self.linger();
        }
    }

    fn next_batch(&self, spare: Vec<u8>) -> Batch {
        let mut queue = self.shared.queue();
        queue.writer = WriterState::Idle;
        let waited = self.shared.work.wait_while(queue, |queue| queue.has_nothing_to_do());
        waited.unwrap_or_else(PoisonError::into_inner).take(spare)
    }

    fn linger(&self) {
        let mut queue = self.shared.queue();
        queue.writer = WriterState::Lingering;
        let waited = self.shared.work.wait_timeout_while(queue, LINGER, |queue| queue.can_wait());
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.writer = WriterState::Busy;
    }

    fn write(&mut self, mut batch: &[u8]) {
        while !batch.is_empty() {
            let mut fitting = self.target.fitting(batch);
            if fitting == 0 {
                match self.target.rotate() {
                    Ok(()) => self.torn = false,
                    Err(error) => {
                        // Better too large a file than lost lines. The next batch tries again.
                        self.shared.note_write_error(error);
                        fitting = batch.len();
                    }
                }
            }
            let (now, later) = batch.split_at(fitting);
            self.write_lines(now);
            batch = later;
        }
    }

    fn write_lines(&mut self, batch: &[u8]) {
        if self.torn && !batch.is_empty() {
            self.torn = write_whole(self.target.out(), b"\n").is_err();
        }
        if let Err((rest, error)) = write_whole(self.target.out(), batch) {
            let written = &batch[..batch.len() - rest.len()];
            self.torn = written.last().map_or(self.torn, |last| *last != b'\n');
            let lost = rest.split_inclusive(|byte| *byte == b'\n').count();
            self.shared.dropped.fetch_add(lost as u64, Relaxed);
            self.shared.note_write_error(format!("writing: {error}"));
        }
    }

    fn reopen(&mut self) {
        let reopened = self.target.reopen();
        if reopened.is_ok() {
            self.torn &= matches!(self.target, Target::Stream(_));
        }
        self.shared.note_reopening(reopened.err());
    }
}

/// Like `write_all`, but returns what was not written, and waits for an output that would block instead of giving up:
/// on this thread, waiting is what it is for.
fn write_whole<'a>(out: &mut dyn Write, mut rest: &'a [u8]) -> Result<(), (&'a [u8], io::Error)> {
    while !rest.is_empty() {
        match out.write(rest) {
            Ok(0) => return Err((rest, ErrorKind::WriteZero.into())),
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY),
            Err(error) => return Err((rest, error)),
        }
    }
    out.flush().map_err(|error| (rest, error))
}

/// The buffer, empty, for use again. It keeps its size while it is used, so that senders need not let it grow each
/// time.
fn emptied(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.capacity() / 4 > bytes.len() {
        bytes.shrink_to(KEPT_BYTES.max(bytes.len() * 2));
    }
    bytes.clear();
    bytes
}

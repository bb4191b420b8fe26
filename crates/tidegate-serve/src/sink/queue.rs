use std::mem;

/// What a waiting line may take on average, and the least that the whole buffer may take.
const BYTES_PER_LINE: usize = 1024;
const LEAST_BYTES: usize = 64 * 1024;

/// The lines that wait for the writer, as one run of bytes that goes out in one write, and what the writer is asked
/// for.
pub(super) struct Queue {
    bytes: Vec<u8>,
    lines: usize,
    max_bytes: usize,
    max_lines: usize,
    pub(super) writer: WriterState,
    /// Somebody waits: don't linger.
    urgent: bool,
    closing: bool,
    ended: bool,
    /// Accepted so far, and done so far: what a flush compares.
    asked: Goal,
    done: Goal,
}

/// How far the writer has come, or shall come: in lines, and in reopenings of the file.
#[derive(Clone, Copy, Default)]
pub(super) struct Goal {
    lines: u64,
    reopenings: u64,
}

/// What the writer does at the moment. It is woken only if it sleeps and there is reason to, since waking takes a
/// system call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WriterState {
    /// Writing, or about to: it will find what is added now.
    Busy,
    /// Has just written and gives the next batch time to gather.
    Lingering,
    /// Waits for something to do.
    Idle,
}

/// What became of a line, and what its sender has to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    Quietly,
    WakeWriter,
    Rejected,
}

/// What the writer takes in one go.
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) goal: Goal,
    pub(super) reopen: bool,
    /// The sink is closed and this is the last of it.
    pub(super) last: bool,
}

fn bytes_of(lines: usize) -> usize {
    lines.saturating_mul(BYTES_PER_LINE).max(LEAST_BYTES)
}

impl Queue {
    pub(super) fn new(capacity_lines: usize) -> Self {
        Self {
            bytes: Vec::new(),
            lines: 0,
            max_bytes: bytes_of(capacity_lines),
            max_lines: capacity_lines,
            writer: WriterState::Busy,
            urgent: false,
            closing: false,
            ended: false,
            asked: Goal::default(),
            done: Goal::default(),
        }
    }

    pub(super) fn push(&mut self, line: &[u8], most_lines: usize) -> Pushed {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let (max_lines, max_bytes) = (self.max_lines.min(most_lines), self.max_bytes.min(bytes_of(most_lines)));
        let room = max_bytes.saturating_sub(self.bytes.len());
        if self.closing || self.lines >= max_lines || line.len() >= room {
            return Pushed::Rejected;
        }
        self.bytes.extend_from_slice(line);
        self.bytes.push(b'\n');
        self.lines += 1;
        self.asked.lines += 1;
        match self.writer {
            WriterState::Idle => self.wake_writer(),
            WriterState::Lingering if self.lines >= max_lines / 2 || self.bytes.len() >= max_bytes / 2 => {
                self.urgent = true;
                self.wake_writer()
            }
            WriterState::Lingering | WriterState::Busy => Pushed::Quietly,
        }
    }

    /// One sender wakes the writer; those who come before it has got up need not.
    fn wake_writer(&mut self) -> Pushed {
        self.writer = WriterState::Busy;
        Pushed::WakeWriter
    }

    fn is_half_full(&self) -> bool {
        self.lines >= self.max_lines / 2 || self.bytes.len() >= self.max_bytes / 2
    }

    pub(super) fn ask_to_reopen(&mut self) {
        self.urgent = true;
        self.asked.reopenings += 1;
    }

    pub(super) fn ask_to_flush(&mut self) -> Goal {
        self.urgent = true;
        self.asked
    }

    /// Says whether it was open until now.
    pub(super) fn close(&mut self) -> bool {
        self.urgent = true;
        !mem::replace(&mut self.closing, true)
    }

    pub(super) fn has_reached(&self, goal: Goal) -> bool {
        self.done.lines >= goal.lines && self.done.reopenings >= goal.reopenings
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether the writer may go on gathering.
    pub(super) fn can_wait(&self) -> bool {
        !self.urgent && !self.is_half_full()
    }

    pub(super) fn has_nothing_to_do(&self) -> bool {
        self.has_reached(self.asked) && !self.closing
    }

    /// Takes everything, and leaves the empty `spare` to be filled.
    pub(super) fn take(&mut self, spare: Vec<u8>) -> Batch {
        self.writer = WriterState::Busy;
        self.urgent = false;
        self.lines = 0;
        Batch {
            bytes: mem::replace(&mut self.bytes, spare),
            goal: self.asked,
            reopen: self.asked.reopenings > self.done.reopenings,
            last: self.closing,
        }
    }

    pub(super) fn finish(&mut self, goal: Goal, last: bool) {
        self.done = goal;
        self.ended |= last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(capacity_lines: usize, writer: WriterState) -> Queue {
        Queue { writer, ..Queue::new(capacity_lines) }
    }

    #[test]
    fn only_the_first_line_wakes_an_idle_writer() {
        let mut queue = queue(100, WriterState::Idle);
        assert_eq!(queue.push(b"one", usize::MAX), Pushed::WakeWriter);
        assert_eq!(queue.push(b"two\n", usize::MAX), Pushed::Quietly);
        assert_eq!(queue.take(Vec::new()).bytes, b"one\ntwo\n");
    }

    #[test]
    fn a_lingering_writer_is_woken_once_when_half_is_full() {
        let mut queue = queue(10, WriterState::Lingering);
        let pushed: Vec<_> = (0..10).map(|_| queue.push(b"line", usize::MAX)).collect();
        assert_eq!(pushed.iter().position(|pushed| *pushed == Pushed::WakeWriter), Some(4));
        assert_eq!(pushed.iter().filter(|pushed| **pushed == Pushed::Quietly).count(), 9);
    }

    #[test]
    fn the_buffer_is_bounded_in_lines() {
        let mut queue = queue(2, WriterState::Busy);
        assert_eq!([(); 3].map(|()| queue.push(b"", usize::MAX)), [Pushed::Quietly, Pushed::Quietly, Pushed::Rejected]);
        queue.take(Vec::new());
        assert_eq!(queue.push(b"", usize::MAX), Pushed::Quietly);
    }

    #[test]
    fn the_buffer_is_bounded_in_bytes() {
        let mut queue = queue(10, WriterState::Busy);
        assert_eq!(
            queue.push(&vec![b'x'; LEAST_BYTES], usize::MAX),
            Pushed::Rejected,
            "with its newline it is one too long"
        );
        assert_eq!(queue.push(&vec![b'x'; LEAST_BYTES - 1], usize::MAX), Pushed::Quietly);
        assert_eq!(queue.push(b"", usize::MAX), Pushed::Rejected);
    }

    #[test]
    fn a_sink_without_room_takes_nothing() {
        assert_eq!(queue(0, WriterState::Idle).push(b"", usize::MAX), Pushed::Rejected);
    }

    #[test]
    fn who_leaves_room_for_others_is_rejected_before_them() {
        let mut queue = queue(4, WriterState::Busy);
        assert_eq!([(); 3].map(|()| queue.push(b"many", 2)), [Pushed::Quietly, Pushed::Quietly, Pushed::Rejected]);
        assert_eq!(queue.push(b"rare", usize::MAX), Pushed::Quietly);
        let mut queue = self::queue(1_000, WriterState::Lingering);
        assert_eq!(queue.push(b"many", 2), Pushed::WakeWriter, "half of its own room is full");
        assert!(!queue.can_wait());
        assert_eq!(queue.push(&vec![b'x'; LEAST_BYTES], 2), Pushed::Rejected, "in bytes, too");
    }
}

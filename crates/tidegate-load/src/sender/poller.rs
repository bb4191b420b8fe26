//! Waiting for the kernel: until a socket is ready, a command has come, or it is time.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

/// What no socket is called.
const TIMER: u64 = u64::MAX;
const COMMANDS: u64 = u64::MAX - 1;
/// Events that are taken at once. More only wait in the kernel.
const AT_ONCE: usize = 256;

/// What a sender waits with.
pub(super) struct Poller {
    epoll: OwnedFd,
    /// Exact to the kernel's own timers; the time-out of `epoll_wait` counts milliseconds.
    timer: OwnedFd,
    /// When the timer goes off, if it has not yet.
    armed: Option<Duration>,
    events: Vec<Event>,
}

/// A socket that is ready.
pub(super) struct Ready {
    /// What it was added as.
    pub(super) key: u64,
    /// There is something to read, or the other side has closed.
    pub(super) is_readable: bool,
    /// The other side has closed, perhaps behind something to read.
    pub(super) is_closed: bool,
}

impl Poller {
    /// One that also wakes up for `commands`.
    pub(super) fn new(commands: impl AsFd) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let edge = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), edge)?;
        epoll::add(&epoll, commands, EventData::new_u64(COMMANDS), edge)?;
        Ok(Self { epoll, timer, armed: None, events: Vec::with_capacity(AT_ONCE) })
    }

    /// Watches a socket until it is closed. It is reported when it becomes ready, not as long as it is.
    pub(super) fn add(&self, socket: impl AsFd, key: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(key), flags)?)
    }

    /// Looks for sockets that are ready, without waiting.
    pub(super) fn look(&mut self) -> io::Result<()> {
        self.poll(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
    }

    /// Waits for sockets that are ready, at most from `now` until `time`.
    pub(super) fn wait(&mut self, now: Duration, time: Duration) -> io::Result<()> {
        if self.armed != Some(time) {
            self.arm(time.saturating_sub(now))?;
            self.armed = Some(time);
        }
        self.poll(None)
    }

    /// The same, for so long at most.
    pub(super) fn sleep(&mut self, time: Duration) -> io::Result<()> {
        self.armed = None;
        self.arm(time)?;
        self.poll(None)
    }

    fn arm(&self, time: Duration) -> io::Result<()> {
        // Nothing at all would switch it off.
        let time = time.max(Duration::from_nanos(1));
        let it_value = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    fn poll(&mut self, at_most: Option<&Timespec>) -> io::Result<()> {
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), at_most) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if self.events.iter().any(|event| event.data.u64() == TIMER) {
            self.armed = None;
        }
        Ok(())
    }

    /// The sockets that the last look or wait has found, by their index in the list.
    pub(super) fn ready(&self, index: usize) -> Option<Ready> {
        let event = self.events.get(index)?;
        let closed = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        // Copied out: the kernel's structure is packed.
        let (flags, data) = (event.flags, event.data);
        Some(Ready {
            key: data.u64(),
            is_readable: flags.intersects(EventFlags::IN | closed),
            is_closed: flags.intersects(closed),
        })
    }
}

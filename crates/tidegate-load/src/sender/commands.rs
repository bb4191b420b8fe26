//! Commands to a sender while it sends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::profile::Profile;

/// Commands to a sender. An event file descriptor wakes it where it waits, in the kernel.
#[derive(Debug)]
pub(crate) struct Commands {
    stop: AtomicBool,
    profile: Mutex<Option<Profile>>,
    has_profile: AtomicBool,
    wake_fd: OwnedFd,
}

impl Commands {
    pub(crate) fn new() -> io::Result<Self> {
        let wake_fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            stop: AtomicBool::new(false),
            profile: Mutex::new(None),
            has_profile: AtomicBool::new(false),
            wake_fd,
        })
    }

    /// Stops sending, and waiting for responses.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Relaxed);
        self.wake();
    }

    /// Makes the rate follow another profile.
    pub(crate) fn change(&self, profile: Profile) {
        *self.profile.lock().unwrap_or_else(PoisonError::into_inner) = Some(profile);
        self.has_profile.store(true, Relaxed);
        self.wake();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    pub(super) fn take_profile(&self) -> Option<Profile> {
        // While there is no command, this costs one atomic load.
        if !self.has_profile.load(Relaxed) {
            return None;
        }
        self.has_profile.store(false, Relaxed);
        self.profile.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn wake(&self) {
        // It can fail only when the counter is full, and then the sender is woken anyway.
        let _woken = rustix::io::write(&self.wake_fd, &1_u64.to_ne_bytes());
    }
}

impl AsFd for Commands {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake_fd.as_fd()
    }
}

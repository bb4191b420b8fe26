//! Orders to a sender while it sends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::profile::Profile;

/// Orders to a sender. It hears the bell in the kernel, where it waits.
#[derive(Debug)]
pub(crate) struct Orders {
    stop: AtomicBool,
    profile: Mutex<Option<Profile>>,
    has_profile: AtomicBool,
    bell: OwnedFd,
}

impl Orders {
    pub(crate) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { stop: AtomicBool::new(false), profile: Mutex::new(None), has_profile: AtomicBool::new(false), bell })
    }

    /// Nothing more is to be sent, and nothing waited for.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Relaxed);
        self.ring();
    }

    /// The rate follows another profile.
    pub(crate) fn change(&self, profile: Profile) {
        *self.profile.lock().unwrap_or_else(PoisonError::into_inner) = Some(profile);
        self.has_profile.store(true, Relaxed);
        self.ring();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    pub(super) fn take_profile(&self) -> Option<Profile> {
        // A load is all that this costs while nothing is ordered.
        if !self.has_profile.load(Relaxed) {
            return None;
        }
        self.has_profile.store(false, Relaxed);
        self.profile.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn ring(&self) {
        // It can fail only by being full, and then it has been rung often enough.
        let _rung = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

impl AsFd for Orders {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

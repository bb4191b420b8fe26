use super::calls_window::CallsWindow;
use super::counts::{Counts, Ended};
use super::settings::Window;
use super::time_window::TimeWindow;
use crate::Timestamp;

/// The calls that are judged. Each step takes the same time, whatever the window's size, and allocates nothing.
pub(super) enum Calls {
    Last(CallsWindow),
    Recent(Box<TimeWindow>),
}

impl Calls {
    pub(super) fn new(window: Window) -> Self {
        match window {
            Window::Calls(calls) => Self::Last(CallsWindow::new(calls)),
            Window::Time(time) => Self::Recent(Box::new(TimeWindow::new(time))),
        }
    }

    /// Counts a call. Returns what is in the window then.
    #[inline]
    pub(super) fn add(&mut self, ended: Ended, now: Timestamp) -> Counts {
        match self {
            Self::Last(window) => window.add(ended),
            Self::Recent(window) => window.add(ended, now),
        }
    }

    pub(super) fn counts(&self, now: Timestamp) -> Counts {
        match self {
            Self::Last(window) => window.counts(),
            Self::Recent(window) => window.counts(now),
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Self::Last(window) => window.clear(),
            Self::Recent(window) => window.clear(),
        }
    }
}

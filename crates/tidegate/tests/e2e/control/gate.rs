//! An upstream whose responses wait until they are let go.

use std::io::Write;
use std::sync::{Arc, Condvar, Mutex};

use tidegate_testkit::{OK, PATIENCE, Upstream, wait_until};

type Opened = Arc<(Mutex<bool>, Condvar)>;

/// An upstream whose responses wait until they are let go.
pub(crate) struct Gate {
    pub(crate) upstream: Upstream,
    opened: Opened,
}

impl Gate {
    pub(crate) fn closed() -> Self {
        let opened = Opened::default();
        let seen = Arc::clone(&opened);
        let upstream = Upstream::behaving(move |_, stream| {
            let guard = seen.0.lock().expect("no panic");
            let waited = seen.1.wait_timeout_while(guard, PATIENCE, |opened| !*opened);
            drop(waited.expect("no panic"));
            stream.write_all(OK).is_ok()
        });
        Self { upstream, opened }
    }

    /// Waits until so many requests stand before it.
    pub(crate) fn wait_for(&self, count: usize) {
        wait_until("requests reach the upstream", || self.upstream.count() >= count);
    }

    /// Lets all go, now and from now on.
    pub(crate) fn open(&self) {
        *self.opened.0.lock().expect("no panic") = true;
        self.opened.1.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

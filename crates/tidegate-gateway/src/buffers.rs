//! Memory for bodies that are read before they can be sent on, shared by all workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes of bodies are buffered.
#[derive(Default)]
pub(crate) struct Buffers {
    bytes: AtomicUsize,
    /// What HTTP/2 clients with large windows may send before it is read.
    windows: AtomicUsize,
}

impl Buffers {
    /// How many bytes are buffered.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// What an HTTP/2 client may send of bodies before they are read, in bytes: also while requests wait for their turn, or
/// while the memory for bodies is used up. Each connection may have the window that HTTP/2 begins with.
const SMALL_WINDOW: u32 = 65_535;
/// A larger one makes uploads over long distances faster. All of these together are bounded.
const LARGE_WINDOW: u32 = 1024 * 1024;

/// How many bytes an HTTP/2 client may send before they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) of_connection: u32,
    pub(crate) of_stream: u32,
}

impl Window {
    /// That of a trusted proxy: it sends requests of many clients over one connection.
    pub(crate) const OF_PROXY: Self = Self { of_connection: 4 * LARGE_WINDOW, of_stream: LARGE_WINDOW / 4 };
}

/// The window of an HTTP/2 connection. It is given back when this is dropped.
pub(crate) struct WindowLease {
    buffers: Arc<Buffers>,
    is_large: bool,
}

impl WindowLease {
    /// A large window while all of them have no more than `most_of_all` bytes.
    pub(crate) fn new(buffers: &Arc<Buffers>, most_of_all: usize) -> Self {
        let before = buffers.windows.fetch_add(LARGE_WINDOW as usize, Ordering::Relaxed);
        let is_large = before + LARGE_WINDOW as usize <= most_of_all;
        let lease = Self { buffers: Arc::clone(buffers), is_large };
        if !is_large {
            lease.give_back();
        }
        lease
    }

    pub(crate) fn window(&self) -> Window {
        let bytes = if self.is_large { LARGE_WINDOW } else { SMALL_WINDOW };
        // A request whose body is not read must not hold up the others on its connection too soon.
        Window { of_connection: bytes, of_stream: (bytes / 8).max(SMALL_WINDOW) }
    }

    fn give_back(&self) {
        self.buffers.windows.fetch_sub(LARGE_WINDOW as usize, Ordering::Relaxed);
    }
}

impl Drop for WindowLease {
    fn drop(&mut self) {
        if self.is_large {
            self.give_back();
        }
    }
}

/// The bytes that one body has in [`Buffers`]. They are given back when it is dropped.
pub(crate) struct Lease {
    buffers: Arc<Buffers>,
    bytes: usize,
    /// The most bytes of this body, and of all bodies together.
    most: (usize, usize),
}

impl Lease {
    /// For a body that buffers nothing yet.
    pub(crate) fn new(buffers: &Arc<Buffers>, most: usize, most_of_all: usize) -> Self {
        Self { buffers: Arc::clone(buffers), bytes: 0, most: (most, most_of_all) }
    }

    /// Whether another byte may be buffered.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes < self.most.0 && self.buffers.bytes() < self.most.1
    }

    /// So many more bytes are buffered.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.buffers.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many of them have been sent on.
    pub(crate) fn remove(&mut self, bytes: usize) {
        let removed = bytes.min(self.bytes);
        self.bytes -= removed;
        self.buffers.bytes.fetch_sub(removed, Ordering::Relaxed);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.remove(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_body_and_all_together_are_bounded() {
        let buffers = Arc::default();
        let (mut one, mut other) = (Lease::new(&buffers, 100, 150), Lease::new(&buffers, 100, 150));
        one.add(99);
        assert!(one.has_room());
        one.add(1);
        assert!(!one.has_room() && other.has_room());
        other.add(60);
        assert!(!other.has_room(), "all together are bounded");
        one.remove(1_000);
        assert!(one.has_room());
        drop((one, other));
        assert_eq!(buffers.bytes(), 0);
    }

    /// Each HTTP/2 connection could send 4 MiB that nothing counted.
    #[test]
    fn large_windows_of_all_connections_together_are_bounded() {
        let buffers = Arc::default();
        let lease = || WindowLease::new(&buffers, 2 * LARGE_WINDOW as usize);
        let leases = [lease(), lease(), lease(), lease()];
        let windows = leases.each_ref().map(|lease| lease.window().of_connection);
        assert_eq!(windows, [LARGE_WINDOW, LARGE_WINDOW, SMALL_WINDOW, SMALL_WINDOW]);
        drop(leases);
        assert_eq!(lease().window().of_connection, LARGE_WINDOW);
        assert_eq!(buffers.windows.load(Ordering::Relaxed), 0);
    }
}

//! Memory for bodies that are read before they can be sent on, shared by all workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes of bodies are buffered.
#[derive(Default)]
pub(crate) struct Buffers(AtomicUsize);

impl Buffers {
    /// How many bytes are buffered.
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
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
        self.buffers.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many of them have been sent on.
    pub(crate) fn remove(&mut self, bytes: usize) {
        let removed = bytes.min(self.bytes);
        self.bytes -= removed;
        self.buffers.0.fetch_sub(removed, Ordering::Relaxed);
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
}

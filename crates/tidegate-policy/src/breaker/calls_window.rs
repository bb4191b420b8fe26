use super::counts::{Counts, Ended};

const FAILURE: u8 = 1;
const SLOW: u8 = 2;

/// The last calls, in a ring.
pub(super) struct CallsWindow {
    ring: Box<[u8]>,
    /// Where the next one goes.
    next: usize,
    counts: Counts,
}

impl CallsWindow {
    pub(super) fn new(calls: u32) -> Self {
        Self { ring: vec![0; calls as usize].into(), next: 0, counts: Counts::default() }
    }

    #[inline]
    pub(super) fn add(&mut self, ended: Ended) -> Counts {
        let is_full = self.counts.calls as usize == self.ring.len();
        let slot = &mut self.ring[self.next];
        if is_full {
            let failures = u32::from(*slot & FAILURE != 0);
            let slow = u32::from(*slot & SLOW != 0);
            self.counts.remove(Counts { calls: 1, failures, slow });
        }
        *slot = if ended.is_failure { FAILURE } else { 0 } | if ended.is_slow { SLOW } else { 0 };
        self.counts.add(ended);
        self.next += 1;
        if self.next == self.ring.len() {
            self.next = 0;
        }
        self.counts
    }

    pub(super) const fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) const fn clear(&mut self) {
        // What the ring still has is overwritten before it is read.
        (self.next, self.counts) = (0, Counts { calls: 0, failures: 0, slow: 0 });
    }
}

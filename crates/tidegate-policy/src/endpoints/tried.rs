/// How many endpoints a request is sent to at the most, one after the other, while none can be connected to.
///
/// If three endpoints can't be connected to, a fourth hardly can be, and each attempt makes the client wait for as long
/// as a connection may take. Attempts end earlier if no untried endpoint is left:
/// [`Balancer::choose`](super::Balancer::choose) then returns a tried one.
pub const MOST_ATTEMPTED: usize = 3;

/// The endpoints that a request has been sent to already, so that the next attempt prefers another.
///
/// It remembers the last [`Tried::MAX`] of them.
///
/// ```
/// use tidegate_policy::endpoints::Tried;
///
/// let mut tried = Tried::default();
/// tried.insert(3);
/// assert!(tried.contains(3) && !tried.contains(4));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    indexes: [u32; Self::MAX],
    /// How many were inserted.
    count: u32,
}

impl Tried {
    /// The most it remembers. Then the earliest is forgotten: by that time the endpoint deserves another attempt.
    pub const MAX: usize = 16;

    /// No endpoint yet.
    pub const fn new() -> Self {
        Self { indexes: [0; Self::MAX], count: 0 }
    }

    /// Whether there is none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Remembers the endpoint at `index`.
    pub fn insert(&mut self, index: usize) {
        if !self.contains(index) {
            self.indexes[self.count as usize % Self::MAX] = index as u32;
            self.count = self.count.saturating_add(1);
        }
    }

    /// Whether the endpoint at `index` is among them.
    #[inline]
    pub fn contains(&self, index: usize) -> bool {
        self.count > 0 && self.find(index)
    }

    fn find(&self, index: usize) -> bool {
        self.indexes.iter().take(self.count as usize).any(|tried| *tried as usize == index)
    }
}

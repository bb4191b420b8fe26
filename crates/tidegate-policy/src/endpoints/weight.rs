/// How many requests an endpoint gets, in proportion to the others of its pool: from 0 to 1,000,000.
///
/// An endpoint of weight 0 is a reserve. It gets requests only when no other endpoint is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

impl Weight {
    /// What an endpoint has if nothing else is configured.
    pub const ONE: Self = Self(1);
    /// The largest.
    pub const MAX: Self = Self(1_000_000);

    /// `None` if `weight` is above [`Weight::MAX`].
    pub const fn new(weight: u32) -> Option<Self> {
        if weight <= Self::MAX.0 { Some(Self(weight)) } else { None }
    }

    /// As a number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

use std::num::NonZeroU32;

/// What a request takes from a limit: at least one token.
///
/// ```
/// use tidegate_policy::Cost;
///
/// assert_eq!(Cost::new(5).map(Cost::get), Some(5));
/// assert_eq!(Cost::new(0), None); // nothing is free
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(NonZeroU32);

impl Cost {
    /// One token, what a plain request costs.
    pub const ONE: Self = Self(NonZeroU32::MIN);

    /// `tokens` as a cost, unless it is zero.
    pub const fn new(tokens: u32) -> Option<Self> {
        match NonZeroU32::new(tokens) {
            Some(tokens) => Some(Self(tokens)),
            None => None,
        }
    }

    /// How many tokens.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    pub(crate) const fn tokens(self) -> u64 {
        self.get() as u64
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self::ONE
    }
}

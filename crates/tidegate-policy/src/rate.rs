use std::time::Duration;

use crate::InvalidLimit;
use crate::invalid_limit::{count, span};

/// So many tokens in so much time, evenly spread, kept as an exact fraction.
///
/// ```
/// use std::time::Duration;
/// use tidegate_policy::Rate;
///
/// let rate = Rate::new(100, Duration::from_secs(60))?;
/// assert_eq!(rate, Rate::new(5, Duration::from_secs(3))?); // the same fraction
/// assert!(Rate::new(0, Duration::from_secs(1)).is_err());
/// # Ok::<(), tidegate_policy::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    tokens: u64,
    nanos: u64,
}

impl Rate {
    /// `tokens` every `per`. Both at least one, `tokens` at most `u32::MAX`.
    pub fn new(tokens: u64, per: Duration) -> Result<Self, InvalidLimit> {
        let tokens = count("tokens", tokens, u32::MAX.into())?;
        let nanos = span("per", per)?;
        let common = greatest_common_divisor(tokens, nanos);
        Ok(Self { tokens: tokens / common, nanos: nanos / common })
    }

    /// The fraction's count: that many tokens …
    pub const fn tokens(self) -> u64 {
        self.tokens
    }

    /// … in this time.
    pub const fn per(self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// Tokens per second, rounded as a float is: for people, not for deciding.
    #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
    pub fn per_second(self) -> f64 {
        self.tokens as f64 * 1e9 / self.nanos as f64
    }

    pub(crate) const fn nanos(self) -> u64 {
        self.nanos
    }
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

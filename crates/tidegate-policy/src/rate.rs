use std::time::Duration;

use crate::InvalidLimit;
use crate::invalid_limit::{count, span};

/// So many tokens in so much time, evenly spread, kept as an exact fraction.
///
/// ```
/// use std::time::Duration;
/// use tidegate_policy::Rate;
///
/// assert_eq!(Rate::per_second(10)?, Rate::per_minute(600)?); // the same fraction
/// assert_eq!(Rate::per_hour(1)?, Rate::new(1, Duration::from_secs(3_600))?);
/// assert!(Rate::per_second(0).is_err());
/// # Ok::<(), tidegate_policy::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    tokens: u64,
    nanos: u64,
}

impl Rate {
    /// `tokens` every `per`, for any span: `Rate::new(5, Duration::from_millis(250))`. Both must be at least one,
    /// `tokens` at most `u32::MAX`.
    pub fn new(tokens: u64, per: Duration) -> Result<Self, InvalidLimit> {
        let tokens = count("tokens", tokens, u32::MAX.into())?;
        let nanos = span("per", per)?;
        let common = greatest_common_divisor(tokens, nanos);
        Ok(Self { tokens: tokens / common, nanos: nanos / common })
    }

    /// `tokens` every second: from 1 to `u32::MAX`.
    pub fn per_second(tokens: u64) -> Result<Self, InvalidLimit> {
        Self::new(tokens, Duration::from_secs(1))
    }

    /// `tokens` every minute: from 1 to `u32::MAX`.
    pub fn per_minute(tokens: u64) -> Result<Self, InvalidLimit> {
        Self::new(tokens, Duration::from_secs(60))
    }

    /// `tokens` every hour: from 1 to `u32::MAX`.
    pub fn per_hour(tokens: u64) -> Result<Self, InvalidLimit> {
        Self::new(tokens, Duration::from_secs(3_600))
    }

    /// The fraction's count: that many tokens …
    pub const fn tokens(self) -> u64 {
        self.tokens
    }

    /// … in this time.
    pub const fn span(self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// Tokens per second, rounded as a float is: for people, not for deciding.
    #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
    pub fn tokens_per_second(self) -> f64 {
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

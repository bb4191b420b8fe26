use std::fmt;
use std::str::FromStr;

use crate::endpoints::Cause;

/// Which ways to fail count: for a breaker as failures, for retries as reasons to try again.
///
/// ```
/// use tidegate_policy::{Failure, FailureSet};
/// use tidegate_policy::endpoints::Cause;
///
/// let set: FailureSet = ["timeout", "5xx", "429"].iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
/// assert!(set.has_status(503) && set.has_status(429) && !set.has_status(404));
/// assert!(set.has(Cause::Timeout) && !set.has(Cause::Broken));
/// assert_eq!("5xx".parse(), Ok(Failure::Statuses(5)));
/// # Ok::<(), tidegate_policy::UnknownFailure>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureSet {
    connect: bool,
    timeout: bool,
    reset: bool,
    /// A bit for each status from 100 to 599.
    statuses: [u64; 8],
}

/// One way to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// No connection could be made.
    Connect,
    /// No response came in time.
    Timeout,
    /// The connection broke, or what came on it was not HTTP.
    Reset,
    /// A response with this status, from 100 to 599.
    Status(u16),
    /// A response with a status of this class: 4 for 400 to 499, 5 for 500 to 599.
    Statuses(u8),
}

/// A word that names no way to fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFailure(pub String);

impl fmt::Display for UnknownFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = &self.0;
        write!(f, "must be connect, timeout, reset, 4xx, 5xx or a status from 400 to 599, got {word:?}")
    }
}

impl std::error::Error for UnknownFailure {}

impl FromStr for Failure {
    type Err = UnknownFailure;

    fn from_str(word: &str) -> Result<Self, UnknownFailure> {
        // A sign or a leading zero is no status.
        let is_number = word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit());
        let status = || word.parse().ok().filter(|status| is_number && (400..600).contains(status)).map(Self::Status);
        match word {
            "connect" => Ok(Self::Connect),
            "timeout" => Ok(Self::Timeout),
            "reset" => Ok(Self::Reset),
            "4xx" => Ok(Self::Statuses(4)),
            "5xx" => Ok(Self::Statuses(5)),
            _ => status().ok_or_else(|| UnknownFailure(word.to_owned())),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("connect"),
            Self::Timeout => f.write_str("timeout"),
            Self::Reset => f.write_str("reset"),
            Self::Status(status) => write!(f, "{status}"),
            Self::Statuses(class) => write!(f, "{class}xx"),
        }
    }
}

impl FailureSet {
    /// No connection, no response in time, a broken response, and all statuses from 500 to 599.
    pub fn technical() -> Self {
        [Failure::Connect, Failure::Timeout, Failure::Reset, Failure::Statuses(5)].into_iter().collect()
    }

    /// Adds a way to fail. Statuses below 100 and above 599 are left out.
    pub fn insert(&mut self, failure: Failure) {
        match failure {
            Failure::Connect => self.connect = true,
            Failure::Timeout => self.timeout = true,
            Failure::Reset => self.reset = true,
            Failure::Status(status) => {
                if let Some((word, bit)) = position(status) {
                    self.statuses[word] |= bit;
                }
            }
            Failure::Statuses(class) => {
                let first = u16::from(class) * 100;
                (first..first + 100).for_each(|status| self.insert(Failure::Status(status)));
            }
        }
    }

    /// Whether this cause is in it. Of [`Cause::Status`] only the status itself says whether it is.
    pub const fn has(&self, cause: Cause) -> bool {
        match cause {
            Cause::Connect => self.connect,
            Cause::Timeout => self.timeout,
            Cause::Broken => self.reset,
            Cause::Status => false,
        }
    }

    /// Whether a response with this status is in it.
    #[inline]
    pub fn has_status(&self, status: u16) -> bool {
        position(status).is_some_and(|(word, bit)| self.statuses[word] & bit != 0)
    }
}

impl FromIterator<Failure> for FailureSet {
    fn from_iter<I: IntoIterator<Item = Failure>>(failures: I) -> Self {
        let mut set = Self::default();
        failures.into_iter().for_each(|failure| set.insert(failure));
        set
    }
}

const fn position(status: u16) -> Option<(usize, u64)> {
    if status < 100 || status > 599 {
        return None;
    }
    let number = status - 100;
    Some(((number / 64) as usize, 1 << (number % 64)))
}

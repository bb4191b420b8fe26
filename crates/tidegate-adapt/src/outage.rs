//! A forecaster that does not respond as it should: when to report it, when it is stale, how long it lasted.

use std::fmt;
use std::time::Duration;

use tidegate_policy::Timestamp;

/// Why there is no response that could be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// No connection, or one that broke: why.
    Unreachable(String),
    /// No response in time.
    Timeout,
    /// A status other than 200.
    BadStatus(u16),
    /// A response that can't be read: why.
    Invalid(String),
}

impl Miss {
    /// All kinds, as metrics have them.
    pub const WORDS: [&'static str; 4] = ["unreachable", "timeout", "bad_status", "invalid"];

    /// Whether somebody responds, though not with what could be used.
    pub fn is_response(&self) -> bool {
        match self {
            Self::BadStatus(_) | Self::Invalid(_) => true,
            Self::Unreachable(_) | Self::Timeout => false,
        }
    }

    /// Its kind, as metrics have it: one of [`Miss::WORDS`].
    pub fn word(&self) -> &'static str {
        let [unreachable, timeout, bad_status, invalid] = Self::WORDS;
        match self {
            Self::Unreachable(_) => unreachable,
            Self::Timeout => timeout,
            Self::BadStatus(_) => bad_status,
            Self::Invalid(_) => invalid,
        }
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("no response in time"),
            Self::BadStatus(status) => write!(f, "it says {status}"),
            Self::Unreachable(why) | Self::Invalid(why) => f.write_str(why),
        }
    }
}

/// Misses in a row.
#[derive(Default)]
pub struct Outage {
    since: Option<Timestamp>,
    misses: u32,
    /// The cause that was last reported.
    reported: String,
}

/// What a miss means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// How many in a row.
    pub misses: u32,
    /// Whether its cause is to be reported: once an outage, and once more where the cause is another.
    pub is_news: bool,
    /// Whether it is the one after which the last recommendation counts as stale.
    pub is_stale: bool,
}

/// An outage that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastOutage {
    /// How many misses it had.
    pub misses: u32,
    /// From the first miss to the first response.
    pub lasted: Duration,
}

impl Outage {
    /// There is no response that could be used. After `most` of them the last recommendation counts as stale.
    pub fn missed(&mut self, now: Timestamp, miss: &Miss, most: u32) -> Missed {
        self.since.get_or_insert(now);
        self.misses = self.misses.saturating_add(1);
        let cause = miss.to_string();
        let is_news = self.reported != cause;
        if is_news {
            self.reported = cause;
        }
        Missed { misses: self.misses, is_news, is_stale: self.misses == most }
    }

    /// The forecaster has responded; none if it had not missed.
    pub fn end(&mut self, now: Timestamp) -> Option<PastOutage> {
        let Self { since, misses, .. } = std::mem::take(self);
        Some(PastOutage { misses, lasted: now.since(since?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_news_once_and_one_miss_makes_it_stale() {
        let (mut outage, at) = (Outage::default(), |seconds: u64| Timestamp::from_nanos(seconds * 1_000_000_000));
        assert_eq!(outage.end(at(1)), None);
        for (second, miss, is_news, is_stale) in [
            (10, Miss::Timeout, true, false),
            (20, Miss::Timeout, false, false),
            (30, Miss::BadStatus(500), true, true),
            (40, Miss::BadStatus(503), true, false),
            (50, Miss::BadStatus(503), false, false),
        ] {
            let misses = u32::try_from(second / 10).expect("small");
            assert_eq!(outage.missed(at(second), &miss, 3), Missed { misses, is_news, is_stale }, "{second}");
        }
        assert_eq!(outage.end(at(55)), Some(PastOutage { misses: 5, lasted: Duration::from_secs(45) }));
        assert!(outage.missed(at(60), &Miss::BadStatus(503), 3).is_news, "another outage");
    }
}

//! A text beside the limits, such as their numbers, that all who share a store follow.

use std::fmt;
use std::time::Duration;

use redis::Value;

use crate::Store;
use crate::link::NoAnswer;

/// A text in Redis that all who share a store follow. It is changed by whoever has seen what it was before.
#[derive(Clone)]
pub struct Document {
    store: Store,
    key: String,
}

/// Why a document could not be read or replaced. Nothing was written, but where it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentFault {
    /// Redis could not be asked, or did not answer.
    Away,
    /// Redis refuses; its own words. The key may hold something else, it may be out of memory, we may lack a permission.
    Refused(String),
    /// The text is longer than [`Document::LONGEST`]: it is neither read nor written.
    TooLong,
    /// Redis did not say whether it has written: the new text may be there by now, or later, or not at all.
    Unknown,
}

impl fmt::Display for DocumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away => f.write_str("Redis is away"),
            Self::Refused(error) => write!(f, "Redis refuses: {error}"),
            Self::TooLong => write!(f, "the text is longer than {} bytes", Document::LONGEST),
            Self::Unknown => f.write_str("Redis did not say whether it has written the text"),
        }
    }
}

impl std::error::Error for DocumentFault {}

impl From<NoAnswer> for DocumentFault {
    fn from(no_answer: NoAnswer) -> Self {
        match no_answer {
            NoAnswer::Refused(error) => Self::Refused(error),
            NoAnswer::Late | NoAnswer::Lost | NoAnswer::Away => Self::Away,
        }
    }
}

/// Sets the key to the new text if it holds the old one; an empty text is no key at all.
pub(crate) const REPLACE: &str = "local now = redis.call('GET', KEYS[1]) or ''
if now ~= ARGV[1] then return 0 end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2]) end
return 1";

impl Document {
    /// The most bytes a text may have: it travels on the connection that decides requests.
    pub const LONGEST: usize = 1 << 20;
    /// How long a call may take. No request waits for it, so it has more time than they have, and being late here says nothing about them.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

    pub(crate) fn new(store: Store, key: String) -> Self {
        Self { store, key }
    }

    /// The Redis key it stands under.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its text; empty if there is none.
    pub async fn read(&self) -> Result<Vec<u8>, DocumentFault> {
        let mut command = redis::cmd("GETRANGE");
        command.arg(&self.key).arg(0).arg(Self::LONGEST); // both ends included: one byte more than allowed
        match self.store.0.link.ask(&command, Self::PATIENCE).await? {
            Value::BulkString(text) if text.len() > Self::LONGEST => Err(DocumentFault::TooLong),
            Value::BulkString(text) => Ok(text),
            _ => Ok(Vec::new()),
        }
    }

    /// Redis' own clock, in milliseconds since 1970. A cluster's nodes each have one.
    pub async fn clock_millis(&self) -> Result<u64, DocumentFault> {
        let answer = self.store.0.link.ask(&redis::cmd("TIME"), Self::PATIENCE).await?;
        let time: Result<(u64, u64), _> = redis::from_redis_value(answer);
        let (seconds, micros) = time.map_err(|error| DocumentFault::Refused(error.to_string()))?;
        Ok(seconds.saturating_mul(1_000).saturating_add(micros / 1_000))
    }

    /// Replaces `old` by `new`. False if somebody else was quicker: read it again.
    pub async fn replace(&self, old: &[u8], new: &[u8]) -> Result<bool, DocumentFault> {
        if new.len() > Self::LONGEST {
            return Err(DocumentFault::TooLong);
        }
        let mut command = redis::cmd("EVAL");
        command.arg(REPLACE).arg(1).arg(&self.key).arg(old).arg(new);
        match self.store.0.link.ask(&command, Self::PATIENCE).await {
            Ok(answer) => Ok(answer == Value::Int(1)),
            Err(no_answer @ (NoAnswer::Refused(_) | NoAnswer::Away)) => Err(no_answer.into()),
            // It may be carried out yet. If the text is there, it was; if not, that may be a matter of time.
            Err(NoAnswer::Late | NoAnswer::Lost) => match self.read().await {
                Ok(text) if text == new => Ok(true),
                _ => Err(DocumentFault::Unknown),
            },
        }
    }
}

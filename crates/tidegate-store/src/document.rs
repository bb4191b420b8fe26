//! A text beside the limits, such as their numbers, that all who share a store follow.

use std::fmt;
use std::sync::Arc;

use redis::Value;

use crate::link::{BACKGROUND_TIMEOUT, CallError, Link};

/// A text in Redis that all who share a store follow. To change it one must have seen what it was before.
#[derive(Clone)]
pub struct Document {
    link: Arc<Link>,
    key: String,
}

/// Why a document could not be read or replaced. Nothing was written, unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentFault {
    /// Redis could not be asked, or did not reply.
    Away,
    /// Redis replied with an error; its own words. The key may hold something else, it may be out of memory, we may
    /// lack a permission.
    Rejected(String),
    /// The text is longer than [`Document::LONGEST`]: it is neither read nor written.
    TooLong,
    /// Redis did not say whether it has written: the new text may be there by now, or later, or not at all.
    Unknown,
}

impl fmt::Display for DocumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away => f.write_str("Redis is away"),
            Self::Rejected(error) => write!(f, "Redis rejects: {error}"),
            Self::TooLong => write!(f, "the text is longer than {} bytes", Document::LONGEST),
            Self::Unknown => f.write_str("Redis did not say whether it has written the text"),
        }
    }
}

impl std::error::Error for DocumentFault {}

impl From<CallError> for DocumentFault {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Rejected(error) => Self::Rejected(error),
            CallError::Late | CallError::Lost | CallError::Away => Self::Away,
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

    pub(crate) fn new(link: Arc<Link>, key: String) -> Self {
        Self { link, key }
    }

    /// The Redis key it stands under.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its text; empty if there is none.
    pub async fn read(&self) -> Result<Vec<u8>, DocumentFault> {
        let mut command = redis::cmd("GETRANGE");
        command.arg(&self.key).arg(0).arg(Self::LONGEST); // both ends included: one byte more than allowed
        match self.link.ask(&command, BACKGROUND_TIMEOUT).await? {
            Value::BulkString(text) if text.len() > Self::LONGEST => Err(DocumentFault::TooLong),
            Value::BulkString(text) => Ok(text),
            _ => Ok(Vec::new()),
        }
    }

    /// Redis' own clock, in milliseconds since 1970. A cluster's nodes each have one.
    pub async fn clock_millis(&self) -> Result<u64, DocumentFault> {
        let reply = self.link.ask(&redis::cmd("TIME"), BACKGROUND_TIMEOUT).await?;
        let time: Result<(u64, u64), _> = redis::from_redis_value(reply);
        let (seconds, micros) = time.map_err(|error| DocumentFault::Rejected(error.to_string()))?;
        Ok(seconds.saturating_mul(1_000).saturating_add(micros / 1_000))
    }

    /// Replaces `old` by `new`. False if another process was quicker: read it again.
    pub async fn replace(&self, old: &[u8], new: &[u8]) -> Result<bool, DocumentFault> {
        if new.len() > Self::LONGEST {
            return Err(DocumentFault::TooLong);
        }
        let mut command = redis::cmd("EVAL");
        command.arg(REPLACE).arg(1).arg(&self.key).arg(old).arg(new);
        match self.link.ask(&command, BACKGROUND_TIMEOUT).await {
            Ok(reply) => Ok(reply == Value::Int(1)),
            Err(error @ (CallError::Rejected(_) | CallError::Away)) => Err(error.into()),
            // It may be carried out yet. If the text is there, it was; if not, that may be a matter of time.
            Err(CallError::Late | CallError::Lost) => match self.read().await {
                Ok(text) if text == new => Ok(true),
                Ok(_) | Err(_) => Err(DocumentFault::Unknown),
            },
        }
    }
}

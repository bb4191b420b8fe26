//! A text beside the limits, such as their numbers, that all who share a store follow.

use redis::Value;

use crate::Store;
use crate::link::Unavailable;

/// A text in Redis that all who share a store follow. It is changed by whoever has seen what it was before.
#[derive(Clone)]
pub struct Document {
    store: Store,
    key: String,
}

/// Redis could not be asked, or did not answer in time: what was written may be there or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreAway;

impl std::fmt::Display for StoreAway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redis is away")
    }
}

impl std::error::Error for StoreAway {}

impl From<Unavailable> for StoreAway {
    fn from(_: Unavailable) -> Self {
        Self
    }
}

/// Sets the key to the new text if it holds the old one; an empty text is no key at all.
const REPLACE: &str = "local now = redis.call('GET', KEYS[1]) or ''
if now ~= ARGV[1] then return 0 end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2]) end
return 1";

impl Document {
    pub(crate) fn new(store: Store, key: String) -> Self {
        Self { store, key }
    }

    /// Its text; empty if there is none.
    pub async fn read(&self) -> Result<String, StoreAway> {
        let reply = self.store.0.link.ask(redis::cmd("GET").arg(&self.key)).await?;
        Ok(match reply {
            Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            _ => String::new(),
        })
    }

    /// Replaces `old` by `new`. False if somebody else was quicker: read it again.
    pub async fn replace(&self, old: &str, new: &str) -> Result<bool, StoreAway> {
        let mut command = redis::cmd("EVAL");
        command.arg(REPLACE).arg(1).arg(&self.key).arg(old).arg(new);
        Ok(self.store.0.link.ask(&command).await? == Value::Int(1))
    }
}

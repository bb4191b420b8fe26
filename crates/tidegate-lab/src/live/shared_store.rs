//! What keeps the limits where the gateway does not.

use std::net::SocketAddr;

use super::redis::Redis;
use super::stand_in::StandIn;
use crate::scenario::StoreKind;

/// Redis, or its stand-in.
pub(super) enum SharedStore {
    Redis(Redis),
    StandIn(StandIn),
}

impl SharedStore {
    /// Starts the one that is asked for; none where the gateway keeps its limits itself.
    pub(super) fn start(kind: StoreKind) -> Result<Option<Self>, String> {
        match kind {
            StoreKind::Memory => Ok(None),
            StoreKind::Redis => Redis::start().map(|redis| Some(Self::Redis(redis))),
            StoreKind::StandIn => StandIn::start().map(|stand_in| Some(Self::StandIn(stand_in))),
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        match self {
            Self::Redis(redis) => redis.address(),
            Self::StandIn(stand_in) => stand_in.address(),
        }
    }

    /// Ends it at once, as a crash would.
    pub(super) fn kill(&mut self) {
        match self {
            Self::Redis(redis) => redis.kill(),
            Self::StandIn(stand_in) => stand_in.kill(),
        }
    }

    /// Starts it again at the same address, without any data.
    pub(super) fn restart(&mut self) -> Result<(), String> {
        match self {
            Self::Redis(redis) => redis.restart(),
            Self::StandIn(stand_in) => stand_in.restart(),
        }
    }
}

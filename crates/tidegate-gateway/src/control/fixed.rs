//! What a reload can't change.

use std::time::Duration;

use tidegate_store::Topology;

use crate::config::model;
use crate::settings::{ListenerSettings, Settings};

/// What only a restart changes.
pub(super) struct Fixed {
    listeners: Vec<(std::net::SocketAddr, bool, bool)>,
    workers: Option<usize>,
    admin: Option<std::net::SocketAddr>,
    redis: Option<model::Redis>,
    /// The connection to Redis with the contents of its files.
    redis_files: Option<Topology>,
    log: model::Log,
    access_log: Option<model::AccessLog>,
    max_connections: usize,
    drain_timeout: Duration,
}

impl Fixed {
    pub(super) fn of(settings: &Settings) -> Self {
        let listener = |listener: &ListenerSettings| (listener.address, listener.tls.is_some(), listener.h2c);
        Self {
            listeners: settings.listeners.iter().map(listener).collect(),
            workers: settings.workers_written,
            admin: settings.admin_listen,
            redis: settings.redis.as_ref().map(|redis| redis.model.clone()),
            redis_files: settings.redis.as_ref().map(|redis| redis.topology.clone()),
            log: settings.log.clone(),
            access_log: settings.access_log.clone(),
            max_connections: settings.connections.max,
            drain_timeout: settings.connections.drain_timeout.get(),
        }
    }

    pub(super) fn difference(&self, other: &Self) -> Option<&'static str> {
        [
            ("listeners", self.listeners == other.listeners),
            ("workers", self.workers == other.workers),
            ("admin.listen", self.admin == other.admin),
            ("redis", self.redis == other.redis),
            ("log", self.log == other.log),
            ("access_log", self.access_log == other.access_log),
            ("connections.max", self.max_connections == other.max_connections),
            ("connections.drain_timeout", self.drain_timeout == other.drain_timeout),
        ]
        .into_iter()
        .find_map(|(field, same)| (!same).then_some(field))
    }

    /// Whether the files for Redis, at the same paths, have other contents. Certificates are renewed in place by other
    /// programs: that is not a reason to reject the rest of a reload.
    pub(super) fn has_renewed_files(&self, other: &Self) -> bool {
        self.redis_files != other.redis_files
    }
}

//! How many clients may be connected at once without using up the files (sockets among them) that the process may have open.

use std::io;

/// What a worker's runtime holds: its poll, the handles to wake it and to hear of signals.
const OF_A_WORKER: usize = 8;
/// For what is opened now and then: configuration and certificates that are read anew, logs that are reopened, name servers, a forecaster.
const SPARE: usize = 16;
/// For connections to Redis that are made anew beside those there are, such as after an outage.
const OF_REDIS: usize = 8;
/// The admin listener may have this part of all files.
const ADMIN_PART: usize = 16;

/// What the process needs files for.
pub(crate) struct FileNeeds {
    /// How many may be open at once.
    pub(crate) limit: usize,
    /// How many are open already: listeners, logs, Redis.
    pub(crate) open: usize,
    pub(crate) workers: usize,
    pub(crate) listeners: usize,
    /// Connections that upstreams may have, all together.
    pub(crate) upstream_connections: usize,
    pub(crate) has_redis: bool,
    /// Connections that the admin listener would like to have; none without it.
    pub(crate) admin: usize,
}

/// Who may have how many connections.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileBudget {
    pub(crate) clients: usize,
    pub(crate) admin: usize,
}

impl FileNeeds {
    /// Shares what may be open. Each client may need a connection to an upstream, so that these have half of what is left, or all they
    /// may ever have.
    pub(crate) fn budget(&self, wanted: usize) -> FileBudget {
        let admin = self.admin.min((self.limit / ADMIN_PART).max(1));
        // Every worker has a handle on each listener, and holds a client for it that waits for room.
        let of_workers = self.workers.saturating_mul(OF_A_WORKER + 2 * self.listeners);
        let of_redis = if self.has_redis { OF_REDIS } else { 0 };
        let taken = [self.open, of_workers, of_redis, admin, SPARE].into_iter().fold(0, usize::saturating_add);
        let left = self.limit.saturating_sub(taken);
        let clients = left - self.upstream_connections.min(left / 2);
        FileBudget { clients: clients.clamp(1, wanted.max(1)), admin }
    }
}

/// Whether the process, or the system, has no more files to open: others must be closed first.
pub(crate) fn is_out_of_files(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS: FileNeeds = FileNeeds {
        limit: 256,
        open: 12,
        workers: 2,
        listeners: 1,
        upstream_connections: 4_096,
        has_redis: false,
        admin: 0,
    };

    #[test]
    fn clients_leave_as_many_files_for_upstreams_as_they_have_themselves() {
        for (limit, clients) in [(256, 104), (1_024, 488), (8_192, 4_072), (16_384, 12_240), (1_000_000, 20_000)] {
            let budget = FileNeeds { limit, ..NEEDS }.budget(20_000);
            assert_eq!(budget, FileBudget { clients, admin: 0 }, "{limit}");
        }
        assert_eq!(NEEDS.budget(50).clients, 50, "fewer are wanted");
        assert_eq!(FileNeeds { limit: usize::MAX, ..NEEDS }.budget(10_000_000).clients, 10_000_000);
    }

    #[test]
    fn upstreams_keep_no_more_than_they_may_have() {
        assert_eq!(FileNeeds { upstream_connections: 10, ..NEEDS }.budget(20_000).clients, 198);
    }

    #[test]
    fn whatever_else_is_open_is_left_out() {
        assert_eq!(FileNeeds { open: 112, ..NEEDS }.budget(20_000).clients, 54);
        assert_eq!(FileNeeds { workers: 4, ..NEEDS }.budget(20_000).clients, 94);
        assert_eq!(FileNeeds { has_redis: true, ..NEEDS }.budget(20_000).clients, 100);
        assert_eq!(FileNeeds { admin: 64, ..NEEDS }.budget(20_000), FileBudget { clients: 96, admin: 16 });
        assert_eq!(FileNeeds { admin: 64, limit: 4_096, ..NEEDS }.budget(20_000).admin, 64);
    }

    /// It then does what it can: whoever is idle makes room.
    #[test]
    fn one_client_is_always_let_in() {
        for limit in [0, 1, 32, 48, 50] {
            let budget = FileNeeds { limit, admin: 64, ..NEEDS }.budget(20_000);
            assert_eq!((budget.clients, budget.admin >= 1), (1, true), "{limit}");
        }
    }

    #[test]
    fn only_a_want_of_files_is_one() {
        assert!([23, 24].map(io::Error::from_raw_os_error).iter().all(is_out_of_files));
        assert!(![12, 105, 111].map(io::Error::from_raw_os_error).iter().any(is_out_of_files));
        assert!(!is_out_of_files(&io::ErrorKind::NotFound.into()));
    }
}

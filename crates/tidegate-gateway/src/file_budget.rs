//! How many clients may be connected at once, given how many file descriptors (sockets among them) the process may have
//! open.

/// What a worker's runtime holds: its poll (twice), and the handles to wake it and to receive signals.
const OF_A_WORKER: usize = 4;
/// For what is opened now and then: configuration and certificates that are read anew, logs that are reopened, name
/// servers, a forecaster.
const SPARE: usize = 16;
/// The most health checks at once. Each has a connection of its own.
const MOST_CHECKS: usize = 64;
/// They may have this part of all descriptors.
const CHECKS_PART: usize = 32;
/// For connections to Redis that are opened beside existing ones, such as after an outage.
const OF_REDIS: usize = 8;
/// The admin listener may have this part of all descriptors.
const ADMIN_PART: usize = 16;
/// Of so many clients, the end of one may be watched by a second descriptor.
const CLIENTS_PER_WATCH: usize = 8;
/// Clients have at least this part of all descriptors, as long as there is more.
const CLIENTS_PART: usize = 4;

/// The most health checks at once, where so many descriptors may be open.
pub(crate) fn most_checks(limit: usize) -> usize {
    (limit / CHECKS_PART).clamp(1, MOST_CHECKS)
}

/// What the process needs descriptors for.
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
    /// Connections that the admin listener should have; 0 without one.
    pub(crate) admin: usize,
}

/// How many descriptors each use may have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileBudget {
    pub(crate) clients: usize,
    /// For second descriptors of clients, which show that a client has left while nothing is read from it.
    pub(crate) watches: usize,
    pub(crate) upstreams: usize,
    pub(crate) admin: usize,
}

impl FileNeeds {
    /// Divides what may be open. Each client may need a connection to an upstream, so upstreams get half of what is
    /// left, or all that they may ever have.
    pub(crate) fn budget(&self, wanted: usize) -> FileBudget {
        let admin = self.admin.min((self.limit / ADMIN_PART).max(1));
        // Every worker has a handle on each listener, and may hold a client of it that waits for a slot.
        let of_workers = self.workers.saturating_mul(OF_A_WORKER + 2 * self.listeners);
        let of_redis = if self.has_redis { OF_REDIS } else { 0 };
        // Always, because a reload may turn checks on.
        let of_checks = most_checks(self.limit);
        let taken = [self.open, of_workers, of_redis, admin, of_checks, SPARE];
        let taken = taken.into_iter().fold(0, usize::saturating_add);
        let left = self.limit.saturating_sub(taken);
        let of_clients = left - self.upstream_connections.min(left / 2);
        let part = self.limit / CLIENTS_PART;
        let least = if left > part { part } else { 1 };
        let clients = of_clients - of_clients / (CLIENTS_PER_WATCH + 1);
        let clients = clients.max(least).clamp(1, wanted.max(1));
        let left = left.saturating_sub(clients);
        let watches = (clients / CLIENTS_PER_WATCH).min(left / 2);
        FileBudget { clients, watches, upstreams: (left - watches).max(1), admin }
    }
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

    fn clients(needs: &FileNeeds) -> usize {
        needs.budget(20_000).clients
    }

    #[test]
    fn clients_leave_as_many_descriptors_for_upstreams_as_they_have_themselves() {
        for (limit, clients, watches, upstreams) in [
            (256, 93, 11, 104),
            (1_024, 424, 53, 475),
            (8_192, 3_595, 449, 4_044),
            (16_384, 10_831, 1_353, 4_096),
            (1_000_000, 20_000, 2_500, 977_396),
        ] {
            let budget = FileNeeds { limit, ..NEEDS }.budget(20_000);
            assert_eq!(budget, FileBudget { clients, watches, upstreams, admin: 0 }, "{limit}");
        }
        assert_eq!(NEEDS.budget(50).clients, 50, "fewer are wanted");
        assert_eq!(FileNeeds { limit: usize::MAX, ..NEEDS }.budget(10_000_000).clients, 10_000_000);
    }

    #[test]
    fn clients_have_what_upstreams_can_never_use() {
        let budget = FileNeeds { upstream_connections: 10, ..NEEDS }.budget(20_000);
        assert_eq!((budget.clients, budget.upstreams), (176, 16));
    }

    /// Together they are never more than there are.
    #[test]
    fn nothing_is_assigned_twice() {
        for limit in (64..5_000).step_by(7) {
            for (workers, upstream_connections, admin) in [(1, 4_096, 0), (2, 10, 64), (8, 500, 64), (128, 4_096, 64)] {
                let needs = FileNeeds { limit, workers, upstream_connections, admin, ..NEEDS };
                let budget = needs.budget(20_000);
                let taken = 12 + workers * 6 + SPARE + most_checks(limit) + budget.admin;
                let given = budget.clients + budget.watches + budget.upstreams;
                assert!(given + taken <= limit.max(taken + 2), "{limit}, {workers} workers: {budget:?}");
            }
        }
    }

    #[test]
    fn descriptors_in_other_use_are_left_out() {
        assert_eq!(clients(&FileNeeds { open: 112, ..NEEDS }), 64, "a quarter");
        assert_eq!(clients(&FileNeeds { open: 52, ..NEEDS }), 75);
        assert_eq!(clients(&FileNeeds { workers: 4, ..NEEDS }), 88);
        assert_eq!(clients(&FileNeeds { has_redis: true, ..NEEDS }), 89);
        let with_admin = FileNeeds { admin: 64, ..NEEDS }.budget(20_000);
        assert_eq!((with_admin.clients, with_admin.admin), (86, 16));
        assert_eq!(FileNeeds { admin: 64, limit: 4_096, ..NEEDS }.budget(20_000).admin, 64);
    }

    /// With 8 descriptors a worker, 128 workers left one client of 1,024 descriptors.
    #[test]
    fn many_workers_leave_descriptors_for_clients() {
        let with = |workers| FileNeeds { limit: 1_024, workers, ..NEEDS };
        for (workers, clients, upstreams) in [(64, 258, 290), (96, 256, 100), (128, 88, 97)] {
            let budget = with(workers).budget(20_000);
            assert_eq!((budget.clients, budget.upstreams), (clients, upstreams), "{workers}");
        }
    }

    /// They were not counted, and there could be 64 for each upstream.
    #[test]
    fn health_checks_have_a_part_of_few_descriptors() {
        for (limit, checks) in [(0, 1), (64, 2), (256, 8), (1_024, 32), (2_048, 64), (usize::MAX, 64)] {
            assert_eq!(most_checks(limit), checks, "{limit}");
        }
    }

    /// Idle connections are then closed for new ones.
    #[test]
    fn one_client_is_always_admitted() {
        for limit in [0, 1, 32, 40] {
            let budget = FileNeeds { limit, admin: 64, ..NEEDS }.budget(20_000);
            assert_eq!((budget.clients, budget.upstreams, budget.admin >= 1), (1, 1, true), "{limit}");
        }
    }
}

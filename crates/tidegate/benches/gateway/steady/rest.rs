//! A gateway without load.

use std::time::{Duration, Instant};

use super::operator::Operator;
use super::site::Site;
use crate::usage;

/// How long a gateway may take to come to rest: it keeps connections to upstreams for 5 s.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// What a gateway without load still holds.
pub(crate) struct Rest {
    pub(crate) rss_mb: f64,
    pub(crate) descriptors: usize,
    /// The same while sockets were still open, without theirs.
    pub(crate) beside_sockets: usize,
    /// Connections and requests, by its metrics: whoever reads them is one of each.
    pub(crate) connections: u64,
    pub(crate) in_flight: u64,
    /// Places that its limits of requests in flight have left: whoever asks holds one of each.
    pub(crate) free_slots: [Option<u64>; 2],
}

impl Rest {
    /// The gateway before any load.
    pub(crate) fn before(site: &Site, operator: &mut Operator) -> Self {
        // Whoever waited for its start may have left just now: the fewest that are seen within a second.
        let counts = (0..20).map(|_| {
            std::thread::sleep(PAUSE);
            usage::descriptors(site.gateway.id())
        });
        let descriptors = counts.min().expect("there are twenty");
        Self::of(site, descriptors, descriptors, operator)
    }

    /// The gateway after a load, when it has come to rest or had the time to.
    pub(crate) fn after(site: &Site, operator: &mut Operator, before: &Self) -> Self {
        // One to the client and one to the upstream.
        let of_sockets = 2 * operator.open_sockets();
        let beside_sockets = falls_to(site, before.descriptors + of_sockets).saturating_sub(of_sockets);
        operator.close_sockets();
        Self::of(site, falls_to(site, before.descriptors), beside_sockets, operator)
    }

    fn of(site: &Site, descriptors: usize, beside_sockets: usize, operator: &mut Operator) -> Self {
        let page = operator.page();
        let gauge = |name: &str| page.sum(name, "");
        Self {
            rss_mb: usage::rss_mb(site.gateway.id()),
            descriptors,
            beside_sockets,
            connections: gauge("tidegate_connections"),
            in_flight: gauge("tidegate_requests_in_flight"),
            free_slots: operator.free_slots(),
        }
    }
}

/// Waits until the gateway has no more descriptors than these, and says how many it has then, or when its time is up.
fn falls_to(site: &Site, most: usize) -> usize {
    let start = Instant::now();
    loop {
        let descriptors = usage::descriptors(site.gateway.id());
        if descriptors <= most || start.elapsed() > PATIENCE {
            return descriptors;
        }
        std::thread::sleep(PAUSE);
    }
}

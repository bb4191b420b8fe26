//! The endpoints in force, and those that have left.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tidegate_http::client::EndpointBounds;
use tidegate_policy::Timestamp;
use tidegate_policy::endpoints::{Balancer, BalancerSettings, EndpointState, Forced, Standing};

use super::member::{Member, Series, Totals};
use crate::settings::EndpointEntry;

/// The most endpoints of an upstream with metrics of their own. The rest is added up.
const MOST_SERIES: usize = 100;

/// The most endpoints of an upstream that are remembered after they have left.
pub(super) const MOST_GONE: usize = 1_000;

/// The endpoints in force.
pub(crate) struct Pool {
    /// Chooses one of `members`, by index.
    pub(crate) balancer: Balancer,
    pub(crate) members: Box<[Arc<Member>]>,
    /// Endpoints that have left, the earliest first. What is known of them counts again when they return: a name server
    /// may respond with some of the addresses at a time. Connections to them are closed as soon as they are idle.
    pub(super) gone: Vec<Arc<Member>>,
    /// What endpoints have counted together with others that are no longer among them.
    others_before: Totals,
}

/// What a pool is built by, apart from addresses.
pub(super) struct PoolTerms {
    pub(super) entries: Vec<Arc<EndpointEntry>>,
    pub(super) bounds: EndpointBounds,
    pub(super) balancing: BalancerSettings,
    pub(super) workers: usize,
    /// Whether endpoints are checked. If not, what earlier checks found does not count.
    pub(super) has_checks: bool,
}

impl Pool {
    /// No endpoints yet.
    pub(super) fn empty(terms: &PoolTerms) -> Self {
        let balancer = Balancer::new([], terms.balancing);
        Self { balancer, members: Box::default(), gone: Vec::new(), others_before: Totals::default() }
    }

    /// The pool for these addresses of the entries. What is known of endpoints is kept.
    pub(super) fn build(terms: &PoolTerms, addresses: &[Arc<[IpAddr]>], before: &Self, now: Timestamp) -> Self {
        let wanted = wanted(&terms.entries, addresses);
        let (present, gone) = (by_address(&before.members), by_address(&before.gone));
        let has_own = |address: &SocketAddr| present.get(address).is_some_and(|known| known.series == Series::Own);
        let mut own_series = wanted.iter().filter(|(_, address)| has_own(address)).count();
        let mut others_before = before.others_before;
        let mut returned = Vec::new();
        let mut members: Vec<Arc<Member>> = Vec::with_capacity(wanted.len());
        for (entry, address) in &wanted {
            if let Some(known) = present.get(address) {
                let is_same = Arc::ptr_eq(&known.entry, entry);
                let renewed = || Arc::new(known.renewed(entry, terms.bounds, terms.workers));
                members.push(if is_same { Arc::clone(known) } else { renewed() });
                continue;
            }
            let mut member = if let Some(known) = gone.get(address) {
                returned.push(members.len());
                known.renewed(entry, terms.bounds, terms.workers)
            } else {
                let state = new_state(*address, present.is_empty(), now);
                Member::new(entry, *address, terms.bounds, state, terms.workers)
            };
            let counted = member.counted_with_others();
            member.series = member.joined_series(own_series < MOST_SERIES);
            if member.series == Series::Own {
                own_series += 1;
                others_before = others_before.plus(counted);
            }
            members.push(Arc::new(member));
        }
        let weighted = members.iter().map(|member| (Arc::clone(&member.state), member.entry.weight));
        let balancer = Balancer::new(weighted, terms.balancing);
        let mut pool = Self { balancer, members: members.into(), gone: Vec::new(), others_before };
        if !present.is_empty() {
            pool.restart_slow_start(&returned, now);
        }
        if !terms.has_checks {
            pool.forget_checks(returned, now);
        }
        let stay: HashSet<SocketAddr> = wanted.into_iter().map(|(_, address)| address).collect();
        pool.remember(before, &stay, now);
        pool
    }

    /// An endpoint that returns gets its share little by little, as a new one does.
    fn restart_slow_start(&self, returned: &[usize], now: Timestamp) {
        if returned.is_empty() {
            return;
        }
        let snapshots = self.balancer.snapshot(now);
        for index in returned {
            // A slow start begins when an endpoint is in service again. No request is sent to it yet.
            self.balancer.force(*index, Forced::Drain, now);
            self.balancer.force(*index, snapshots[*index].forced, now);
        }
    }

    fn forget_checks(&self, indexes: impl IntoIterator<Item = usize>, now: Timestamp) {
        for index in indexes {
            self.balancer.forget_checks(index, now);
        }
    }

    /// What checks of an earlier configuration found counts no more.
    pub(crate) fn forget_all_checks(&self, now: Timestamp) {
        self.forget_checks(0..self.members.len(), now);
    }

    /// Remembers the endpoints of the pool before that do not stay, up to [`MOST_GONE`]. The earliest are forgotten
    /// first, and those that an operator has taken out last.
    fn remember(&mut self, before: &Self, stay: &HashSet<SocketAddr>, now: Timestamp) {
        let has_gone = |member: &&Arc<Member>| !stay.contains(&member.endpoint.address);
        before.members.iter().filter(has_gone).for_each(|member| member.close_idle());
        let mut gone: Vec<Arc<Member>> =
            before.gone.iter().chain(&before.members).filter(has_gone).map(Arc::clone).collect();
        let mut excess = gone.len().saturating_sub(MOST_GONE);
        let mut forgotten = Vec::new();
        if excess > 0 {
            let is_set = |member: &Member| matches!(member.state.standing(now), Standing::Down | Standing::Drain);
            gone.retain(|member| {
                let is_forgotten = excess > 0 && !is_set(member);
                if is_forgotten {
                    excess -= 1;
                    forgotten.push(Arc::clone(member));
                }
                !is_forgotten
            });
            forgotten.extend(gone.drain(..excess));
        }
        for member in forgotten {
            member.endpoint.pools.close();
            self.others_before = self.others_before.plus(member.counted_with_others());
        }
        self.gone = gone;
    }

    /// What endpoints without metrics of their own have counted; none if there never was one.
    pub(crate) fn others(&self) -> Option<Totals> {
        let all = || self.members.iter().chain(&self.gone);
        let others = all().fold(self.others_before, |sum, member| sum.plus(member.counted_with_others()));
        let has_others = self.members.iter().any(|member| member.series != Series::Own);
        (has_others || others != Totals::default()).then_some(others)
    }

    /// Open connections to all endpoints, and to those that have left.
    pub(crate) fn open_connections(&self) -> usize {
        self.members.iter().chain(&self.gone).map(|member| member.endpoint.pools.open()).sum()
    }

    /// Closes connections to endpoints that have left, as far as they are idle.
    pub(super) fn close_idle_of_gone(&self) {
        self.gone.iter().for_each(|member| member.close_idle());
    }

    /// Closes all connections: idle ones now, the others when their requests have ended.
    pub(super) fn close(&self) {
        self.members.iter().chain(&self.gone).for_each(|member| member.endpoint.pools.close());
    }
}

/// The endpoints for these addresses of the entries. Two names may have the same address: it is one endpoint, by the
/// first of them.
fn wanted<'a>(
    entries: &'a [Arc<EndpointEntry>],
    addresses: &[Arc<[IpAddr]>],
) -> Vec<(&'a Arc<EndpointEntry>, SocketAddr)> {
    let mut seen = HashSet::new();
    let all = entries
        .iter()
        .zip(addresses)
        .flat_map(|(entry, addresses)| addresses.iter().map(move |ip| (entry, SocketAddr::new(*ip, entry.port))));
    all.filter(|(_, address)| seen.insert(*address)).collect()
}

/// There may be thousands: finding each by a walk would take too long.
fn by_address(members: &[Arc<Member>]) -> HashMap<SocketAddr, &Arc<Member>> {
    members.iter().map(|member| (member.endpoint.address, member)).collect()
}

fn new_state(address: SocketAddr, is_first: bool, now: Timestamp) -> EndpointState {
    let name = address.to_string();
    if is_first { EndpointState::new(&name) } else { EndpointState::joining(&name, now) }
}

//! One endpoint: where it is, its connections, what is known of it, and where it is counted.

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use tidegate_http::client::{Endpoint, EndpointBounds, Pools};
use tidegate_policy::endpoints::EndpointState;

use crate::settings::EndpointEntry;

/// One endpoint.
pub(crate) struct Member {
    pub(crate) entry: Arc<EndpointEntry>,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) state: Arc<EndpointState>,
    pub(crate) series: Series,
    /// Why the last check failed. None if it passed, or if there was none.
    failed_check: ArcSwapOption<String>,
}

/// Where the requests of an endpoint are counted in metrics. It is decided when the endpoint joins a pool and stays as
/// long as it is there: a counter that many share must not fall when one of them moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Series {
    /// Under its own name.
    Own,
    /// Together with others: what it has counted since.
    Others(Totals),
}

/// What an endpoint has counted, or several together. It only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) successes: u64,
    pub(crate) failures: u64,
    pub(crate) ejections: u64,
}

impl Totals {
    pub(super) fn of(state: &EndpointState) -> Self {
        let (successes, failures) = state.totals();
        Self { successes, failures, ejections: state.ejections().into() }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            successes: self.successes.saturating_add(other.successes),
            failures: self.failures.saturating_add(other.failures),
            ejections: self.ejections.saturating_add(other.ejections),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            successes: self.successes.saturating_sub(other.successes),
            failures: self.failures.saturating_sub(other.failures),
            ejections: self.ejections.saturating_sub(other.ejections),
        }
    }
}

impl Member {
    /// An endpoint that nothing is known of.
    pub(super) fn new(
        entry: &Arc<EndpointEntry>,
        address: SocketAddr,
        bounds: EndpointBounds,
        state: EndpointState,
        workers: usize,
    ) -> Self {
        let pools = Arc::new(Pools::new(workers));
        let endpoint = Endpoint { address, tls: entry.tls.clone(), bounds, pools };
        let (entry, endpoint, state) = (Arc::clone(entry), Arc::new(endpoint), Arc::new(state));
        let failed_check = ArcSwapOption::empty();
        Self { entry, endpoint, state, series: Series::Others(Totals::default()), failed_check }
    }

    /// The same endpoint under a configuration that may have changed: with its connections, if they are as good for it.
    pub(super) fn renewed(&self, entry: &Arc<EndpointEntry>, bounds: EndpointBounds, workers: usize) -> Self {
        let before = &self.endpoint;
        let pools = if Trust::of(&self.entry).is_same(&Trust::of(entry)) {
            Arc::clone(&before.pools)
        } else {
            before.pools.close();
            Arc::new(Pools::new(workers))
        };
        let endpoint = Endpoint { address: before.address, tls: entry.tls.clone(), bounds, pools };
        let (entry, endpoint, state) = (Arc::clone(entry), Arc::new(endpoint), Arc::clone(&self.state));
        let failed_check = ArcSwapOption::new(self.failed_check.load_full());
        Self { entry, endpoint, state, series: self.series, failed_check }
    }

    /// Notes why the last check failed, if it did.
    pub(crate) fn set_failed_check(&self, why: Option<String>) {
        if why.is_some() || self.failed_check.load().is_some() {
            self.failed_check.store(why.map(Arc::new));
        }
    }

    /// Why the last check failed.
    pub(crate) fn failed_check(&self) -> Option<Arc<String>> {
        self.failed_check.load_full()
    }

    /// Where it is counted when it joins a pool that it was not in: under its own name, if there is room for that.
    pub(super) fn joined_series(&self, has_room: bool) -> Series {
        match self.series {
            _ if has_room => Series::Own,
            Series::Own => Series::Others(Totals::of(&self.state)),
            Series::Others(since) => Series::Others(since),
        }
    }

    /// What it has counted together with others.
    pub(super) fn counted_with_others(&self) -> Totals {
        match self.series {
            Series::Own => Totals::default(),
            Series::Others(since) => Totals::of(&self.state).minus(since),
        }
    }

    /// Closes its idle connections. Those that are in use stay, and count towards its bound.
    pub(super) fn close_idle(&self) {
        while self.endpoint.close_one_idle() {}
    }
}

/// Whom connections to an endpoint trust: the name that its certificate must have, and the authorities that may have
/// signed it. None without TLS.
struct Trust<'a>(Option<(&'a ServerName<'static>, &'a Arc<RootCertStore>)>);

impl<'a> Trust<'a> {
    fn of(entry: &'a EndpointEntry) -> Self {
        Self(entry.tls.as_ref().map(|tls| (&tls.name, &tls.roots)))
    }

    fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some((name, roots)), Some((other, others))) => name == other && roots.roots == others.roots,
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
}

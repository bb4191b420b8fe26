use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::change::Change;
use super::ejection::{EjectionSettings, Reason};
use super::hash_table::HashTable;
use super::health::HealthThresholds;
use super::in_flight::InFlight;
use super::outcome::Outcome;
use super::outliers::{Counts, outliers};
use super::schedule::Schedule;
use super::shares::Shares;
use super::standing::{Forced, Standing};
use super::state::{EndpointState, Interval, Record};
use super::weight::Weight;
use crate::Timestamp;
use crate::lock::lock;
use crate::timestamp::nanos;

/// How a pool spreads its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Balance {
    /// To an endpoint drawn by weight, or to another that has clearly less to do.
    #[default]
    LeastRequests,
    /// In turn.
    RoundRobin,
    /// By a key: requests with the same key go to the same endpoint.
    Hash,
}

impl Balance {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::LeastRequests, Self::RoundRobin, Self::Hash];

    /// The word for it in the configuration and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeastRequests => "least_requests",
            Self::RoundRobin => "round_robin",
            Self::Hash => "hash",
        }
    }
}

/// How a pool of endpoints works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BalancerSettings {
    /// How requests are spread.
    pub balance: Balance,
    /// How long the share of an endpoint that has just become available grows from a tenth to the whole of its weight;
    /// zero switches slow start off. It never applies to [`Balance::Hash`], where it would move keys to and fro.
    pub slow_start: Duration,
    /// When endpoints are ejected; `None` is never.
    pub ejection: Option<EjectionSettings>,
    /// How many checks change an endpoint's health.
    pub health: HealthThresholds,
}

/// Least requests, no slow start, ejection and thresholds as they are by default.
impl Default for BalancerSettings {
    fn default() -> Self {
        Self {
            balance: Balance::default(),
            slow_start: Duration::ZERO,
            ejection: Some(EjectionSettings::default()),
            health: HealthThresholds::default(),
        }
    }
}

/// A pool of endpoints: chooses one for each request, and ejects those that fail.
///
/// The list never changes: when the set of endpoints does, build another balancer with the same [`EndpointState`]s
/// for those that stay. All threads share it. Endpoints are named by their index in the list; an index beyond it does
/// nothing.
pub struct Balancer {
    pub(super) members: Box<[Member]>,
    pub(super) method: Method,
    pub(super) slow_start: u64,
    /// An endpoint past its slow start, when last looked for.
    pub(super) started: AtomicUsize,
    /// Until this moment no endpoint is past its slow start, as far as is known.
    pub(super) none_started_until: AtomicU64,
    ejection: Option<EjectionSettings>,
    thresholds: HealthThresholds,
    /// Held while endpoints are ejected, so that two threads never eject more than the largest share, or the last one.
    ejecting: Mutex<()>,
}

pub(super) struct Member {
    pub(super) state: Arc<EndpointState>,
    pub(super) weight: Weight,
}

pub(super) enum Method {
    LeastRequests(Shares),
    RoundRobin(Schedule),
    Hash(HashTable),
}

impl Balancer {
    /// A pool of these endpoints.
    pub fn new(endpoints: impl IntoIterator<Item = (Arc<EndpointState>, Weight)>, settings: BalancerSettings) -> Self {
        let members: Box<[Member]> = endpoints.into_iter().map(|(state, weight)| Member { state, weight }).collect();
        let weights: Vec<Weight> = members.iter().map(|member| member.weight).collect();
        let (method, slow_start) = match settings.balance {
            Balance::LeastRequests => (Method::LeastRequests(Shares::new(&weights)), settings.slow_start),
            Balance::RoundRobin => (Method::RoundRobin(Schedule::new(&weights)), settings.slow_start),
            Balance::Hash => {
                let named: Vec<_> = members.iter().map(|member| (member.state.name(), member.weight)).collect();
                (Method::Hash(HashTable::new(&named)), Duration::ZERO)
            }
        };
        Self {
            members,
            method,
            slow_start: nanos(slow_start),
            started: AtomicUsize::new(0),
            none_started_until: AtomicU64::new(0),
            ejection: settings.ejection,
            thresholds: settings.health,
            ejecting: Mutex::new(()),
        }
    }

    /// How it spreads requests.
    pub const fn balance(&self) -> Balance {
        match self.method {
            Method::LeastRequests(_) => Balance::LeastRequests,
            Method::RoundRobin(_) => Balance::RoundRobin,
            Method::Hash(_) => Balance::Hash,
        }
    }

    /// How many endpoints there are.
    pub const fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are no endpoints.
    pub const fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The endpoint at `index`, to build the next balancer with.
    pub fn endpoint(&self, index: usize) -> Option<&Arc<EndpointState>> {
        self.members.get(index).map(|member| &member.state)
    }

    /// The weight of the endpoint at `index`.
    pub fn weight(&self, index: usize) -> Option<Weight> {
        self.members.get(index).map(|member| member.weight)
    }

    /// A request begins on the endpoint at `index`.
    #[inline]
    pub fn begin(&self, index: usize, now: Timestamp) -> Option<InFlight> {
        self.members.get(index).map(|member| InFlight::begin(&member.state, index, now))
    }

    /// The request ended. It may have begun in an earlier balancer, on an endpoint that this one does not have: then
    /// it is recorded, and nothing is ejected.
    #[expect(clippy::needless_pass_by_value, reason = "dropping it takes the request out of those in flight")]
    #[inline]
    pub fn end(&self, in_flight: InFlight, outcome: Outcome, now: Timestamp) -> Option<Change> {
        self.record(&in_flight, outcome, now)
    }

    /// How the request ended is known, and it is still in flight: its response is on its way. It may have begun in an
    /// earlier balancer, as in [`end`](Self::end).
    #[inline]
    pub fn record(&self, in_flight: &InFlight, outcome: Outcome, now: Timestamp) -> Option<Change> {
        let streak = in_flight.record(outcome, now);
        if streak == 0 {
            return None;
        }
        self.judge_streak(in_flight, streak, outcome, now)
    }

    /// Whether so many failures in a row are too many.
    #[cold]
    fn judge_streak(&self, in_flight: &InFlight, streak: u32, outcome: Outcome, now: Timestamp) -> Option<Change> {
        let Outcome::Failure { cause, .. } = outcome else { return None };
        let most = self.ejection?.consecutive_failures?;
        let index = self.index_of(in_flight).filter(|_| streak >= most.get())?;
        in_flight.endpoint().clear_streak();
        self.eject(index, Reason::ConsecutiveFailures { last: cause }, now)
    }

    /// Where the request's endpoint is in this list.
    fn index_of(&self, in_flight: &InFlight) -> Option<usize> {
        let is_it = |member: &Member| Arc::ptr_eq(&member.state, in_flight.endpoint());
        let is_there = self.members.get(in_flight.index()).is_some_and(is_it);
        if is_there { Some(in_flight.index()) } else { self.members.iter().position(is_it) }
    }

    /// Ejects an endpoint, if it may be. What holds for a pool of one is not even reported.
    fn eject(&self, index: usize, reason: Reason, now: Timestamp) -> Option<Change> {
        let settings = self.ejection.as_ref().filter(|_| self.len() > 1)?;
        let state = self.endpoint(index)?;
        let _turn = lock(&self.ejecting);
        let may_eject = self.may_eject(settings, now);
        state.change(now, |record| {
            if !record.may_be_ejected(now) {
                return None;
            }
            if !may_eject {
                record.ejections.note_trouble(settings, now);
                return Some(Change::NotEjected { index, reason });
            }
            let (length, in_a_row) = record.ejections.eject(settings, reason, now);
            state.begin_generation();
            Some(Change::Ejected { index, reason, length, in_a_row })
        })
    }

    /// Whether one of the endpoints that are up may be ejected: another one is up, and either none is ejected, or those
    /// that are out for whatever reason are fewer than the largest share of all.
    fn may_eject(&self, settings: &EjectionSettings, now: Timestamp) -> bool {
        let count = |wanted| self.members.iter().filter(|member| member.state.standing(now) == wanted).count();
        let (up, ejected) = (count(Standing::Up), count(Standing::Ejected));
        up > 1 && (ejected == 0 || self.len() - up < settings.most_out(self.len()))
    }

    /// To be called about once a second: reports endpoints whose ejection is over, and compares success rates at the
    /// end of an interval. Endpoints return by themselves, whether or not this is called.
    pub fn step(&self, now: Timestamp) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut counts = Vec::new();
        for (index, member) in self.members.iter().enumerate() {
            member.state.change(now, |record| {
                if record.ejections.take_return(now) {
                    changes.push(Change::Returned { index });
                }
                let closed = self.close_interval(member, record, now).filter(|_| record.is_in_service());
                counts.extend(closed.map(|(successes, failures)| Counts { index, successes, failures }));
            });
        }
        if let Some(settings) = self.ejection.and_then(|ejection| ejection.success_rate) {
            let outliers = outliers(&counts, &settings).into_iter();
            changes.extend(outliers.filter_map(|(index, reason)| self.eject(index, reason, now)));
        }
        changes
    }

    /// The successes and failures of an interval that is over; the next begins.
    fn close_interval(&self, member: &Member, record: &mut Record, now: Timestamp) -> Option<(u64, u64)> {
        let number = self.ejection?.interval_number(now);
        if record.interval.is_some_and(|interval| interval.number == number) {
            return None;
        }
        let (successes, failures) = member.state.totals();
        let closed = record.interval.replace(Interval { number, successes, failures })?;
        Some((successes.saturating_sub(closed.successes), failures.saturating_sub(closed.failures)))
    }

    /// The result of an active check.
    pub fn checked(&self, index: usize, passed: bool, now: Timestamp) -> Option<Change> {
        self.endpoint(index)?.change(now, |record| {
            let has_changed = record.checks.record(passed, self.thresholds);
            has_changed.then(|| Change::HealthChanged { index, health: record.checks.health() })
        })
    }

    /// Active checks are no longer made: what they said counts no more.
    pub fn forget_checks(&self, index: usize, now: Timestamp) -> Option<Change> {
        self.endpoint(index)?.change(now, |record| {
            let has_changed = record.checks.forget();
            has_changed.then(|| Change::HealthChanged { index, health: record.checks.health() })
        })
    }

    /// An operator forces the endpoint into a state, or with [`Forced::Auto`] no longer does.
    pub fn force(&self, index: usize, forced: Forced, now: Timestamp) -> Option<Change> {
        self.endpoint(index)?.change(now, |record| {
            let before = std::mem::replace(&mut record.forced, forced);
            (before != forced).then_some(Change::ForcedChanged { index, forced })
        })
    }

    pub(super) const fn ejection(&self) -> Option<&EjectionSettings> {
        self.ejection.as_ref()
    }
}

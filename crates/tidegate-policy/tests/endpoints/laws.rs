//! A pool and the model see the same events; after each of them they agree.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tidegate_policy::endpoints::{
    Balance, Balancer, BalancerSettings, Cause, Change, EjectionSettings, EndpointState, Forced, HealthThresholds,
    InFlight, Outcome, Reason, Standing, SuccessRateSettings, Tried, Weight,
};

use super::model::{Endpoint, Model, at, is_same};

const EVENTS: u64 = 1_000_000;
const EVENTS_A_WALK: u64 = 500;
/// The epoch, our days, and shortly before the end of time.
const STARTS: [u64; 3] = [0, 1_790_000_000_000_000_000, (u64::MAX >> 1) - (1 << 45)];

/// How often endpoints fail.
const MOODS: [f64; 5] = [0.0, 0.1, 0.5, 0.9, 1.0];

/// A request in flight: on which endpoint, of which generation.
struct Request {
    number: u64,
    id: usize,
    generation: usize,
    began: u64,
    /// Whether the head of its response has come.
    is_stream: bool,
    in_flight: InFlight,
}

struct Walk {
    rng: Rng,
    now: u64,
    settings: BalancerSettings,
    balancer: Balancer,
    states: Vec<Arc<EndpointState>>,
    /// How often each endpoint fails.
    moods: Vec<f64>,
    requests: Vec<Request>,
    model: Model,
    number: u64,
    met: Met,
}

/// How often a walk met what it is about.
#[derive(Debug, Default)]
struct Met {
    streaks: u32,
    low_rates: u32,
    third_in_a_row: u32,
    not_ejected: u32,
    /// An endpoint was not ejected, because it was the last one that was up.
    last_up: u32,
    returned: u32,
    /// An endpoint with something in flight was silent, or was not.
    silent: u32,
    streaming: u32,
    /// An endpoint that was out was chosen, because those that are up were tried.
    out_instead_of_tried: u32,
    broken_streams: u32,
    left_streams: u32,
}

impl Met {
    fn count(&mut self, change: &Change) {
        match change {
            Change::Ejected { reason, in_a_row, .. } => {
                self.third_in_a_row += u32::from(*in_a_row >= 3);
                match reason {
                    Reason::ConsecutiveFailures { .. } => self.streaks += 1,
                    Reason::SuccessRate { .. } => self.low_rates += 1,
                }
            }
            Change::NotEjected { .. } => self.not_ejected += 1,
            Change::Returned { .. } => self.returned += 1,
            Change::HealthChanged { .. } | Change::ForcedChanged { .. } => {}
        }
    }
}

fn count(rng: &mut Rng, most: u32) -> NonZeroU32 {
    NonZeroU32::new(rng.u32(1..=most)).expect("not zero")
}

fn ejection(rng: &mut Rng) -> EjectionSettings {
    let base = [1, 10, 30][rng.usize(0..3)];
    EjectionSettings {
        consecutive_failures: rng.bool().then(|| count(rng, 5)),
        success_rate: rng.bool().then(|| SuccessRateSettings {
            min_endpoints: rng.usize(2..4),
            min_requests: rng.u64(3..8),
            // Odd figures: rates of a few requests never meet the border, where rounding would decide.
            deviations: [0.517, 1.913][rng.usize(0..2)],
            tolerated_share: [0.951, 0.513][rng.usize(0..2)],
        }),
        interval: Duration::from_secs([1, 4, 10, 60][rng.usize(0..4)]),
        base: Duration::from_secs(base),
        max: Duration::from_millis(base * rng.u64(1_000..6_000)),
        max_share: [0.0, 0.1, 0.5, 0.5, 0.75, 1.0][rng.usize(0..6)],
    }
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let ejection = ejection(&mut rng);
        let thresholds = HealthThresholds { healthy: count(&mut rng, 3), unhealthy: count(&mut rng, 3) };
        let settings = BalancerSettings {
            balance: [Balance::LeastRequests, Balance::RoundRobin, Balance::Hash][rng.usize(0..3)],
            slow_start: Duration::from_secs([0, 5][rng.usize(0..2)]),
            ejection: Some(ejection),
            health: thresholds,
        };
        let model = Model { endpoints: Vec::new(), pool: Vec::new(), ejection, thresholds };
        let balancer = Balancer::new([], settings);
        let now = STARTS[rng.usize(0..STARTS.len())];
        let (states, moods, requests) = (Vec::new(), Vec::new(), Vec::new());
        let mut walk =
            Self { rng, now, settings, balancer, states, moods, requests, model, number: 0, met: Met::default() };
        walk.rebuild();
        walk
    }

    /// A new balancer: some endpoints leave, some return, some are new; weights change.
    fn rebuild(&mut self) {
        let new = if self.states.is_empty() { self.rng.usize(1..8) } else { self.rng.usize(0..3) };
        for _ in 0..new {
            let name = self.states.len().to_string();
            let is_joining = self.rng.bool();
            let state =
                if is_joining { EndpointState::joining(&name, at(self.now)) } else { EndpointState::new(&name) };
            self.states.push(Arc::new(state));
            self.moods.push(MOODS[self.rng.usize(0..MOODS.len())]);
            self.model.endpoints.push(Endpoint::default());
        }
        let mut ids: Vec<usize> = (0..self.states.len()).collect();
        self.rng.shuffle(&mut ids);
        ids.truncate(self.rng.usize(1..=8));
        let weights = [0, 1, 1, 1, 2, 3, 10, 1_000_000];
        self.model.pool = ids.iter().map(|id| (*id, weights[self.rng.usize(0..weights.len())])).collect();
        let endpoint =
            |(id, weight): &(usize, u32)| (Arc::clone(&self.states[*id]), Weight::new(*weight).expect("a weight"));
        self.balancer = Balancer::new(self.model.pool.iter().map(endpoint), self.settings);
    }

    fn move_clock(&mut self) {
        let rng = &mut self.rng;
        let second = 1_000_000_000;
        self.now = match rng.u32(0..1_000) {
            0..700 => self.now,
            700..900 => self.now + rng.u64(0..second),
            900..980 => self.now + rng.u64(0..10 * second),
            980..990 => (self.now / second + 1) * second,
            990..993 => self.now + rng.u64(0..100 * second),
            993..995 => self.now + rng.u64(0..1_000 * second),
            _ => self.now.saturating_sub(rng.u64(0..20 * second)),
        };
    }

    fn event(&mut self) {
        self.move_clock();
        let index = self.rng.usize(0..self.model.pool.len());
        let now = at(self.now);
        match self.rng.u32(0..1_000) {
            0..450 => self.begin(),
            450..820 => self.end(false),
            820..850 => self.respond(),
            850..870 => self.end(true),
            870..910 => {
                let passed = self.rng.f64() < 0.9;
                let change = self.balancer.checked(index, passed, now);
                assert_eq!(change, self.model.check(index, passed));
            }
            910..914 => assert_eq!(self.balancer.forget_checks(index, now), self.model.forget_checks(index)),
            914..930 => {
                let forced =
                    [Forced::Auto, Forced::Up, Forced::Down, Forced::Drain][self.rng.usize(0..9).saturating_sub(5)];
                assert_eq!(self.balancer.force(index, forced, now), self.model.force(index, forced));
            }
            930..980 => {
                let (changes, expected) = (self.balancer.step(now), self.model.step(self.now));
                let are_same = changes.len() == expected.len()
                    && changes.iter().zip(&expected).all(|(change, expected)| is_same(change, expected));
                for change in &expected {
                    self.note(change);
                }
                assert!(are_same, "a step at {}: {changes:?}, expected {expected:?}", self.now);
            }
            980..996 => self.moods[self.model.pool[index].0] = MOODS[self.rng.usize(0..MOODS.len())],
            _ => self.rebuild(),
        }
    }

    fn begin(&mut self) {
        let mut tried = Tried::new();
        for _ in 0..self.rng.u32(0..8).saturating_sub(4) {
            tried.insert(self.rng.usize(0..self.model.pool.len()));
        }
        let (random, key) = (self.rng.u64(..), self.rng.u64(..));
        let chosen = self.balancer.choose(at(self.now), random, key, &tried);
        let ranks = self.model.ranks(&tried, self.now);
        let best = ranks.iter().flatten().min();
        let rank = chosen.map(|index| ranks[index]);
        assert_eq!(rank.flatten().as_ref(), best, "chose {chosen:?} of {ranks:?}");
        let Some(index) = chosen else { return };
        let is_left = |index: usize| ranks[index].is_some() && !tried.contains(index);
        assert!(!tried.contains(index) || !(0..ranks.len()).any(is_left), "chose {index} again of {ranks:?}");
        let has_up = ranks.iter().flatten().any(|rank| rank % 1_000 < 100);
        self.met.out_instead_of_tried += u32::from(has_up && (100..1_000).contains(best.unwrap_or(&0)));
        let in_flight = self.balancer.begin(index, at(self.now)).expect("an index of the pool");
        let id = self.model.pool[index].0;
        self.number += 1;
        let (number, began) = (self.number, self.now);
        let endpoint = &mut self.model.endpoints[id];
        endpoint.begin(number, began);
        let generation = endpoint.ejections();
        self.requests.push(Request { number, id, generation, began, is_stream: false, in_flight });
    }

    fn took(&mut self) -> Duration {
        Duration::from_millis(self.rng.u64(0..1_000))
    }

    /// The head of a response comes; the request stays in flight.
    fn respond(&mut self) {
        let took = self.took();
        let Some(index) = self.rng.choice(0..self.requests.len()) else { return };
        let Request { id, began, is_stream, in_flight, .. } = &mut self.requests[index];
        if !std::mem::replace(is_stream, true) {
            let is_known = self.rng.u32(0..10) > 0;
            in_flight.responded(is_known.then_some(took), at(self.now));
            if is_known {
                self.model.respond(*id, took, self.now);
            } else {
                self.model.endpoints[*id].respond_unmeasured(*began);
            }
        }
    }

    /// A request ends. One whose response has begun is a success, also if its client leaves, unless its response breaks
    /// off; but then it does not end failures in a row. Of others whose client leaves nothing is recorded.
    fn end(&mut self, client_leaves: bool) {
        let Some(index) = self.rng.choice(0..self.requests.len()) else { return };
        let Request { number, id, generation, began, is_stream, in_flight } = self.requests.swap_remove(index);
        if is_stream && self.rng.f64() < self.moods[id] {
            let (cause, now) = (Cause::Broken, at(self.now));
            let expected = self.model.fail(id, generation, (cause, None), self.now);
            let change = self.balancer.record(&in_flight, Outcome::Failure { cause, took: None }, now);
            assert_eq!(change, expected);
            if let Some(change) = &expected {
                self.note(change);
            }
            self.met.broken_streams += 1;
            drop(in_flight);
        } else if is_stream {
            if client_leaves {
                self.model.succeed_in_part(id);
                self.met.left_streams += 1;
            } else {
                in_flight.ended();
                self.model.succeed(id, generation);
            }
            drop(in_flight);
        } else if client_leaves {
            drop(in_flight);
        } else {
            self.record(id, generation, in_flight);
        }
        self.model.endpoints[id].end(number, began);
    }

    fn record(&mut self, id: usize, generation: usize, in_flight: InFlight) {
        let fails = self.rng.f64() < self.moods[id];
        let took = self.took();
        let cause = [Cause::Connect, Cause::Timeout, Cause::Broken, Cause::Status][self.rng.usize(0..4)];
        let (outcome, expected): (Outcome, Option<Change>) = if fails {
            let took = self.rng.bool().then_some(took);
            (Outcome::Failure { cause, took }, self.model.fail(id, generation, (cause, took), self.now))
        } else if self.rng.u32(0..10) == 0 {
            (Outcome::Ignored, None)
        } else {
            self.model.respond(id, took, self.now);
            self.model.succeed(id, generation);
            (Outcome::Success { took }, None)
        };
        let change = self.balancer.end(in_flight, outcome, at(self.now));
        assert_eq!(change, expected);
        if let Some(change) = expected {
            self.note(&change);
        }
    }

    /// An ejection leaves another endpoint up.
    fn note(&mut self, change: &Change) {
        let up = self.balancer.snapshot(at(self.now)).iter().filter(|shown| shown.standing == Standing::Up).count();
        assert!(up > 0 || !matches!(change, Change::Ejected { .. }), "{change:?} leaves none");
        self.met.last_up += u32::from(up == 1 && matches!(change, Change::NotEjected { .. }));
        self.met.count(change);
    }

    fn compare(&self) {
        for (state, endpoint) in self.states.iter().zip(&self.model.endpoints) {
            assert_eq!(state.in_flight() as usize, endpoint.open.len(), "in flight on {state:?}");
            assert_eq!(state.totals(), (endpoint.successes, endpoint.failures));
            assert_eq!(state.standing(at(self.now)), endpoint.standing(self.model.thresholds, self.now), "{state:?}");
        }
    }

    fn compare_latency(&mut self) {
        for ((id, _), shown) in self.model.pool.iter().zip(&self.balancer.snapshot(at(self.now))) {
            let endpoint = &self.model.endpoints[*id];
            let found = shown.latency.map_or(0.0, |latency| latency.as_nanos() as f64);
            let expected = endpoint.latency(self.now).unwrap_or(0.0);
            // The snapshot has whole nanoseconds.
            let is_close = (found - expected).abs() <= 1.0 + 1e-9 * expected;
            assert!(is_close, "latency of {id} at {}: {found}, expected {expected}", self.now);
            if expected > 0.0 && !endpoint.open.is_empty() {
                let is_silent = endpoint.silent_since().is_some();
                self.met.silent += u32::from(is_silent);
                self.met.streaming += u32::from(!is_silent);
            }
        }
    }

    fn compare_snapshots(&self) {
        let snapshots = self.balancer.snapshot(at(self.now));
        for ((id, weight), shown) in self.model.pool.iter().zip(&snapshots) {
            let endpoint = &self.model.endpoints[*id];
            assert_eq!((&shown.name, shown.weight.get()), (&id.to_string(), *weight));
            assert_eq!((shown.forced, shown.health), (endpoint.forced, endpoint.health(self.model.thresholds)));
            assert_eq!(shown.ejections as usize, endpoint.ejections());
            assert_eq!(shown.ejections_in_a_row, endpoint.in_a_row(&self.model.ejection, self.now));
            let remaining = |ejected: Option<(_, Duration)>| ejected.map(|(_, remaining)| remaining);
            assert_eq!(remaining(shown.ejected), remaining(endpoint.ejected(self.now)));
        }
    }
}

#[test]
fn a_pool_does_what_the_model_does() {
    let mut met = Met::default();
    for seed in 0..EVENTS / EVENTS_A_WALK {
        let mut walk = Walk::new(seed);
        walk.met = met;
        for step in 0..EVENTS_A_WALK {
            walk.event();
            if step % 8 == 0 {
                walk.compare();
                walk.compare_latency();
            }
        }
        walk.compare_snapshots();
        walk.requests.clear();
        assert!(walk.states.iter().all(|state| state.in_flight() == 0), "all requests ended");
        met = walk.met;
    }
    let Met { streaks, low_rates, third_in_a_row, not_ejected, last_up, returned, .. } = met;
    let ejections = [streaks, low_rates, third_in_a_row, not_ejected, last_up, returned];
    let least = ejections
        .into_iter()
        .chain([met.silent, met.streaming, met.out_instead_of_tried, met.broken_streams, met.left_streams])
        .min();
    assert!(least > Some(300), "the walks met too little to mean anything: {met:?}");
}

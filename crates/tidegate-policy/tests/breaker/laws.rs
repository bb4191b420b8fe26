//! A breaker and the model see the same events; after each of them they agree.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use tidegate_policy::Timestamp;
use tidegate_policy::breaker::{
    Breaker, BreakerSettings, Call, Forced, Generation, Phase, SlowCalls, Transition, Verdict, Window,
};

use super::model::{Asked, Model};
use super::{millis, observed, seconds};

const EVENTS: u64 = 1_000_000;
const EVENTS_A_WALK: u64 = 1_000;
/// The epoch, our days, and shortly before the end of time.
const STARTS: [u64; 3] = [0, 1_790_000_000_000_000_000, (u64::MAX >> 1) - (1 << 50)];

/// A call that was let through.
struct Open {
    call: Call,
    state: usize,
    asked: u64,
}

struct Walk {
    rng: Rng,
    now: u64,
    breaker: Arc<Breaker>,
    reported: Arc<Mutex<Vec<Transition>>>,
    model: Model,
    calls: Vec<Open>,
    recorded: Vec<(Generation, usize)>,
    /// How often calls fail, and how often they are slow.
    moods: (f64, f64),
}

/// How often the walks met what they are about.
#[derive(Debug, Default)]
struct Met {
    transitions: [u64; 9],
    late: u64,
    probes_given_back: u64,
    long_walks: u64,
}

fn settings(rng: &mut Rng) -> BreakerSettings {
    let window = match rng.u32(0..4) {
        0 => Window::Calls(1),
        1 | 2 => Window::Calls(rng.u32(1..60)),
        _ => Window::Time(millis(rng.u64(1..20_000))),
    };
    let most = if let Window::Calls(calls) = window { calls } else { 30 };
    let share = |rng: &mut Rng| [0.1, 0.29, 0.5, 1.0][rng.usize(0..4)];
    let failures = rng.bool().then(|| share(rng));
    let slow = rng.bool().then(|| SlowCalls { threshold: millis(100), share: share(rng) });
    let consecutive = (rng.bool() || failures.is_none() && slow.is_none()).then(|| rng.u32(1..8));
    let growth = [1.0, 1.0, 2.0, 1.5][rng.usize(0..4)];
    BreakerSettings {
        window,
        minimum: rng.u32(1..=most),
        failures,
        slow,
        consecutive,
        open: millis(rng.u64(1..5_000)),
        growth,
        longest_open: seconds(20),
        probes: rng.u32(1..6),
        probe_timeout: millis(rng.u64(1..5_000)),
    }
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let settings = settings(&mut rng);
        let (breaker, reported) = observed(settings);
        let now = STARTS[rng.usize(0..STARTS.len())];
        let moods = ([0.0, 0.2, 0.5, 0.9][rng.usize(0..4)], [0.0, 0.2, 0.7][rng.usize(0..3)]);
        let model = Model::new(settings);
        Self { rng, now, breaker, reported, model, calls: Vec::new(), recorded: Vec::new(), moods }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now)
    }

    fn step(&mut self, met: &mut Met) {
        match self.rng.u32(0..100) {
            0..40 => self.ask(),
            40..70 => self.record(),
            70..74 => self.drop_one(met),
            74..77 => self.break_off(),
            77..78 => self.force(),
            78..90 => self.now += self.rng.u64(0..50_000_000),
            90..99 => self.now += self.rng.u64(0..2_000_000_000),
            _ => self.now += self.rng.u64(0..30_000_000_000),
        }
        if self.rng.u32(0..50) == 0 {
            self.moods = ([0.0, 0.2, 0.5, 0.9][self.rng.usize(0..4)], [0.0, 0.2, 0.7][self.rng.usize(0..3)]);
        }
    }

    fn ask(&mut self) {
        let (asked, expected) = (self.breaker.ask(self.now()), self.model.ask(self.now));
        match (asked, expected) {
            (Ok(call), Asked::Pass { state, is_probe }) => {
                assert_eq!(call.is_probe(), is_probe);
                self.calls.push(Open { call, state, asked: self.now });
            }
            (Err(rejected), Asked::Wait(retry_after)) => assert_eq!(rejected.retry_after, retry_after),
            (asked, expected) => panic!("{asked:?} instead of {expected:?}"),
        }
    }

    fn take_call(&mut self) -> Option<Open> {
        let index = self.rng.usize(0..self.calls.len().max(1));
        (index < self.calls.len()).then(|| self.calls.swap_remove(index))
    }

    fn record(&mut self) {
        let Some(Open { call, state, .. }) = self.take_call() else { return };
        let is_failure = self.rng.f64() < self.moods.0;
        let took = millis(if self.rng.f64() < self.moods.1 { 100 } else { 99 });
        let verdict = if is_failure { Verdict::Failure } else { Verdict::Success };
        assert_eq!(
            self.breaker.still_permits(&call),
            self.model.phase() == Phase::Closed || state == self.model.state()
        );
        let generation = self.breaker.record(call, verdict, took, self.now());
        self.model.record(state, is_failure, took, self.now);
        self.recorded.push((generation, state));
    }

    fn drop_one(&mut self, met: &mut Met) {
        let Some(Open { call, state, asked }) = self.take_call() else { return };
        let probe = call.is_probe().then_some(asked);
        met.probes_given_back += u64::from(probe.is_some() && state == self.model.state());
        drop(call);
        self.model.give_back(state, probe);
    }

    fn break_off(&mut self) {
        let Some((generation, state)) = self.recorded.pop() else { return };
        self.breaker.broke_off(generation, self.now());
        self.model.record(state, true, Duration::ZERO, self.now);
    }

    fn force(&mut self) {
        let forced = Forced::ALL[self.rng.usize(0..Forced::ALL.len())];
        self.breaker.force(forced, self.now());
        self.model.force(forced, self.now);
    }

    fn compare(&self) {
        let snapshot = self.breaker.snapshot(self.now());
        assert_eq!(snapshot.phase, self.model.phase());
        let Model { late, ref phases, .. } = self.model;
        assert_eq!(snapshot.totals.late, late);
        let counts = (snapshot.calls, snapshot.failures, snapshot.slow, snapshot.failures_in_a_row);
        assert_eq!(counts, self.model.counts(self.now));
        let reported = self.reported.lock().expect("no panic");
        assert_eq!(reported.len(), phases.len() - 1, "each transition is reported once");
        if let Some(last) = reported.last() {
            assert_eq!((last.number as usize, last.to), (reported.len(), self.model.phase()));
            assert_eq!(last.from, phases[phases.len() - 2]);
        }
        assert_eq!(snapshot.totals.transitions.iter().sum::<u64>() as usize, reported.len());
    }
}

#[test]
fn a_breaker_does_what_the_model_does() {
    let mut met = Met::default();
    for seed in 0..EVENTS / EVENTS_A_WALK {
        let mut walk = Walk::new(seed);
        for _ in 0..EVENTS_A_WALK {
            walk.step(&mut met);
            walk.compare();
        }
        for pair in walk.model.phases.windows(2) {
            met.transitions[usize::from(pair[0].number()) * 3 + usize::from(pair[1].number())] += 1;
        }
        met.late += walk.model.late;
        met.long_walks += u64::from(walk.model.phases.len() > 10);
    }
    let [_, to_open, forced_half, closed, _, half, closes, reopens, _] = met.transitions;
    assert_eq!(forced_half, 0, "no closed breaker is half-open at once");
    let enough = [to_open, closed, half, closes, reopens, met.late, met.probes_given_back, met.long_walks];
    assert!(enough.iter().all(|count| *count >= 300), "{met:?}");
}

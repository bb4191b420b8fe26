//! What a breaker should do, in the plainest form: it keeps every result since its state began and counts them anew
//! each time.

use std::time::Duration;

use tidegate_policy::breaker::{BreakerSettings, Forced, Phase, Window};

/// A result that counts, and when it came.
#[derive(Clone, Copy)]
struct Result {
    at: u64,
    is_failure: bool,
    is_slow: bool,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Pass { state: usize, is_probe: bool },
    Wait(Option<Duration>),
}

pub(crate) struct Model {
    settings: BreakerSettings,
    forced: Forced,
    /// All phases it was in: the number of the last one is its state.
    pub(crate) phases: Vec<Phase>,
    began: u64,
    /// How long the current phase lasts, if it is open.
    open_for: Option<u64>,
    results: Vec<Result>,
    /// When each probe went out that was not given back.
    probes: Vec<u64>,
    /// Openings since it was closed.
    openings: u32,
    pub(crate) late: u64,
}

impl Model {
    pub(crate) fn new(settings: BreakerSettings) -> Self {
        Self {
            settings,
            forced: Forced::Auto,
            phases: vec![Phase::Closed],
            began: 0,
            open_for: None,
            results: Vec::new(),
            probes: Vec::new(),
            openings: 0,
            late: 0,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phases.last().expect("there is always one")
    }

    pub(crate) fn state(&self) -> usize {
        self.phases.len() - 1
    }

    fn begin(&mut self, phase: Phase, now: u64) {
        self.phases.push(phase);
        self.began = now;
        self.open_for = None;
        self.results.clear();
        self.probes.clear();
        if phase == Phase::Closed {
            self.openings = 0;
        }
    }

    fn open(&mut self, now: u64) {
        self.begin(Phase::Open, now);
        let mut span = self.settings.open.as_secs_f64();
        for _ in 0..self.openings {
            span *= self.settings.growth;
        }
        self.openings += 1;
        if self.settings.growth > 1.0 {
            span = span.min(self.settings.longest_open.as_secs_f64());
        }
        self.open_for = Some(Duration::from_secs_f64(span).as_nanos() as u64);
    }

    pub(crate) fn ask(&mut self, now: u64) -> Asked {
        if self.phase() == Phase::Open && self.open_for.is_some_and(|span| now >= self.began + span) {
            self.begin(Phase::HalfOpen, now);
        }
        let all_probes = self.settings.probes as usize;
        if self.phase() == Phase::HalfOpen && self.probes.len() >= all_probes {
            let last = self.probes.iter().max().copied().unwrap_or_default();
            if now >= last + self.settings.probe_timeout.as_nanos() as u64 {
                self.open(now);
            }
        }
        match self.phase() {
            Phase::Closed => Asked::Pass { state: self.state(), is_probe: false },
            Phase::HalfOpen if self.probes.len() < all_probes => {
                self.probes.push(now);
                Asked::Pass { state: self.state(), is_probe: true }
            }
            Phase::HalfOpen => Asked::Wait(None),
            Phase::Open => {
                Asked::Wait(self.open_for.map(|span| Duration::from_nanos((self.began + span).saturating_sub(now))))
            }
        }
    }

    pub(crate) fn give_back(&mut self, state: usize, probe: Option<u64>) {
        if state == self.state()
            && let Some(asked) = probe
        {
            let index = self.probes.iter().position(|at| *at == asked).expect("it is out");
            self.probes.remove(index);
        }
    }

    pub(crate) fn record(&mut self, state: usize, is_failure: bool, took: Duration, now: u64) {
        if state != self.state() {
            self.late += 1;
            return;
        }
        if self.forced == Forced::Disabled {
            return;
        }
        let is_slow = self.settings.slow.is_some_and(|slow| took >= slow.threshold);
        self.results.push(Result { at: now, is_failure, is_slow });
        match self.phase() {
            Phase::Closed if self.forced != Forced::Closed && self.is_too_bad(now) => self.open(now),
            Phase::HalfOpen => self.judge_probes(now),
            Phase::Closed | Phase::Open => {}
        }
    }

    fn judge_probes(&mut self, now: u64) {
        let all = self.settings.probes as usize;
        let slow = self.results.iter().filter(|result| result.is_slow).count();
        let too_slow = |share: f64| slow as f64 >= share * all as f64 - 1e-9;
        let is_failed = self.results.iter().any(|result| result.is_failure);
        if is_failed || self.settings.slow.is_some_and(|most| too_slow(most.share)) {
            self.open(now);
        } else if self.results.len() >= all {
            self.begin(Phase::Closed, now);
        }
    }

    /// The results that are judged: the last so many, or those in the part of time that now is in and the 31 before.
    fn window(&self, now: u64) -> Vec<Result> {
        match self.settings.window {
            Window::Calls(calls) => {
                let first = self.results.len().saturating_sub(calls as usize);
                self.results[first..].to_vec()
            }
            Window::Time(time) => {
                let part = (time.as_nanos() as u64).div_ceil(32);
                let is_recent = |result: &&Result| now / part < result.at / part + 32;
                self.results.iter().filter(is_recent).copied().collect()
            }
        }
    }

    /// How many calls are judged, how many failed, how many were slow, how many failed in a row.
    pub(crate) fn counts(&self, now: u64) -> (u32, u32, u32, u32) {
        if self.phase() != Phase::Closed {
            return (0, 0, 0, 0);
        }
        let window = self.window(now);
        let failures = window.iter().filter(|result| result.is_failure).count();
        let slow = window.iter().filter(|result| result.is_slow).count();
        let row = self.results.iter().rev().take_while(|result| result.is_failure).count();
        (window.len() as u32, failures as u32, slow as u32, row as u32)
    }

    fn is_too_bad(&self, now: u64) -> bool {
        let (calls, failures, slow, row) = self.counts(now);
        let reaches = |count: u32, share: f64| f64::from(count) >= share * f64::from(calls) - 1e-9;
        let is_judged = calls >= self.settings.minimum;
        self.settings.consecutive.is_some_and(|most| row >= most)
            || is_judged && self.settings.failures.is_some_and(|share| reaches(failures, share))
            || is_judged && self.settings.slow.is_some_and(|most| reaches(slow, most.share))
    }

    pub(crate) fn force(&mut self, forced: Forced, now: u64) {
        let before = std::mem::replace(&mut self.forced, forced);
        if before == forced {
            return;
        }
        if forced == Forced::Open {
            if self.phase() != Phase::Open {
                self.begin(Phase::Open, now);
            }
            self.open_for = None;
        } else if self.phase() != Phase::Closed {
            self.begin(Phase::Closed, now);
        }
    }
}

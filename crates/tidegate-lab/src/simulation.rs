//! A run in simulated time: the load generator's schedule, the gateway's limits, the target's station, and no clock.

mod events;
mod outage;
mod pilot;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use tidegate_gateway::config;
use tidegate_gateway::settings::Settings;
use tidegate_gateway::{PastRequest, Replayer, Verdict};
use tidegate_load::{Assignment, Cause, End, Sample};
use tidegate_policy::Timestamp;

use crate::gateway_config::{Addresses, LIMIT, config_text};
use crate::observation::Observation;
use crate::oracle::Oracle;
use crate::rounding::whole;
use crate::run::{Event, EventKind, Instead, Levels, Outcome};
use crate::scenario::burst_of;
use crate::scenario::{FaultKind, Scenario, Variant};
use crate::target::{Faults, Station};
use events::{Events, Occurrence};
use outage::Outages;
use pilot::{Pilot, Steered};

/// When every simulated run begins: at the start of a day, so that windows of any usual length begin with it.
pub(crate) const START: u64 = 1_699_920_000 * SECOND;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// Runs a scenario in simulated time. The same scenario and seed give the same outcome, to the last bit.
pub fn simulate(scenario: &Scenario, variant: Variant) -> Outcome {
    let mut run = Simulation::new(scenario, variant);
    let assignment = Assignment::new(&scenario.plan.clients, scenario.plan.seed);
    for (number, due) in scenario.plan.times.all().enumerate() {
        let now = nanos(due);
        run.advance(now);
        run.arrive(now, assignment.client(number as u64));
    }
    run.finish()
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    group: usize,
    client: u64,
    intended: u64,
    /// Whether it is one of those that fail, and how.
    fails: Option<u16>,
    /// Whether it has a worker.
    is_served: bool,
}

struct Simulation<'a> {
    scenario: &'a Scenario,
    limit: Option<Limit>,
    station: Station<Job>,
    faults: Faults,
    /// Which requests fail, apart from service times.
    chances: fastrand::Rng,
    events: Events,
    outages: Outages,
    pilot: Option<Pilot>,
    gateway_delay: u64,
    observation: Observation,
    oracle: Oracle,
    levels: Levels,
    recorded: Vec<Event>,
    /// Requests that hang.
    stuck: Vec<Job>,
    next_second: u64,
    /// When adaptation is to be run again.
    wakes_at: Option<u64>,
}

/// The limit under test: the gateway's own decisions, with the configuration that a live run would have.
struct Limit {
    gateway: Replayer<()>,
    /// What clients request.
    path: String,
    is_per_client: bool,
    /// How many the exact definition admits in one of its windows.
    quota: f64,
    window: f64,
    /// How many more the algorithm is meant to admit.
    burst: f64,
    /// What was allowed before, and until when that may still be seen in a window.
    before: (f64, u64),
}

impl Limit {
    fn new(scenario: &Scenario, variant: Variant) -> Option<Self> {
        let (setting, algorithm) = (&scenario.limit, variant.algorithm?);
        // Nothing connects here.
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let addresses = Addresses { gateway: nowhere, target: nowhere, redis: None, forecaster: None };
        let config = config::parse(&config_text(scenario, variant, &addresses).ok()?).ok()?;
        let gateway = Replayer::new(Settings::check(&config).ok()?, &BTreeMap::new()).ok()?;
        let (quota, window, burst) = (setting.quota(), setting.window, burst_of(algorithm, setting.burst));
        let (path, is_per_client) = (scenario.plan.request.path.clone(), setting.is_per_client);
        Some(Self { gateway, path, is_per_client, quota, window, burst, before: (0.0, 0) })
    }

    fn key(&self, (group, client): (usize, u64)) -> u64 {
        if self.is_per_client { (group as u64) << 40 | client } else { 0 }
    }

    /// How long a request from this address waits before it is sent on; `None` if it is rejected.
    fn check(&mut self, ip: IpAddr, now: u64) -> Option<Duration> {
        let (at, path) = (Timestamp::from_nanos(START + now), path_only(&self.path));
        let past =
            PastRequest { at, ip, method: "GET", host: "", path, user: None, tier: None, headers: &[], took: None };
        let (mut wait, mut is_judged) = (None, false);
        self.gateway.judge(&past, (), |(), judgement| {
            is_judged = true;
            match judgement.verdict {
                Verdict::Admitted { wait: delay } => wait = Some(delay),
                Verdict::Rejected { .. } | Verdict::NoKey { .. } | Verdict::NoRoute | Verdict::Local => {}
            }
        });
        // A judgement comes later only if an upstream's limits follow a shaper's wait. Scenarios have no such limits.
        debug_assert!(is_judged, "a request whose judgement comes later would count as rejected");
        wait
    }

    /// Changes the numbers and keeps the counts.
    fn change(&mut self, steered: Steered, now: u64) {
        let algorithm = steered.numbers.algorithm();
        let set = self.gateway.set_numbers(LIMIT, steered.numbers, Timestamp::from_nanos(START + now));
        set.expect("the pilot only wants numbers that make a rule");
        self.before = (self.allowed(now), now + (self.window * 1e9) as u64);
        self.quota = whole(steered.rate * self.window);
        self.burst = burst_of(algorithm, steered.quota);
    }

    /// What a window that ends now may have: what was admitted before a limit was lowered was not too many.
    fn allowed(&self, now: u64) -> f64 {
        let (before, until) = self.before;
        if now < until { self.quota.max(before) } else { self.quota }
    }

    /// Forgets the counts.
    fn forget(&mut self, now: u64) {
        self.gateway.forget(Timestamp::from_nanos(START + now)).expect("the numbers in force make a rule");
    }
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario, variant: Variant) -> Self {
        let target = &scenario.target;
        let limit = Limit::new(scenario, variant);
        let pilot =
            variant.algorithm.filter(|_| variant.adaptation).and_then(|algorithm| Pilot::new(scenario, algorithm));
        let mut events = Events::default();
        for (index, fault) in scenario.faults.iter().enumerate() {
            events.push(nanos(fault.at), Occurrence::FaultBegins(index));
            events.push(nanos(fault.until), Occurrence::FaultEnds(index));
        }
        Self {
            scenario,
            station: Station::new(target.workers, target.queue, target.service_time, target.contention, scenario.seed),
            faults: Faults::default(),
            chances: fastrand::Rng::with_seed(scenario.seed ^ 0x00fa_0175),
            events,
            outages: Outages::new(scenario, limit.is_some()),
            pilot,
            gateway_delay: 0,
            observation: Observation::new(scenario.duration(), &scenario.plan.clients),
            oracle: Oracle::new(scenario.limit.window),
            levels: Levels::new(limit.as_ref().and_then(|_| scenario.limit.shared_rate())),
            recorded: Vec::new(),
            stuck: Vec::new(),
            next_second: SECOND,
            wakes_at: None,
            limit,
        }
    }

    /// Plays everything that happens until then.
    fn advance(&mut self, until: u64) {
        loop {
            let next = self.events.next_at().unwrap_or(u64::MAX).min(self.next_second);
            if next > until {
                return;
            }
            if next == self.next_second {
                self.second(next);
                self.next_second += SECOND;
            } else if let Some((at, what)) = self.events.pop() {
                self.happen(at, what);
            }
        }
    }

    fn happen(&mut self, now: u64, what: Occurrence) {
        match what {
            Occurrence::Leaves(job) => self.reach_target(now, job),
            Occurrence::Served(job) => self.served(now, job),
            Occurrence::GivesUp => self.give_up(now),
            Occurrence::FaultBegins(index) => self.fault(now, index, true),
            Occurrence::FaultEnds(index) => self.fault(now, index, false),
            Occurrence::RedisIsAway => {
                self.outages.begin(now);
                self.record(now, EventKind::FailOpen, "Redis connection lost".to_owned());
            }
            Occurrence::RedisIsBack { forgets } => {
                self.outages.end(now);
                if let Some(limit) = self.limit.as_mut().filter(|_| forgets) {
                    limit.forget(now);
                }
                self.record(now, EventKind::FailOpen, "Redis reconnected".to_owned());
            }
            Occurrence::Pilot => self.steer(now),
        }
    }

    /// A request comes to the gateway.
    fn arrive(&mut self, now: u64, who: (usize, u64)) {
        let job = Job { group: who.0, client: who.1, intended: now, fails: None, is_served: false };
        let decision = self.decide(now, who);
        if let Some(pilot) = &mut self.pilot {
            pilot.decided(decision.is_some());
        }
        match decision {
            Some(0) => self.reach_target(now, job),
            Some(wait) => self.events.push(now + wait, Occurrence::Leaves(job)),
            None => self.end(now, &job, End::Responded(429)),
        }
    }

    /// How long the request waits before it is sent on; none if it is rejected.
    fn decide(&mut self, now: u64, who: (usize, u64)) -> Option<u64> {
        let Some(limit) = &mut self.limit else { return Some(0) };
        let (key, quota) = (limit.key(who), limit.allowed(now));
        match self.outages.instead() {
            Some(Instead::AdmitsAll) => return Some(0),
            Some(Instead::RejectsAll) => return None,
            None => {}
        }
        // Clients without addresses of their own connect from here, as in live runs.
        let ip = self.scenario.plan.clients[who.0].address(who.1).unwrap_or(Ipv4Addr::LOCALHOST.into());
        let wait = limit.check(ip, now).map(nanos);
        match wait {
            Some(wait) => self.oracle.admitted(key, now, now + wait, quota, limit.burst),
            None => self.oracle.rejected(key, now, quota),
        }
        wait
    }

    fn reach_target(&mut self, now: u64, mut job: Job) {
        job.fails = self.faults.draw_error(&mut self.chances);
        if let Some(time) = self.station.begin() {
            self.serve(now, job, time);
        } else if self.station.wait(job).is_none() {
            self.respond_or_hang(now, Job { fails: Some(503), ..job });
        }
    }

    fn serve(&mut self, now: u64, job: Job, time: Duration) {
        self.events.push(now + nanos(self.faults.slowed(time)), Occurrence::Served(Job { is_served: true, ..job }));
    }

    /// A service is over. A request that hangs keeps its worker.
    fn served(&mut self, now: u64, job: Job) {
        if self.respond_or_hang(now, job) {
            self.finish_service(now);
        }
    }

    /// A worker is free for the next.
    fn finish_service(&mut self, now: u64) {
        if let Some((next, time)) = self.station.finish() {
            self.serve(now, next, time);
        }
    }

    /// A request that hung ends.
    fn served_late(&mut self, now: u64, job: &Job) {
        self.respond(now, job);
        if job.is_served {
            self.finish_service(now);
        }
    }

    /// Whether there was a response.
    fn respond_or_hang(&mut self, now: u64, job: Job) -> bool {
        if self.faults.hang {
            let gives_up = job.intended + nanos(self.scenario.plan.request.timeout);
            self.events.push(gives_up.max(now), Occurrence::GivesUp);
            self.stuck.push(job);
        } else {
            self.respond(now, &job);
        }
        !self.faults.hang
    }

    /// Clients that have waited for too long leave, and their requests no longer hang.
    fn give_up(&mut self, now: u64) {
        let timeout = nanos(self.scenario.plan.request.timeout);
        let (gone, stuck) = std::mem::take(&mut self.stuck).into_iter().partition(|job| job.intended + timeout <= now);
        self.stuck = stuck;
        let gone: Vec<Job> = gone;
        for job in gone {
            self.end(now, &job, End::Failed(Cause::TimedOut));
            if job.is_served {
                self.finish_service(now);
            }
        }
    }

    /// The target has responded.
    fn respond(&mut self, now: u64, job: &Job) {
        let status = job.fails.unwrap_or(200);
        if let Some(pilot) = &mut self.pilot {
            pilot.responded(now - job.intended, status >= 500);
        }
        self.end(now, job, End::Responded(status));
    }

    /// The gateway sends a response, which may be delayed on its way. A client that has waited for too long is gone.
    fn end(&mut self, now: u64, job: &Job, end: End) {
        let timeout = nanos(self.scenario.plan.request.timeout);
        let took = (now + self.gateway_delay).saturating_sub(job.intended);
        let end = if took > timeout { End::Failed(Cause::TimedOut) } else { end };
        let intended = Duration::from_nanos(job.intended);
        let finished = intended + Duration::from_nanos(took.min(timeout));
        self.observation.note(&Sample { group: job.group, intended, sent: intended, finished, end }, job.client);
        let is_rejected = end == End::Responded(429);
        self.outages.note(job.intended, is_rejected);
    }

    fn fault(&mut self, now: u64, index: usize, begins: bool) {
        let fault = &self.scenario.faults[index];
        match fault.kind {
            FaultKind::RedisKilled | FaultKind::RedisSlow(_) | FaultKind::RedisHangs => {
                self.outages.fault(now, fault, begins, &mut self.events);
            }
            FaultKind::ForecasterKilled => {
                if let Some(pilot) = &mut self.pilot {
                    pilot.forecaster(!begins);
                }
            }
            FaultKind::Target(faults) => {
                self.faults = if begins { faults } else { Faults::default() };
                if !begins {
                    // Requests that hung get their responses at last.
                    for job in std::mem::take(&mut self.stuck) {
                        self.served_late(now, &job);
                    }
                }
            }
            FaultKind::GatewaySlow(delay) => self.gateway_delay = if begins { nanos(delay) } else { 0 },
        }
        self.record(now, EventKind::Fault, fault.kind.event(begins));
    }

    /// A second is over.
    fn second(&mut self, now: u64) {
        if let Some(pilot) = &mut self.pilot {
            self.levels.forecast(pilot.second(now));
        }
        // What is decided now belongs to the next second.
        self.levels.seen(Some(self.station.busy() as u64), Some(self.station.waiting() as u64));
        self.steer(now);
    }

    /// Puts in force what adaptation wants.
    fn steer(&mut self, now: u64) {
        let Some((pilot, limit)) = self.pilot.as_mut().zip(self.limit.as_mut()) else { return };
        let steered = pilot.steer(now, self.outages.is_on());
        if let Some(numbers) = steered.numbers {
            self.levels.limit(numbers.rate);
            limit.change(numbers, now);
        }
        self.recorded.extend(steered.events);
        let wakes_at = steered.wakes_at.filter(|at| *at > now && Some(*at) != self.wakes_at);
        if let Some(at) = wakes_at {
            self.wakes_at = Some(at);
            self.events.push(at, Occurrence::Pilot);
        }
    }

    fn record(&mut self, now: u64, kind: EventKind, text: String) {
        self.recorded.push(Event { at: Duration::from_nanos(now).as_secs_f64(), kind, text });
    }

    fn finish(mut self) -> Outcome {
        let end = nanos(self.scenario.duration());
        self.advance(end);
        let length = self.observation.seconds();
        // What is under way ends after the load, in seconds that are not reported.
        while let Some((at, what)) = self.events.pop() {
            if matches!(what, Occurrence::Leaves(_) | Occurrence::Served(_) | Occurrence::GivesUp) {
                self.happen(at, what);
            }
        }
        let predictions = self.pilot.map(Pilot::into_predictions).unwrap_or_default();
        let levels = self.levels.finished(length, self.observation.step as usize);
        let (outage, exempt) = self.outages.found(self.scenario.duration());
        Outcome {
            observation: self.observation,
            judged: self.limit.map(|_| self.oracle.found),
            levels,
            events: self.recorded,
            outage,
            exempt,
            predictions,
            gateway: None,
        }
    }
}

/// A request's target without its query.
fn path_only(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

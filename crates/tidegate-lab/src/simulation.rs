//! A run in simulated time: the load generator's schedule, the gateway's limits, the target's station, and no clock.

mod attempt;
mod events;
mod hedging;
mod interaction;
mod limit;
mod outage;
mod passage;
mod passages;
mod pilot;
mod pool;
mod simulated_target;
mod site;
mod steps;

use std::net::Ipv4Addr;
use std::time::Duration;

use tidegate_load::{Assignment, Cause, End, Observed, Sample};
use tidegate_policy::Timestamp;

use crate::observation::Observation;
use crate::oracle::Oracle;
use crate::run::{Event, EventKind, Instead, Levels, Outcome};
use crate::scenario::{FaultKind, Scenario, Variant};
use crate::target::Faults;
use events::{Events, Occurrence};
use limit::Limit;
use outage::Outages;
use pilot::Pilot;
use simulated_target::SimulatedTarget;
use site::Site;

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
        let number = number as u64;
        let (group, client) = assignment.client(number);
        run.arrive(now, Job::new(number, group, client, now));
    }
    run.finish()
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    group: usize,
    client: u64,
    intended: u64,
    /// Its number among all of the load.
    number: u64,
    /// How often its client has sent it before.
    retries: u32,
    /// Whether it is one of those that fail, and how.
    fails: Option<u16>,
    /// Whether it has a worker.
    is_served: bool,
    /// The index of the target that it was sent to.
    target: usize,
    /// The number of its attempt, where there are several targets.
    attempt: u64,
}

impl Job {
    /// A request that a client sends for the first time.
    fn new(number: u64, group: usize, client: u64, intended: u64) -> Self {
        Self { group, client, intended, number, retries: 0, fails: None, is_served: false, target: 0, attempt: 0 }
    }
}

struct Simulation<'a> {
    scenario: &'a Scenario,
    limit: Option<Limit>,
    targets: Vec<SimulatedTarget>,
    /// The gateway before several targets, or with its own configuration.
    site: Option<Site>,
    events: Events,
    outages: Outages,
    pilot: Option<Pilot>,
    gateway_delay: u64,
    observation: Observation,
    oracle: Oracle,
    levels: Levels,
    recorded: Vec<Event>,
    next_second: u64,
    /// When adaptation is to be run again.
    wakes_at: Option<u64>,
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario, variant: Variant) -> Self {
        let limit = Limit::new(scenario, variant);
        let pilot =
            variant.algorithm.filter(|_| variant.adaptation).and_then(|algorithm| Pilot::new(scenario, algorithm));
        let mut events = Events::default();
        for (index, fault) in scenario.faults.iter().enumerate() {
            events.push(nanos(fault.at), Occurrence::FaultBegins(index));
            events.push(nanos(fault.until), Occurrence::FaultEnds(index));
        }
        let site = Site::new(scenario, variant);
        for (upstream, pool) in site.iter().flat_map(|site| site.pools.iter().enumerate()) {
            if pool.check.is_some() {
                events.push(0, Occurrence::ChecksBegin { upstream });
            }
        }
        let spans = scenario.faults.iter().map(|fault| fault.at..fault.until).collect();
        let targets = scenario.targets.iter().enumerate();
        Self {
            scenario,
            targets: targets.map(|(index, model)| SimulatedTarget::new(model, scenario.seed, index)).collect(),
            site,
            events,
            outages: Outages::new(scenario, limit.is_some()),
            pilot,
            gateway_delay: 0,
            observation: Observation::new(scenario.duration(), &scenario.plan.clients)
                .with_objective(scenario.objective)
                .with_faults(spans),
            oracle: Oracle::new(scenario.window()),
            levels: Levels::new(limit.as_ref().and_then(|_| scenario.shared_rate())),
            recorded: Vec::new(),
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
                self.settle_site(at);
            }
        }
    }

    fn happen(&mut self, now: u64, what: Occurrence) {
        match what {
            Occurrence::Leaves(job) => self.send(now, job),
            Occurrence::Served(job) => self.served(now, job),
            Occurrence::GivesUp => self.give_up(now),
            Occurrence::Deadline { attempt } => self.deadline(now, attempt),
            Occurrence::Hedge { attempt } => self.hedge(now, attempt),
            Occurrence::Again(job) => self.arrive(now, job),
            Occurrence::GoesOn { passage, wait } => self.wake(now, passage, wait),
            Occurrence::ChecksBegin { upstream } => self.begin_checks(now, upstream),
            Occurrence::Checked { upstream, endpoint, passed } => {
                if let Some(site) = &self.site {
                    site.pools[upstream].checked(endpoint, passed, at(now));
                }
            }
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
    fn arrive(&mut self, now: u64, job: Job) {
        let decision = self.decide(now, (job.group, job.client));
        if let Some(pilot) = &mut self.pilot {
            pilot.decided(decision.is_some());
        }
        match decision {
            Some(0) => self.send(now, job),
            Some(wait) => self.events.push(now + wait, Occurrence::Leaves(job)),
            None => self.end(now, &job, End::Responded(429), true),
        }
        self.settle_site(now);
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
        let target = &mut self.targets[job.target];
        job.fails = target.draw_error();
        if let Some(time) = target.station.begin() {
            self.serve(now, job, time);
        } else if let Some(ticket) = target.station.wait(job) {
            self.note_waiting(job.attempt, ticket);
        } else {
            self.respond_or_hang(now, Job { fails: Some(503), ..job });
        }
    }

    fn serve(&mut self, now: u64, job: Job, time: Duration) {
        let time = self.targets[job.target].slowed(time);
        self.note_served(job.attempt);
        self.events.push(now + nanos(time), Occurrence::Served(Job { is_served: true, ..job }));
    }

    /// A service is over. A request that hangs keeps its worker.
    fn served(&mut self, now: u64, job: Job) {
        // A worker whose request has left is free already.
        if self.is_awaited(&job) && self.respond_or_hang(now, job) {
            self.finish_service(now, job.target);
        }
    }

    /// A worker is free for the next.
    fn finish_service(&mut self, now: u64, target: usize) {
        if let Some((next, time)) = self.targets[target].station.finish() {
            self.serve(now, next, time);
        }
    }

    /// A request that hung ends.
    fn served_late(&mut self, now: u64, job: &Job) {
        self.respond(now, job);
        if job.is_served {
            self.finish_service(now, job.target);
        }
    }

    /// Whether there was a response.
    fn respond_or_hang(&mut self, now: u64, job: Job) -> bool {
        let target = &mut self.targets[job.target];
        let hangs = target.hangs();
        if hangs {
            target.stuck.push(job);
            // Attempts have deadlines anyway.
            if self.site.is_none() {
                let gives_up = job.intended + nanos(self.scenario.plan.request.timeout);
                self.events.push(gives_up.max(now), Occurrence::GivesUp);
            }
        } else {
            self.respond(now, &job);
        }
        !hangs
    }

    /// Clients that have waited for too long leave, and their requests no longer hang.
    fn give_up(&mut self, now: u64) {
        let timeout = nanos(self.scenario.plan.request.timeout);
        for index in 0..self.targets.len() {
            for job in self.targets[index].take_stuck(|job| job.intended + timeout <= now) {
                self.end(now, &job, End::Failed(Cause::TimedOut), false);
                if job.is_served {
                    self.finish_service(now, index);
                }
            }
        }
    }

    /// Requests that hung get their responses at last.
    fn end_hang(&mut self, now: u64, target: usize) {
        for job in self.targets[target].take_stuck(|_| true) {
            self.served_late(now, &job);
        }
    }

    /// The target has responded.
    fn respond(&mut self, now: u64, job: &Job) {
        let status = job.fails.unwrap_or(200);
        if self.site.is_some() {
            self.responded(now, job.attempt, status);
        } else {
            self.settle(now, job, status);
        }
    }

    /// The gateway has a response for its client.
    fn settle(&mut self, now: u64, job: &Job, status: u16) {
        if let Some(pilot) = &mut self.pilot {
            pilot.responded(now - job.intended, status >= 500);
        }
        self.end(now, job, End::Responded(status), false);
    }

    /// The gateway sends a response, which may be delayed on its way. A client that has waited for too long is gone.
    fn end(&mut self, now: u64, job: &Job, end: End, is_rejected: bool) {
        let timeout = nanos(self.scenario.plan.request.timeout);
        let took = (now + self.gateway_delay).saturating_sub(job.intended);
        let is_late = took > timeout;
        let (end, is_rejected) = if is_late { (End::Failed(Cause::TimedOut), false) } else { (end, is_rejected) };
        let intended = Duration::from_nanos(job.intended);
        let finished = intended + Duration::from_nanos(took.min(timeout));
        let sample = Sample { group: job.group, intended, sent: intended, finished, end };
        self.observation.note(&Observed { sample, client: job.client, retries: job.retries, is_rejected });
        self.outages.note(job.intended, end == End::Responded(429));
        self.come_back(job, end, nanos(finished));
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
                for target in 0..self.targets.len() {
                    self.targets[target].faults = if begins { faults } else { Faults::default() };
                    if !begins {
                        self.end_hang(now, target);
                    }
                }
            }
            FaultKind::Faulty(target, faults) => {
                self.targets[target].faults = if begins { faults } else { Faults::default() };
                if !begins {
                    self.end_hang(now, target);
                }
            }
            FaultKind::Kill(target) => self.kill(now, target, begins),
            FaultKind::Freeze(target) => {
                self.targets[target].is_frozen = begins;
                if !begins {
                    self.end_hang(now, target);
                }
            }
            FaultKind::Slow(target, factor) => self.targets[target].slowness = if begins { factor } else { 1.0 },
            FaultKind::GatewaySlow(delay) => self.gateway_delay = if begins { nanos(delay) } else { 0 },
        }
        self.record(now, EventKind::Fault, fault.kind.event(begins, &self.scenario.target_names));
    }

    /// A second is over.
    fn second(&mut self, now: u64) {
        if let Some(pilot) = &mut self.pilot {
            self.levels.forecast(pilot.second(now));
        }
        // What is decided now belongs to the next second.
        let busy: usize = self.targets.iter().map(|target| target.station.busy()).sum();
        let waiting: usize = self.targets.iter().map(|target| target.station.waiting()).sum();
        self.levels.seen(Some(busy as u64), Some(waiting as u64));
        for change in self.site.as_mut().map(|site| site.second(now)).unwrap_or_default() {
            self.record(now, EventKind::Endpoint, change);
        }
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
            match what {
                Occurrence::Leaves(_)
                | Occurrence::Again(_)
                | Occurrence::GoesOn { .. }
                | Occurrence::Served(_)
                | Occurrence::GivesUp
                | Occurrence::Deadline { .. }
                | Occurrence::Hedge { .. } => {
                    self.happen(at, what);
                    self.settle_site(at);
                }
                Occurrence::FaultBegins(_)
                | Occurrence::FaultEnds(_)
                | Occurrence::RedisIsAway
                | Occurrence::RedisIsBack { .. }
                | Occurrence::Pilot
                | Occurrence::ChecksBegin { .. }
                | Occurrence::Checked { .. } => {}
            }
        }
        let predictions = self.pilot.map(Pilot::into_predictions).unwrap_or_default();
        let levels = self.levels.finished(length, self.observation.step as usize);
        let (outage, exempt) = self.outages.found(self.scenario.duration());
        let (targets, policies) = self.site.map(Site::into_records).unzip();
        Outcome {
            observation: self.observation,
            judged: self.limit.map(|_| self.oracle.found),
            levels,
            events: self.recorded,
            outage,
            exempt,
            predictions,
            targets,
            policies: policies.flatten(),
            gateway: None,
        }
    }
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A time of the simulation, for the objects of a gateway.
pub(crate) fn at(now: u64) -> Timestamp {
    Timestamp::from_nanos(START + now)
}

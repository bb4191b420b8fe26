//! Adaptation in simulated time: the gateway's side and the forecaster's, with nothing between them but their JSON.

use std::time::Duration;

use tidegate_adapt::{Autopilot, AutopilotEvent, Rails};
use tidegate_forecast::{Adviser, Forecast, Forecaster, Policy, ProphetModel, Snapshot};
use tidegate_policy::numbers::LimitNumbers;
use tidegate_policy::{Algorithm, Timestamp};

use super::{START, nanos};
use crate::run::{Band, Event, EventKind, Prediction};
use crate::scenario::Scenario;

/// Prophet learns once in so many seconds, as in the service.
const PROPHET_EVERY: usize = 30;

pub(super) struct Pilot {
    autopilot: Autopilot,
    policy: Policy,
    adviser: Adviser,
    in_force: LimitNumbers,
    interval: u64,
    next_ask: u64,
    is_there: bool,
    /// Whether the limit was in force in the second that passes.
    is_limiting: bool,
    forecast: Option<Forecast>,
    events: Vec<Event>,
    predictions: Vec<Prediction>,
}

/// Other numbers.
pub(super) struct Steered {
    /// Numbers that make a rule.
    pub(super) numbers: LimitNumbers,
    /// Requests a second.
    pub(super) rate: f64,
    /// What may come at once.
    pub(super) quota: u64,
}

/// What adaptation wants.
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) numbers: Option<Steered>,
    pub(super) events: Vec<Event>,
    pub(super) wakes_at: Option<u64>,
}

impl Pilot {
    pub(super) fn new(scenario: &Scenario, algorithm: Algorithm) -> Option<Self> {
        let adaptation = scenario.adaptation?;
        let base = scenario.limit?.numbers(algorithm).ok()?;
        let rails = Rails { ceiling: Some(adaptation.ceiling), ..Rails::default() };
        let autopilot = Autopilot::new(base.clone(), rails, adaptation.interval)?;
        let policy = scenario.policy()?;
        let interval = nanos(adaptation.interval);
        Some(Self {
            autopilot,
            policy,
            adviser: new_adviser(policy),
            in_force: base,
            interval,
            next_ask: interval,
            is_there: true,
            is_limiting: true,
            forecast: None,
            events: Vec::new(),
            predictions: Vec::new(),
        })
    }

    pub(super) fn decided(&mut self, is_admitted: bool) {
        self.autopilot.decided(is_admitted);
    }

    pub(super) fn responded(&mut self, took: u64, is_error: bool) {
        self.autopilot.responded(Duration::from_nanos(took), is_error);
    }

    /// Whether the forecaster can be asked. One that is started again knows nothing.
    pub(super) fn forecaster(&mut self, is_there: bool) {
        if is_there && !self.is_there {
            self.adviser = new_adviser(self.policy);
        }
        (self.is_there, self.forecast) = (is_there, None);
    }

    /// A second is over. What is expected of the next one?
    pub(super) fn second(&mut self, now: u64) -> Option<Band> {
        let events = self.autopilot.second(at(now), self.is_limiting);
        self.record(now, events);
        if now >= self.next_ask {
            self.next_ask = now + self.interval;
            self.ask(now);
        }
        band(self.forecast.as_ref()?, now)
    }

    fn ask(&mut self, now: u64) {
        if !self.is_there {
            return;
        }
        let Some(question) = self.autopilot.snapshot(at(now), "lab") else { return };
        let Ok(snapshot) = Snapshot::read(question.to_string().as_bytes()) else { return };
        let found = self.adviser.advise(&snapshot);
        self.forecast = found.forecast;
        let advice = &found.advice;
        let prediction = Prediction { at: seconds(now), valid_for: advice.valid_for, highest: advice.predicted };
        self.predictions.push(prediction);
        if let Err(why) = self.autopilot.advised(&advice.to_json(), at(now)) {
            self.record(now, [AutopilotEvent::Decision(format!("rejected: {why}"))]);
        }
    }

    /// Does what is due.
    pub(super) fn steer(&mut self, now: u64, is_away: bool) -> Wanted {
        self.is_limiting = !is_away;
        let decision = self.autopilot.apply_due(at(now), !is_away);
        self.record(now, decision);
        let wanted = self.autopilot.numbers();
        let mut steered = Wanted { events: std::mem::take(&mut self.events), ..Wanted::default() };
        if wanted.relevant() != self.in_force.relevant() && !is_away {
            let rate = wanted.shape().map(|shape| shape.rate_per_second);
            let rate = rate.filter(|_| wanted.rule(0).is_ok());
            steered.numbers = rate.map(|rate| Steered { numbers: wanted.clone(), rate, quota: wanted.quota() });
            self.in_force = wanted;
        }
        steered.wakes_at = self.autopilot.wakes_at(at(now)).map(|at| at.as_nanos().saturating_sub(START));
        steered
    }

    fn record(&mut self, now: u64, events: impl IntoIterator<Item = AutopilotEvent>) {
        for event in events {
            let (kind, text) = match event {
                // A repetition is not an event.
                AutopilotEvent::Decision(text) if text.starts_with("unchanged") => continue,
                AutopilotEvent::Decision(text) => (EventKind::Adaptation, text),
                AutopilotEvent::Attack(text) => (EventKind::Attack, text),
            };
            self.events.push(Event { at: seconds(now), kind, text });
        }
    }

    pub(super) fn into_predictions(self) -> Vec<Prediction> {
        self.predictions
    }
}

fn new_adviser(policy: Policy) -> Adviser {
    Adviser::new(policy, Forecaster::new(policy.settings()).with_slow(ProphetModel::default(), PROPHET_EVERY))
}

fn at(now: u64) -> Timestamp {
    Timestamp::from_nanos(START + now)
}

fn seconds(now: u64) -> f64 {
    Duration::from_nanos(now).as_secs_f64()
}

/// What a forecast says of the second that begins now.
fn band(forecast: &Forecast, now: u64) -> Option<Band> {
    let second = i64::try_from((START + now) / super::SECOND).ok()?;
    let index = usize::try_from((second - forecast.start) / i64::from(forecast.step)).ok()?;
    let of = |level: f64| forecast.quantile(level).get(index).copied();
    Some(Band { low: of(0.1)?, middle: of(0.5)?, high: of(0.9)? })
}

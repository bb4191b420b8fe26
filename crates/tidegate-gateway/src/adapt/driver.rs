//! Samples the counters each second, asks the forecaster each interval, and puts the pilot's numbers in force.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Map, Value};
use tidegate_adapt::{
    Accuracy, Counting, Miss, Outage, Pilot, PublishedLimit, Quantiles, RecentSeconds, Recommendation, Sampler, Second,
    Snapshot, Thresholds, latency_bounds_seconds, numbers_json, rounded,
};
use tidegate_policy::Timestamp;
use tidegate_policy::numbers::LimitNumbers;
use tidegate_store::FailureMode;
use tidegate_store::election::{ElectionFault, Standing};
use tokio::task::JoinSet;

use super::counters::totals;
use super::forecaster_client::ask;
use super::membership::{INCOMPLETE_SECONDS, Leadership, Membership};
use super::reporting::{self, Beside, COMPONENT, because};
use crate::adaptation_state::as_received;
use crate::config::model::AdaptiveMode;
use crate::config::numbers::figure;
use crate::control::{Control, NotAdapted};
use crate::gateway::Gateway;
use crate::limit::{Counts, Limit};
use crate::plan::{Overlay, Plan, Site};
use crate::settings::AdaptiveSettings;

const NANOS: u64 = 1_000_000_000;

/// Adapts until the gateway drains, while the plan in force has adaptation.
pub(crate) async fn run(gateway: Arc<Gateway>, control: Arc<Control>) {
    let mut driver: Option<Driver> = None;
    loop {
        if gateway.is_draining() {
            if let Some(membership) = driver.and_then(|driver| driver.membership) {
                membership.leave().await;
            }
            return;
        }
        let plan = gateway.plan();
        driver = Driver::of_plan(driver, &gateway, &plan);
        match &mut driver {
            None => gateway.adaptation.replanned.notified().await,
            Some(driver) => driver.turn(&gateway, &control, &plan).await,
        }
    }
}

struct Driver {
    settings: Arc<AdaptiveSettings>,
    /// The site whose counters are sampled.
    site: Arc<Site>,
    /// The generation of the operator's numbers.
    generation: u64,
    pilot: Pilot,
    /// The part among gateways that share the limit; None if it is not shared.
    membership: Option<Membership>,
    /// The decision of another gateway that was last reported.
    followed: Option<(LimitNumbers, bool)>,
    sampler: Sampler,
    recent: RecentSeconds,
    accuracy: Accuracy,
    bounds: Vec<f64>,
    next_second: Timestamp,
    next_ask: Timestamp,
    asked: JoinSet<Asked>,
    /// What the history shows beside the next decision.
    beside: Beside,
    outage: Outage,
    /// Why numbers could not be put in force, as last reported.
    unfit: Option<String>,
    /// Why a heartbeat failed, as last reported.
    fault: Option<ElectionFault>,
}

/// A request to the forecaster, and its response.
struct Asked {
    at: Timestamp,
    period_end: u64,
    generation: u64,
    figures: Map<String, Value>,
    response: Result<Value, Miss>,
}

impl Driver {
    /// The driver for this plan: the same one if nothing has changed, None if nothing is adapted.
    fn of_plan(driver: Option<Self>, gateway: &Gateway, plan: &Arc<Plan>) -> Option<Self> {
        let settings = plan.site.adaptive.as_ref()?;
        let limit = plan.limit(&settings.limit)?;
        let is_same = |driver: &Self| {
            driver.settings.model == settings.model && driver.membership.is_some() == Membership::is_for(limit)
        };
        let same = driver.filter(is_same);
        let Some(mut driver) = same else { return Self::new(gateway, plan, settings, limit) };
        if !Arc::ptr_eq(&driver.site, &plan.site) {
            driver.sampler.reset();
            (driver.site, driver.settings) = (Arc::clone(&plan.site), Arc::clone(settings));
        }
        if driver.generation != plan.generation {
            driver.generation = plan.generation;
            let base = limit.operators_numbers().clone();
            let mut entry = because("the operator's numbers were changed or set again");
            entry.insert("to".to_owned(), numbers_json(&base).into());
            gateway.adaptation.record(gateway.now(), "rebased", entry);
            if !driver.pilot.rebase(base, limit.settings.soft) {
                return Self::not_adaptable(gateway, limit);
            }
            gateway.adaptation.gauges.base.set(driver.pilot.base_rate());
        }
        Some(driver)
    }

    fn new(gateway: &Gateway, plan: &Arc<Plan>, settings: &Arc<AdaptiveSettings>, limit: &Limit) -> Option<Self> {
        let thresholds = Thresholds { latency: settings.latency, errors: settings.errors };
        let (base, soft) = (limit.operators_numbers().clone(), limit.settings.soft);
        let Some(pilot) = Pilot::new(settings.rails, thresholds, base, soft) else {
            return Self::not_adaptable(gateway, limit);
        };
        gateway.adaptation.keep(settings.history);
        gateway.adaptation.gauges.begin();
        gateway.adaptation.gauges.base.set(pilot.base_rate());
        let membership = Membership::new(limit, gateway.store());
        gateway.adaptation.gauges.leader.store(membership.is_none(), Relaxed);
        let (now, mut sampler) = (gateway.now(), Sampler::default());
        sampler.look(now, totals(limit, plan));
        Some(Self {
            settings: Arc::clone(settings),
            site: Arc::clone(&plan.site),
            generation: plan.generation,
            pilot,
            membership,
            followed: None,
            sampler,
            recent: RecentSeconds::default(),
            accuracy: Accuracy::default(),
            bounds: latency_bounds_seconds(),
            next_second: next_second_after(now),
            next_ask: now + settings.interval,
            asked: JoinSet::new(),
            beside: Beside::default(),
            outage: Outage::default(),
            unfit: None,
            fault: None,
        })
    }

    /// Reports that an operator has given the limit an algorithm that can't be adapted.
    fn not_adaptable(gateway: &Gateway, limit: &Limit) -> Option<Self> {
        let (name, algorithm) = (limit.name(), limit.operators_numbers().algorithm());
        gateway.log.warn(
            COMPONENT,
            format_args!("limit `{name}` is not adapted while it is `{algorithm}`, which has no rate"),
        );
        None
    }

    /// Waits for the next event and handles it.
    async fn turn(&mut self, gateway: &Arc<Gateway>, control: &Control, plan: &Arc<Plan>) {
        let now = gateway.now();
        let next = self.pilot.wakes_at(now).filter(|_| self.is_leader());
        let next = next.map_or(self.next_second, |at| at.min(self.next_second));
        tokio::select! {
            () = gateway.adaptation.replanned.notified() => return,
            Some(asked) = self.asked.join_next(), if !self.asked.is_empty() => {
                if let Ok(asked) = asked {
                    self.receive(gateway, plan, asked);
                }
            }
            standing = heartbeat(self.membership.as_mut()) => self.conclude(gateway, plan, standing),
            () = tokio::time::sleep(next.since(now)) => {}
        }
        let now = gateway.now();
        if now >= self.next_second {
            self.next_second = next_second_after(now);
            self.sample(gateway, plan, now);
            self.ask_if_due(gateway, plan, now);
        }
        self.put_in_force(gateway, control, plan).await;
        self.publish(plan);
    }

    /// Publishes changed numbers at once.
    fn publish(&mut self, plan: &Plan) {
        let Some(limit) = self.limit(plan) else { return };
        let text = self.publication(limit);
        if let Some(membership) = self.membership.as_mut().filter(|member| member.has_news(text.as_deref())) {
            membership.send_heartbeat(text);
        }
    }

    /// Whether this gateway decides.
    fn is_leader(&self) -> bool {
        self.membership.as_ref().is_none_or(Membership::is_leader)
    }

    fn limit<'a>(&self, plan: &'a Plan) -> Option<&'a Limit> {
        plan.limit(&self.settings.limit)
    }

    /// Turns the counters into seconds to learn from.
    fn sample(&mut self, gateway: &Gateway, plan: &Plan, now: Timestamp) {
        let Some(limit) = self.limit(plan) else { return };
        // Requests are rejected without asking the limit, so the offered load is not known.
        let is_blind = counting(gateway, limit) == Counting::Nowhere
            && gateway.store_state().is_some_and(|store| store.mode == FailureMode::Closed);
        let mut seconds = self.sampler.look(now, totals(limit, plan));
        for second in &mut seconds {
            second.is_whole &= !is_blind;
        }
        if self.membership.is_none() {
            return self.learn(gateway, plan, seconds);
        }
        let text = self.publication(limit);
        if let Some(membership) = &mut self.membership {
            membership.observed(seconds);
            membership.send_heartbeat(text);
        }
    }

    /// Learns from seconds. A follower learns the upstream's usual latency, for the time when it has to decide.
    fn learn(&mut self, gateway: &Gateway, plan: &Plan, seconds: Vec<Second>) {
        let Some(limit) = self.limit(plan) else { return };
        let is_enforced = match counting(gateway, limit) {
            Counting::AsMeant => self.is_leader(),
            Counting::Nowhere => false,
            Counting::Apart => true,
        };
        let reports = self.is_leader() || is_enforced;
        let accepts = |numbers: &LimitNumbers| Plan::check_numbers(&limit.settings, numbers, gateway.store());
        let (gauges, now) = (&gateway.adaptation.gauges, gateway.now());
        for second in seconds {
            let latency = Quantiles::of(&second, &self.bounds);
            let events = self.pilot.observe(&second, latency, is_enforced, &accepts);
            if let Some(event) = events.attack.as_ref().filter(|_| reports) {
                reporting::attack(gateway, now, event);
            }
            if let Some(made) = events.ceiling.filter(|_| reports) {
                reporting::decided(gateway, now, limit.name(), self.settings.mode, &made, Beside::default());
            }
            if !self.is_leader() {
                continue;
            }
            if let Some(error) = self.accuracy.observe(&second) {
                gauges.error.set(rounded(error));
            }
            if second.is_whole {
                gauges.observed.set(figure(second.offered));
            }
            let clip = self.pilot.is_attacked().then(|| self.pilot.hard_ceiling());
            self.recent.push(second, clip);
        }
        self.report_ceiling(gateway);
    }

    fn report_ceiling(&self, gateway: &Gateway) {
        let ceiling = self.pilot.measured_ceiling().unwrap_or_else(|| self.pilot.hard_ceiling());
        gateway.adaptation.gauges.ceiling.set(rounded(ceiling));
    }

    /// The numbers that gateways sharing the limit must follow; None while the operator's are in force.
    fn publication(&self, limit: &Limit) -> Option<String> {
        if !self.is_leader() || self.settings.mode != AdaptiveMode::On {
            return None;
        }
        Some(self.pilot.published()?.text(limit.operators_numbers()))
    }

    /// Handles the result of a heartbeat.
    fn conclude(&mut self, gateway: &Gateway, plan: &Plan, standing: Result<Standing, ElectionFault>) {
        let Some(limit) = self.limit(plan) else { return };
        let now = gateway.now();
        let Some(membership) = &mut self.membership else { return };
        let is_reported = |fault: &&ElectionFault| !matches!(fault, ElectionFault::Away | ElectionFault::Unknown);
        let fault = standing.as_ref().err().filter(is_reported);
        if let Some(fault) = fault.filter(|fault| self.fault.as_ref() != Some(fault)) {
            let message = "gateways that share the limit can't elect a leader";
            gateway.log.warn(COMPONENT, format_args!("{message}: {fault}"));
        }
        self.fault = fault.cloned();
        let outcome = membership.conclude(standing, now);
        if outcome.is_incomplete {
            let why = "a report can't be read, or a clock is off by more than a second";
            gateway.log.warn(
                COMPONENT,
                format_args!(
                    "no usable report of a gateway that shares the limit for {INCOMPLETE_SECONDS} s ({why}); no \
                     forecasts until it reports again"
                ),
            );
        }
        let (base, soft) = (limit.operators_numbers(), limit.settings.soft);
        let accepts = |numbers: &LimitNumbers| Plan::check_numbers(&limit.settings, numbers, gateway.store());
        let published = outcome.overlay.and_then(|text| PublishedLimit::read(&text, base, soft));
        let published = published.and_then(|published| self.pilot.vetted(published, now, &accepts));
        gateway.adaptation.gauges.leader.store(self.is_leader(), Relaxed);
        match outcome.leadership {
            Leadership::Unchanged => {}
            Leadership::Gained => {
                reporting::leadership(gateway, now, limit.name(), true);
                if published.is_some() {
                    self.next_ask = now;
                }
                self.pilot.take_over(published.clone(), base.clone(), soft, now);
                self.beside = Beside::default();
            }
            Leadership::Lost => {
                reporting::leadership(gateway, now, limit.name(), false);
                gateway.adaptation.gauges.begin();
                (self.beside, self.outage, self.accuracy) = Default::default();
            }
        }
        self.learn(gateway, plan, outcome.seconds);
        // A follower that has lost Redis continues from what it followed last. Any other follower has the published
        // numbers, whatever it has just learnt.
        if !self.is_leader() && counting(gateway, limit) != Counting::Apart {
            self.pilot.follow(published, base.clone(), soft, now);
        }
        self.report_ceiling(gateway);
    }

    fn ask_if_due(&mut self, gateway: &Arc<Gateway>, plan: &Plan, now: Timestamp) {
        if now < self.next_ask || !self.asked.is_empty() || !self.is_leader() {
            return;
        }
        let Some(limit) = self.limit(plan) else { return };
        let period = self.recent.period();
        if !period.is_askable(now >= self.next_ask + self.settings.interval) {
            return;
        }
        self.next_ask = (self.next_ask + self.settings.interval).max(now);
        let interval_seconds = self.settings.interval.as_secs_f64();
        gateway.log.info(COMPONENT, format_args!("AI request sent (interval {interval_seconds} s)"));
        let given = self.settings.source.as_deref();
        let snapshot = Snapshot {
            at: now,
            p95: period.sum.latency_quantile(0.95, &self.bounds),
            period: &period,
            in_force: &limit.settings.numbers,
            base: limit.operators_numbers(),
            source: &gateway.adaptation.series_names.of(given, limit.name(), Membership::is_for(limit)),
            interval_seconds,
            ceiling: self.pilot.hard_ceiling(),
        };
        let (json, figures) = (snapshot.json(), snapshot.figures());
        let (settings, period_end, generation) = (Arc::clone(&self.settings), period.end(), self.generation);
        self.asked.spawn(async move {
            let response = ask(&settings.forecaster, &json).await;
            Asked { at: now, period_end, generation, figures, response }
        });
    }

    /// Handles the response of the forecaster, or its absence.
    fn receive(&mut self, gateway: &Gateway, plan: &Plan, asked: Asked) {
        let read = asked.response.and_then(|response| match Recommendation::read(&response) {
            Ok(read) => Ok((read, response)),
            Err(why) => Err(Miss::Invalid(why)),
        });
        gateway.adaptation.gauges.asked(read.as_ref().err());
        let now = gateway.now();
        let (recommendation, response) = match read {
            Ok(read) => read,
            Err(miss) => {
                let most = self.settings.misses;
                let missed = self.outage.missed(now, &miss, most);
                return reporting::missed(gateway, now, &miss, missed, most);
            }
        };
        if let Some(outage) = self.outage.end(now) {
            reporting::is_back(gateway, now, outage);
        }
        self.recent.sent(asked.period_end);
        let Some(limit) = self.limit(plan).filter(|_| asked.generation == plan.generation && self.is_leader()) else {
            // It was made for other numbers of the operator, or another gateway is the leader now.
            return;
        };
        if let Some(predicted) = recommendation.predicted {
            gateway.adaptation.gauges.predicted.set(predicted);
            let valid_for = recommendation.valid_for.unwrap_or(self.settings.interval);
            self.accuracy.expect(predicted, asked.at.as_nanos() / NANOS, valid_for);
        }
        let accepts = |numbers: &LimitNumbers| Plan::check_numbers(&limit.settings, numbers, gateway.store());
        let beside = Beside { observed: Some(asked.figures), recommendation: Some(as_received(&response)) };
        match self.pilot.receive(recommendation, asked.at, &accepts) {
            Ok(()) => self.beside = beside,
            Err(why) => {
                let rejected = self.pilot.refused(why);
                reporting::decided(gateway, now, limit.name(), self.settings.mode, &rejected, beside);
            }
        }
    }

    /// Applies due changes, and puts the pilot's numbers in force.
    async fn put_in_force(&mut self, gateway: &Gateway, control: &Control, plan: &Plan) {
        let Some(limit) = self.limit(plan) else { return };
        let accepts = |numbers: &LimitNumbers| Plan::check_numbers(&limit.settings, numbers, gateway.store());
        let (now, counting) = (gateway.now(), counting(gateway, limit));
        if (self.is_leader() || counting == Counting::Apart)
            && let Some(made) = self.pilot.apply_due(now, counting, &accepts)
        {
            let beside = std::mem::take(&mut self.beside);
            reporting::decided(gateway, now, limit.name(), self.settings.mode, &made, beside);
        }
        let wanted = self.pilot.numbers(&accepts);
        let is_same = |other: &LimitNumbers| wanted.relevant() == other.relevant();
        if self.settings.mode != AdaptiveMode::On || counting == Counting::Nowhere || is_same(&limit.settings.numbers) {
            return;
        }
        let overlay = Overlay { limit: limit.name().to_owned(), numbers: wanted.clone() };
        let overlay = (!is_same(limit.operators_numbers())).then_some(overlay);
        match control.adapt(gateway, overlay, self.generation).await {
            Ok(()) => {
                self.unfit = None;
                let standing = self.pilot.standing();
                let is_news = self.followed.replace(standing.clone()) != Some(standing);
                // A ceiling that changes each second is reported only when it begins and ends.
                if is_news && !self.is_leader() && counting == Counting::AsMeant {
                    reporting::followed(gateway, now, limit.name(), &limit.settings.numbers, &wanted);
                }
            }
            // There is another plan: the next turn begins with it.
            Err(NotAdapted::Rebased) => {}
            Err(NotAdapted::Invalid(why)) => {
                if self.unfit.as_ref() != Some(&why) {
                    gateway.log.error(COMPONENT, format_args!("{wanted} can't be put in force: {why}"));
                    self.unfit = Some(why);
                }
            }
        }
    }
}

/// The result of the heartbeat under way; pending without one.
async fn heartbeat(membership: Option<&mut Membership>) -> Result<Standing, ElectionFault> {
    match membership {
        Some(membership) => membership.heartbeat().await,
        None => std::future::pending().await,
    }
}

/// The start of the next second.
fn next_second_after(now: Timestamp) -> Timestamp {
    Timestamp::from_nanos((now.as_nanos() / NANOS + 1).saturating_mul(NANOS))
}

fn counting(gateway: &Gateway, limit: &Limit) -> Counting {
    let down = gateway.store_state().filter(|store| store.is_down && matches!(limit.counts, Counts::Shared(_)));
    match down.map(|store| store.mode) {
        None => Counting::AsMeant,
        Some(FailureMode::Local) => Counting::Apart,
        Some(FailureMode::Open | FailureMode::Closed) => Counting::Nowhere,
    }
}

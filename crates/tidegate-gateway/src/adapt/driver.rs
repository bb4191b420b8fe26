//! The edge: looks at the counters each second, asks the forecaster each interval, puts in force what the pilot wants.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Map, Value};
use tidegate_policy::Timestamp;
use tidegate_store::{CouncilFault, FailureMode, Meeting};
use tokio::task::JoinSet;

use super::asking::{Miss, ask};
use super::ceiling::Quantiles;
use super::counted::totals;
use super::decree::Decree;
use super::guard::rounded;
use super::history::as_received;
use super::ledger::Ledger;
use super::outage::Outage;
use super::pilot::{Counting, Pilot};
use super::recommendation::Recommendation;
use super::sampler::Sampler;
use super::score::Score;
use super::seat::{PATIENCE, Seat, Turn};
use super::second::Second;
use super::snapshot::Snapshot;
use super::telling::{self, Beside, COMPONENT, because};
use crate::config::model::AdaptiveMode;
use crate::config::numbers::{LimitNumbers, figure};
use crate::control::NotAdapted;
use crate::gateway::Gateway;
use crate::limits::{Counts, Limit};
use crate::metrics::latency_bounds;
use crate::plan::{Overlay, Plan, Site};
use crate::settings::AdaptiveSettings;

const NANOS: u64 = 1_000_000_000;

/// Adapts for ever, as far as the plan in force wants it.
pub(crate) async fn run(gateway: Arc<Gateway>) {
    let mut driver: Option<Driver> = None;
    loop {
        if gateway.is_draining() {
            if let Some(seat) = driver.and_then(|driver| driver.seat) {
                seat.leave().await;
            }
            return;
        }
        let plan = gateway.plan();
        driver = Driver::of_plan(driver, &gateway, &plan);
        match &mut driver {
            None => gateway.adaptation.replanned.notified().await,
            Some(driver) => driver.turn(&gateway, &plan).await,
        }
    }
}

struct Driver {
    settings: Arc<AdaptiveSettings>,
    /// What the counters are those of.
    site: Arc<Site>,
    /// Of the operator's word.
    generation: u64,
    pilot: Pilot,
    /// Among those that share the limit; none if it is this gateway's alone.
    seat: Option<Seat>,
    /// Where others stood when that was last told.
    followed: Option<(LimitNumbers, bool)>,
    sampler: Sampler,
    ledger: Ledger,
    score: Score,
    bounds: Vec<f64>,
    next_second: Timestamp,
    next_ask: Timestamp,
    asked: JoinSet<Answered>,
    /// What the next decision stands beside.
    beside: Beside,
    outage: Outage,
    /// Numbers that could not be put in force, and have been told of.
    unfit: Option<String>,
    /// What kept the council from meeting, and has been told of.
    fault: Option<CouncilFault>,
}

/// An answer of the forecaster, and the question.
struct Answered {
    at: Timestamp,
    period_end: u64,
    generation: u64,
    figures: Map<String, Value>,
    answer: Result<Value, Miss>,
}

impl Driver {
    /// The driver for this plan: the same one if nothing has changed, none if nothing is to be adapted.
    fn of_plan(driver: Option<Self>, gateway: &Gateway, plan: &Arc<Plan>) -> Option<Self> {
        let settings = plan.site.adaptive.as_ref()?;
        let limit = plan.limit(&settings.limit)?;
        let is_same =
            |driver: &Self| driver.settings.model == settings.model && driver.seat.is_some() == Seat::is_for(limit);
        let same = driver.filter(is_same);
        let Some(mut driver) = same else { return Self::new(gateway, plan, settings, limit) };
        if !Arc::ptr_eq(&driver.site, &plan.site) {
            driver.sampler.reset();
            (driver.site, driver.settings) = (Arc::clone(&plan.site), Arc::clone(settings));
        }
        if driver.generation != plan.generation {
            driver.generation = plan.generation;
            let base = limit.operators_numbers().clone();
            let mut entry = because("the operator's numbers are other ones, or were set anew");
            entry.insert("to".to_owned(), super::snapshot::numbers(&base).into());
            gateway.adaptation.record(gateway.now(), "rebased", entry);
            if !driver.pilot.rebase(base, limit.settings.soft) {
                return Self::can_not(gateway, limit);
            }
            gateway.adaptation.gauges.base.set(driver.pilot.base_rate());
        }
        Some(driver)
    }

    fn new(gateway: &Gateway, plan: &Arc<Plan>, settings: &Arc<AdaptiveSettings>, limit: &Limit) -> Option<Self> {
        let Some(pilot) = Pilot::new(settings, limit.operators_numbers().clone(), limit.settings.soft) else {
            return Self::can_not(gateway, limit);
        };
        gateway.adaptation.keep(settings.history);
        gateway.adaptation.gauges.begin();
        gateway.adaptation.gauges.base.set(pilot.base_rate());
        let seat = Seat::take(limit, gateway.store());
        gateway.adaptation.gauges.holder.store(seat.is_none(), Relaxed);
        let (now, mut sampler) = (gateway.now(), Sampler::default());
        sampler.look(now, totals(limit, plan));
        Some(Self {
            settings: Arc::clone(settings),
            site: Arc::clone(&plan.site),
            generation: plan.generation,
            pilot,
            seat,
            followed: None,
            sampler,
            ledger: Ledger::default(),
            score: Score::default(),
            bounds: latency_bounds(),
            next_second: border_after(now),
            next_ask: now + settings.interval,
            asked: JoinSet::new(),
            beside: Beside::default(),
            outage: Outage::default(),
            unfit: None,
            fault: None,
        })
    }

    /// An operator may make it one that can't be adapted.
    fn can_not(gateway: &Gateway, limit: &Limit) -> Option<Self> {
        let (name, algorithm) = (limit.name(), limit.operators_numbers().algorithm());
        gateway.log.warn(
            COMPONENT,
            format_args!("limit `{name}` is not adapted while it is `{algorithm}`, which has no rate"),
        );
        None
    }

    /// Until something happens, and what is done then.
    async fn turn(&mut self, gateway: &Arc<Gateway>, plan: &Arc<Plan>) {
        let now = gateway.now();
        let next = self.pilot.wakes_at(now).filter(|_| self.decides());
        let next = next.map_or(self.next_second, |at| at.min(self.next_second));
        tokio::select! {
            () = gateway.adaptation.replanned.notified() => return,
            Some(answered) = self.asked.join_next(), if !self.asked.is_empty() => {
                if let Ok(answered) = answered {
                    self.take(gateway, plan, answered);
                }
            }
            met = met(self.seat.as_mut()) => self.hear(gateway, plan, met),
            () = tokio::time::sleep(next.since(now)) => {}
        }
        let now = gateway.now();
        if now >= self.next_second {
            self.next_second = border_after(now);
            self.sample(gateway, plan, now);
            self.ask_if_due(gateway, plan, now);
        }
        self.put_in_force(gateway, plan).await;
        self.publish(plan);
    }

    /// Tells the others at once of what has changed.
    fn publish(&mut self, plan: &Plan) {
        let Some(limit) = self.limit(plan) else { return };
        let decree = self.decree(limit);
        if let Some(seat) = self.seat.as_mut().filter(|seat| seat.has_news(decree.as_deref())) {
            seat.meet(decree);
        }
    }

    /// Whether this gateway is the one that decides.
    fn decides(&self) -> bool {
        self.seat.as_ref().is_none_or(Seat::is_holder)
    }

    fn limit<'a>(&self, plan: &'a Plan) -> Option<&'a Limit> {
        plan.limit(&self.settings.limit)
    }

    /// Makes seconds of the counters, for those who learn.
    fn sample(&mut self, gateway: &Gateway, plan: &Plan, now: Timestamp) {
        let Some(limit) = self.limit(plan) else { return };
        // Refused by nobody's limit: what was offered is not known.
        let is_blind = counting(gateway, limit) == Counting::Nowhere
            && gateway.store_state().is_some_and(|store| store.mode == FailureMode::Closed);
        let mut seconds = self.sampler.look(now, totals(limit, plan));
        for second in &mut seconds {
            second.is_whole &= !is_blind;
        }
        if self.seat.is_none() {
            return self.learn(gateway, plan, seconds);
        }
        let decree = self.decree(limit);
        if let Some(seat) = &mut self.seat {
            seat.saw(seconds);
            seat.meet(decree);
        }
    }

    /// Shows seconds to all who learn. Who follows learns what is usual of the upstream, for when it has to decide.
    fn learn(&mut self, gateway: &Gateway, plan: &Plan, seconds: Vec<Second>) {
        let Some(limit) = self.limit(plan) else { return };
        let is_enforced = match counting(gateway, limit) {
            Counting::AsMeant => self.decides(),
            Counting::Nowhere => false,
            Counting::Apart => true,
        };
        let speaks = self.decides() || is_enforced;
        let accepts = |numbers: &LimitNumbers| Plan::check_numbers(&limit.settings, numbers, gateway.store());
        let (gauges, now) = (&gateway.adaptation.gauges, gateway.now());
        for second in seconds {
            let latency = Quantiles::of(&second, &self.bounds);
            let events = self.pilot.observe(&second, latency, is_enforced, &accepts);
            if let Some(event) = events.attack.as_ref().filter(|_| speaks) {
                telling::attack(gateway, now, event);
            }
            if let Some(made) = events.ceiling.filter(|_| speaks) {
                telling::decided(gateway, now, limit.name(), self.settings.mode, &made, Beside::default());
            }
            if !self.decides() {
                continue;
            }
            if let Some(error) = self.score.observe(&second) {
                gauges.error.set(rounded(error));
            }
            if second.is_whole {
                gauges.observed.set(figure(second.offered));
            }
            let clip = self.pilot.is_attacked().then(|| self.pilot.hard_ceiling());
            self.ledger.push(second, clip);
        }
        self.tell_ceiling(gateway);
    }

    fn tell_ceiling(&self, gateway: &Gateway) {
        let ceiling = self.pilot.measured_ceiling().unwrap_or_else(|| self.pilot.hard_ceiling());
        gateway.adaptation.gauges.ceiling.set(rounded(ceiling));
    }

    /// What those who share the limit shall follow; nothing where the operator's numbers are in force.
    fn decree(&self, limit: &Limit) -> Option<String> {
        if !self.decides() || self.settings.mode != AdaptiveMode::On {
            return None;
        }
        let decreed = self.pilot.decreed()?;
        Some(Decree::new(limit.operators_numbers(), decreed).text())
    }

    /// A meeting of those who share the limit is over.
    fn hear(&mut self, gateway: &Gateway, plan: &Plan, met: Result<Meeting, CouncilFault>) {
        let Some(limit) = self.limit(plan) else { return };
        let now = gateway.now();
        let Some(seat) = &mut self.seat else { return };
        let fault = met.as_ref().err().filter(|fault| !matches!(fault, CouncilFault::Away | CouncilFault::Unknown));
        if let Some(fault) = fault.filter(|fault| self.fault.as_ref() != Some(fault)) {
            gateway
                .log
                .warn(COMPONENT, format_args!("those who share the limit can't agree on who adapts it: {fault}"));
        }
        self.fault = fault.cloned();
        let heard = seat.hear(met, now);
        if heard.is_incomplete {
            let why = "a report can't be read, or a clock is off by more than a second";
            gateway.log.warn(COMPONENT, format_args!("for {PATIENCE} s now a gateway that shares the limit tells nothing that can be added up ({why}): nothing is forecast meanwhile"));
        }
        let (base, soft) = (limit.operators_numbers(), limit.settings.soft);
        let accepts = |numbers: &LimitNumbers| Plan::check_numbers(&limit.settings, numbers, gateway.store());
        let decreed = heard.overlay.and_then(|text| Decree::read(&text, base, soft));
        let decreed = decreed.and_then(|decreed| self.pilot.vetted(decreed, now, &accepts));
        gateway.adaptation.gauges.holder.store(self.decides(), Relaxed);
        match heard.turn {
            Turn::Same => {}
            Turn::Mine => {
                telling::turn(gateway, now, limit.name(), true);
                if decreed.is_some() {
                    self.next_ask = now;
                }
                self.pilot.take_over(decreed.clone(), base.clone(), soft, now);
                self.beside = Beside::default();
            }
            Turn::Others => {
                telling::turn(gateway, now, limit.name(), false);
                gateway.adaptation.gauges.begin();
                (self.beside, self.outage, self.score) = (Beside::default(), Outage::default(), Score::default());
            }
        }
        self.learn(gateway, plan, heard.seconds);
        // Who is left alone goes on from what it followed last. Who is not stands where all stand, whatever it has learnt just now.
        if !self.decides() && counting(gateway, limit) != Counting::Apart {
            self.pilot.follow(decreed, base.clone(), soft, now);
        }
        self.tell_ceiling(gateway);
    }

    fn ask_if_due(&mut self, gateway: &Arc<Gateway>, plan: &Plan, now: Timestamp) {
        if now < self.next_ask || !self.asked.is_empty() || !self.decides() {
            return;
        }
        let Some(limit) = self.limit(plan) else { return };
        let period = self.ledger.period();
        if !period.is_telling(now >= self.next_ask + self.settings.interval) {
            return;
        }
        self.next_ask = (self.next_ask + self.settings.interval).max(now);
        let interval_seconds = self.settings.interval.as_secs_f64();
        gateway.log.info(COMPONENT, format_args!("AI request sent (interval {interval_seconds} s)"));
        let snapshot = Snapshot {
            at: now,
            p95: period.sum.latency_quantile(0.95, &self.bounds),
            period: &period,
            in_force: &limit.settings.numbers,
            base: limit.operators_numbers(),
            source: &gateway.adaptation.source.of(&self.settings, limit),
            interval_seconds,
            ceiling: self.pilot.hard_ceiling(),
        };
        let (json, figures) = (snapshot.json(), snapshot.figures());
        let (settings, period_end, generation) = (Arc::clone(&self.settings), period.end(), self.generation);
        self.asked.spawn(async move {
            let answer = ask(&settings.forecaster, &json).await;
            Answered { at: now, period_end, generation, figures, answer }
        });
    }

    /// An answer has come, or none.
    fn take(&mut self, gateway: &Gateway, plan: &Plan, answered: Answered) {
        let read = answered.answer.and_then(|answer| match Recommendation::read(&answer) {
            Ok(read) => Ok((read, answer)),
            Err(why) => Err(Miss::Invalid(why)),
        });
        gateway.adaptation.gauges.asked(read.as_ref().err());
        let now = gateway.now();
        let (recommendation, answer) = match read {
            Ok(read) => read,
            Err(miss) => return self.outage.missed(gateway, now, &miss, self.settings.misses),
        };
        self.outage.is_over(gateway, now);
        self.ledger.told(answered.period_end);
        let Some(limit) = self.limit(plan).filter(|_| answered.generation == plan.generation && self.decides()) else {
            // It was made for other numbers of the operator's, or it is another gateway's turn now.
            return;
        };
        if let Some(predicted) = recommendation.predicted {
            gateway.adaptation.gauges.predicted.set(predicted);
            let valid_for = recommendation.valid_for.unwrap_or(self.settings.interval);
            self.score.expect(predicted, answered.at.as_nanos() / NANOS, valid_for);
        }
        let accepts = |numbers: &LimitNumbers| Plan::check_numbers(&limit.settings, numbers, gateway.store());
        let beside = Beside { observed: Some(answered.figures), recommendation: Some(as_received(&answer)) };
        match self.pilot.receive(recommendation, answered.at, &accepts) {
            Ok(()) => self.beside = beside,
            Err(why) => {
                let refused = self.pilot.refused(why);
                telling::decided(gateway, now, limit.name(), self.settings.mode, &refused, beside);
            }
        }
    }

    /// Does what is due, and puts the numbers in force that are to be.
    async fn put_in_force(&mut self, gateway: &Arc<Gateway>, plan: &Arc<Plan>) {
        let Some(limit) = self.limit(plan) else { return };
        let accepts = |numbers: &LimitNumbers| Plan::check_numbers(&limit.settings, numbers, gateway.store());
        let (now, counting) = (gateway.now(), counting(gateway, limit));
        if (self.decides() || counting == Counting::Apart)
            && let Some(made) = self.pilot.look(now, counting, &accepts)
        {
            let beside = std::mem::take(&mut self.beside);
            telling::decided(gateway, now, limit.name(), self.settings.mode, &made, beside);
        }
        let wanted = self.pilot.numbers(&accepts);
        let is_same = |other: &LimitNumbers| wanted.relevant() == other.relevant();
        if self.settings.mode != AdaptiveMode::On || counting == Counting::Nowhere || is_same(&limit.settings.numbers) {
            return;
        }
        let overlay = Overlay { limit: limit.name().to_owned(), numbers: wanted.clone() };
        let overlay = (!is_same(limit.operators_numbers())).then_some(overlay);
        match gateway.control.adapt(gateway, overlay, self.generation).await {
            Ok(()) => {
                self.unfit = None;
                let standing = self.pilot.standing();
                let is_news = self.followed.replace(standing.clone()) != Some(standing);
                // A ceiling that moves from second to second is told when it begins and ends.
                if is_news && !self.decides() && counting == Counting::AsMeant {
                    telling::followed(gateway, now, limit.name(), &limit.settings.numbers, &wanted);
                }
            }
            // The plan is another one: the next turn begins with it.
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

/// The end of a meeting, if one takes place.
async fn met(seat: Option<&mut Seat>) -> Result<Meeting, CouncilFault> {
    match seat {
        Some(seat) => seat.met().await,
        None => std::future::pending().await,
    }
}

/// The next border between two seconds.
fn border_after(now: Timestamp) -> Timestamp {
    Timestamp::from_nanos((now.as_nanos() / NANOS + 1).saturating_mul(NANOS))
}

fn counting(gateway: &Gateway, limit: &Limit) -> Counting {
    match gateway.store_state().filter(|store| store.is_down && matches!(limit.counts, Counts::Shared(_))) {
        None => Counting::AsMeant,
        Some(store) if store.mode == FailureMode::Local => Counting::Apart,
        Some(_) => Counting::Nowhere,
    }
}

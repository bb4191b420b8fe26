//! Adaptation: the numbers of one limit follow what a forecaster recommends, within bounds, and what the upstream can bear.
//!
//! `limit = min(measured ceiling, max(base, forecast))`: the forecaster does `max(base, forecast)`, this module all the rest.
//!
//! - What decides has no clock and talks to nobody: [`pilot`] puts together [`course`] (a recommendation through time), [`guard`] (what of it
//!   may happen), [`ceiling`] (what the upstream's latency and errors say) and [`attack`] (when nothing may be learnt).
//! - [`sampler`] makes seconds of counters, [`ledger`] keeps them, [`snapshot`] tells the forecaster of them, [`score`] judges its forecasts.
//! - [`driver`] is the edge: a task on the main runtime that looks at the counters each second, asks ([`asking`]), and puts in force what the
//!   pilot wants through [`Control::adapt`](crate::control::Control::adapt). No request ever waits for it.
//! - Of gateways that share the limit through Redis one decides, and the pilots of the others stand where it says: [`seat`] is a gateway's place in their council, [`assembly`] adds up
//!   what they report, [`decree`] is what they follow.

mod asking;
mod assembly;
mod attack;
mod autopilot;
mod ceiling;
mod counted;
mod course;
mod decree;
mod driver;
mod gauges;
mod guard;
mod history;
mod ledger;
mod outage;
mod pilot;
mod recommendation;
mod sampler;
mod score;
mod seat;
mod second;
mod snapshot;
mod source;
mod telling;

use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};
use tidegate_policy::Timestamp;
use tidegate_serve::Exposition;
use tokio::sync::Notify;

pub use autopilot::{Autopilot, Told};
pub(crate) use driver::run;

use crate::config::model::AdaptiveMode;
use crate::plan::Plan;
use gauges::Gauges;
use history::History;
pub(crate) use source::Source;

/// What others see of adaptation.
#[derive(Default)]
pub(crate) struct Adaptation {
    /// Another plan is in force.
    pub(crate) replanned: Notify,
    history: Mutex<History>,
    gauges: Gauges,
    source: Source,
}

impl Adaptation {
    pub(crate) fn new(source: Source) -> Self {
        Self { source, ..Self::default() }
    }

    fn record(&self, at: Timestamp, what: &str, fields: Map<String, Value>) {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).push(at, what, fields);
    }

    fn keep(&self, most: usize) {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).keep(most);
    }

    /// What happened, the newest last.
    pub(crate) fn history(&self, plan: &Plan) -> Value {
        let entries = self.history.lock().unwrap_or_else(PoisonError::into_inner).entries();
        let limit = plan.site.adaptive.as_ref().map(|adaptive| &*adaptive.limit);
        json!({ "mode": mode(plan).word(), "limit": limit, "entries": entries })
    }

    pub(crate) fn write(&self, plan: &Plan, page: &mut Exposition) {
        self.gauges.write(mode(plan), page);
    }
}

fn mode(plan: &Plan) -> AdaptiveMode {
    plan.site.adaptive.as_ref().map_or(AdaptiveMode::Off, |adaptive| adaptive.mode)
}

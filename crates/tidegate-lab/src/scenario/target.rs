//! What is protected: one target, or several behind one upstream.

use serde_json::Value;
use tidegate_input::object::{Allowed, Object, shown};
use tidegate_policy::endpoints::Weight;

use super::fault::Choice;
use super::gateway::is_name;
use crate::target::{Contention, ServiceTime};

/// What is protected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetModel {
    /// How long a request is served.
    pub service_time: ServiceTime,
    /// How many are served at once.
    pub workers: usize,
    /// How many may wait.
    pub queue: usize,
    /// How much slower it gets under load.
    pub contention: Contention,
    /// Its part of the requests, in proportion to the other targets.
    pub weight: Weight,
}

impl TargetModel {
    /// Requests a second that it can serve.
    pub fn capacity(&self) -> f64 {
        let time = self.contention.slowed(self.service_time.mean(), self.workers, self.workers);
        #[expect(clippy::cast_precision_loss, reason = "nobody has so many workers")]
        let workers = self.workers as f64;
        workers / time.as_secs_f64().max(1e-9)
    }
}

const FACTOR: Allowed = Allowed::new(0.0..=1_000.0, "a number");
/// The most targets of a scenario.
const MOST: usize = 100;

/// The targets of a scenario.
pub(super) struct Targets {
    pub(super) models: Vec<TargetModel>,
    /// Their names, where they have some.
    pub(super) names: Vec<String>,
    /// Whether they were written as `targets`, without names.
    pub(super) is_pool: bool,
}

impl Targets {
    /// How faults name one of them.
    pub(super) fn choice(&self) -> Choice<'_> {
        match (&self.names[..], self.is_pool) {
            ([], false) => Choice::None,
            ([], true) => Choice::Numbers(self.models.len()),
            (names, _) => Choice::Names(names),
        }
    }
}

/// Targets with names, for the gateway's own configuration.
pub(super) fn read_named(object: &mut Object<'_>) -> Option<Targets> {
    let written = match object.take("targets") {
        Some(Value::Object(written)) if (1..=MOST).contains(&written.len()) => written,
        other => {
            let found = other.as_ref().map_or_else(|| "nothing".to_owned(), shown);
            let message = "must be an object of targets by name, such as {shop: {workers: 4}}, with `gateway`";
            object.wrong("targets", format!("{message}, got {found}"));
            return None;
        }
    };
    let (mut models, mut names, count) = (Vec::new(), Vec::new(), written.len());
    for (name, target) in written {
        let path = format!("targets.{name}");
        if !is_name(&name) {
            object.wrong(&path, "must have a name of `a-z`, `0-9` and `-`");
        }
        let target = Object::new(object.at(&path), target, object.problems);
        models.extend(target.and_then(|target| one(target, false)));
        names.push(name);
    }
    (models.len() == count).then_some(Targets { models, names, is_pool: false })
}

pub(super) fn read(object: &mut Object<'_>) -> Option<Targets> {
    // Both are fields that it may have, whichever is there.
    let (_, has_several) = (object.has("target"), object.has("targets"));
    if !has_several {
        let Some(target) = object.object("target") else {
            object.wrong("target", "is missing; may have `service_time`, `workers` and `queue`, or nothing: `{}`");
            return None;
        };
        return Some(Targets { models: vec![one(target, false)?], names: Vec::new(), is_pool: false });
    }
    let models = match object.take("targets") {
        Some(Value::Array(list)) => listed(object, list),
        Some(Value::Number(number)) => {
            let count = number.as_u64().and_then(|count| usize::try_from(count).ok());
            let count = count.filter(|count| (1..=MOST).contains(count));
            if count.is_none() {
                object.wrong("targets", format!("must be a whole number from 1 to {MOST}, got {number}"));
            }
            let model = match object.take("target") {
                Some(target) => Object::new("target", target, object.problems),
                None => Object::new("targets", serde_json::json!({}), object.problems),
            };
            count.zip(model.and_then(|model| one(model, false))).map(|(count, model)| vec![model; count])
        }
        other => {
            let found = other.as_ref().map(shown).unwrap_or_default();
            object.wrong("targets", format!("must be a number of targets or a list of them, got {found}"));
            None
        }
    };
    models.map(|models| Targets { models, names: Vec::new(), is_pool: true })
}

fn listed(object: &mut Object<'_>, list: Vec<Value>) -> Option<Vec<TargetModel>> {
    if object.take("target").is_some() {
        object.wrong("target", "must be left out with a list of `targets`");
    }
    let count = list.len();
    if !(1..=MOST).contains(&count) {
        object.wrong("targets", format!("must have between 1 and {MOST} targets, got {count}"));
        return None;
    }
    let mut models = Vec::with_capacity(count);
    for (index, target) in list.into_iter().enumerate() {
        let target = Object::new(object.at(&format!("targets[{index}]")), target, object.problems);
        models.extend(target.and_then(|target| one(target, true)));
    }
    (models.len() == count).then_some(models)
}

fn one(mut target: Object<'_>, has_weight: bool) -> Option<TargetModel> {
    let service_time = service_time(&mut target);
    let workers = target.whole_or("workers", 1..=1_000, 4);
    let queue = target.whole_or("queue", 0..=100_000, 64);
    let factor = target.number_or("contention", &FACTOR, 0.0);
    let weight = if has_weight { target.whole_or("weight", 0..=u64::from(Weight::MAX.get()), 1) } else { Some(1) };
    target.end();
    Some(TargetModel {
        service_time: service_time?,
        workers: usize::try_from(workers?).ok()?,
        queue: usize::try_from(queue?).ok()?,
        contention: Contention { factor: factor? },
        weight: Weight::new(u32::try_from(weight?).ok()?)?,
    })
}

fn service_time(target: &mut Object<'_>) -> Option<ServiceTime> {
    let read = match target.take("service_time") {
        None => "5ms".parse(),
        Some(Value::String(text)) => text.parse(),
        Some(other) => {
            let reason = format!("must be a text with a unit, such as 10ms, got {}", shown(&other));
            target.wrong("service_time", reason);
            return None;
        }
    };
    let read: Result<ServiceTime, _> = read;
    read.map_err(|error| target.wrong("service_time", error.to_string())).ok()
}

//! What goes wrong in a run, and when.

use std::time::Duration;

use serde_json::Value;
use tidegate_input::object::{Allowed, Object};

use crate::target::Faults;

/// Something that goes wrong for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// From the start of the load.
    pub at: Duration,
    /// When it ends.
    pub until: Duration,
    /// What it is.
    pub kind: FaultKind,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// Redis is killed, and started again at the end.
    RedisKilled,
    /// Redis responds so much later.
    RedisSlow(Duration),
    /// Redis responds to nobody, and its connections stay open.
    RedisHangs,
    /// The forecaster is killed, and started again at the end.
    ForecasterKilled,
    /// The target has these faults.
    Target(Faults),
    /// The gateway's requests take so much longer.
    GatewaySlow(Duration),
}

const AT: Allowed = Allowed::new(0.0..=86_400.0, "seconds");
const FOR: Allowed = Allowed::new(0.1..=86_400.0, "seconds");
const DELAY: Allowed = Allowed::new(0.001..=60.0, "seconds");
const KINDS: &str = "must be one of redis_killed, redis_slow, redis_hangs, forecaster_killed, target, gateway_slow";
/// The most faults of a scenario.
const MOST: usize = 100;

impl FaultKind {
    /// Its name in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::RedisKilled => "redis_killed",
            Self::RedisSlow(_) => "redis_slow",
            Self::RedisHangs => "redis_hangs",
            Self::ForecasterKilled => "forecaster_killed",
            Self::Target(_) => "target",
            Self::GatewaySlow(_) => "gateway_slow",
        }
    }

    /// Its beginning or its end, for people.
    pub fn event(self, begins: bool) -> String {
        let label = self.label();
        match (self, begins) {
            (Self::RedisKilled | Self::RedisHangs | Self::ForecasterKilled, true) => label,
            (Self::RedisHangs, false) => "Redis responds again".to_owned(),
            (Self::RedisKilled, false) => "Redis started again".to_owned(),
            (Self::ForecasterKilled, false) => "forecaster started again".to_owned(),
            (Self::RedisSlow(_) | Self::GatewaySlow(_) | Self::Target(_), true) => format!("{label}: begins"),
            (Self::RedisSlow(_) | Self::GatewaySlow(_) | Self::Target(_), false) => format!("{label}: ends"),
        }
    }

    /// For people.
    pub fn label(self) -> String {
        match self {
            Self::RedisKilled => "Redis killed".to_owned(),
            Self::RedisSlow(delay) => format!("Redis slow by {} ms", delay.as_millis()),
            Self::RedisHangs => "Redis hangs".to_owned(),
            Self::ForecasterKilled => "forecaster killed".to_owned(),
            Self::Target(faults) => {
                let on: Vec<&str> =
                    faults.each().into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect();
                format!("target: {}", on.join(", "))
            }
            Self::GatewaySlow(delay) => format!("gateway slow by {} ms", delay.as_millis()),
        }
    }

    /// Whether limits that are kept in Redis suffer from it.
    pub fn is_of_redis(self) -> bool {
        matches!(self, Self::RedisKilled | Self::RedisSlow(_) | Self::RedisHangs)
    }
}

/// Reads all of them; how long the load lasts, if that is known.
pub(super) fn read(object: &mut Object<'_>, duration: Option<Duration>) -> Option<Vec<Fault>> {
    let duration = duration.map_or(f64::INFINITY, |duration| duration.as_secs_f64());
    let written = object.list("faults", MOST).unwrap_or_default();
    let mut faults = Vec::new();
    let count = written.len();
    for (index, fault) in written.into_iter().enumerate() {
        faults.extend(
            Object::new(object.at(&format!("faults[{index}]")), fault, object.problems)
                .and_then(|fault| one(fault, duration)),
        );
    }
    for (index, fault) in faults.iter().enumerate() {
        if let Some(other) = faults[..index].iter().position(|other| fault.overlaps(other)) {
            object.wrong(
                &format!("faults[{index}]"),
                format!("must begin after the end of faults[{other}], which is of the same kind"),
            );
        }
    }
    (faults.len() == count).then_some(faults)
}

/// A gateway needs a moment to notice that Redis is back.
const NOTICE: Duration = Duration::from_secs(1);

impl Fault {
    /// Whether the end of one would end the other too.
    fn overlaps(&self, other: &Self) -> bool {
        let is_same = match (self.kind, other.kind) {
            (one, another) if one.is_of_redis() => another.is_of_redis(),
            (one, another) => one.name() == another.name(),
        };
        let notice = if self.kind.is_of_redis() { NOTICE } else { Duration::ZERO };
        is_same && self.at < other.until + notice && other.at < self.until + notice
    }
}

fn one(mut fault: Object<'_>, duration: f64) -> Option<Fault> {
    let (at, lasts) = (fault.number("at", &AT), fault.number("for", &FOR));
    let delay = if fault.has("delay") { fault.number("delay", &DELAY) } else { None };
    let what = fault.text("what");
    let with = fault.take("with");
    let kind = match what.as_deref() {
        Some("redis_killed") => Some(FaultKind::RedisKilled),
        Some("redis_hangs") => Some(FaultKind::RedisHangs),
        Some("forecaster_killed") => Some(FaultKind::ForecasterKilled),
        Some("redis_slow") => needed(&mut fault, delay).map(FaultKind::RedisSlow),
        Some("gateway_slow") => needed(&mut fault, delay).map(FaultKind::GatewaySlow),
        Some("target") => of_target(&mut fault, with.as_ref()),
        Some(other) => {
            fault.wrong("what", format!("{KINDS}, got {other:?}"));
            None
        }
        None => {
            fault.wrong("what", format!("is missing; {KINDS}"));
            None
        }
    };
    let (at, lasts) = (at?, lasts?);
    if at >= duration {
        fault.wrong("at", format!("must be before the end of the load, got {at}"));
    }
    fault.end();
    let until = Duration::try_from_secs_f64((at + lasts).min(duration)).ok()?;
    Some(Fault { at: Duration::from_secs_f64(at), until, kind: kind? })
}

fn needed(fault: &mut Object<'_>, delay: Option<f64>) -> Option<Duration> {
    if delay.is_none() {
        fault.wrong("delay", "is missing; must be the delay in seconds");
    }
    delay.map(Duration::from_secs_f64)
}

fn of_target(fault: &mut Object<'_>, with: Option<&Value>) -> Option<FaultKind> {
    let text = with.map(ToString::to_string).unwrap_or_default();
    match Faults::read(text.as_bytes()) {
        Ok((faults, None)) if faults.are_on() => Some(FaultKind::Target(faults)),
        Ok(_) => {
            fault.wrong("with", "must switch a fault on, with the fields of POST /faults except `for`");
            None
        }
        Err(problems) => {
            for problem in problems {
                fault.wrong(&format!("with.{}", problem.path), problem.message);
            }
            None
        }
    }
}

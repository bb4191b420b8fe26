//! What goes wrong in a run, and when.

use std::time::Duration;

use serde_json::Value;
use tidegate_input::object::{Allowed, Object, shown};

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
    /// The target with this index refuses connections, and has lost those that it had. It is started again at the end.
    Kill(usize),
    /// The target with this index accepts connections and requests, and does not respond until the end.
    Freeze(usize),
    /// Services of the target with this index take so many times as long.
    Slow(usize, f64),
}

const AT: Allowed = Allowed::new(0.0..=86_400.0, "seconds");
const FOR: Allowed = Allowed::new(0.1..=86_400.0, "seconds");
const DELAY: Allowed = Allowed::new(0.001..=60.0, "seconds");
const FACTOR: Allowed = Allowed::new(1.0..=1_000.0, "a factor");
const KINDS: &str = "must be one of redis_killed, redis_slow, redis_hangs, forecaster_killed, target, gateway_slow, \
                     kill, freeze, slow";
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
            Self::Kill(_) => "kill",
            Self::Freeze(_) => "freeze",
            Self::Slow(..) => "slow",
        }
    }

    /// Its beginning or its end, for people.
    pub fn event(self, begins: bool) -> String {
        let label = self.label();
        match (self, begins) {
            (Self::RedisKilled | Self::RedisHangs | Self::ForecasterKilled | Self::Kill(_) | Self::Freeze(_), true) => {
                label
            }
            (Self::Kill(index), false) => format!("target {} started again", index + 1),
            (Self::Freeze(index), false) => format!("target {} responds again", index + 1),
            (Self::RedisHangs, false) => "Redis responds again".to_owned(),
            (Self::RedisKilled, false) => "Redis started again".to_owned(),
            (Self::ForecasterKilled, false) => "forecaster started again".to_owned(),
            (Self::RedisSlow(_) | Self::GatewaySlow(_) | Self::Target(_) | Self::Slow(..), true) => {
                format!("{label}: begins")
            }
            (Self::RedisSlow(_) | Self::GatewaySlow(_) | Self::Target(_) | Self::Slow(..), false) => {
                format!("{label}: ends")
            }
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
            Self::Kill(index) => format!("target {} killed", index + 1),
            Self::Freeze(index) => format!("target {} frozen", index + 1),
            Self::Slow(index, factor) => format!("target {} slow, times {factor}", index + 1),
        }
    }

    /// The index of the only target that suffers from it, if there is one.
    pub fn target(self) -> Option<usize> {
        match self {
            Self::Kill(index) | Self::Freeze(index) | Self::Slow(index, _) => Some(index),
            Self::RedisKilled
            | Self::RedisSlow(_)
            | Self::RedisHangs
            | Self::ForecasterKilled
            | Self::Target(_)
            | Self::GatewaySlow(_) => None,
        }
    }

    /// Whether limits that are kept in Redis suffer from it.
    pub fn is_of_redis(self) -> bool {
        matches!(self, Self::RedisKilled | Self::RedisSlow(_) | Self::RedisHangs)
    }
}

/// Reads all of them; how long the load lasts, if that is known, and how many targets there are, if they are written as
/// `targets`.
pub(super) fn read(object: &mut Object<'_>, duration: Option<Duration>, pool: Option<usize>) -> Option<Vec<Fault>> {
    let duration = duration.map_or(f64::INFINITY, |duration| duration.as_secs_f64());
    let written = object.list("faults", MOST).unwrap_or_default();
    let mut faults = Vec::new();
    let count = written.len();
    for (index, fault) in written.into_iter().enumerate() {
        faults.extend(
            Object::new(object.at(&format!("faults[{index}]")), fault, object.problems)
                .and_then(|fault| one(fault, duration, pool)),
        );
    }
    for (index, fault) in faults.iter().enumerate() {
        if let Some(other) = faults[..index].iter().position(|other| fault.overlaps(other)) {
            object.wrong(
                &format!("faults[{index}]"),
                format!("must begin after the end of faults[{other}], which is of the same kind or target"),
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
            // The switch for the faults of all targets is that of each.
            (FaultKind::Target(_), FaultKind::Slow(..)) | (FaultKind::Slow(..), FaultKind::Target(_)) => true,
            (one, another) if one.is_of_redis() => another.is_of_redis(),
            (one, another) if one.target().is_some() => one.target() == another.target(),
            (one, another) => one.name() == another.name(),
        };
        let notice = if self.kind.is_of_redis() { NOTICE } else { Duration::ZERO };
        is_same && self.at < other.until + notice && other.at < self.until + notice
    }
}

fn one(mut fault: Object<'_>, duration: f64, pool: Option<usize>) -> Option<Fault> {
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
        Some("kill") => index(&mut fault, pool).map(FaultKind::Kill),
        Some("freeze") => index(&mut fault, pool).map(FaultKind::Freeze),
        Some("slow") => {
            let factor = fault.number("factor", &FACTOR);
            index(&mut fault, pool).zip(factor).map(|(index, factor)| FaultKind::Slow(index, factor))
        }
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

/// The index of the target that a fault names by its number.
fn index(fault: &mut Object<'_>, pool: Option<usize>) -> Option<usize> {
    let Some(count) = pool else {
        // Taken, so that only this is reported.
        fault.take("target");
        fault.wrong("what", "needs `targets`: it is a fault of one of several");
        return None;
    };
    let expected = format!("must be the number of a target, from 1 to {count}");
    let Some(written) = fault.take("target") else {
        fault.wrong("target", format!("is missing; {expected}"));
        return None;
    };
    let number = written.as_u64().and_then(|number| usize::try_from(number).ok());
    let number = number.filter(|number| (1..=count).contains(number));
    if number.is_none() {
        fault.wrong("target", format!("{expected}, got {}", shown(&written)));
    }
    number.map(|number| number - 1)
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

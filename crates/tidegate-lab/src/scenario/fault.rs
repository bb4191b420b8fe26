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
    /// All targets have these faults.
    Target(Faults),
    /// The target with this index has these faults.
    Faulty(usize, Faults),
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
            Self::Target(_) | Self::Faulty(..) => "target",
            Self::GatewaySlow(_) => "gateway_slow",
            Self::Kill(_) => "kill",
            Self::Freeze(_) => "freeze",
            Self::Slow(..) => "slow",
        }
    }

    /// Its beginning or its end, for people. `names` are those of targets, where they have some.
    pub fn event(self, begins: bool, names: &[String]) -> String {
        let label = self.label(names);
        match (self, begins) {
            (Self::RedisKilled | Self::RedisHangs | Self::ForecasterKilled | Self::Kill(_) | Self::Freeze(_), true) => {
                label
            }
            (Self::Kill(index), false) => format!("{} started again", target_name(names, index)),
            (Self::Freeze(index), false) => format!("{} responds again", target_name(names, index)),
            (Self::RedisHangs, false) => "Redis responds again".to_owned(),
            (Self::RedisKilled, false) => "Redis started again".to_owned(),
            (Self::ForecasterKilled, false) => "forecaster started again".to_owned(),
            (Self::RedisSlow(_) | Self::GatewaySlow(_) | Self::Target(_) | Self::Faulty(..) | Self::Slow(..), true) => {
                format!("{label}: begins")
            }
            (
                Self::RedisSlow(_) | Self::GatewaySlow(_) | Self::Target(_) | Self::Faulty(..) | Self::Slow(..),
                false,
            ) => {
                format!("{label}: ends")
            }
        }
    }

    /// For people. `names` are those of targets, where they have some.
    pub fn label(self, names: &[String]) -> String {
        match self {
            Self::RedisKilled => "Redis killed".to_owned(),
            Self::RedisSlow(delay) => format!("Redis slow by {} ms", delay.as_millis()),
            Self::RedisHangs => "Redis hangs".to_owned(),
            Self::ForecasterKilled => "forecaster killed".to_owned(),
            Self::Target(faults) => format!("target: {}", switched_on(&faults)),
            Self::Faulty(index, faults) => format!("{}: {}", target_name(names, index), switched_on(&faults)),
            Self::GatewaySlow(delay) => format!("gateway slow by {} ms", delay.as_millis()),
            Self::Kill(index) => format!("{} killed", target_name(names, index)),
            Self::Freeze(index) => format!("{} frozen", target_name(names, index)),
            Self::Slow(index, factor) => format!("{} slow, times {factor}", target_name(names, index)),
        }
    }

    /// The index of the only target that suffers from it, if there is one.
    pub fn target(self) -> Option<usize> {
        match self {
            Self::Kill(index) | Self::Freeze(index) | Self::Slow(index, _) | Self::Faulty(index, _) => Some(index),
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

/// The name of a target; its number where it has none.
pub(crate) fn target_name(names: &[String], index: usize) -> String {
    names.get(index).cloned().unwrap_or_else(|| format!("target {}", index + 1))
}

fn switched_on(faults: &Faults) -> String {
    let on: Vec<&str> = faults.each().into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect();
    on.join(", ")
}

/// The targets that faults can name.
#[derive(Clone, Copy)]
pub(super) enum Choice<'a> {
    /// There is only one.
    None,
    /// By their numbers, up to this one.
    Numbers(usize),
    Names(&'a [String]),
}

/// Reads all of them; how long the load lasts, if that is known, and the targets that they can name.
pub(super) fn read(object: &mut Object<'_>, duration: Option<Duration>, choice: Choice<'_>) -> Option<Vec<Fault>> {
    let duration = duration.map_or(f64::INFINITY, |duration| duration.as_secs_f64());
    let written = object.list("faults", MOST).unwrap_or_default();
    let mut faults = Vec::new();
    let count = written.len();
    for (index, fault) in written.into_iter().enumerate() {
        faults.extend(
            Object::new(object.at(&format!("faults[{index}]")), fault, object.problems)
                .and_then(|fault| one(fault, duration, choice)),
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
            (FaultKind::Target(_), FaultKind::Slow(..) | FaultKind::Faulty(..))
            | (FaultKind::Slow(..) | FaultKind::Faulty(..), FaultKind::Target(_)) => true,
            (one, another) if one.is_of_redis() => another.is_of_redis(),
            (one, another) if one.target().is_some() => one.target() == another.target(),
            (one, another) => one.name() == another.name(),
        };
        let notice = if self.kind.is_of_redis() { NOTICE } else { Duration::ZERO };
        is_same && self.at < other.until + notice && other.at < self.until + notice
    }
}

fn one(mut fault: Object<'_>, duration: f64, choice: Choice<'_>) -> Option<Fault> {
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
        Some("target") if fault.has("target") => {
            let faults = switched(&mut fault, with.as_ref());
            index(&mut fault, choice).zip(faults).map(|(index, faults)| FaultKind::Faulty(index, faults))
        }
        Some("target") => switched(&mut fault, with.as_ref()).map(FaultKind::Target),
        Some("kill") => index(&mut fault, choice).map(FaultKind::Kill),
        Some("freeze") => index(&mut fault, choice).map(FaultKind::Freeze),
        Some("slow") => {
            let factor = fault.number("factor", &FACTOR);
            index(&mut fault, choice).zip(factor).map(|(index, factor)| FaultKind::Slow(index, factor))
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

/// The index of the target that a fault names.
fn index(fault: &mut Object<'_>, choice: Choice<'_>) -> Option<usize> {
    let expected = match choice {
        Choice::None => {
            // Taken, so that only this is reported.
            fault.take("target");
            fault.wrong("what", "needs `targets`: it is a fault of one of several");
            return None;
        }
        Choice::Numbers(count) => format!("must be the number of a target, from 1 to {count}"),
        Choice::Names(names) => format!("must be the name of a target: {}", names.join(", ")),
    };
    let Some(written) = fault.take("target") else {
        fault.wrong("target", format!("is missing; {expected}"));
        return None;
    };
    let index = match choice {
        Choice::Names(names) => names.iter().position(|name| written.as_str() == Some(name)),
        Choice::Numbers(count) => {
            let number = written.as_u64().and_then(|number| usize::try_from(number).ok());
            number.filter(|number| (1..=count).contains(number)).map(|number| number - 1)
        }
        Choice::None => None,
    };
    if index.is_none() {
        fault.wrong("target", format!("{expected}, got {}", shown(&written)));
    }
    index
}

fn needed(fault: &mut Object<'_>, delay: Option<f64>) -> Option<Duration> {
    if delay.is_none() {
        fault.wrong("delay", "is missing; must be the delay in seconds");
    }
    delay.map(Duration::from_secs_f64)
}

/// The faults of a target that are switched on.
fn switched(fault: &mut Object<'_>, with: Option<&Value>) -> Option<Faults> {
    let text = with.map(ToString::to_string).unwrap_or_default();
    match Faults::read(text.as_bytes()) {
        Ok((faults, None)) if faults.are_on() => Some(faults),
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

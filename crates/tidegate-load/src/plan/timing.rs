//! When requests are due, as plans write it.

use std::time::Duration;

use serde_json::Value;
use tidegate_input::object::Object;

use super::Times;
use super::profiles::{self, LONGEST, Read, SOME_TIME};
use crate::profile::Profile;
use crate::schedule::Arrivals;

const PROFILE: &str = "is missing; must be an object with `type` and `params`";

/// One profile for the whole duration, or phases with one each.
pub(super) fn read(plan: &mut Object<'_>, seed: u64) -> Option<(&'static str, Duration, Times)> {
    let is_random = match plan.text("arrivals").as_deref() {
        None => None,
        Some("even") => Some(false),
        Some("poisson") => Some(true),
        Some(other) => {
            // The rest is read all the same: what is wrong with it is reported too.
            plan.wrong("arrivals", format!("must be `even` or `poisson`, got {other:?}"));
            None
        }
    };
    let arrivals = |kind: &str| {
        if is_random.unwrap_or(kind == "poisson") { Arrivals::Poisson { seed } } else { Arrivals::Even }
    };
    if plan.has("phases") {
        for field in ["profile", "duration"] {
            if plan.take(field).is_some() {
                plan.wrong(field, "must not be set beside `phases`: each of them has its own");
            }
        }
        let phases = plan.list("phases", 1_000)?;
        let (profile, kinds) = phased(plan, phases, seed)?;
        let duration = profile.length();
        let poisson = kinds.iter().filter(|kind| **kind == "poisson").count();
        if is_random.is_none() && poisson > 0 && poisson < kinds.len() {
            plan.wrong(
                "arrivals",
                "is missing; must be `even` or `poisson` where only some phases are of type `poisson`",
            );
        }
        if duration.as_secs_f64() > LONGEST {
            plan.wrong("phases", format!("must last at most {LONGEST} s together, got {} s", duration.as_secs_f64()));
        }
        return Some(("phases", duration, Times::Rate(profile, arrivals(kinds[0]))));
    }
    let duration = plan.number("duration", &SOME_TIME);
    let profile = profile_of(plan);
    // Known, though it is not there.
    plan.take("phases");
    // What is wrong with the profile is reported even if the duration is wrong too.
    let (kind, read) = profiles::read(profile?, duration.unwrap_or(1.0), seed)?;
    let duration = Duration::from_secs_f64(duration?);
    let times = match read {
        Read::Shapes(shapes) => Times::Rate(Profile::sequence(shapes), arrivals(kind)),
        Read::Times(times) => Times::Recorded(times.into()),
    };
    Some((kind, duration, times))
}

/// None is a problem that has been reported.
fn profile_of<'a>(holder: &mut Object<'a>) -> Option<Object<'a>> {
    if !holder.has("profile") {
        holder.wrong("profile", PROFILE);
    }
    holder.object("profile")
}

/// What they are together, and the type of each.
fn phased(plan: &Object<'_>, phases: Vec<Value>, seed: u64) -> Option<(Profile, Vec<&'static str>)> {
    if phases.is_empty() {
        plan.wrong("phases", "must be a list of objects with `duration` and `profile`, got an empty one");
        return None;
    }
    let (mut shapes, mut kinds, mut is_good) = (Vec::new(), Vec::new(), true);
    for (index, phase) in phases.into_iter().enumerate() {
        let Some(mut phase) = Object::new(format!("phases[{index}]"), phase, plan.problems) else {
            is_good = false;
            continue;
        };
        let duration = phase.number("duration", &SOME_TIME);
        let profile = profile_of(&mut phase);
        // Each phase draws its own chances.
        let seed = seed.wrapping_add(index as u64);
        match profile.and_then(|profile| profiles::read(profile, duration.unwrap_or(1.0), seed)) {
            Some((kind, Read::Shapes(more))) if duration.is_some() => {
                shapes.extend(more);
                kinds.push(kind);
            }
            Some((_, Read::Times(_))) => {
                phase.wrong("profile", "is of recorded times, which can't be a phase; `rates` can");
                is_good = false;
            }
            None | Some((_, Read::Shapes(_))) => is_good = false,
        }
        phase.end();
    }
    is_good.then(|| (Profile::sequence(shapes), kinds))
}

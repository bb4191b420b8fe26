//! Profiles as plans write them: a type and its numbers.

use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;

use crate::profile::Shape;
use tidegate_input::object::{Allowed, Object, shown};

/// More than any machine sends.
const HIGHEST_RATE: f64 = 10_000_000.0;
/// The longest test, in seconds.
pub(super) const LONGEST: f64 = 604_800.0;
/// The most pieces that a profile may consist of.
const MOST_PIECES: usize = 1_000_000;

const RATE: Allowed = Allowed::new(0.0..=HIGHEST_RATE, "requests a second");
pub(crate) const SOME_RATE: Allowed = Allowed::new(1e-6..=HIGHEST_RATE, "requests a second");
const TIME: Allowed = Allowed::new(0.0..=LONGEST, "seconds");
pub(super) const SOME_TIME: Allowed = Allowed::new(1e-3..=LONGEST, "seconds");
const SCALE: Allowed = Allowed::new(1e-6..=1e6, "a factor");

/// The types of profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileType {
    /// The same rate all the time.
    Constant,
    /// A base rate, and spikes at regular times.
    Burst,
    /// A wave.
    Sinusoidal,
    /// A rate on average, at random times.
    Poisson,
    /// Attacks at random times.
    Ddos,
    /// From one rate to another.
    Ramp,
    /// Rates one after the other.
    Steps,
    /// Recorded times or rates.
    Trace,
}

impl ProfileType {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Constant,
        Self::Burst,
        Self::Sinusoidal,
        Self::Poisson,
        Self::Ddos,
        Self::Ramp,
        Self::Steps,
        Self::Trace,
    ];

    /// Its name in plans.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Burst => "burst",
            Self::Sinusoidal => "sinusoidal",
            Self::Poisson => "poisson",
            Self::Ddos => "ddos",
            Self::Ramp => "ramp",
            Self::Steps => "steps",
            Self::Trace => "trace",
        }
    }

    /// The type that is called so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// A profile that has been read.
pub(super) enum Read {
    /// Shapes, one after the other.
    Shapes(Vec<(Shape, Duration)>),
    /// When each request is due, as it was recorded.
    Times(Vec<Duration>),
}

/// Reads a profile that lasts for `duration` seconds, and returns its type.
pub(super) fn read(mut profile: Object<'_>, duration: f64, seed: u64) -> Option<(&'static str, Read)> {
    let (has_kind, has_params) = (profile.has("type"), profile.has("params"));
    let kind = profile.text("type");
    let params = profile.object("params");
    let Some(known) = kind.as_deref().and_then(ProfileType::named) else {
        // A value of another type has been reported.
        if kind.is_some() || !has_kind {
            let types = ProfileType::ALL.map(ProfileType::name).join(", ");
            let reason = kind.map_or_else(
                || format!("is missing; must be one of {types}"),
                |kind| format!("must be one of {types}, got {kind:?}"),
            );
            profile.wrong("type", reason);
        }
        return None;
    };
    let Some(params) = params else {
        if !has_params {
            profile.wrong("params", format!("is missing; must have the numbers of `{}`", known.name()));
        }
        return None;
    };
    profile.end();
    let whole = |shape| Read::Shapes(vec![(shape, Duration::from_secs_f64(duration))]);
    let read = match known {
        ProfileType::Constant => constant(params, "rps").map(whole),
        ProfileType::Poisson => constant(params, "averageRps").map(whole),
        ProfileType::Burst => burst(params).map(whole),
        ProfileType::Sinusoidal => sine(params).map(whole),
        ProfileType::Ramp => ramp(params, duration).map(whole),
        ProfileType::Ddos => ddos(params, duration, seed).map(Read::Shapes),
        ProfileType::Steps => steps(params, duration).map(Read::Shapes),
        ProfileType::Trace => trace(params, duration),
    };
    read.map(|read| (known.name(), read))
}

fn constant(mut params: Object<'_>, field: &'static str) -> Option<Shape> {
    let rate = params.number(field, &SOME_RATE);
    params.end();
    Some(Shape::Constant { rate: rate? })
}

fn burst(mut params: Object<'_>) -> Option<Shape> {
    let (base, spike) = (params.number("baseRps", &RATE), params.number("spikeRps", &SOME_RATE));
    let spike_length = params.number("spikeDuration", &SOME_TIME);
    let period = params.number("spikePeriod", &SOME_TIME);
    not_above(&params, ("spikeDuration", spike_length), ("spikePeriod", period));
    params.end();
    Some(Shape::Burst { base: base?, spike: spike?, spike_length: spike_length?, period: period? })
}

fn sine(mut params: Object<'_>) -> Option<Shape> {
    let (least, most) = (params.number("minRps", &RATE), params.number("maxRps", &SOME_RATE));
    let period = params.number("period", &SOME_TIME);
    not_above(&params, ("minRps", least), ("maxRps", most));
    params.end();
    Some(Shape::Sine { least: least?, most: most?, period: period? })
}

fn ramp(mut params: Object<'_>, length: f64) -> Option<Shape> {
    let (from, to) = (params.number("fromRps", &RATE), params.number("toRps", &RATE));
    params.end();
    Some(Shape::Ramp { from: from?, to: to?, length })
}

fn not_above(params: &Object<'_>, (field, low): (&str, Option<f64>), (other, high): (&str, Option<f64>)) {
    if let (Some(low), Some(high)) = (low, high)
        && low > high
    {
        params.wrong(field, format!("must be at most `{other}` ({high}), got {low}"));
    }
}

/// Attacks of random height and length between random silences, all drawn from the seed before anything is sent.
fn ddos(mut params: Object<'_>, duration: f64, seed: u64) -> Option<Vec<(Shape, Duration)>> {
    let (least, most) = (params.number("minRps", &RATE), params.number("maxRps", &SOME_RATE));
    let longest = params.number("maxSpikeDuration", &SOME_TIME);
    let (short, long) = (params.number("minIdleTime", &TIME), params.number("maxIdleTime", &TIME));
    not_above(&params, ("minRps", least), ("maxRps", most));
    not_above(&params, ("minIdleTime", short), ("maxIdleTime", long));
    let (least, most, longest, short, long) = (least?, most?, longest?, short?, long?);
    let mut rng = Rng::with_seed(seed);
    // Never 0 itself: an attack has some length and some height.
    let mut share = || 1.0 - rng.f64();
    let (mut pieces, mut time) = (Vec::new(), 0.0);
    while time < duration {
        let idle = (short + (long - short) * share()).min(duration - time);
        let length = (longest * share()).min(duration - time - idle);
        let height = least + (most - least) * share();
        for (rate, length) in [(least, idle), (height, length)] {
            if length > 0.0 {
                pieces.push((Shape::Constant { rate }, Duration::from_secs_f64(length)));
            }
        }
        time += idle + length;
        if pieces.len() > MOST_PIECES {
            let reason = "and the idle times are so short that the test would have more than 500000 attacks";
            params.wrong("maxSpikeDuration", reason);
            return None;
        }
    }
    params.end();
    Some(pieces)
}

/// Rates that follow each other, each for its time; the last one stays to the end.
fn steps(mut params: Object<'_>, duration: f64) -> Option<Vec<(Shape, Duration)>> {
    let what = "must be a list of steps, each as {\"rps\": 50, \"duration\": 10}";
    let steps = if params.has("steps") { params.list("steps", MOST_PIECES)? } else { Vec::new() };
    let Some(last) = steps.len().checked_sub(1) else {
        params.wrong("steps", format!("is missing or empty; {what}"));
        return None;
    };
    let (mut pieces, mut left) = (Vec::new(), duration);
    for (index, step) in steps.into_iter().enumerate() {
        let mut step = Object::new(params.at(&format!("steps[{index}]")), step, params.problems)?;
        let rate = step.number("rps", &RATE);
        let length = step.number_or("duration", &SOME_TIME, LONGEST);
        if index < last && length == Some(LONGEST) {
            step.wrong("duration", "is missing; only the last step lasts to the end by itself");
        }
        step.end();
        let length = if index == last { left } else { length?.min(left) };
        left -= length;
        pieces.push((Shape::Constant { rate: rate? }, Duration::from_secs_f64(length)));
    }
    params.end();
    Some(pieces)
}

/// What was recorded: rates, each for a step of time, or the times of requests. A file has been read into the plan
/// before.
fn trace(mut params: Object<'_>, duration: f64) -> Option<Read> {
    if params.take("file").is_some() {
        let reason = "is only read for a plan in a file, on the command line; must be `rates` or `timestamps` here";
        params.wrong("file", reason);
        return None;
    }
    let scale = params.number_or("scale", &SCALE, 1.0);
    let step = params.number_or("step", &SOME_TIME, 1.0);
    match (params.has("rates"), params.has("timestamps")) {
        (true, true) => params.wrong("rates", "must not be set beside `timestamps`"),
        (false, false) => {
            let what = "is missing; must be set, or else `timestamps`: requests a second, each for `step` seconds, or \
                        the seconds of requests";
            params.wrong("rates", what);
        }
        _ => {}
    }
    let (rates, times) = (numbers(&mut params, "rates"), numbers(&mut params, "timestamps"));
    let read = match (rates, times) {
        (Some(rates), None) => {
            let (scale, step) = (scale?, step?);
            if let Some(index) = rates.iter().position(|rate| rate * scale > HIGHEST_RATE) {
                let rate = rates[index] * scale;
                params.wrong(
                    &format!("rates[{index}]"),
                    format!("must be at most 10000000 with its `scale`, got {rate}"),
                );
                return None;
            }
            let mut left = duration;
            let piece = |rate: f64| {
                let length = step.min(left);
                left -= length;
                (Shape::Constant { rate: rate * scale }, Duration::from_secs_f64(length))
            };
            Read::Shapes(rates.into_iter().map(piece).collect())
        }
        (None, Some(times)) => {
            if let Some(index) = times.windows(2).position(|pair| pair[0] > pair[1]) {
                params.wrong(&format!("timestamps[{}]", index + 1), "is before the one that it follows");
                return None;
            }
            let (first, scale) = (times.first().copied().unwrap_or_default(), scale?);
            // Scaled, they come so many times as fast.
            let due = times.iter().map(|time| (time - first) / scale).take_while(|due| *due < duration);
            Read::Times(due.map(Duration::from_secs_f64).collect())
        }
        // The reason has been reported.
        _ => return None,
    };
    params.end();
    Some(read)
}

fn numbers(params: &mut Object<'_>, field: &'static str) -> Option<Vec<f64>> {
    let values = params.list(field, MOST_PIECES)?;
    if values.is_empty() {
        params.wrong(field, "must be a list of numbers, got an empty one");
    }
    let number = |(index, value): (usize, &Value)| {
        let number = value.as_f64().filter(|number| (0.0..=1e12).contains(number));
        if number.is_none() {
            params.wrong(&format!("{field}[{index}]"), format!("must be a number from 0 on, got {}", shown(value)));
        }
        number
    };
    values.iter().enumerate().map(number).collect::<Option<Vec<f64>>>().filter(|numbers| !numbers.is_empty())
}

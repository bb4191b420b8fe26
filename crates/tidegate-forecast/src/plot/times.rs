//! Where an axis of times is labelled, and how.

use super::calendar::{Moment, month_start};

/// At most so many, and so few that a date and the next one have room beside each other.
const MOST: i64 = 10;
const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;
/// Up to days that people count in: they divide a minute, an hour or a day.
const STEPS: [i64; 21] = [
    1,
    2,
    5,
    10,
    15,
    30,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    5 * DAY,
    10 * DAY,
];
/// The same in months.
const MONTH_STEPS: [i64; 10] = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600];

/// A moment on the axis, and what stands under it: the time, and below that what has changed of the date.
pub(super) struct Tick {
    pub(super) second: i64,
    pub(super) label: String,
    pub(super) below: Option<String>,
}

/// Whole minutes, hours, days or months between two moments, as the calendar has them.
pub(super) fn dated(from: i64, to: i64) -> Vec<Tick> {
    let span = (to - from).max(1);
    let (seconds, form) = match STEPS.into_iter().find(|step| span / step < MOST) {
        Some(step) => (multiples(from, to, step), Form::of(step)),
        None => months(from, to),
    };
    let mut before: Option<Moment> = None;
    let tick = |second: i64| {
        let moment = Moment::new(second);
        let (label, below) = (form.label(&moment), form.below(&moment, before.as_ref()));
        before = Some(moment);
        Tick { second, label, below }
    };
    seconds.into_iter().map(tick).collect()
}

/// The same for seconds that are of no calendar: how long after the `origin`.
pub(super) fn elapsed(from: i64, to: i64, origin: i64) -> Vec<Tick> {
    let span = (to - from).max(1);
    let step = STEPS.into_iter().find(|step| span / step < MOST).unwrap_or((span / MOST / DAY + 1) * DAY);
    let tick = |(index, passed): (usize, i64)| Tick {
        second: origin + passed,
        label: length(passed, step),
        below: (index == 0).then(|| "since the start".to_owned()),
    };
    multiples(from - origin, to - origin, step).into_iter().enumerate().map(tick).collect()
}

fn multiples(from: i64, to: i64, step: i64) -> Vec<i64> {
    // Rounded up: the first that is not before.
    let first = from + (-from).rem_euclid(step);
    (0..=MOST).map(|number| first + number * step).filter(|second| *second <= to).collect()
}

fn months(from: i64, to: i64) -> (Vec<i64>, Form) {
    let (first, last) = (Moment::new(from).months(), Moment::new(to).months());
    let span = last - first;
    // Beyond decades: whole centuries.
    let step = MONTH_STEPS.into_iter().find(|step| span / step < MOST).unwrap_or((span / MOST / 1_200 + 1) * 1_200);
    let starts = multiples(first, last, step).into_iter().filter_map(month_start);
    (starts.filter(|second| (from..=to).contains(second)).collect(), if step < 12 { Form::Month } else { Form::Year })
}

/// In what the ticks differ.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Second,
    Minute,
    Day,
    Month,
    Year,
}

impl Form {
    fn of(step: i64) -> Self {
        match step {
            ..MINUTE => Self::Second,
            MINUTE..DAY => Self::Minute,
            _ => Self::Day,
        }
    }

    fn label(self, moment: &Moment) -> String {
        match self {
            Self::Second => moment.second(),
            Self::Minute => moment.minute(),
            Self::Day => moment.day(),
            Self::Month => moment.month().to_owned(),
            Self::Year => moment.year().to_string(),
        }
    }

    /// What the label does not say, under the first tick and where it changes. Only what has changed, for it needs less
    /// room.
    fn below(self, moment: &Moment, before: Option<&Moment>) -> Option<String> {
        let has_changed = |of: fn(&Moment) -> String| before.is_none_or(|before| of(before) != of(moment));
        let day = (matches!(self, Self::Second | Self::Minute) && has_changed(Moment::day)).then(|| moment.day());
        let year =
            (self != Self::Year && has_changed(|moment| moment.year().to_string())).then(|| moment.year().to_string());
        let zone = before.is_none().then(|| "UTC".to_owned());
        let parts: Vec<String> = [day, year, zone].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }
}

/// `0`, `1 min 30 s`, `2 h`, `26 h 30 min`, `1 d 12 h`: at most two units where the step allows it.
fn length(seconds: i64, step: i64) -> String {
    let units =
        if step % HOUR == 0 { [(DAY, "d"), (HOUR, "h")].as_slice() } else { &[(HOUR, "h"), (MINUTE, "min"), (1, "s")] };
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (unit, name) in units {
        if rest >= *unit {
            parts.push(format!("{} {name}", rest / unit));
            rest %= unit;
        }
    }
    if parts.is_empty() { "0".to_owned() } else { parts.join(" ") }
}

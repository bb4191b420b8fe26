//! Where an axis is labelled, and how.

use tidegate_serve::Utc;

/// About this many on an axis of values, and at most so many on one of times.
const VALUES: f64 = 4.5;
const TIMES: i64 = 11;

/// Round numbers from 0 to `top`: steps of 1, 2 or 5 times a power of ten.
pub(super) fn of_values(top: f64) -> Vec<f64> {
    let rough = top / VALUES;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|part| part * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    (0..=(top / step) as i32).map(|tick| f64::from(tick) * step).collect()
}

/// `0`, `0.5`, `200`, `1.5k`, `20M`
pub(super) fn value(value: f64) -> String {
    let (number, unit) = match value {
        _ if value >= 1e9 => (value / 1e9, "G"),
        _ if value >= 1e6 => (value / 1e6, "M"),
        _ if value >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{number:.6}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A moment on the axis of times, and what stands under it: the time or the day, and where that changes the day or the year.
pub(super) struct TimeTick {
    pub(super) second: i64,
    pub(super) label: String,
    pub(super) below: Option<String>,
}

/// Whole minutes, hours or days between two moments.
pub(super) fn of_times(from: i64, to: i64) -> Vec<TimeTick> {
    const STEPS: [i64; 26] = [
        1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800,
        432_000, 864_000, 1_728_000, 2_592_000, 7_776_000, 15_552_000, 31_536_000,
    ];
    let span = (to - from).max(1);
    let step = STEPS.into_iter().find(|step| span / step < TIMES).unwrap_or(span / TIMES + 1);
    let first = from.div_euclid(step) * step + if from.rem_euclid(step) > 0 { step } else { 0 };
    let mut before = String::new();
    let tick = |second: i64| {
        let (label, below) = labels(second, step);
        let is_new = below != before;
        before.clone_from(&below);
        TimeTick { second, label, below: is_new.then_some(below) }
    };
    (0..=span / step).map(|number| first + number * step).filter(|second| *second <= to).map(tick).collect()
}

fn labels(second: i64, step: i64) -> (String, String) {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    // 2026-01-19T16:30:00Z
    let text = Utc::from_unix(u64::try_from(second).unwrap_or(0)).with_seconds().to_string();
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let month = part(5, 7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
    let day = format!("{} {}", part(8, 10).trim_start_matches('0'), month.unwrap_or(&""));
    match step {
        ..60 => (part(11, 19).to_owned(), format!("{day} {} UTC", part(0, 4))),
        60..86_400 => (part(11, 16).to_owned(), format!("{day} {} UTC", part(0, 4))),
        _ => (day, format!("{} UTC", part(0, 4))),
    }
}

//! Where an axis of values is labelled, and how.

/// About this many.
const VALUES: f64 = 4.5;

/// Round numbers from 0 to `top`: steps of 1, 2 or 5 times a power of ten.
pub(super) fn of_values(top: f64) -> Vec<f64> {
    let rough = top / VALUES;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|part| part * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    (0..=(top / step) as i32).map(|tick| f64::from(tick) * step).collect()
}

/// `0`, `2e-6`, `0.5`, `200`, `15k`, `20M`
pub(super) fn value(value: f64) -> String {
    if value > 0.0 && value < 1e-3 {
        return format!("{value:.1e}").replace(".0e", "e");
    }
    let (number, unit) = match value {
        _ if value >= 1e9 => (value / 1e9, "G"),
        _ if value >= 1e6 => (value / 1e6, "M"),
        _ if value >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{number:.6}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

//! Numbers as people read them.

/// Shown for a figure that is not known.
pub(super) const NONE: &str = "–";

/// `1,234,567`
pub(super) fn count(number: usize) -> String {
    tidegate_input::grouped(number as u64)
}

/// `1 step`, `1,200 steps`
pub(super) fn counted(number: usize, what: &str) -> String {
    tidegate_input::counted(number as u64, what)
}

/// Three digits at least: `1,234`, `12.3`, `0.0123`; `4.56e-7` where zeros would hide them.
pub(super) fn figure(number: f64) -> String {
    let size = number.abs();
    match size {
        _ if !number.is_finite() => NONE.to_owned(),
        // What is left of sums that are nothing.
        ..1e-12 => "0".to_owned(),
        ..1e-3 => format!("{number:.2e}"),
        99.95.. => count(size.round() as usize),
        _ => format!("{number:.*}", usize::try_from(2 - size.log10().floor() as i32).unwrap_or(0)),
    }
}

/// A mean error in units of the series, if it has one.
pub(super) fn mase(mase: Option<f64>) -> String {
    mase.map_or_else(|| NONE.to_owned(), |mase| format!("{mase:.3}"))
}

/// `80 %`
pub(super) fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.0} %", 100.0 * share) } else { NONE.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_are_never_no_number() {
        for (number, text) in [
            (0.0, "0"),
            (1.6e-17, "0"),
            (0.000_000_456, "4.56e-7"),
            (0.0123, "0.0123"),
            (0.5, "0.500"),
            (1.0, "1.00"),
            (12.34, "12.3"),
            (99.94, "99.9"),
            (99.99, "100"),
            (1234.4, "1,234"),
            (337_074_148.0, "337,074,148"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(figure(number), text);
        }
        assert_eq!((percent(f64::NAN).as_str(), percent(0.805).as_str()), ("–", "80 %"));
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!(
            [0, 1, 2, 1_200].map(|number| counted(number, "step")),
            ["0 steps", "1 step", "2 steps", "1,200 steps"]
        );
    }
}

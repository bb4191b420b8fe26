//! Numbers as people read them.

/// `1,234,567`
pub(super) fn count(number: usize) -> String {
    tidegate_serve::grouped(number as u64)
}

/// Three digits at least: `1234`, `12.3`, `0.0123`.
pub(super) fn figure(number: f64) -> String {
    let digits = number.abs().max(1e-9).log10().floor() as i32;
    let decimals = usize::try_from((2 - digits).clamp(0, 6)).unwrap_or(0);
    format!("{number:.decimals$}")
}

/// `80 %`
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

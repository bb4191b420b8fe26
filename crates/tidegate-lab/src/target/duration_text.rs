use std::time::Duration;

/// Units by their names; the longer name first, where one ends like another.
const UNITS: [(&str, f64); 5] = [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];

/// Reads `5ms`, `1.5s`, `250us` or `0`.
pub(super) fn read(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (number, unit) = UNITS.into_iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    // What else Rust reads as a number, such as `inf` and `1e3`, nobody means here.
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let seconds = number.parse::<f64>().ok()? * unit;
    // To the nanosecond: 0.3 ms is 300,000 of them, and not one less.
    let nanos = (seconds * 1e9).round();
    (nanos < 1e18).then_some(Duration::from_nanos(nanos as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_unit() {
        for (text, nanos) in [
            ("0", 0),
            ("0ms", 0),
            ("5ms", 5_000_000),
            ("0.3ms", 300_000),
            ("1.5s", 1_500_000_000),
            ("250us", 250_000),
            ("250µs", 250_000),
            ("7ns", 7),
        ] {
            assert_eq!(read(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        for text in ["", "5", "ms", "-5ms", "+5ms", "5 ms", "5m", "infs", "nans", "1e3s", "1.2.3s", "99999999999s"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}

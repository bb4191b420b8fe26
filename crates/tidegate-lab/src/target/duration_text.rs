use std::time::Duration;

use tidegate_input::duration::SERVICE_TIME;

/// Reads `5ms`, `1.5s`, `250us` or `0`.
pub(super) fn read(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    // To the nanosecond: 0.3 ms is 300,000 of them, and not one less.
    let nanos = SERVICE_TIME.nanos(text, None)?.round();
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

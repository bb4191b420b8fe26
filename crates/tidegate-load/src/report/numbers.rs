//! Numbers as people read them.

use tidegate_input::grouped;

/// Counts stay far below where this is not exact.
#[expect(clippy::cast_precision_loss, reason = "counts are below 2⁵³")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

/// Seconds of microseconds.
pub(super) fn seconds(micros: u64) -> f64 {
    float(micros) / 1e6
}

/// `1,234.5`, or more digits of small ones.
pub(super) fn decimal(number: f64) -> String {
    let decimals = match number {
        _ if number >= 100.0 => 1,
        _ if number >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{number:.decimals$}");
    match text.split_once('.') {
        Some((whole, rest)) => format!("{}.{rest}", grouped(whole.parse().unwrap_or_default())),
        None => text,
    }
}

/// Three digits and a unit: `812 µs`, `12.3 ms`, `1.23 s`.
pub(super) fn time(seconds: f64) -> String {
    let (number, unit) = if seconds < 0.000_999_5 {
        (seconds * 1e6, "µs")
    } else if seconds < 0.999_5 {
        (seconds * 1e3, "ms")
    } else {
        (seconds, "s")
    };
    let decimals = match number {
        _ if unit == "µs" || number >= 99.95 => 0,
        _ if number >= 9.995 => 1,
        _ => 2,
    };
    format!("{number:.decimals$} {unit}")
}

/// `12.3 %`. What is not zero never reads as zero, and what is not all never as all.
pub(super) fn share(part: u64, all: u64) -> String {
    let percent = if all == 0 { 0.0 } else { float(part) / float(all) * 100.0 };
    if part > 0 && percent < 0.05 {
        "< 0.1 %".to_owned()
    } else if part < all && percent >= 99.95 {
        "> 99.9 %".to_owned()
    } else {
        format!("{percent:.1} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_read_them() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(grouped(number), text);
        }
        for (number, text) in
            [(0.0, "0.000"), (0.5, "0.500"), (12.345, "12.35"), (1_234.56, "1,234.6"), (99_999.96, "100,000.0")]
        {
            assert_eq!(decimal(number), text);
        }
        for (seconds, text) in [
            (0.000_001, "1 µs"),
            (0.000_999_4, "999 µs"),
            (0.000_999_6, "1.00 ms"),
            (0.001_234, "1.23 ms"),
            (0.009_996, "10.0 ms"),
            (0.012_34, "12.3 ms"),
            (0.099_96, "100 ms"),
            (0.999_6, "1.00 s"),
            (12.34, "12.3 s"),
            (3_600.0, "3600 s"),
        ] {
            assert_eq!(time(seconds), text, "{seconds}");
        }
        for (part, all, text) in [
            (0, 0, "0.0 %"),
            (0, 5, "0.0 %"),
            (1, 5, "20.0 %"),
            (1, 10_000, "< 0.1 %"),
            (9_999, 10_000, "> 99.9 %"),
            (5, 5, "100.0 %"),
        ] {
            assert_eq!(share(part, all), text);
        }
    }
}

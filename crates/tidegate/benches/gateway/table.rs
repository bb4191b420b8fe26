//! The figures, to look at.

use crate::rounds::{Round, Series};

/// Prints the medians of each series.
pub(crate) fn print(title: &str, series: &[Series]) {
    println!(
        "\n{title:<26} {:>8} {:>12} {:>6} {:>8} {:>8} {:>8} {:>8} {:>10}",
        "req/s", "CPU µs/req", "user", "system", "p50 ms", "p99 ms", "RSS MB", "core busy"
    );
    for one in series {
        println!(
            "  {:<24} {:>8.0} {:>12.2} {:>6.2} {:>8.2} {:>8.3} {:>8.3} {:>8.1} {:>8.0} %",
            one.name,
            one.median(|round| round.load.per_second),
            one.median(Round::cpu_us),
            one.median(|round| round.user_us),
            one.median(|round| round.system_us),
            one.median(|round| round.load.p50_ms),
            one.median(|round| round.load.p99_ms),
            one.median(|round| round.rss_mb),
            one.median(|round| round.busy) * 100.0,
        );
    }
}

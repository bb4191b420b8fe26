use std::time::Duration;

/// A duration in whole nanoseconds. All above 584 years are one.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds as the seconds that metrics are given in.
#[expect(clippy::cast_precision_loss, reason = "fifteen digits of a sum are enough for a chart")]
pub(crate) fn seconds(nanos: u128) -> f64 {
    nanos as f64 / 1e9
}

//! An adviser that gets a load in snapshots, in simulated time.

use tidegate_forecast::{Adviser, Forecaster, Found, Numbers, Offered, Policy, ProphetModel, Snapshot, Windowed};

/// What was expected at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// How many seconds of the load were over.
    pub(crate) at: usize,
    /// The highest second that is expected, as responses have it.
    pub(crate) predicted: f64,
    /// The highest of all that is recommended: what 19 of 20 highest seconds stay below, and limits now and later, but
    /// for what rounds them up.
    pub(crate) high: f64,
}

const START: i64 = 1_763_344_800;

/// An operator's limit that everything here exceeds.
const LIMIT: Numbers = Numbers::Window { algorithm: Windowed::Fixed, limit: 2, window: 1.0 };

/// The responses to snapshots of this load (requests of each second), one every `interval` seconds, as `tidegate
/// forecast serve` does.
pub(crate) fn expected(load: &[f64], interval: usize) -> Vec<Expected> {
    let mut responses = Vec::new();
    for (index, found) in found(load, interval, &LIMIT).into_iter().enumerate() {
        let limits = found.advice.schedule.iter().map(|step| &step.numbers).chain([&found.advice.numbers]);
        let limit = limits.map(Numbers::rate).fold(0.0, f64::max) - 1.0;
        let high = found.forecast.map_or(0.0, |forecast| forecast.highest(0.95)).max(limit);
        responses.push(Expected { at: (index + 1) * interval, predicted: found.advice.predicted, high });
    }
    responses
}

/// The same of any limit, in full.
pub(crate) fn found(load: &[f64], interval: usize, limit: &Numbers) -> Vec<Found> {
    let policy = Policy::default();
    let mut adviser = Adviser::new(policy, Forecaster::new(policy.settings()).with_slow(ProphetModel::default(), 30));
    let snapshot = |(index, seconds): (usize, &[f64])| {
        let begin = index * interval;
        adviser.advise(&Snapshot {
            timestamp: (START + (begin + interval) as i64) as f64,
            observed: seconds.iter().sum::<f64>() / interval as f64,
            rejected: 0.0,
            latency: Some(0.005),
            errors: 0.0,
            numbers: limit.clone(),
            base: limit.clone(),
            source: "default".to_owned(),
            interval: Some(interval as f64),
            ceiling: None,
            series: Some(Offered {
                start: START + begin as i64,
                values: seconds.iter().map(|value| Some(*value)).collect(),
            }),
        })
    };
    load.chunks_exact(interval).enumerate().map(snapshot).collect()
}

//! An adviser that is told a load in snapshots, in simulated time.

use tidegate_forecast::{Adviser, Forecaster, Numbers, Offered, Policy, ProphetModel, Snapshot, Windowed};

/// What was expected at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// How many seconds of the load were over.
    pub(crate) at: usize,
    /// The highest second that is expected, as it is answered.
    pub(crate) predicted: f64,
    /// Nine of ten times the highest second stays below this.
    pub(crate) high: f64,
}

const START: i64 = 1_763_344_800;

fn per_second(limit: u64) -> Numbers {
    Numbers::Window { algorithm: Windowed::Fixed, limit, window: 1.0 }
}

/// What is answered to snapshots of this load (requests of each second), one every `interval` seconds, as `tidegate forecast serve` does.
pub(crate) fn told(load: &[f64], interval: usize) -> Vec<Told> {
    let policy = Policy::default();
    let mut adviser = Adviser::new(policy, Forecaster::new(policy.settings()).with_slow(ProphetModel::default(), 30));
    let mut answers = Vec::new();
    for (place, seconds) in load.chunks_exact(interval).enumerate() {
        let begin = place * interval;
        let found = adviser.advise(&Snapshot {
            timestamp: (START + (begin + interval) as i64) as f64,
            observed: seconds.iter().sum::<f64>() / interval as f64,
            rejected: 0.0,
            latency: Some(0.005),
            errors: 0.0,
            numbers: per_second(1_000),
            base: per_second(1_000),
            source: "default".to_owned(),
            interval: Some(interval as f64),
            ceiling: None,
            series: Some(Offered {
                start: START + begin as i64,
                values: seconds.iter().map(|value| Some(*value)).collect(),
            }),
        });
        let high = found.forecast.map_or(0.0, |forecast| forecast.highest(0.9));
        answers.push(Told { at: begin + interval, predicted: found.advice.predicted, high });
    }
    answers
}

//! What the gateway held, second by second.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::rounds::median;
use crate::usage::{self, Cpu, Holdings};

#[derive(Clone, Copy)]
struct Sample {
    seconds: f64,
    holdings: Holdings,
    /// How much of its core it used since the last sample …
    busy: f64,
    /// … and how long the slowest response took.
    slowest: Duration,
}

pub(crate) struct Samples {
    gateway: u32,
    start: Instant,
    /// The CPU time it had used at the last sample, and when that was.
    last: (Cpu, Instant),
    taken: Vec<Sample>,
}

/// A figure at the beginning and at the end of a run.
pub(crate) struct Course {
    /// The median of the second tenth: the first one is for warming up.
    pub(crate) early: f64,
    /// The median of the last tenth.
    pub(crate) late: f64,
    /// How much it rose from the one to the other, by least squares over all that is between.
    pub(crate) trend: f64,
}

impl Samples {
    pub(crate) fn begin(gateway: u32) -> Self {
        let now = Instant::now();
        Self { gateway, start: now, last: (usage::cpu(gateway), now), taken: Vec::new() }
    }

    pub(crate) fn take(&mut self, slowest: Duration) {
        let (cpu, now, (cpu_before, before)) = (usage::cpu(self.gateway), Instant::now(), self.last);
        let used = cpu - cpu_before;
        self.taken.push(Sample {
            seconds: (now - self.start).as_secs_f64(),
            holdings: usage::holdings(self.gateway),
            busy: (used.user + used.system) / (now - before).as_secs_f64(),
            slowest,
        });
        self.last = (cpu, now);
    }

    pub(crate) fn course(&self, figure: impl Fn(&Holdings) -> f64) -> Course {
        self.course_of(|sample| figure(&sample.holdings))
    }

    /// How much of its core the gateway used.
    pub(crate) fn busy(&self) -> Course {
        self.course_of(|sample| sample.busy)
    }

    fn course_of(&self, figure: impl Fn(&Sample) -> f64) -> Course {
        let tenth = self.taken.len() / 10;
        let typical = |samples: &[Sample]| median(samples.iter().map(&figure).collect());
        let warm = &self.taken[tenth..];
        let points: Vec<_> = warm.iter().map(|sample| (sample.seconds, figure(sample))).collect();
        Course {
            early: typical(&warm[..tenth]),
            late: typical(&warm[warm.len() - tenth..]),
            trend: slope(&points) * (warm.len() - tenth) as f64,
        }
    }

    pub(crate) fn report(&self) -> Value {
        let all = self.taken.iter().map(|Sample { seconds, holdings, busy, slowest }| {
            json!({
                "seconds": seconds,
                "rss_mb": holdings.rss_mb,
                "anonymous_mb": holdings.anonymous_mb,
                "descriptors": holdings.descriptors,
                "threads": holdings.threads,
                "core_busy": busy,
                "slowest_ms": slowest.as_millis() as u64,
            })
        });
        all.collect()
    }
}

fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let over: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let under: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    over / under
}

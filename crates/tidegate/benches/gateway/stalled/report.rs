//! What the attacks did, judged.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::Figures;
use super::attack::{Attack, Origin};
use crate::{verdict, write};

/// The share of honest requests that must be served.
const SERVED: f64 = 0.999;
/// `max_buffer_bytes` as it is by default (64 MiB), and 250 MB for everything else.
const MEMORY_MB: f64 = 64.0 * 1.048_576 + 250.0;
/// The goal for the 99th percentile: twice that of the idle gateway, or this if it is more.
const P99_MS: f64 = 20.0;

/// All rounds of one attack.
pub(crate) struct Series {
    pub(crate) attack: Attack,
    pub(crate) origin: Origin,
    idle_p99_ms: Vec<f64>,
    rounds: Vec<Figures>,
}

impl Series {
    pub(crate) fn new(attack: Attack, origin: Origin) -> Self {
        Self { attack, origin, idle_p99_ms: Vec::new(), rounds: Vec::new() }
    }

    pub(crate) fn add(&mut self, idle_p99_ms: f64, figures: Figures) {
        self.idle_p99_ms.push(idle_p99_ms);
        self.rounds.push(figures);
    }

    fn name(&self) -> String {
        format!("{} from {}", self.attack.name(), self.origin.addresses())
    }

    fn median(&self, figure: impl Fn(&Figures) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect())
    }

    fn served(&self) -> f64 {
        self.median(Figures::share_served)
    }

    fn rss_mb(&self) -> f64 {
        self.median(|figures| figures.peaks.rss_mb)
    }

    fn p99_goal_ms(&self) -> f64 {
        (median(self.idle_p99_ms.clone()) * 2.0).max(P99_MS)
    }

    fn is_p99_reached(&self) -> bool {
        self.median(|figures| figures.p99_ms) <= self.p99_goal_ms()
    }

    fn is_passed(&self) -> bool {
        self.served() >= SERVED && self.rss_mb() <= MEMORY_MB && self.is_p99_reached()
    }
}

impl Figures {
    fn share_served(&self) -> f64 {
        self.served as f64 / self.sent.max(1) as f64
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// One attack of one round, as soon as it is over.
pub(crate) fn print_phase(series: &Series, figures: &Figures) {
    println!(
        "  {:<24} served {:.3} % of {}, p50 {:.1} ms, p99 {:.1} ms, RSS {:.0} MB, buffered {:.1} MB, {} in flight, \
         opened {}, ended {}, metrics missed {}, cuts {:?}, failures {:?}",
        series.name(),
        figures.share_served() * 100.0,
        figures.sent,
        figures.p50_ms,
        figures.p99_ms,
        figures.peaks.rss_mb,
        figures.peaks.buffered_bytes as f64 / 1e6,
        figures.peaks.in_flight,
        figures.opened,
        figures.ended,
        figures.peaks.missed,
        figures.cuts,
        figures.failures,
    );
}

/// Prints the medians, writes the report and judges.
pub(crate) fn conclude(all: &[Series], seconds: u64, rounds: u64) -> ExitCode {
    println!(
        "\n{:<24} {:>9} {:>8} {:>8} {:>9} {:>9} {:>8} {:>8} {:>12}  goals",
        "medians", "served %", "p50 ms", "p99 ms", "idle p99", "goal p99", "p99", "RSS MB", "buffered MB"
    );
    for series in all {
        println!(
            "{:<24} {:>9.3} {:>8.1} {:>8.1} {:>9.1} {:>9.1} {:>8} {:>8.0} {:>12.1}  {}",
            series.name(),
            series.served() * 100.0,
            series.median(|figures| figures.p50_ms),
            series.median(|figures| figures.p99_ms),
            median(series.idle_p99_ms.clone()),
            series.p99_goal_ms(),
            verdict(series.is_p99_reached()),
            series.rss_mb(),
            series.median(|figures| figures.peaks.buffered_bytes as f64 / 1e6),
            verdict(series.is_passed()),
        );
    }
    let attacks: Vec<Value> = all.iter().map(attack).collect();
    write(
        "stalled.json",
        &json!({
            "seconds": seconds, "rounds": rounds, "servedGoal": SERVED, "rssGoalMb": MEMORY_MB, "attacks": attacks,
        }),
    );
    if all.iter().all(Series::is_passed) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn attack(series: &Series) -> Value {
    let rounds = series.rounds.iter().zip(&series.idle_p99_ms).map(|(figures, idle_p99_ms)| {
        json!({
            "sent": figures.sent,
            "served": figures.served,
            "failures": figures.failures,
            "failedBySecond": figures.by_second.iter().map(|second| second.0).collect::<Vec<_>>(),
            "slowestMsBySecond": figures.by_second.iter().map(|second| second.1.round()).collect::<Vec<_>>(),
            "p50Ms": figures.p50_ms,
            "p99Ms": figures.p99_ms,
            "idleP99Ms": idle_p99_ms,
            "rssPeakMb": figures.peaks.rss_mb,
            "bufferedBytesPeak": figures.peaks.buffered_bytes,
            "connectionsPeak": figures.peaks.connections,
            "inFlightPeak": figures.peaks.in_flight,
            "metricsMissed": figures.peaks.missed,
            "cuts": figures.cuts,
            "attackersOpened": figures.opened,
            "attackersEnded": figures.ended,
        })
    });
    json!({
        "attack": series.attack.name(),
        "addresses": series.origin.addresses(),
        "servedShare": series.served(),
        "p50Ms": series.median(|figures| figures.p50_ms),
        "p99Ms": series.median(|figures| figures.p99_ms),
        "p99GoalMs": series.p99_goal_ms(),
        "p99Reached": series.is_p99_reached(),
        "rssPeakMb": series.rss_mb(),
        "passed": series.is_passed(),
        "rounds": rounds.collect::<Vec<_>>(),
    })
}

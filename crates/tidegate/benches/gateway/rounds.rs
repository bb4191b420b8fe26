//! Rounds of load, all subjects in turn.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};

use crate::process::Process;
use crate::redis;
use crate::scratch::Scratch;
use crate::setting::Setting;
use crate::usage;
use crate::wrk::{self, Load};

/// A server that is measured.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) server: Process,
    pub(crate) port: u16,
    /// Emptied after each round: a minute of lines is a gigabyte.
    pub(crate) logs: Vec<PathBuf>,
    /// The port of the Redis that it asks.
    pub(crate) redis: Option<u16>,
}

/// A few seconds of load on one subject.
pub(crate) struct Round {
    pub(crate) load: Load,
    pub(crate) user_us: f64,
    pub(crate) system_us: f64,
    pub(crate) rss_mb: f64,
    /// How much of its core the subject used.
    pub(crate) busy: f64,
    pub(crate) redis_scripts: u64,
}

impl Round {
    /// Microseconds of CPU time a request.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.user_us + self.system_us
    }
}

/// All rounds of one subject.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) rounds: Vec<Round>,
}

impl Series {
    pub(crate) fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect())
    }

    /// The median of what `compare` says about the rounds that both ran at the same time.
    pub(crate) fn beside(&self, other: &Self, compare: impl Fn(&Round, &Round) -> f64) -> f64 {
        median(self.rounds.iter().zip(&other.rounds).map(|(one, other)| compare(one, other)).collect())
    }

    /// The median ratio to another series.
    pub(crate) fn ratio(&self, other: &Self, figure: impl Fn(&Round) -> f64) -> f64 {
        self.beside(other, |one, other| figure(one) / figure(other))
    }

    pub(crate) fn report(&self) -> Value {
        json!({
            "requests_per_second": self.median(|round| round.load.per_second),
            "cpu_us": self.median(Round::cpu_us),
            "user_us": self.median(|round| round.user_us),
            "system_us": self.median(|round| round.system_us),
            "p50_ms": self.median(|round| round.load.p50_ms),
            "p99_ms": self.median(|round| round.load.p99_ms),
            "rss_mb": self.median(|round| round.rss_mb),
            "core_busy": self.median(|round| round.busy),
            "cpu_us_by_round": self.rounds.iter().map(Round::cpu_us).collect::<Vec<_>>(),
        })
    }
}

pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Loads every subject in every round, from first to last and then from last to first, after a second to warm up.
pub(crate) fn interleave(
    setting: &Setting,
    scratch: &Scratch,
    subjects: &[Subject],
    connections: usize,
) -> Vec<Series> {
    for subject in subjects {
        let _warm = round(scratch, subject, connections, 1);
    }
    let mut series: Vec<Series> =
        subjects.iter().map(|subject| Series { name: subject.name, rounds: Vec::new() }).collect();
    for number in 0..setting.rounds {
        let mut order: Vec<usize> = (0..subjects.len()).collect();
        if number % 2 == 1 {
            order.reverse();
        }
        for place in order {
            series[place].rounds.push(round(scratch, &subjects[place], connections, setting.seconds));
        }
    }
    series
}

fn round(scratch: &Scratch, subject: &Subject, connections: usize, seconds: u64) -> Round {
    let id = subject.server.id();
    let scripts = || subject.redis.map_or(0, redis::scripts_run);
    let (scripts_before, cpu_before, start) = (scripts(), usage::cpu(id), Instant::now());
    let (load, rss_mb) = wrk::load(scratch, subject.port, connections, seconds, || usage::rss_mb(id));
    let (cpu, elapsed) = (usage::cpu(id) - cpu_before, start.elapsed().as_secs_f64());
    for log in &subject.logs {
        OpenOptions::new().write(true).truncate(true).open(log).expect("the log is ours");
    }
    let requests = load.requests as f64;
    Round {
        load,
        user_us: cpu.user * 1e6 / requests,
        system_us: cpu.system * 1e6 / requests,
        rss_mb,
        busy: (cpu.user + cpu.system) / elapsed,
        redis_scripts: scripts() - scripts_before,
    }
}

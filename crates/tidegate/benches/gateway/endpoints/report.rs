//! The events, judged.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use super::Quiet;
use super::event::{Event, Kind};
use super::site::{Rest, WEIGHTS};
use crate::open_loop::{Sent, latency_ms};
use crate::{verdict, write};

/// How far an endpoint's load may be from its share, relative to it.
const TOLERANCE: f64 = 0.05;

pub(crate) struct Run<'a> {
    pub(crate) rounds: u64,
    pub(crate) has_retries: bool,
    pub(crate) sent: &'a [Sent],
    pub(crate) events: &'a [Event],
    pub(crate) quiet: &'a Quiet,
    pub(crate) before: &'a Rest,
    pub(crate) after: &'a Rest,
}

impl Run<'_> {
    fn failed(&self) -> usize {
        self.sent.iter().filter(|one| !one.is_served()).count()
    }

    fn of(&self, kind: Kind) -> Summary {
        let mut summary = Summary { has_retries: self.has_retries, ..Summary::default() };
        for event in self.events.iter().filter(|event| event.kind == kind) {
            summary.add(event);
        }
        summary.loaded.sort_unstable();
        summary
    }

    /// How far each endpoint's load in quiet phases is from its share, relative to it.
    fn deviations(&self) -> [f64; WEIGHTS.len()] {
        let (all, weights) = (self.quiet.requests.iter().sum::<u64>() as f64, WEIGHTS.iter().sum::<u32>());
        std::array::from_fn(|number| {
            let share = f64::from(WEIGHTS[number]) / f64::from(weights);
            self.quiet.requests[number] as f64 / all / share - 1.0
        })
    }

    fn is_spread_by_weight(&self) -> bool {
        self.deviations().iter().all(|deviation| deviation.abs() <= TOLERANCE)
    }

    fn is_at_rest(&self) -> bool {
        self.after.descriptors <= self.before.descriptors && self.after.in_flight == 0
    }
}

/// All events of a kind.
#[derive(Default)]
struct Summary {
    has_retries: bool,
    events: usize,
    in_flight: u64,
    failed: u64,
    /// Events with more failures than requests in flight.
    over: usize,
    worst: usize,
    outcomes: BTreeMap<String, usize>,
    loaded: Vec<Duration>,
    /// Events after which the victim got no more load.
    never_loaded: usize,
}

impl Summary {
    fn add(&mut self, event: &Event) {
        self.events += 1;
        self.in_flight += event.in_flight;
        self.failed += event.failures.len() as u64;
        self.over += usize::from(event.failures.len() as u64 > event.in_flight);
        self.worst = self.worst.max(event.failures.len());
        for outcome in &event.failures {
            *self.outcomes.entry(outcome.clone()).or_default() += 1;
        }
        match event.loaded {
            Some(time) => self.loaded.push(time),
            None => self.never_loaded += 1,
        }
    }

    /// The most failures that the requests in flight explain; with retries none. They are counted a moment before each
    /// event, and have changed by then: the sum is off by about its square root. Twice that is added.
    fn explained(&self) -> f64 {
        if self.has_retries {
            return 0.0;
        }
        let in_flight = self.in_flight as f64;
        in_flight + 2.0 * in_flight.max(1.0).sqrt()
    }

    fn is_reached(&self) -> bool {
        self.failed as f64 <= self.explained() && self.never_loaded == 0
    }

    fn loaded_seconds(&self, quantile: f64) -> f64 {
        let at = ((self.loaded.len() as f64 * quantile) as usize).min(self.loaded.len().saturating_sub(1));
        self.loaded.get(at).map_or(f64::NAN, Duration::as_secs_f64)
    }
}

pub(crate) fn conclude(run: &Run) -> ExitCode {
    print(run);
    let kinds = Kind::ALL.map(|kind| (kind, run.of(kind)));
    write("endpoints.json", &document(run, &kinds));
    let are_reached = kinds.iter().all(|(_, summary)| summary.is_reached());
    if are_reached && run.is_spread_by_weight() && run.is_at_rest() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(run: &Run) {
    println!("\n  event      endpoint  weight  in flight  failed  late  slowest ms  load again after");
    for event in run.events {
        println!(
            "  {:<10} {:>8} {:>7} {:>10} {:>7} {:>5} {:>11}  {}",
            event.kind.name(),
            event.victim + 1,
            WEIGHTS[event.victim],
            event.in_flight,
            event.failures.len(),
            event.late,
            event.slowest.as_millis(),
            event.loaded.map_or("never".to_owned(), |time| format!("{:.2} s", time.as_secs_f64())),
        );
    }
    println!("\nretries {}", if run.has_retries { "on" } else { "off" });
    println!("{} requests, {} failed, p99 {:.1} ms", run.sent.len(), run.failed(), latency_ms(run.sent, 0.99));
    for kind in Kind::ALL {
        let summary = run.of(kind);
        println!(
            "{:<10} {} events: {} failed, {} were in flight (at most {:.1} may fail), at most {} in one \
             event, {} events over; load again after {:.2} s (median), {:.2} s (longest), never {}; \
             outcomes {:?}: {}",
            kind.name(),
            summary.events,
            summary.failed,
            summary.in_flight,
            summary.explained(),
            summary.worst,
            summary.over,
            summary.loaded_seconds(0.5),
            summary.loaded_seconds(1.0),
            summary.never_loaded,
            summary.outcomes,
            verdict(summary.is_reached()),
        );
    }
    let percent = run.deviations().map(|deviation| format!("{:+.1} %", deviation * 100.0));
    println!(
        "load by weight in quiet phases: {:?}, off by {}, {} phases disturbed: {}",
        run.quiet.requests,
        percent.join(", "),
        run.quiet.disturbed,
        verdict(run.is_spread_by_weight()),
    );
    println!(
        "descriptors {} before, {} after; {} in flight after: {}",
        run.before.descriptors,
        run.after.descriptors,
        run.after.in_flight,
        verdict(run.is_at_rest()),
    );
}

fn document(run: &Run, kinds: &[(Kind, Summary)]) -> Value {
    let kinds = kinds.iter().map(|(kind, summary)| {
        json!({
            "kind": kind.name(),
            "events": summary.events,
            "inFlight": summary.in_flight,
            "failed": summary.failed,
            "explained": summary.explained(),
            "mostInOneEvent": summary.worst,
            "eventsOver": summary.over,
            "outcomes": summary.outcomes,
            "loadAgainMedianSeconds": summary.loaded_seconds(0.5),
            "loadAgainLongestSeconds": summary.loaded_seconds(1.0),
            "neverLoaded": summary.never_loaded,
            "reached": summary.is_reached(),
        })
    });
    let events = run.events.iter().map(|event| {
        json!({
            "kind": event.kind.name(),
            "endpoint": event.victim + 1,
            "inFlight": event.in_flight,
            "failures": event.failures,
            "late": event.late,
            "slowestMs": event.slowest.as_secs_f64() * 1e3,
            "loadAgainSeconds": event.loaded.map(|time| time.as_secs_f64()),
        })
    });
    json!({
        "rounds": run.rounds,
        "retries": run.has_retries,
        "requests": run.sent.len(),
        "failed": run.failed(),
        "p99Ms": latency_ms(run.sent, 0.99),
        "kinds": kinds.collect::<Vec<_>>(),
        "quiet": {
            "weights": WEIGHTS,
            "requests": run.quiet.requests,
            "deviations": run.deviations(),
            "disturbed": run.quiet.disturbed,
            "reached": run.is_spread_by_weight(),
        },
        "rest": {
            "descriptorsBefore": run.before.descriptors,
            "descriptorsAfter": run.after.descriptors,
            "inFlightAfter": run.after.in_flight,
            "reached": run.is_at_rest(),
        },
        "events": events.collect::<Vec<_>>(),
    })
}

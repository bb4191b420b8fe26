//! What a scraper sees: all tests of this service, and the one that is running.
#![allow(clippy::cast_precision_loss, reason = "counts are below 2^53")]

use std::time::Duration;

use tidegate_serve::{Buckets, Exposition, HistogramSnapshot, Kind, Process};

use super::current::Current;
use crate::live::{METRIC_BOUNDS, Progress};
use crate::run::Run;

pub(super) fn page(tests: &Current, process: &Process) -> Exposition {
    let (all, running) = tests.all();
    let mut page = Exposition::new();
    write(&mut page, &all, running.as_deref());
    process.write(&mut page);
    page
}

/// The metrics of all requests so far, and of the test that is running.
pub fn write(page: &mut Exposition, all: &Progress, running: Option<&Run>) {
    let Progress { planned, retried, .. } = all;
    let mut requests =
        page.family("loadgen_requests_total", "HTTP requests that have ended, by how they did.", Kind::Counter);
    requests.sample(&[("status", "success")], planned.success + retried.success);
    requests.sample(&[("status", "rate_limited")], planned.rate_limited + retried.rate_limited);
    requests.sample(&[("status", "error")], planned.errors + retried.errors);
    let errors = planned.errors + retried.errors;
    counter(page, "loadgen_errors_total", "Requests with another response than 2xx or 429, or without one.", errors);
    counter(page, "loadgen_retries_total", "Requests that clients have sent again.", retried.sent);
    let mut missed = page.family("loadgen_missed_total", "Requests that were due and never sent.", Kind::Counter);
    missed.sample(&[("reason", "too_late")], all.too_late);
    missed.sample(&[("reason", "no_room")], all.no_room);
    let help = "From the time a request should have been sent to the end of its response.";
    histogram(page, "loadgen_request_duration_seconds", help, &all.latency);
    let help = "From the time a request was sent to the end of its response.";
    histogram(page, "loadgen_service_time_seconds", help, &all.service);
    gauge(page, "loadgen_current_rps", "Requests sent within the last second.", running.map_or(0.0, Run::rate));
    let wanted = running.and_then(Run::wanted_rate).unwrap_or_default();
    gauge(page, "loadgen_target_rps", "Requests a second that the plan wants now.", wanted);
    gauge(page, "loadgen_active_threads", "Requests that are under way.", all.in_flight as f64);
    let is_running = if running.is_some() { 1.0 } else { 0.0 };
    gauge(page, "loadgen_test_running", "1 while a test is running.", is_running);
}

fn counter(page: &mut Exposition, name: &str, help: &str, value: u64) {
    page.family(name, help, Kind::Counter).sample(&[], value);
}

fn gauge(page: &mut Exposition, name: &str, help: &str, value: f64) {
    page.family(name, help, Kind::Gauge).sample(&[], value);
}

fn histogram(page: &mut Exposition, name: &str, help: &str, fine: &HistogramSnapshot) {
    let buckets = Buckets::new(&METRIC_BOUNDS.map(Duration::from_micros));
    let mut coarse = HistogramSnapshot::empty(&buckets);
    coarse.add(fine);
    page.family(name, help, Kind::Histogram).histogram(&[], &coarse);
}

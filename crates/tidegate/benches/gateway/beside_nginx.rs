//! Proxied and rejected requests: nginx and ours.

use serde_json::{Value, json};

use crate::nginx::{self, Logs};
use crate::rounds::{Round, Series, interleave};
use crate::scratch::Scratch;
use crate::setting::Setting;
use crate::{honesty, table, tidegate, verdict};

pub(crate) const CONNECTIONS: usize = 64;

/// What becomes of all requests of a part.
#[derive(Clone, Copy)]
pub(crate) enum Response {
    Proxied,
    Rejected,
}

pub(crate) fn compare(
    setting: &Setting,
    scratch: &Scratch,
    upstream: u16,
    response: Response,
    lies: &mut Vec<String>,
) -> Value {
    let (title, limit) = match response {
        Response::Proxied => ("proxied", tidegate::OPEN),
        Response::Rejected => ("refused", tidegate::TIGHT),
    };
    let subjects = [
        nginx::proxy(scratch, upstream, response, Logs::Off),
        tidegate::in_memory(scratch, upstream, "tidegate", limit),
        nginx::proxy(scratch, upstream, response, Logs::On),
        tidegate::logging(scratch, upstream, "tidegate, access log", limit),
    ];
    let series = interleave(setting, scratch, &subjects, CONNECTIONS);
    honesty::check_once(title, &subjects, response, lies);
    honesty::check_responses(title, &series, response, lies);
    honesty::check_lines(title, &subjects[3], lies);

    table::print(&format!("{title}, {CONNECTIONS} connections"), &series);
    let [quiet, ours, logging, ours_logging] = &series[..] else { unreachable!("a series for each of the subjects") };
    let (cpu, rss_mb) = (ours.ratio(quiet, Round::cpu_us), ours.median(|round| round.rss_mb));
    println!("  CPU a request, ours / nginx: {cpu:.2}× (goal ≤ 1.00: {})", verdict(cpu <= 1.0));
    println!("  memory at {CONNECTIONS} connections: {rss_mb:.1} MB (goal ≤ 20: {})", verdict(rss_mb <= 20.0));
    println!("  without logs of requests, ours / nginx: {}", in_words(ours, quiet));
    println!("  each as it is by default, ours / nginx, logs on: {}", in_words(ours, logging));
    println!("  both with a line a request: {}", in_words(ours_logging, logging));
    json!({
        "nginx": quiet.report(),
        "nginx_logs_on": logging.report(),
        "tidegate": ours.report(),
        "tidegate_access_log": ours_logging.report(),
        "ratios_to_nginx": ratios(ours, quiet),
        "ratios_to_nginx_logs_on": ratios(ours, logging),
        "ratios_both_logging": ratios(ours_logging, logging),
    })
}

fn in_words(ours: &Series, theirs: &Series) -> String {
    let ratio = |figure: fn(&Round) -> f64| ours.ratio(theirs, figure);
    format!(
        "CPU {:.2}×, req/s {:.2}×, p50 {:.2}×, p99 {:.2}×, RSS {:.2}×",
        ratio(Round::cpu_us),
        ratio(|round| round.load.per_second),
        ratio(|round| round.load.p50_ms),
        ratio(|round| round.load.p99_ms),
        ratio(|round| round.rss_mb),
    )
}

fn ratios(ours: &Series, theirs: &Series) -> Value {
    let ratio = |figure: fn(&Round) -> f64| ours.ratio(theirs, figure);
    json!({
        "cpu": ratio(Round::cpu_us),
        "requests_per_second": ratio(|round| round.load.per_second),
        "p50": ratio(|round| round.load.p50_ms),
        "p99": ratio(|round| round.load.p99_ms),
        "rss": ratio(|round| round.rss_mb),
    })
}

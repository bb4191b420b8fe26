//! `make stalled`: clients that stall must not take the service from others.
//!
//! Each attack runs beside honest clients at another address, against a gateway with default settings, started anew for
//! it. An idle phase without attack opens each round. The median of the rounds is judged: the share of honest requests
//! that are served, their 99th percentile, and the gateway's memory at its peak.

mod attack;
mod report;
mod streams;
mod upstream;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use self::attack::{Attack, Crowd, Origin};
use self::report::Series;
use self::upstream::Upstream;
use crate::open_loop::{OpenLoop, Plan, Sent, latency_ms};
use crate::page::Page;
use crate::process::{Process, free_port};
use crate::scratch::Scratch;
use crate::setting::number;
use crate::{admin, tidegate, usage};

/// Honest requests, and where they come from.
const PER_SECOND: u32 = 200;
const HONEST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// The idle phase needs no more than this for its 99th percentile.
const IDLE_SECONDS: u64 = 20;
const SAMPLE_EVERY: Duration = Duration::from_millis(500);

/// What one phase showed.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) sent: usize,
    pub(crate) served: usize,
    /// How the others ended.
    pub(crate) failures: BTreeMap<String, usize>,
    /// For each second: honest requests due in it that failed, and the slowest of the others in milliseconds.
    pub(crate) by_second: Vec<(usize, f64)>,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) peaks: Peaks,
    /// `tidegate_clients_cut_total`, by cause.
    pub(crate) cuts: BTreeMap<String, u64>,
    /// Requests of attackers: opened, and ended by the gateway.
    pub(crate) opened: u64,
    pub(crate) ended: u64,
}

/// The most that was seen of the gateway.
#[derive(Clone, Copy, Default)]
pub(crate) struct Peaks {
    pub(crate) rss_mb: f64,
    pub(crate) buffered_bytes: u64,
    pub(crate) connections: u64,
    pub(crate) in_flight: u64,
    /// Times that the metrics could not be read.
    pub(crate) missed: u64,
}

pub(crate) fn run(scratch: &Scratch) -> ExitCode {
    let (seconds, rounds) = (number("STALLED_SECONDS", 60), number("STALLED_ROUNDS", 5));
    let only = std::env::var("STALLED_ONLY").unwrap_or_default();
    let open_files = tidegate_serve::raise_open_files().expect("the soft limit can be raised");
    println!("{rounds} rounds, {seconds} s for each attack; {} open files", open_files.now);
    let upstream = Upstream::start();
    let attacks: Vec<_> =
        Attack::ALL.into_iter().flat_map(|attack| Origin::ALL.map(|origin| (attack, origin))).collect();
    let wanted = attacks.into_iter().filter(|(attack, _)| attack.name().contains(&only));
    let mut all: Vec<Series> = wanted.map(|(attack, origin)| Series::new(attack, origin)).collect();
    for round in 1..=rounds {
        let idle = phase(scratch, &upstream, None, seconds.min(IDLE_SECONDS));
        println!("\nround {round}: idle p50 {:.1} ms, p99 {:.1} ms", idle.p50_ms, idle.p99_ms);
        for series in &mut all {
            let figures = phase(scratch, &upstream, Some((series.attack, series.origin)), seconds);
            report::print_phase(series, &figures);
            series.add(idle.p99_ms, figures);
        }
    }
    report::conclude(&all, seconds, rounds)
}

/// A gateway of its own, honest clients, and an attack if there is one.
fn phase(scratch: &Scratch, upstream: &Upstream, attack: Option<(Attack, Origin)>, seconds: u64) -> Figures {
    let (port, admin) = (free_port(), free_port());
    let gateway = tidegate::serve_unpinned(scratch, "stalled", &config(port, admin, upstream.port), port);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let crowd = attack.map(|(attack, origin)| Crowd::start(attack, origin, address));
    let honest = Plan { from: HONEST, gateway: address, host: "bench", path: "/small", per_second: PER_SECOND };
    let honest = OpenLoop::start(honest);
    let (peaks, page) = watch(&gateway, admin, Duration::from_secs(seconds));
    let sent = honest.finish();
    let mut failures = BTreeMap::new();
    for failed in sent.iter().filter(|one| !one.is_served()) {
        *failures.entry(failed.outcome_name()).or_default() += 1;
    }
    let count = |count: fn(&attack::Tally) -> u64| crowd.as_ref().map_or(0, |crowd| count(&crowd.tally));
    Figures {
        sent: sent.len(),
        served: sent.iter().filter(|one| one.is_served()).count(),
        failures,
        by_second: by_second(&sent),
        p50_ms: latency_ms(&sent, 0.5),
        p99_ms: latency_ms(&sent, 0.99),
        peaks,
        cuts: page.by_label("tidegate_clients_cut_total", "cause"),
        opened: count(|tally| tally.opened.load(Ordering::Relaxed)),
        ended: count(|tally| tally.ended.load(Ordering::Relaxed)),
    }
}

/// When it went wrong: at the attack's start, or all the time.
fn by_second(sent: &[Sent]) -> Vec<(usize, f64)> {
    let Some(start) = sent.iter().map(|one| one.due).min() else { return Vec::new() };
    let mut seconds = Vec::new();
    for one in sent {
        let second = one.due.duration_since(start).as_secs() as usize;
        if seconds.len() <= second {
            seconds.resize(second + 1, (0, 0.0_f64));
        }
        let (failed, slowest_ms) = &mut seconds[second];
        if one.is_served() {
            *slowest_ms = slowest_ms.max(one.latency.as_secs_f64() * 1e3);
        } else {
            *failed += 1;
        }
    }
    seconds
}

/// Looks at the gateway until the time is over; returns the peaks and the last page of metrics.
fn watch(gateway: &Process, admin: u16, time: Duration) -> (Peaks, Page) {
    let (start, mut peaks, mut last) = (Instant::now(), Peaks::default(), Page(String::new()));
    while start.elapsed() < time {
        std::thread::sleep(SAMPLE_EVERY.min(time.saturating_sub(start.elapsed())));
        peaks.rss_mb = peaks.rss_mb.max(usage::rss_mb(gateway.id()));
        match admin::page(admin) {
            Ok(page) => {
                peaks.buffered_bytes = peaks.buffered_bytes.max(page.sum("tidegate_buffered_bytes", ""));
                peaks.connections = peaks.connections.max(page.sum("tidegate_connections", ""));
                peaks.in_flight = peaks.in_flight.max(page.sum("tidegate_requests_in_flight", ""));
                last = page;
            }
            Err(_) => peaks.missed += 1,
        }
    }
    (peaks, last)
}

/// Default settings, but for a limit that rejects nothing.
fn config(port: u16, admin: u16, upstream: u16) -> String {
    format!(
        r#"listeners: [{{address: "127.0.0.1:{port}", h2c: true}}]
admin: {{listen: "127.0.0.1:{admin}"}}
upstreams: {{app: {{url: "http://127.0.0.1:{upstream}"}}}}
limits: {{default: {{{}}}}}
"#,
        tidegate::OPEN
    )
}

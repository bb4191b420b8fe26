//! `make steady`: ten minutes at 70 % of what the gateway can carry, with everything in use. Nothing may go wrong, and
//! nothing may grow.
//!
//! What it can carry is measured first: the same clients send one request after the other, each as soon as the last one
//! got a response. Then each sends when its time has come, whatever became of the last one. Meanwhile limits are
//! changed, the configuration is reloaded, the log rotated. At the end everything that was sent must be accounted for,
//! and everything that was held given back.

mod client;
mod desk;
mod judgement;
mod mix;
mod operator;
mod report;
mod rest;
mod samples;
mod schedule;
mod site;
mod sockets;
mod streams;
mod tally;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use self::judgement::Run;
use self::mix::Draws;
use self::operator::Operator;
use self::rest::Rest;
use self::samples::Samples;
use self::schedule::Schedule;
use self::site::Site;
use self::tally::Tally;
use crate::beside_nginx::CONNECTIONS;
use crate::page::Page;
use crate::scratch::Scratch;
use crate::{LOAD_CORE, process, usage};

/// How much of its capacity the gateway is loaded with.
const SHARE: f64 = 0.7;
/// How long it is measured what it can carry.
const CAPACITY_SECONDS: u64 = 10;
/// Clients that speak HTTP/1.1.
const CLIENTS: usize = CONNECTIONS;
/// Clients that speak HTTP/2, and their share of the requests.
const STREAM_CLIENTS: usize = 4;
const STREAM_SHARE: f64 = 0.05;
/// Sockets (`WebSocket`) that are open at a time, besides.
const SOCKETS: usize = 8;

const SCRAPE_EVERY: u64 = 3;
const CHANGE_EVERY: u64 = 2;
const ROTATE_EVERY: u64 = 10;

/// How long clients may take to end after their last request was due.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a load went.
pub(crate) struct Load {
    pub(crate) per_second: f64,
    /// How much of its core the gateway used …
    pub(crate) gateway_busy: f64,
    /// … and how much of the other one all the others did, whoever they are.
    pub(crate) others_busy: f64,
}

pub(crate) fn run(seconds: u64, scratch: &Scratch) -> ExitCode {
    assert!(seconds >= 20, "STEADY_SECONDS is 20 at least: a tenth is looked at by itself");
    // The gateway's core is its own.
    process::move_to(LOAD_CORE);
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a thread");
    let site = Site::start(scratch, &runtime);
    let mut operator = Operator::new(&site);
    let before = Rest::before(&site, &mut operator);

    let tally = Arc::new(Tally::new());
    let time = Duration::from_secs(CAPACITY_SECONDS);
    let (full, ()) = load(&runtime, &site, &tally, Pace::Eager, time, || std::thread::sleep(time));
    assert!(tally.counts().errors == 0, "errors at full load: {:?}", tally.counts().reported);
    let page_before = start_counting(&site, &mut operator);

    let due_per_second = full.per_second * SHARE;
    println!("{seconds} s at {due_per_second:.0} requests a second, 70 % of {:.0}", full.per_second);
    let (tally, time) = (Arc::new(Tally::new()), Duration::from_secs(seconds));
    let watching = || watch(&site, &mut operator, &tally, seconds);
    let (steady, samples) = load(&runtime, &site, &tally, Pace::Even(due_per_second), time, watching);

    operator.restore();
    let after = Rest::after(&site, &mut operator, &before);
    let page_after = operator.page();
    let counts = tally.counts();
    let logged = logged(&operator, &page_after, counts.sent() + operator.asked);
    report::tell(&Run {
        full: &full,
        steady: &steady,
        due_per_second,
        samples: &samples,
        counts: &counts,
        operator: &operator,
        before: &before,
        after: &after,
        page_before: &page_before,
        page_after: &page_after,
        logged,
        log: &site.gateway.printed(),
    })
}

/// How fast clients send.
#[derive(Clone, Copy)]
enum Pace {
    /// So many requests a second, all together.
    Even(f64),
    /// As fast as responses come.
    Eager,
}

/// Loads the gateway for some time, with `meanwhile` beside it.
fn load<T>(
    runtime: &Runtime,
    site: &Site,
    tally: &Arc<Tally>,
    pace: Pace,
    time: Duration,
    meanwhile: impl FnOnce() -> T,
) -> (Load, T) {
    let (cpu, idle, start) = (usage::cpu(site.gateway.id()), usage::idle(LOAD_CORE), tokio::time::Instant::now());
    let clients = set_out(runtime, site, tally, pace, start, time);
    let done = meanwhile();
    let (used, elapsed) = (usage::cpu(site.gateway.id()) - cpu, start.elapsed().as_secs_f64());
    let others_busy = 1.0 - (usage::idle(LOAD_CORE) - idle) / elapsed;
    if !runtime.block_on(end(clients)) {
        tally.error("clients", "some still wait");
    }
    let counts = tally.counts();
    // Whoever is behind sends on after the end.
    let sending = counts.last_sent.duration_since(start).max(time);
    let per_second = counts.sent() as f64 / sending.as_secs_f64();
    (Load { per_second, gateway_busy: (used.user + used.system) / elapsed, others_busy }, done)
}

/// From here on every request counts: what was measured before has ended, and the log begins anew.
fn start_counting(site: &Site, operator: &mut Operator) -> Page {
    let start = Instant::now();
    loop {
        let page = operator.page();
        // The one that asks is one.
        if page.sum("tidegate_requests_in_flight", "") <= 1 {
            operator.rotate(site);
            operator.begin();
            return page;
        }
        assert!(start.elapsed() < PATIENCE, "requests are still in flight after capacity was measured");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Starts all clients.
fn set_out(
    runtime: &Runtime,
    site: &Site,
    tally: &Arc<Tally>,
    pace: Pace,
    start: tokio::time::Instant,
    time: Duration,
) -> JoinSet<()> {
    let (mut clients, _guard, end) = (JoinSet::new(), runtime.enter(), start + time);
    let schedule = |share: f64, client: usize, clients: usize| match pace {
        Pace::Even(per_second) => Schedule::share(start, time, per_second * share, client, clients),
        Pace::Eager => Schedule::Eager { end },
    };
    for number in 0..CLIENTS {
        let (draws, tally) = (Draws::new(number as u64), Arc::clone(tally));
        let client = client::Client { gateway: site.address(), start, draws, tally };
        clients.spawn(client.converse(schedule(1.0 - STREAM_SHARE, number, CLIENTS)));
    }
    for number in 0..STREAM_CLIENTS {
        let (draws, tally, tls) = (Draws::new((CLIENTS + number) as u64), Arc::clone(tally), Arc::clone(&site.tls));
        let client = streams::Client { gateway: site.tls_address(), tls, start, draws, tally };
        clients.spawn(client.converse(schedule(STREAM_SHARE, number, STREAM_CLIENTS)));
    }
    for number in 0..SOCKETS {
        clients.spawn(sockets::converse(site.address(), end, number as u64, Arc::clone(tally)));
    }
    clients
}

/// Looks at the gateway each second, and does what operators do.
fn watch(site: &Site, operator: &mut Operator, tally: &Tally, seconds: u64) -> Samples {
    let (mut samples, start) = (Samples::begin(site.gateway.id()), Instant::now());
    for second in 1..=seconds {
        std::thread::sleep((start + Duration::from_secs(second)).saturating_duration_since(Instant::now()));
        samples.take(tally.take_slowest());
        let is_time = |every: u64| second.is_multiple_of(every);
        if is_time(SCRAPE_EVERY) {
            operator.page();
        }
        if is_time(CHANGE_EVERY) {
            operator.change();
        }
        if is_time(ROTATE_EVERY) {
            operator.rotate(site);
            operator.open_socket();
        }
    }
    samples
}

/// Waits for all clients; false if some don't come to an end.
async fn end(mut clients: JoinSet<()>) -> bool {
    let ending = async { while clients.join_next().await.is_some() {} };
    tokio::time::timeout(PATIENCE, ending).await.is_ok()
}

/// Lines in the access log, once all that are expected are there or had the time to be.
fn logged(operator: &Operator, page: &Page, expected: u64) -> u64 {
    let start = Instant::now();
    let dropped = page.sum("tidegate_access_log_dropped_total", "");
    loop {
        let logged = operator.logged();
        if logged + dropped >= expected || start.elapsed() > Duration::from_secs(5) {
            return logged;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

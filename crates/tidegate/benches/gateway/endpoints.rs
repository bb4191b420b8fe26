//! `make endpoints`: four endpoints behind one gateway, each killed, frozen and restarted in turn under load.
//!
//! With retries, no request may fail: all can be repeated. Without them (`ENDPOINT_RETRIES=off`) a request that is in
//! flight on an endpoint when it dies is lost, and no other may be: the goal of each event is that not more requests
//! fail than were in flight on the victim just before. That number is read a moment before the event, so single events
//! may be off by one or two. Events over the goal are counted; the sums of each kind are judged, with the error of
//! counting added.

mod event;
mod report;
mod site;

use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use self::event::{Event, Kind};
use self::report::Run;
use self::site::{Endpoint, Rest, Site, WEIGHTS};
use crate::open_loop::{OpenLoop, Plan};
use crate::scratch::Scratch;
use crate::setting::{is_on, number};

const PER_SECOND: u32 = 400;
const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// How long a killed or frozen endpoint is away.
const AWAY: Duration = Duration::from_secs(2);
/// The longest wait for a victim to get load again.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(25);
/// From the victim's first load to a quiet phase, and how long that is: after each event, and at the start.
const SETTLING: Duration = Duration::from_millis(500);
const QUIET: Duration = Duration::from_millis(1_500);
const FIRST_QUIET: Duration = Duration::from_secs(10);

pub(crate) fn run(scratch: &Scratch) -> ExitCode {
    let rounds = number("ENDPOINT_ROUNDS", 20);
    let has_retries = is_on("ENDPOINT_RETRIES");
    let mut site = Site::start(scratch, has_retries);
    let before = Rest::of(&site);
    let (gateway, path) = (site.address(), "/api/test");
    let plan = Plan { from: CLIENT, gateway, host: "bench", path, per_second: PER_SECOND };
    let load = OpenLoop::start(plan);
    std::thread::sleep(SETTLING);
    let mut quiet = Quiet::default();
    quiet.watch(&site, FIRST_QUIET);
    let mut events = Vec::new();
    for round in 1..=rounds {
        for kind in Kind::ALL {
            for victim in 0..WEIGHTS.len() {
                let event = strike(&mut site, scratch, kind, victim);
                std::thread::sleep(SETTLING);
                quiet.watch(&site, QUIET);
                events.push(event);
            }
        }
        println!("round {round} of {rounds} is over");
    }
    let sent = load.finish();
    event::attribute(&mut events, &sent);
    let after = Rest::after(&site, &before);
    let (before, after) = (&before, &after);
    report::conclude(&Run { rounds, has_retries, sent: &sent, events: &events, quiet: &quiet, before, after })
}

/// Does this to an endpoint, brings it back, and waits until it gets load again.
fn strike(site: &mut Site, scratch: &Scratch, kind: Kind, victim: usize) -> Event {
    let in_flight = site.endpoint(victim).in_flight;
    let at = Instant::now();
    site.strike(kind, victim);
    if kind != Kind::Restarted {
        std::thread::sleep(AWAY.saturating_sub(at.elapsed()));
    }
    site.bring_back(scratch, kind, victim);
    let back = Instant::now();
    // What a frozen endpoint had in flight may still be served: that is not new load.
    let old = site.endpoint(victim);
    let loaded = loop {
        if site.endpoint(victim).successes > old.successes + old.in_flight {
            break Some(back.elapsed());
        }
        if back.elapsed() > PATIENCE {
            break None;
        }
        std::thread::sleep(POLL);
    };
    Event { kind, victim, at, in_flight, loaded, failures: Vec::new(), late: 0, slowest: Duration::ZERO }
}

/// Requests by endpoint while nothing happened.
#[derive(Default)]
pub(crate) struct Quiet {
    pub(crate) requests: [u64; WEIGHTS.len()],
    /// Phases that do not count: an endpoint was out.
    pub(crate) disturbed: usize,
}

impl Quiet {
    fn watch(&mut self, site: &Site, time: Duration) {
        let before = site.endpoints();
        std::thread::sleep(time);
        let after = site.endpoints();
        if !before.iter().chain(&after).all(|endpoint| endpoint.is_available) {
            self.disturbed += 1;
            return;
        }
        let served = |endpoint: &Endpoint| endpoint.successes + endpoint.failures;
        for (sum, (before, after)) in self.requests.iter_mut().zip(before.iter().zip(&after)) {
            *sum += served(after) - served(before);
        }
    }
}

//! Connections that are open and ask for nothing.

use std::time::Instant;

use crate::protocols::footprint::Footprint;
use crate::protocols::open_files::raise_open_files;
use tidegate_testkit::{Client, Gateway, Upstream, wait_until};

/// What is wanted, and what is kept for everything else that this process opens meanwhile.
const WANTED: usize = 10_000;
const RESERVE: usize = 500;

#[test]
fn ten_thousand_idle_connections_are_held() {
    let allowed = raise_open_files(WANTED + RESERVE);
    let count = WANTED.min(allowed.saturating_sub(RESERVE));
    if count < WANTED {
        eprintln!("only {allowed} files may be open here: {count} connections instead of {WANTED}");
    }
    let upstream = Upstream::start();
    let mut gateway = Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\"}}}}\nlimits: {{default: {{algorithm: fixed, limit: 1000000, window: \
         60}}}}\n\
         connections: {{head_timeout: 10m, idle_timeout: 10m}}\n",
        upstream.address
    ));
    assert_eq!(gateway.get("/").status, 200);
    let held = |gateway: &Gateway, count: usize| {
        // The connection that asks is one itself.
        let wanted = f64::from(u32::try_from(count + 1).expect("not so many"));
        wait_until("all are held", || gateway.metric("tidegate_connections") == Some(wanted));
    };

    // Half of them say nothing at all, the other half has asked once.
    let before = Footprint::of(&gateway);
    let started = Instant::now();
    let mut fresh: Vec<Client> = (0..count / 2).map(|_| Client::connect(gateway.address)).collect();
    held(&gateway, fresh.len());
    let memory_of_fresh = before.peak_growth() / fresh.len() as u64;
    let before = Footprint::of(&gateway);
    let mut used: Vec<Client> = (0..count / 2)
        .map(|_| {
            let mut client = Client::connect(gateway.address);
            assert_eq!(client.request("GET", "/", &[], b"").status, 200);
            client
        })
        .collect();
    held(&gateway, fresh.len() + used.len());
    let memory_of_used = before.peak_growth() / used.len() as u64;
    let (resident, took) = (gateway.resident_bytes() >> 20, started.elapsed().as_secs_f64());
    eprintln!(
        "{count} idle connections in {took:.1} s: {memory_of_fresh} bytes for one that has said nothing, \
         {memory_of_used} for one that has asked before; {resident} MiB in all"
    );
    assert!(memory_of_fresh < 16 << 10 && memory_of_used < 16 << 10);

    // They still work, and so do new ones.
    for client in fresh.iter_mut().step_by(500).chain(used.iter_mut().step_by(500)) {
        assert_eq!(client.request("GET", "/again", &[], b"").status, 200);
    }
    assert_eq!(gateway.get("/new").status, 200);

    gateway.signal("TERM");
    assert!(gateway.wait_for_end(), "idle connections do not keep it");
    for client in fresh.iter_mut().chain(&mut used) {
        assert!(client.is_closed());
    }
    assert_eq!(gateway.lines().iter().filter(|line| line.contains("cut off")).count(), 0);
}

//! As many endpoints as an upstream may have.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use super::{endpoints, gateway};
use tidegate_testkit::OK;

/// File descriptors that a thousand listeners and other tests need.
const FILES: u64 = 8_192;

/// Many services in one thread.
pub(super) struct Crowd {
    pub(super) addresses: Vec<SocketAddr>,
    counts: Arc<[AtomicUsize]>,
    _runtime: Runtime,
}

impl Crowd {
    pub(super) fn new(size: usize) -> Self {
        allow_files();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build();
        let runtime = runtime.expect("a runtime");
        let counts: Arc<[AtomicUsize]> = (0..size).map(|_| AtomicUsize::new(0)).collect();
        let addresses = (0..size).map(|index| {
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
            let address = listener.local_addr().expect("an address");
            runtime.spawn(listen(listener, Arc::clone(&counts), index));
            address
        });
        Self { addresses: addresses.collect(), counts, _runtime: runtime }
    }

    /// How many requests each of them got.
    pub(super) fn counts(&self) -> Vec<usize> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// Many systems allow a process 1,024 file descriptors unless it asks for more.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < FILES) {
        let wanted = limit.maximum.map_or(FILES, |most| most.min(FILES));
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit }).expect("below the maximum");
    }
}

async fn listen(listener: TcpListener, counts: Arc<[AtomicUsize]>, index: usize) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(converse(stream, Arc::clone(&counts), index));
    }
}

/// Each request comes in one piece. `/fail` gets 503.
async fn converse(mut stream: TcpStream, counts: Arc<[AtomicUsize]>, index: usize) {
    let mut bytes = [0; 4_096];
    while let Ok(count @ 1..) = stream.read(&mut bytes).await {
        counts[index].fetch_add(1, Ordering::Relaxed);
        let fails = bytes[..count].starts_with(b"GET /fail");
        let response = if fails { b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n" } else { OK };
        if stream.write_all(response).await.is_err() {
            return;
        }
    }
}

#[test]
fn a_thousand_endpoints_serve_and_are_reported() {
    let crowd = Crowd::new(1_000);
    let gateway = gateway(&crowd.addresses, "balance: round_robin, health_check: {interval: 1h}");
    assert!((0..1_000).all(|_| gateway.get("/").status == 200));
    assert!(crowd.counts().iter().all(|count| *count == 1), "{:?}", crowd.counts());
    let shown = endpoints(&gateway);
    let names: Vec<SocketAddr> =
        shown.iter().map(|shown| shown["endpoint"].as_str().and_then(|name| name.parse().ok()).expect("one")).collect();
    assert_eq!(names, crowd.addresses, "in the order of the configuration");
    assert!(shown.iter().all(|shown| shown["state"] == "up" && shown["successes"] == 1));
    let health = gateway.get("/actuator/health").json();
    assert_eq!(health["upstreams"]["app"]["available"], 1_000);
    // The last of them can be taken out, and nobody else gets less than before.
    let path = format!("/config/upstreams/app/{}", crowd.addresses[999]);
    assert_eq!(gateway.post(&path, "{\"state\": \"down\"}").status, 200);
    assert!((0..999).all(|_| gateway.get("/").status == 200));
    assert_eq!(crowd.counts()[999], 1);
    assert_eq!(gateway.get("/actuator/health").json()["upstreams"]["app"]["available"], 999);
}

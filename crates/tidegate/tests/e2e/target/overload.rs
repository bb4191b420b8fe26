//! More than it can do: it stays up, says so, and is itself again when that is over.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::target::setting::{asking, faults, standing, switch, target, wait_for_standing};
use tidegate_testkit::{Gateway, pause, pause_async, timing, wait_until};

#[test]
fn beyond_the_queue_requests_are_rejected_at_once_and_then_it_is_as_before() {
    let mut target = target(&["--workers", "1", "--queue", "2", "--service-time", "0"]);
    switch(&target, r#"{"delay": 3600}"#);
    let accepted: Vec<_> = (0..3).map(|_| asking(&target)).collect();
    wait_for_standing(&target, 1.0, 2.0);
    for _ in 0..5 {
        let rejected = target.get("/api/test");
        assert_eq!((rejected.status, rejected.header("retry-after")), (503, Some("1")));
        assert_eq!(rejected.json()["error"], "all workers are busy and the queue is full");
    }
    assert_eq!(target.metric("target_refused_requests_total"), Some(5.0));
    let health = target.get("/actuator/health");
    assert_eq!((health.status, &health.json()["queue"]["length"]), (200, &2.into()));
    faults(&target, "DELETE", "");
    accepted.into_iter().for_each(tidegate_testkit::Client::close);
    wait_for_standing(&target, 0.0, 0.0);
    assert_eq!(target.get("/api/test").status, 200);
    target.signal("TERM");
    assert!(target.wait_for_end());
    let reported = "ERROR Target - requests rejected because all workers are busy and the queue is full: ";
    let count =
        || -> u32 { target.lines().iter().filter_map(|line| line.split_once(reported)?.1.parse::<u32>().ok()).sum() };
    wait_until("all are told", || count() == 5);
}

#[test]
fn who_waits_is_served_in_the_order_of_coming() {
    let target = target(&["--workers", "1", "--queue", "10", "--service-time", "20ms"]);
    let first = Instant::now();
    let mut clients = Vec::new();
    switch(&target, r#"{"hang": true}"#);
    for place in 0..5_u32 {
        clients.push(asking(&target));
        let waiting = f64::from(place);
        wait_for_standing(&target, 1.0, waiting);
    }
    faults(&target, "DELETE", "");
    for (place, client) in (1..).zip(&mut clients) {
        assert_eq!(client.response().status, 200);
        assert!(first.elapsed() >= Duration::from_millis(20) * place, "each has its whole time");
    }
}

/// 4 workers, 50 ms: 80 requests a second.
const CAPACITY: u64 = 80;
const OPTIONS: [&str; 6] = ["--workers", "4", "--queue", "16", "--service-time", "50ms"];
/// Twenty of them are served or wait; the others are rejected a hundred times a second each.
const CLIENTS: u64 = 60;
const PAUSE: Duration = Duration::from_millis(10);

/// `TIDEGATE_OVERLOAD_SECONDS=60` for the whole minute (`make soak`).
fn seconds() -> u64 {
    let set = std::env::var("TIDEGATE_OVERLOAD_SECONDS").ok();
    set.map_or(3, |text| text.parse().expect("TIDEGATE_OVERLOAD_SECONDS is a number of seconds"))
}

#[derive(Default)]
struct Seen {
    ok: AtomicU64,
    rejected: AtomicU64,
    other: AtomicU64,
}

#[test]
fn ten_times_its_capacity_is_borne_and_leaves_no_trace() {
    let target = target(&OPTIONS);
    let normal = times(&target, 10);
    let (memory_before, files_before) = (target.resident_bytes(), target.metric("process_open_fds"));
    let (seen, over) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
    let load = {
        let (seen, over, address) = (Arc::clone(&seen), Arc::clone(&over), target.address);
        std::thread::spawn(move || drive(address, &seen, &over))
    };
    let (began, length) = (Instant::now(), Duration::from_secs(seconds()));
    let (mut most_memory, mut healthy) = (0, 0);
    while began.elapsed() < length {
        let health = target.get("/actuator/health");
        assert_eq!((health.status, &health.json()["status"]), (200, &"UP".into()));
        healthy += 1;
        let (busy, waiting) = standing(&target);
        assert!(busy <= 4.0 && waiting <= 16.0, "{busy} {waiting}");
        most_memory = most_memory.max(target.resident_bytes());
        pause(Duration::from_millis(100));
    }
    over.store(true, Relaxed);
    load.join().expect("no panic");
    let (ended, took) = (Instant::now(), began.elapsed().as_secs() + 1);
    let after = back_to(&target, normal, ended);
    let [ok, rejected, other] = [&seen.ok, &seen.rejected, &seen.other].map(|count| count.load(Relaxed));
    eprintln!(
        "overload: {} s, {ok} served, {rejected} refused, {other} otherwise, {healthy} times healthy; normal \
         {normal:?}, \
         {after:?} after the end back; memory {} KiB before, {} KiB at most, {} KiB after",
        length.as_secs(),
        memory_before / 1024,
        most_memory / 1024,
        target.resident_bytes() / 1024
    );
    assert_eq!(other, 0, "nothing but 200 and 503");
    let offered = ok + rejected;
    assert!(rejected > ok, "{rejected} rejected and {ok} served are no overload");
    let is_tenfold = offered >= 10 * CAPACITY * length.as_secs();
    assert!(is_tenfold || !timing::are_judged(), "{offered} were no overload of ten times the capacity");
    assert!(ok <= CAPACITY * (took + 1) + 20, "{ok} are more than it can do");
    assert!(most_memory < memory_before + (32 << 20), "{most_memory} bytes, and {memory_before} before");
    wait_for_standing(&target, 0.0, 0.0);
    wait_until("all files are closed", || target.metric("process_open_fds") <= files_before);
}

/// The longest of so many requests, one after the other.
fn times(target: &Gateway, requests: u32) -> Duration {
    let time = |_| {
        let began = Instant::now();
        assert_eq!(target.get("/api/test").status, 200);
        began.elapsed()
    };
    (0..requests).map(time).max().unwrap_or_default()
}

/// When a request was served again, where times are judged within twice the normal time and a second of the end.
fn back_to(target: &Gateway, normal: Duration, ended: Instant) -> Duration {
    wait_until("it is back to normal", || {
        let began = Instant::now();
        target.get("/api/test").status == 200 && (!timing::are_judged() || began.elapsed() <= normal * 2)
    });
    timing::assert_within(Duration::from_secs(1), ended, "it is back to normal");
    ended.elapsed()
}

/// Many clients at once, half of them over a new connection each time.
fn drive(address: SocketAddr, seen: &Arc<Seen>, over: &Arc<AtomicBool>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = |number: u64| {
            let (seen, over) = (Arc::clone(seen), Arc::clone(over));
            tokio::spawn(async move {
                let mut kept = None;
                while !over.load(Relaxed) {
                    let stream = match kept.take() {
                        Some(stream) => stream,
                        None => TcpStream::connect(address).await.expect("it listens"),
                    };
                    let (status, stream) = exchange(stream).await;
                    kept = Some(stream).filter(|_| number.is_multiple_of(2));
                    let count = match status {
                        200 => &seen.ok,
                        503 => &seen.rejected,
                        _ => &seen.other,
                    };
                    count.fetch_add(1, Relaxed);
                    if status != 200 {
                        pause_async(PAUSE).await;
                    }
                }
            })
        };
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        for client in clients {
            client.await.expect("no panic");
        }
    });
}

/// One request; its status, and the connection. Responses here are small, and end in a body that is known.
async fn exchange(mut stream: TcpStream) -> (u16, TcpStream) {
    stream.write_all(b"GET /api/test HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("it takes it");
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\nOK") && !read.ends_with(b"}\n") {
        let mut buffer = [0; 1024];
        let count = stream.read(&mut buffer).await.expect("an answer");
        assert!(count > 0, "the connection ended within an answer");
        read.extend_from_slice(&buffer[..count]);
    }
    let status = read.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    (status.unwrap_or(0), stream)
}

//! Requests that are sent when they are due, whatever became of those before. Latency counts from that time.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use crate::connection::Connection;

/// When a client gives up.
const PATIENCE: Duration = Duration::from_secs(10);
/// After so many requests a connection is replaced, so that new ones are always needed.
const REQUESTS_PER_CONNECTION: u32 = 20;

/// What is sent, and from where.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) from: Ipv4Addr,
    pub(crate) gateway: SocketAddr,
    pub(crate) host: &'static str,
    pub(crate) path: &'static str,
    pub(crate) per_second: u32,
}

/// A request, and how it ended.
#[derive(Clone)]
pub(crate) struct Sent {
    /// When it was due.
    pub(crate) due: Instant,
    pub(crate) latency: Duration,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Status(u16),
    Failed(io::ErrorKind),
}

impl Sent {
    pub(crate) fn is_served(&self) -> bool {
        self.outcome == Outcome::Status(200)
    }

    /// How it ended, in words.
    pub(crate) fn outcome_name(&self) -> String {
        match self.outcome {
            Outcome::Status(status) => status.to_string(),
            Outcome::Failed(kind) => kind.to_string(),
        }
    }
}

/// A load that runs on a thread of its own until it is finished.
pub(crate) struct OpenLoop {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Sent>>,
}

impl OpenLoop {
    pub(crate) fn start(plan: Plan) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(send(plan, &flag))
        });
        Self { is_over, thread }
    }

    /// Sends no more, waits for the responses that are missing, and returns all requests.
    pub(crate) fn finish(self) -> Vec<Sent> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the load does not panic")
    }
}

async fn send(plan: Plan, is_over: &AtomicBool) -> Vec<Sent> {
    let (sent, idle): (Arc<Mutex<Vec<Sent>>>, Arc<Idle>) = (Arc::default(), Arc::default());
    let (start, gap) = (Instant::now(), Duration::from_secs(1) / plan.per_second);
    let mut requests = JoinSet::new();
    for number in 0_u32.. {
        let due = start + gap * number;
        if due > Instant::now() {
            sleep_until(due.into()).await;
        }
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        while requests.try_join_next().is_some() {}
        let (sent, idle) = (Arc::clone(&sent), Arc::clone(&idle));
        requests.spawn(async move {
            let exchange = timeout(PATIENCE, request(plan, &idle)).await;
            let outcome = match exchange.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(status) => Outcome::Status(status),
                Err(error) => Outcome::Failed(error.kind()),
            };
            sent.lock().expect("no panic").push(Sent { due, latency: due.elapsed(), outcome });
        });
    }
    while requests.join_next().await.is_some() {}
    std::mem::take(&mut *sent.lock().expect("no panic"))
}

/// Connections without a request, and how many each has carried.
type Idle = Mutex<Vec<(Connection, u32)>>;

async fn request(plan: Plan, idle: &Idle) -> io::Result<u16> {
    let kept = idle.lock().expect("no panic").pop();
    if let Some((connection, carried)) = kept {
        match exchange(plan, connection, carried, idle).await {
            // A server may close a connection that is idle. As browsers do, the request is sent again over another one.
            Err(error) if is_closed(&error) => {}
            result => return result,
        }
    }
    let connection = Connection::open_from(plan.from, plan.gateway).await?;
    exchange(plan, connection, 0, idle).await
}

async fn exchange(plan: Plan, mut connection: Connection, carried: u32, idle: &Idle) -> io::Result<u16> {
    connection.send(format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", plan.path, plan.host).as_bytes()).await?;
    let head = connection.response().await?;
    if !head.closes && carried + 1 < REQUESTS_PER_CONNECTION {
        idle.lock().expect("no panic").push((connection, carried + 1));
    }
    Ok(head.status)
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// A quantile of the latencies of what was served, in milliseconds.
pub(crate) fn latency_ms(sent: &[Sent], quantile: f64) -> f64 {
    let mut latencies: Vec<Duration> = sent.iter().filter(|one| one.is_served()).map(|one| one.latency).collect();
    latencies.sort_unstable();
    let rank = (latencies.len() as f64 * quantile).ceil() as usize;
    latencies.get(rank.saturating_sub(1)).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e3)
}

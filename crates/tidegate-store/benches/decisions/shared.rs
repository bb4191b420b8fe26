//! Redis, exact and leased, on one hot key: decisions a second, and the CPU they cost here and there.

use std::num::NonZeroUsize;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use tidegate_policy::{Cost, Gcra, Rate, Timestamp};
use tidegate_store::{Key, LeaseTerms, Name, SharedLevel, SharedLimit, Sharing, Source, Store, StoreConfig};

use crate::rounds::median;

const TASKS: usize = 64;

struct Server(Child, u16);

impl Server {
    fn start() -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed: `make setup`");
        let start = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < Duration::from_secs(10), "redis-server does not reply");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self(child, port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Seconds of CPU that a process has used.
fn cpu_seconds(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("linux");
    let after_name = stat.rsplit_once(')').expect("a stat line").1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: f64 = [11, 12].iter().map(|index| fields[*index].parse::<f64>().expect("ticks")).sum();
    ticks / 100.0
}

struct Round {
    per_second: f64,
    our_cpu_us: f64,
    redis_cpu_us: f64,
}

async fn round(store: &Store, limit: &SharedLimit, redis: &str, span: Duration) -> Round {
    let (ours, theirs, start) = (cpu_seconds("self"), cpu_seconds(redis), Instant::now());
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (store, limit) = (store.clone(), limit.clone());
            tokio::spawn(async move {
                let mut decisions = 0_u64;
                while start.elapsed() < span {
                    for _ in 0..16 {
                        let level = SharedLevel { limit: &limit, key: Key::of(&["hot"]), cost: Cost::ONE };
                        let verdict = store.check(&[level], now(start)).await;
                        assert!(verdict.admitted && verdict.source == Source::Shared, "{verdict:?}");
                        decisions += 1;
                    }
                    tokio::task::yield_now().await;
                }
                decisions
            })
        })
        .collect();
    let mut decisions = 0;
    for task in tasks {
        decisions += task.await.expect("no panic");
    }
    let decisions = decisions as f64;
    Round {
        per_second: decisions / start.elapsed().as_secs_f64(),
        our_cpu_us: (cpu_seconds("self") - ours) * 1e6 / decisions,
        redis_cpu_us: (cpu_seconds(redis) - theirs) * 1e6 / decisions,
    }
}

/// Monotonic, and cheap: wall time was read once.
fn now(start: Instant) -> Timestamp {
    use std::sync::OnceLock;
    static ORIGIN: OnceLock<(Instant, Duration)> = OnceLock::new();
    let (origin, wall) =
        ORIGIN.get_or_init(|| (start, SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()));
    Timestamp::default() + *wall + origin.elapsed()
}

pub(crate) fn compare() -> Value {
    let server = Server::start();
    let redis = server.0.id().to_string();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (exact, leased) = runtime.block_on(async {
        let url = format!("redis://127.0.0.1:{}", server.1).parse().expect("an address");
        let config = StoreConfig {
            budget: Duration::from_secs(5),
            lease: LeaseTerms::default(), // up to 1,000 tokens at once
            ..StoreConfig::new(url, Name::new("bench").expect("a name"))
        };
        let store = Store::connect(config).await.expect("sensible settings");
        let rule =
            Gcra::new(Rate::new(50_000_000, Duration::from_secs(1)).expect("a rate"), 50_000_000).expect("a limit");
        let limit = |name: &str, sharing| {
            let keys = NonZeroUsize::new(1_000).expect("not zero");
            store.limit(Name::new(name).expect("a name"), rule, sharing, keys).expect("shareable")
        };
        let (exact, leased) = (limit("exact", Sharing::Exact), limit("leased", Sharing::Leased));
        let (mut exact_rounds, mut leased_rounds) = (Vec::new(), Vec::new());
        for _ in 0..7 {
            exact_rounds.push(round(&store, &exact, &redis, Duration::from_secs(1)).await);
            leased_rounds.push(round(&store, &leased, &redis, Duration::from_secs(1)).await);
        }
        (exact_rounds, leased_rounds)
    });
    let middle = |rounds: &[Round], figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
    let ratio = |figure: fn(&Round) -> f64| {
        median(exact.iter().zip(&leased).map(|(exact, leased)| figure(leased) / figure(exact)).collect())
    };
    println!("\nRedis, one hot key, {TASKS} tasks    decisions/s   our CPU µs   Redis' CPU µs");
    let mut report = serde_json::Map::new();
    for (name, rounds) in [("exact", &exact), ("leased", &leased)] {
        let figures =
            [|r: &Round| r.per_second, |r: &Round| r.our_cpu_us, |r: &Round| r.redis_cpu_us].map(|f| middle(rounds, f));
        println!("  {name:<26} {:>14.0} {:>12.2} {:>15.3}", figures[0], figures[1], figures[2]);
        report.insert(
            name.to_owned(),
            json!({ "decisions_per_second": figures[0], "our_cpu_us": figures[1], "redis_cpu_us": figures[2] }),
        );
    }
    let (speed, cpu) = (ratio(|r| r.per_second), ratio(|r| r.redis_cpu_us));
    println!("  leased / exact: {speed:.0}× the decisions (goal ≥ 50: {})", crate::verdict(speed >= 50.0));
    println!("  leased / exact: 1/{:.0} of Redis' CPU (goal ≤ 1/50: {})", 1.0 / cpu, crate::verdict(cpu <= 0.02));
    report.insert("speed_ratio".to_owned(), json!(speed));
    report.insert("redis_cpu_ratio".to_owned(), json!(cpu));
    report.into()
}

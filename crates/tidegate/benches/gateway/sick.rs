//! `make sick`: one dead, one frozen and one slow upstream beside a healthy one, all behind the same gateway with
//! policies. What the healthy one serves must not notice.
//!
//! In each round all four are healthy for a while, then three are sick, under the same load. Judged are the share of
//! requests to the healthy upstream that are served, of all rounds, and the median over the rounds of the ratio of
//! their 99th percentiles. The same without policies shows what these do.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::open_loop::{OpenLoop, Plan, Sent, latency_ms};
use crate::process::{Process, free_port};
use crate::scratch::Scratch;
use crate::setting::number;
use crate::{admin, tidegate, verdict, write};

/// The load on the healthy upstream, and on each of the others.
const PER_SECOND: u32 = 200;
const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// The longest that breakers take to notice that all is well again.
const PATIENCE: Duration = Duration::from_secs(20);
/// How much the 99th percentile may rise.
const TOLERANCE: f64 = 1.1;

const HEALTHY: &str = "healthy";
/// What becomes of the others, which are named after it.
const SICK: [&str; 3] = ["dead", "frozen", "slow"];

const POLICY: &str = "{timeout: 2s, attempt_timeout: 500ms, retry: {attempts: 2, base: 50ms}, \
                      breaker: {window: 20, slow: 250ms, open: 1s}, bulkhead: {limit: 32, queue: 32, wait: 100ms}}";

pub(crate) fn run(scratch: &Scratch) -> ExitCode {
    let (rounds, seconds) = (number("SICK_ROUNDS", 5), number("SICK_SECONDS", 10));
    let protected = measure(scratch, "{p: POLICY}", rounds, seconds);
    let bare = measure(scratch, "{p: {timeout: 30s}}", 1, seconds);
    print("with policies", &protected);
    print("without", &bare);
    let ratio = median_ratio(&protected);
    let (sent, served) = sums(&protected);
    let is_reached = sent == served && ratio <= TOLERANCE;
    println!(
        "\nhealthy: {served} of {sent} served; p99 with sick neighbours ÷ p99 with healthy ones, median of {rounds} \
         rounds: {ratio:.3} (goal {TOLERANCE}): {}",
        verdict(is_reached)
    );
    let document = |rounds: &[Round]| rounds.iter().map(Round::document).collect::<Vec<_>>();
    write(
        "sick.json",
        &json!({
            "ratio": ratio, "sent": sent, "served": served, "reached": is_reached,
            "withPolicies": document(&protected), "without": document(&bare),
        }),
    );
    if is_reached { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Requests to the healthy upstream while the others are healthy too, and while they are sick; and how requests to the
/// sick ones ended.
struct Round {
    calm: Vec<Sent>,
    sick: Vec<Sent>,
    others: BTreeMap<String, usize>,
}

impl Round {
    fn ratio(&self) -> f64 {
        latency_ms(&self.sick, 0.99) / latency_ms(&self.calm, 0.99)
    }

    fn document(&self) -> Value {
        json!({
            "calmP99Ms": latency_ms(&self.calm, 0.99), "sickP99Ms": latency_ms(&self.sick, 0.99),
            "sent": self.sick.len(), "served": served(&self.sick), "others": self.others,
        })
    }
}

fn served(sent: &[Sent]) -> usize {
    sent.iter().filter(|one| one.is_served()).count()
}

fn sums(rounds: &[Round]) -> (usize, usize) {
    let all = || rounds.iter().flat_map(|round| [&round.calm, &round.sick]);
    (all().map(Vec::len).sum(), all().map(|sent| served(sent)).sum())
}

fn median_ratio(rounds: &[Round]) -> f64 {
    let mut ratios: Vec<f64> = rounds.iter().map(Round::ratio).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

fn print(title: &str, rounds: &[Round]) {
    println!("\n{title}");
    for (number, round) in (1..).zip(rounds) {
        println!(
            "  round {number}: p99 {:.2} ms, with sick neighbours {:.2} ms, {} of {} served; sick ones: {:?}",
            latency_ms(&round.calm, 0.99),
            latency_ms(&round.sick, 0.99),
            served(&round.sick),
            round.sick.len(),
            round.others,
        );
    }
}

fn measure(scratch: &Scratch, policies: &str, rounds: u64, seconds: u64) -> Vec<Round> {
    let mut site = Site::start(scratch, &policies.replace("POLICY", POLICY));
    // Connections are made, and code is warm.
    drop(site.load(2));
    let measured = (0..rounds).map(|_| {
        let (calm, _) = site.load(seconds);
        site.fall_ill();
        let (sick, others) = site.load(seconds);
        site.recover(scratch);
        Round { calm, sick, others }
    });
    measured.collect()
}

struct Site {
    /// Ends when this is dropped.
    _gateway: Process,
    port: u16,
    /// The healthy one, then the others.
    targets: Vec<(Process, u16)>,
}

impl Site {
    fn start(scratch: &Scratch, policies: &str) -> Self {
        let start = |_| {
            let port = free_port();
            (target(scratch, port), port)
        };
        let targets: Vec<(Process, u16)> = (0..=SICK.len()).map(start).collect();
        let port = free_port();
        let names = || std::iter::once(&HEALTHY).chain(&SICK);
        let upstream = |(name, (_, port)): (&&str, &(Process, u16))| {
            format!("{name}: {{url: \"http://127.0.0.1:{port}\", policy: p}}")
        };
        let upstreams: Vec<String> = names().zip(&targets).map(upstream).collect();
        let routes: Vec<String> = names().map(|name| format!("{{host: {name}, upstream: {name}}}")).collect();
        let config = format!(
            "listeners: [{{address: \"127.0.0.1:{port}\"}}]\n\
             policies: {policies}\nupstreams: {{{}}}\nroutes: [{}]\nlimits: {{default: {{{}}}}}\n",
            upstreams.join(", "),
            routes.join(", "),
            tidegate::OPEN
        );
        let gateway = tidegate::serve_unpinned(scratch, "sick", &config, port);
        Self { _gateway: gateway, port, targets }
    }

    /// Sends to all upstreams for so long. Returns the requests to the healthy one, and how the others ended.
    fn load(&self, seconds: u64) -> (Vec<Sent>, BTreeMap<String, usize>) {
        let gateway = (Ipv4Addr::LOCALHOST, self.port).into();
        let start =
            |host| OpenLoop::start(Plan { from: CLIENT, gateway, host, path: "/api/test", per_second: PER_SECOND });
        let (healthy, others) = (start(HEALTHY), SICK.map(start));
        std::thread::sleep(Duration::from_secs(seconds));
        let healthy = healthy.finish();
        let mut outcomes = BTreeMap::new();
        for one in others.into_iter().flat_map(OpenLoop::finish) {
            *outcomes.entry(one.outcome_name()).or_default() += 1;
        }
        (healthy, outcomes)
    }

    fn fall_ill(&mut self) {
        self.targets[1].0.signal_now(Signal::KILL);
        self.targets[1].0.wait_for_end();
        self.targets[2].0.signal_now(Signal::STOP);
        self.faults(r#"{"slowness": {"factor": 100}}"#);
    }

    /// All are healthy again, and get requests: breakers are closed.
    fn recover(&mut self, scratch: &Scratch) {
        let port = self.targets[1].1;
        self.targets[1].0 = target(scratch, port);
        self.targets[2].0.signal_now(Signal::CONT);
        self.faults("{}");
        let until = Instant::now() + PATIENCE;
        let is_well = |outcomes: &BTreeMap<String, usize>| outcomes.keys().all(|outcome| outcome == "200");
        while !is_well(&self.load(1).1) {
            assert!(Instant::now() < until, "the sick upstreams do not recover");
        }
    }

    fn faults(&self, faults: &str) {
        let response = admin::exchange(self.targets[3].1, "POST", "/faults", faults).expect("the target responds");
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    }
}

/// A service with more workers than it needs, once it takes connections.
fn target(scratch: &Scratch, port: u16) -> Process {
    let mut command: Vec<OsString> = vec![tidegate::program()];
    let listen = format!("127.0.0.1:{port}");
    let options = ["target", "--listen", &listen, "--service-time", "5ms", "--workers", "200", "--queue", "1000"];
    command.extend(options.map(OsString::from));
    let mut process = Process::start_unpinned(scratch, &format!("target-{port}"), command);
    process.wait_for(port);
    process
}

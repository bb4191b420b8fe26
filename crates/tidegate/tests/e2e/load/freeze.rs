//! A target that stands still for a second is seen by every request that was due meanwhile.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::load::target::Target;
use tidegate_testkit::load_run::{Running, constant, with};
use tidegate_testkit::{pause, signal, wait_until};

const RATE: u32 = 400;
const SECONDS: f64 = 3.0;
const FREEZE: Duration = Duration::from_secs(1);

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    stat.rsplit_once(')').expect("a stat line").1.trim_start().starts_with('T')
}

/// How many of the recorded latencies are at least `seconds`, by the raw record: pairs of microseconds and a count.
fn at_least(result: &Value, seconds: f64) -> u64 {
    let parts = result["record"]["groups"][0]["requests"]["latencies"].as_array().expect("parts");
    let pairs = parts.iter().flat_map(|part| part["times"].as_array().expect("pairs"));
    let pair = |pair: &Value| (pair[0].as_u64().expect("microseconds"), pair[1].as_u64().expect("a count"));
    pairs.map(pair).filter(|(micros, _)| *micros >= (seconds * 1e6) as u64).map(|(_, count)| count).sum()
}

/// With requests due evenly, `rate · (F − x)` of them are due so early in a freeze of `F` that they wait at least `x`;
/// one more or less, since the freeze may begin and end between two. A generator that waits for responses before it
/// sends would show a handful.
#[test]
fn every_request_due_in_a_freeze_shows_how_long_it_waited() {
    let target = Target::start();
    let plan = with(constant(target.url(), RATE, SECONDS), "concurrency", 2_000.into());
    let running = Running::start(&plan, |_| {});
    wait_until("requests are answered", || target.responded() > f64::from(RATE) / 4.0);
    signal(target.pid(), "STOP");
    wait_until("it is frozen", || is_stopped(target.pid()));
    let frozen = Instant::now();
    pause(FREEZE);
    let length = frozen.elapsed().as_secs_f64();
    signal(target.pid(), "CONT");
    let ran = running.ended();
    let all = (f64::from(RATE) * SECONDS) as u64;
    assert_eq!(ran.requests("success"), all, "{}\n{}", ran.result["requests"], ran.stdout);
    for tenths in 1..10 {
        let wait = f64::from(tenths) / 10.0;
        let least = (f64::from(RATE) * (length - wait)).floor() as u64 - 1;
        // What is recorded is exact to a thousandth.
        let seen = at_least(&ran.result, wait * 0.999);
        assert!(seen >= least, "{seen} waited {wait} s or longer; {least} were due early enough in {length} s");
    }
    // Of 1,200 requests the slowest 1 % are the first 12 of the freeze.
    let p99 = ran.result["latencySeconds"]["p99"].as_f64().expect("a time");
    let slowest = (f64::from(RATE) * SECONDS * 0.01).ceil();
    assert!(p99 >= (length - (slowest + 1.0) / f64::from(RATE)) * 0.999, "p99 is {p99}");
}

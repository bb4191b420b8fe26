//! `tidegate lab replay`.

mod proposals;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use crate::lab::simulate::lab;
use tidegate_testkit::command::{Outcome, finish};
use tidegate_testkit::{Directory, signal, text, tidegate, wait_until};

/// Ten requests of one client and one of another, in the second after this one, and one of each ten seconds later.
fn combined() -> String {
    let line = |client: &str, second: u32, path: &str| {
        format!("{client} - - [19/Jan/2026:16:30:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 2 \"-\" \"curl\"\n")
    };
    let mut log = String::new();
    (0..10).for_each(|number| log.push_str(&line("10.0.0.1", 0, &format!("/api/items?page={number}"))));
    log.push_str(&line("10.0.0.2", 0, "/api/items"));
    log.push_str(&line("10.0.0.1", 10, "/free"));
    log.push_str(&line("10.0.0.2", 10, "/api/items"));
    log
}

const THREE_A_CLIENT: &str =
    "limits:\n  per-ip: {algorithm: fixed, limit: 3, window: 5, key: ip}\ncommon_limits: [per-ip]\n";

fn report(directory: &Directory) -> Value {
    crate::lab::simulate::report(&directory.0.join("out"))
}

/// Runs it on these files, with a report.
fn replayed(directory: &Directory, log: &str, config: &str, more: &[&str]) -> (Outcome, Value) {
    let log = text(&directory.file("access.log", log));
    let (config, out) = (text(&directory.file("gateway.yaml", config)), text(&directory.0.join("out")));
    let outcome = lab(&[&["replay", &log, "--config", &config, "--out", &out], more].concat());
    assert_eq!(outcome.code, 0, "{outcome:?}");
    (outcome, report(directory))
}

#[test]
fn which_requests_would_have_been_rejected_when_and_by_which_limit() {
    let directory = Directory::new();
    let (outcome, report) = replayed(&directory, &combined(), THREE_A_CLIENT, &[]);
    for reported in [
        "13 requests from 2026-01-19 16:30:00 UTC to 2026-01-19 16:30:10 UTC (common or combined)",
        "whole seconds",
        "would have rejected 7 of 13 requests (53.8 %), from 1 client, most in the second from 2026-01-19 16:30:00 UTC \
         on (7 of 11)",
        "per-ip  fixed, limit=3, window=5",
        "10.0.0.1",
    ] {
        assert!(outcome.out.contains(reported), "{reported}\n{}", outcome.out);
    }
    let policy = &report["policies"][0];
    assert_eq!(report["kind"], "replay");
    assert_eq!((&policy["totals"]["admitted"], &policy["totals"]["refused"]), (&6.into(), &7.into()));
    assert_eq!((&policy["limits"][0]["asked"], &policy["limits"][0]["refused"]), (&13.into(), &7.into()));
    let clients = policy["clients"].as_array().expect("a list");
    assert_eq!(clients.len(), 1);
    assert_eq!((&clients[0]["client"], &clients[0]["requests"]), (&"10.0.0.1".into(), &11.into()));
    assert_eq!((&clients[0]["refused"], &clients[0]["limit"]), (&7.into(), &"per-ip".into()));
    assert_eq!(
        (&report["offered"][0], &policy["refused"][0], &report["offered"][10]),
        (&11.into(), &7.into(), &2.into())
    );
    let page = fs::read_to_string(directory.0.join("out/report.html")).expect("a page");
    assert!(page.contains("10.0.0.1") && !page.contains("TIDEGATE_REPORT"));
}

/// Limits by route, by user and tier, by header; upstreams' limits; limits that watch; those that lack a key.
#[test]
fn routes_identities_and_upstreams_count_as_in_the_gateway() {
    let config = r"
limits:
  search: {algorithm: fixed, limit: 1, window: 60, key: user+endpoint, missing: refuse, tiers: {gold: unlimited}}
  tenant: {algorithm: fixed, limit: 2, window: 60, key: 'header:x-tenant', missing: skip}
  provider: {algorithm: fixed, limit: 3, window: 60}
  watched: {algorithm: fixed, limit: 1, window: 60, dry_run: true}
identity:
  api_keys:
    keys: [{sha256: 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', user: rich, tier: gold}]
upstreams:
  main: {url: 'http://127.0.0.1:1'}
  partner: {url: 'http://127.0.0.1:2', limits: [provider]}
routes:
  - {name: search, prefix: /search, upstream: main, limits: [search]}
  - {name: partner, host: partner.example, upstream: partner, limits: [tenant, watched]}
";
    let lines = [
        (r#""path":"/search?q=1","user":"ann""#, "admitted"),
        (r#""path":"/search?q=2","user":"ann""#, "refused by search"),
        (r#""path":"/%73earch","user":"ann""#, "refused by search, however it is written"),
        (r#""path":"/search","user":"bob""#, "admitted"),
        (r#""path":"/search""#, "lacks a user"),
        (r#""path":"/search","user":"rich""#, "admitted: the configuration knows the tier"),
        (r#""path":"/search","user":"rich""#, "admitted"),
        (r#""path":"/search","user":"eve","tier":"gold""#, "admitted: the log knows the tier"),
        (r#""path":"/search","user":"eve","tier":"gold""#, "admitted"),
        (r#""path":"/x","host":"elsewhere.example""#, "no route"),
        (r#""path":"/x","host":"Partner.example:443","tenant":"t1""#, "admitted"),
        (r#""path":"/x","host":"partner.example","tenant":"t1""#, "admitted, one limit that watches would refuse"),
        (r#""path":"/x","host":"partner.example","tenant":"t1""#, "refused by tenant"),
        (r#""path":"/x","host":"partner.example","tenant":"t2""#, "admitted, watched"),
        (r#""path":"/x","host":"partner.example""#, "refused by provider, after the one that watches"),
        (r#""path":"/actuator/health","host":"partner.example""#, "for the gateway itself"),
    ];
    let mut log = String::new();
    for (number, (fields, _)) in lines.iter().enumerate() {
        let _infallible = writeln!(log, r#"{{"time":"2026-01-19T16:30:{number:02}.5Z","ip":"10.0.0.1",{fields}}}"#);
    }
    let directory = Directory::new();
    let (_, report) = replayed(&directory, &log, config, &["--field", "header:x-tenant=tenant"]);
    let policy = &report["policies"][0];
    let totals = &policy["totals"];
    let of = |name: &str| totals[name].as_u64().unwrap_or(u64::MAX);
    let found = [of("admitted"), of("refused"), of("lacking"), of("noRoute"), of("local"), of("watched")];
    assert_eq!(found, [9, 4, 1, 1, 1, 2], "{totals}");
    let refused = |name: &str| {
        let limits = policy["limits"].as_array().into_iter().flatten();
        limits.filter(|limit| limit["name"] == *name).find_map(|limit| limit["refused"].as_u64())
    };
    let found = [refused("search"), refused("tenant"), refused("provider"), refused("watched")];
    assert_eq!(found, [Some(3), Some(1), Some(1), Some(3)], "search has one that lacks its user: {policy}");
    let routes: Vec<_> = policy["routes"].as_array().into_iter().flatten().map(|it| it["requests"].as_u64()).collect();
    assert_eq!(routes, [Some(9), Some(5)]);
}

/// A request that an upstream's limit rejects has cost its client nothing; one that a shaper keeps asks it when it
/// leaves.
#[test]
fn shapers_and_slots_take_their_time() {
    let config = r"
limits:
  shaped: {algorithm: leaky, capacity: 5, fillRate: 1}
  at-once: {algorithm: concurrency, limit: 2}
upstreams: {main: {url: 'http://127.0.0.1:1', limits: [at-once]}}
common_limits: [shaped]
";
    // At once; they leave a second apart, and take 2.5 s each: the third and the sixth find both places taken.
    let mut log = String::from("timestamp,duration\n");
    (0..8).for_each(|_| log.push_str("1768840200.000,2.5\n"));
    log.push_str("1768840300.25,0\n");
    let directory = Directory::new();
    let (outcome, report) = replayed(&directory, &log, config, &[]);
    let totals = &report["policies"][0]["totals"];
    assert_eq!((&totals["delayed"], &totals["longestWait"]), (&3.into(), &4.0.into()), "{totals}");
    let limits = &report["policies"][0]["limits"];
    let (in_flight, shaped) = if limits[0]["name"] == "at-once" { (0, 1) } else { (1, 0) };
    assert_eq!((&limits[in_flight]["refused"], &limits[shaped]["refused"]), (&2.into(), &2.into()), "{limits}");
    assert!(outcome.out.contains("kept waiting, 4.000 s at most"), "{}", outcome.out);
}

/// A place behind a shaper is held for the wait as well, whether the upstream has limits of its own or not.
#[test]
fn an_upstream_limit_that_nobody_reaches_changes_nothing() {
    let config = |never: &str, upstream: &str| {
        format!(
            "limits:\n  shaped: {{algorithm: leaky, capacity: 10, fillRate: 1}}\n  at-once: {{algorithm: concurrency, \
             limit: 1}}\n{never}\
             common_limits: [shaped, at-once]\nupstreams: {{main: {{url: 'http://127.0.0.1:1'{upstream}}}}}\n"
        )
    };
    // The second waits until the second is full and is served for half of one: the third finds its place taken.
    let log = "timestamp,duration\n1768840200.0,0.5\n1768840200.6,0.5\n1768840201.2,0.5\n";
    let refused = |never: &str, upstream: &str| {
        let directory = Directory::new();
        let (_, report) = replayed(&directory, log, &config(never, upstream), &[]);
        report["policies"][0]["totals"]["refused"].as_u64()
    };
    assert_eq!(refused("", ""), Some(1));
    let never = "  never: {algorithm: fixed, limit: 1000, window: 1}\n";
    assert_eq!(refused(never, ", limits: [never]"), Some(1));
}

/// Rotated logs in any order, by name; a pipe in the wrong order is rejected rather than judged.
#[test]
fn files_are_read_from_the_oldest_on() {
    let directory = Directory::new();
    let config = text(&directory.file("gateway.yaml", "limits: {default: {algorithm: fixed, limit: 5, window: 10}}\n"));
    let part = |hour: u32| {
        let mut log = String::new();
        for number in 0..3_000 {
            let (minute, second) = (number / 60, number % 60);
            let time = format!("19/Jan/2026:{hour:02}:{minute:02}:{second:02} +0000");
            let _infallible = writeln!(log, "10.0.0.1 - - [{time}] \"GET / HTTP/1.1\" 200 2");
        }
        log
    };
    let parts = [8, 9, 10].map(part);
    let files = [2, 0, 1].map(|place: usize| text(&directory.file(&format!("access.log.{place}"), &parts[place])));
    let out = text(&directory.0.join("out"));
    let outcome = lab(&["replay", &files[0], &files[1], &files[2], "--config", &config, "--out", &out]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(
        (&report(&directory)["policies"][0]["totals"]["refused"], &report(&directory)["log"]["late"]),
        (&4_500.into(), &0.into())
    );
    let backwards = directory.file("backwards", &parts.iter().rev().map(String::as_str).collect::<String>());
    let refused = lab(&["replay", &text(&backwards), "--config", &config]);
    assert!(refused.code == 2 && refused.err.contains("sort it by time first"), "{refused:?}");
}

#[test]
fn two_policies_stand_side_by_side() {
    let directory = Directory::new();
    let log = text(&directory.file("access.log", &combined()));
    let one = text(&directory.file("one.yaml", THREE_A_CLIENT));
    let other = text(&directory.file("other.yaml", "limits: {default: {algorithm: fixed, limit: 5, window: 5}}\n"));
    let out = text(&directory.0.join("out"));
    let outcome = lab(&["replay", &log, "--config", &one, "--config", &other, "--out", &out]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    // The first lets three of the first client's in, and all of the other's; the second the first five of all.
    let differences = &report(&directory)["differences"];
    let found = ["bothAdmit", "onlyFirstRefuses", "onlySecondRefuses", "bothRefuse"].map(|it| differences[it].as_u64());
    assert_eq!(found, [Some(5), Some(2), Some(1), Some(5)], "{differences}");
    assert!(outcome.out.contains("only the second rejects"), "{}", outcome.out);
    let many: Vec<&str> = ["replay", &log].into_iter().chain([["--config", &one]; 5].into_iter().flatten()).collect();
    let refused = lab(&many);
    assert!(refused.code == 2 && refused.err.contains("at most 4"), "{refused:?}");
}

#[test]
fn bad_lines_are_counted_reported_and_passed_over() {
    let directory = Directory::new();
    let long = "x".repeat(600_000);
    let log = format!("{}garbage\n\n::1 - - [yesterday] \"GET / HTTP/1.1\" 200 1\n{long}\n{}", combined(), combined());
    let (outcome, report) = replayed(&directory, &log, THREE_A_CLIENT, &[]);
    assert_eq!((&report["log"]["badLines"], &report["log"]["requests"]), (&3.into(), &26.into()));
    let log = text(&directory.0.join("access.log"));
    for (line, reason) in [(14, "not a line of a common"), (16, "invalid time"), (17, "more than 262144 bytes")] {
        assert!(outcome.out.contains(&format!("{log}:{line}: ")) && outcome.out.contains(reason), "{}", outcome.out);
    }
    let mut bytes = combined().into_bytes();
    bytes.extend(b"\xff\xfe\n");
    fs::write(directory.0.join("access.log"), bytes).expect("written");
    let config = text(&directory.file("gateway.yaml", THREE_A_CLIENT));
    let outcome = lab(&["replay", &log, "--config", &config]);
    assert!(outcome.code == 0 && outcome.out.contains("14: not UTF-8"), "{outcome:?}");
}

#[test]
fn what_can_not_be_used_is_reported() {
    let directory = Directory::new();
    let log = text(&directory.file("access.log", &combined()));
    let good = text(&directory.file("good.yaml", THREE_A_CLIENT));
    let bad = text(&directory.file("bad.yaml", "limits: {default: {algorithm: fixed, limit: 0, window: 1}}\n"));
    let (empty, prose) = (text(&directory.file("empty", "\n")), text(&directory.file("prose", "hello world\n")));
    let broken = text(&directory.file("broken.json", "{\"a\":1}\n{}\n"));
    let named = text(&directory.file("named.csv", "time,costumer\n1,x\n"));
    let compressed = directory.0.join("access.log.gz");
    fs::write(&compressed, b"\x1f\x8b\x08\x00rest\n").expect("written");
    let (compressed, fifo) = (text(&compressed), text(&directory.0.join("pipe")));
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
    for (arguments, reported) in [
        (vec![log.as_str(), "--config", &bad], "bad.yaml: limits.default.limit"),
        (vec!["/nowhere", "--config", &good], "/nowhere: No such file"),
        (vec![&log, "--config", "/nowhere.yaml"], "/nowhere.yaml: "),
        (vec![&empty, "--config", &good], "the log is empty"),
        (vec![&prose, "--config", &good], "line 1 has an unknown format"),
        (vec![&prose, "--config", &good, "--format", "csv"], "must begin with a time or name the columns"),
        (vec![&prose, "--config", &good, "--format", "json"], "none of 1 lines can be read as a request"),
        (vec![&broken, "--config", &good], "the time is missing"),
        (vec![&compressed, "--config", &good], "compressed; decompress it first"),
        (
            vec![&named, "--config", &good, "--field", "client=customer"],
            "unknown column \"customer\"; known columns: time, costumer",
        ),
        (vec![&fifo, "--config", &good, "--suggest", "1%"], "name a file"),
        (vec![&log, "--config", &good, "--field", "who=x"], "--field: must be ROLE=NAME"),
        (vec!["-", "--config", &good, "--suggest", "1%"], "name a file"),
        (vec![&log, "--config", &good, "--suggest", "200%"], "a share from 0 to less than 1"),
        (vec![&log], "--config"),
        (vec!["--config", &good], "LOG"),
    ] {
        let outcome = lab(&[&["replay"], &arguments[..]].concat());
        assert!(outcome.code == 2 && outcome.err.contains(reported), "{reported}: {outcome:?}");
    }
}

#[test]
fn logs_come_from_standard_input_and_several_files_too() {
    let directory = Directory::new();
    let log = directory.file("access.log", &combined());
    let config = text(&directory.file("gateway.yaml", THREE_A_CLIENT));
    let mut command = tidegate();
    command.args(["lab", "replay", "-", "--config", &config, "--format", "combined"]);
    command.stdin(Stdio::from(fs::File::open(&log).expect("opened")));
    let outcome = finish(command);
    assert!(outcome.code == 0 && outcome.out.contains("7 of 13"), "{outcome:?}");
    let log = text(&log);
    let outcome = lab(&["replay", &log, &log, "--config", &config]);
    assert!(outcome.code == 0 && outcome.out.contains("17 of 26"), "{outcome:?}");
}

#[test]
fn a_pipe_that_nobody_writes_to_does_not_keep_it_from_stopping() {
    let directory = Directory::new();
    let config = text(&directory.file("gateway.yaml", THREE_A_CLIENT));
    let (fifo, out) = (text(&directory.0.join("pipe")), directory.0.join("out"));
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
    let mut command = tidegate();
    command.args(["lab", "replay", &fifo, "--config", &config, "--out", &text(&out)]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    wait_until("it has begun", || out.is_dir());
    signal(child.id(), "INT");
    assert_eq!(child.wait_with_output().expect("it ends by itself").status.code(), Some(130));
}

/// Of a pipe that nobody closes.
#[test]
fn ctrl_c_reports_what_was_read_by_then() {
    let directory = Directory::new();
    let config = text(&directory.file("gateway.yaml", THREE_A_CLIENT));
    let out = directory.0.join("out");
    let mut command = tidegate();
    command.args(["lab", "replay", "-", "--config", &config, "--out", &text(&out)]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(combined().as_bytes()).expect("it is read");
    // Signals are listened to before the directory is made.
    wait_until("it has begun", || out.is_dir());
    signal(child.id(), "INT");
    let ended = child.wait_with_output().expect("it ends by itself");
    drop(pipe);
    assert_eq!(ended.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("stopped before the end"));
    assert_eq!(report(&directory)["kind"], "replay");
}

/// Hosts, durations and addresses that a log lacks are reported where a limit wants them.
#[test]
fn what_a_log_lacks_is_said() {
    let directory = Directory::new();
    let config = "limits:\n  per-ip: {algorithm: fixed, limit: 3, window: 5, key: ip}\n  busy: {algorithm: \
                  concurrency, limit: 1}\n\
                  common_limits: [per-ip, busy]\nupstreams: {main: {url: 'http://127.0.0.1:1'}}\n\
                  routes: [{name: shop, host: shop.example, upstream: main}]\n";
    let times = "1768840200.5\n1768840200.6\n1768840200.7\n1768840200.8\n";
    let (outcome, report) = replayed(&directory, times, config, &[]);
    for reported in ["has no addresses", "how long requests took", "`--host` sets it", "4 have no route"] {
        assert!(outcome.out.contains(reported), "{reported}\n{}", outcome.out);
    }
    assert_eq!(report["log"]["lacks"], serde_json::json!(["client", "host", "path", "user", "duration"]));
    let (outcome, report) = replayed(&directory, times, config, &["--host", "shop.example"]);
    assert_eq!(report["policies"][0]["totals"]["refused"], 1, "{}", outcome.out);
}

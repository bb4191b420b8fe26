//! What is sent, and how it is counted.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use tidegate_testkit::load_run::{Ran, Running, constant, run, with};
use tidegate_testkit::{OK, Upstream, pause};

fn url(address: SocketAddr) -> String {
    format!("http://{address}/api/test")
}

fn responding(status: &'static str) -> Upstream {
    Upstream::responding(move |_| format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").into_bytes())
}

#[test]
fn connections_are_kept() {
    let target = Upstream::start();
    let ran = run(&with(constant(url(target.address), 200, 1.0), "concurrency", json!(4)));
    let connections: BTreeSet<u32> = target.received().iter().map(|request| request.connection).collect();
    assert!(connections.len() <= 4, "{} connections for four requests at a time", connections.len());
    assert_eq!((ran.requests("sent"), ran.requests("sent") + ran.missed("noRoom")), (target.count() as u64, 200));
    assert!(target.count() > 20, "{}", ran.result["requests"]);
}

/// Every request of the plan, none more.
#[test]
fn an_even_plan_is_sent_to_the_last_request() {
    let target = Upstream::start();
    let ran = run(&constant(url(target.address), 200, 1.0));
    assert_eq!((ran.code, ran.requests("sent"), ran.requests("success")), (0, 200, 200), "{}", ran.stderr);
    assert_eq!(target.count(), 200);
    assert!(ran.result["valid"].as_bool().expect("a verdict"));
}

#[test]
fn everything_that_the_plan_says_of_a_request_is_sent() {
    let target = Upstream::start();
    let mut plan = constant(format!("http://{}/a?b=c", target.address), 20, 0.5);
    plan["requestOptions"] = json!({
        "method": "PUT", "query": { "d": "e f" }, "headers": { "X-A": "1" }, "body": { "k": [1] },
            "auth": { "token": "t" },
    });
    plan["clients"] = json!([{ "count": 1000, "apiKey": "key-{n}", "tier": "pro", "forwardedFor": "10.0.0.0" }]);
    let ran = run(&plan);
    assert_eq!(ran.requests("success"), 10, "{}", ran.stderr);
    for request in target.received() {
        assert_eq!(request.line, "PUT /a?b=c&d=e%20f HTTP/1.1");
        assert_eq!(request.body, b"{\"k\":[1]}");
        let header = |name: &str| request.header(name).unwrap_or_else(|| panic!("no {name}: {request:?}")).to_owned();
        assert_eq!(header("host"), target.address.to_string());
        assert_eq!(
            (header("x-a"), header("authorization"), header("x-user-tier")),
            ("1".into(), "Bearer t".into(), "pro".into())
        );
        assert_eq!(header("content-type"), "application/json");
        let number: u32 = header("x-api-key").strip_prefix("key-").expect("a key").parse().expect("a number");
        let address = std::net::Ipv4Addr::from(u32::from(std::net::Ipv4Addr::new(10, 0, 0, 0)) + number);
        assert_eq!(header("x-forwarded-for"), address.to_string(), "the same client in all it shows");
    }
}

/// The seed decides who sends what and when, whoever asks for it.
#[test]
fn the_same_seed_sends_the_same_and_another_does_not() {
    let sent = |seed: u64| {
        let target = Upstream::start();
        let mut plan = constant(url(target.address), 100, 0.5);
        plan["profile"] = json!({ "type": "poisson", "params": { "averageRps": 100 } });
        plan["clients"] = json!([{ "count": 1_000_000, "headers": { "X-Client": "{n}" } }]);
        plan["seed"] = json!(seed);
        let ran = run(&plan);
        let mut clients: Vec<String> =
            target.received().iter().map(|request| request.header("x-client").expect("one").to_owned()).collect();
        clients.sort_unstable();
        (ran.requests("sent"), clients)
    };
    let first = sent(5);
    assert_eq!(first, sent(5));
    assert_ne!(first, sent(6));
}

#[test]
fn responses_are_counted_by_status_and_split_by_group_and_class() {
    let target = Upstream::responding(|request| {
        let status = match request.header("x-who") {
            Some("bot") => "429 Too Many Requests",
            Some("odd") => "503 Service Unavailable",
            _ => "204 No Content",
        };
        format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").into_bytes()
    });
    let mut plan = constant(url(target.address), 300, 1.0);
    plan["clients"] = json!([
        { "name": "people", "weight": 2 },
        { "name": "bots", "class": "attacker", "headers": { "X-Who": "bot" } },
        { "name": "odd", "headers": { "X-Who": "odd" } },
    ]);
    let ran = run(&plan);
    let (success, limited, errors) = (ran.requests("success"), ran.requests("rateLimited"), ran.requests("errors"));
    assert_eq!(success + limited + errors, 300);
    let groups = ran.result["groups"].as_array().expect("groups");
    let of = |place: usize, name: &str| groups[place]["requests"][name].as_u64().expect("a count");
    assert_eq!((of(0, "success"), of(0, "sent")), (success, success));
    assert_eq!((of(1, "rateLimited"), of(1, "sent")), (limited, limited));
    assert_eq!((of(2, "errors"), of(2, "sent")), (errors, errors));
    let class = |name: &str, what: &str| ran.result["classes"][name]["requests"][what].as_u64().expect("a count");
    assert_eq!((class("attacker", "sent"), class("honest", "sent")), (limited, success + errors));
    assert!(success > limited && limited > 0 && errors > 0);
    assert_eq!(ran.result["requests"]["statuses"]["503"].as_u64(), Some(errors));
    let in_series: u64 = ran.result["series"]
        .as_array()
        .expect("a series")
        .iter()
        .map(|second| second["honest"]["sent"].as_u64().expect("a count"))
        .sum();
    assert_eq!(in_series, success + errors);
}

#[test]
fn failures_are_reported_by_their_cause() {
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let ran = run(&constant(url(nobody), 50, 0.4));
    assert_eq!((ran.failures("not_connected"), ran.requests("errors")), (20, 20), "{}", ran.result["requests"]);
    assert!(ran.stdout.contains("not_connected: Connection refused"), "{}", ran.stdout);

    let closing = Upstream::behaving(|_, _| false);
    let ran = run(&constant(url(closing.address), 50, 0.4));
    assert_eq!(ran.failures("closed"), 20, "{}", ran.result["requests"]);

    let half =
        Upstream::behaving(|_, stream| stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").is_err());
    let ran = run(&constant(url(half.address), 50, 0.4));
    assert_eq!(ran.failures("closed"), 20, "{}", ran.result["requests"]);

    let other = Upstream::responding(|_| b"220 mail.example ESMTP\r\n\r\n".to_vec());
    let ran = run(&constant(url(other.address), 50, 0.4));
    assert_eq!(ran.failures("not_http"), 20, "{}", ran.result["requests"]);
}

/// Who never responds: their time is over, and their latency is at least that.
#[test]
fn what_takes_too_long_is_given_up() {
    let silent = Upstream::behaving(|_, _| {
        pause(Duration::from_secs(3));
        false
    });
    let plan = with(constant(url(silent.address), 50, 0.4), "requestOptions", json!({ "timeout": 0.2 }));
    let ran = run(&plan);
    assert_eq!((ran.failures("timed_out"), ran.requests("errors")), (20, 20), "{}", ran.result["requests"]);
    assert!(ran.result["latencySeconds"]["p50"].as_f64().expect("a time") >= 0.2, "{}", ran.result["latencySeconds"]);
}

/// A response in chunks, one without a length, one that closes, one to HEAD: all of them end where they end.
#[test]
fn responses_of_every_framing_are_read_to_their_end() {
    for (response, method) in [
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "GET"),
        ("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nOK", "GET"),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nOK", "POST"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 200\r\n\r\n", "HEAD"),
        ("HTTP/1.1 204 No Content\r\n\r\n", "DELETE"),
    ] {
        let target = Upstream::responding(|_| response.as_bytes().to_vec());
        let ran = run(&with(constant(url(target.address), 100, 0.3), "requestOptions", json!({ "method": method })));
        assert_eq!((ran.requests("success"), target.count()), (30, 30), "{response}: {}", ran.result["requests"]);
    }
    let until_close = Upstream::behaving(|_, stream| {
        let _sent = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nall of it");
        false
    });
    let ran = run(&constant(url(until_close.address), 100, 0.3));
    assert_eq!(ran.requests("success"), 30, "{}", ran.result["requests"]);
}

/// Large responses come in many pieces, and their connection is used again.
#[test]
fn large_bodies_go_both_ways() {
    let target = Upstream::responding(|_| {
        let mut response = b"HTTP/1.1 200 OK\r\ncontent-length: 3000000\r\n\r\n".to_vec();
        response.resize(response.len() + 3_000_000, b'x');
        response
    });
    let plan = with(
        constant(url(target.address), 10, 1.0),
        "requestOptions",
        json!({ "method": "POST", "body": "y".repeat(2_000_000) }),
    );
    let ran = run(&plan);
    assert_eq!(ran.requests("success"), 10, "{}", ran.result["requests"]);
    assert!(target.received().iter().all(|request| request.body.len() == 2_000_000));
}

/// Responses without end, as fast as they can be sent: they time out, and everyone else is served as if they were not
/// there.
#[test]
fn an_endless_response_keeps_nobody_else_waiting() {
    let target = Upstream::behaving(|request, stream| {
        if request.header("x-who") != Some("endless") {
            return stream.write_all(OK).is_ok();
        }
        let mut is_read = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n").is_ok();
        let much = vec![b'x'; 1 << 18];
        while is_read {
            is_read = stream.write_all(&much).is_ok();
        }
        false
    });
    let mut plan = constant(url(target.address), 50, 1.0);
    plan["requestOptions"] = json!({ "timeout": 1.5 });
    plan["clients"] =
        json!([{ "name": "quick", "weight": 9 }, { "name": "endless", "headers": { "X-Who": "endless" } }]);
    let ran = run(&plan);
    let (quick, endless) = (&ran.result["groups"][0]["requests"], &ran.result["groups"][1]["requests"]);
    assert_eq!(quick["success"], quick["sent"], "{quick}");
    assert!(endless["sent"].as_u64() > Some(0) && endless["failures"]["timed_out"] == endless["sent"], "{endless}");
    assert_eq!(ran.requests("sent"), 50);
}

#[test]
fn never_more_are_in_flight_than_the_plan_allows_and_the_rest_is_missed() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (inside, seen) = (Arc::clone(&now), Arc::clone(&most));
    let slow = Upstream::behaving(move |_, stream| {
        seen.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        pause(Duration::from_millis(100));
        inside.fetch_sub(1, Ordering::SeqCst);
        stream.write_all(OK).is_ok()
    });
    let ran = run(&with(constant(url(slow.address), 200, 1.0), "concurrency", json!(5)));
    assert!(most.load(Ordering::SeqCst) <= 5, "{most:?} at once");
    assert_eq!(ran.requests("sent") + ran.missed("noRoom"), 200);
    assert!(
        ran.missed("noRoom") >= 100,
        "five at once, each for 0.1 s, are at most 55 in a second: {}",
        ran.result["requests"]
    );
    assert!(
        !ran.result["latencySeconds"]["atLeast"].as_array().expect("a list").is_empty(),
        "{}",
        ran.result["latencySeconds"]
    );
    assert_eq!(ran.code, 0, "the target was full, the instrument was not");
}

/// Frozen itself, it sends what is less than `maxLag` late at once, counts the rest as missed, and says that the result
/// is worth nothing.
#[test]
fn a_generator_that_stood_still_says_so() {
    let target = Upstream::start();
    let mut plan = constant(url(target.address), 200, 2.0);
    (plan["maxLag"], plan["lagBudget"]) = (json!(0.2), json!(0.01));
    let running = Running::start(&plan, |_| {});
    tidegate_testkit::wait_until("it sends", || target.count() > 20);
    running.signal("STOP");
    pause(Duration::from_millis(700));
    running.signal("CONT");
    let ran = running.ended();
    assert_eq!(ran.requests("sent") + ran.missed("tooLate"), 400, "{}", ran.result["requests"]);
    // Of 0.7 s at least 0.5 s is later than 0.2 s: 100 requests, or one less.
    assert!(ran.missed("tooLate") >= 99, "{}", ran.result["requests"]);
    assert_eq!((ran.code, &ran.result["valid"]), (98, &json!(false)));
    assert!(ran.stdout.contains("INVALID"), "{}", ran.stdout);
}

/// Parts of a plan, each sent by another instance, beginning together.
#[test]
fn parts_of_a_plan_are_the_whole_together() {
    let target = Upstream::start();
    let mut plan = constant(url(target.address), 150, 1.0);
    plan["clients"] = json!([{ "count": 10_000_000, "headers": { "X-Client": "{n}" } }]);
    let start = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs_f64() + 1.5;
    let parts: Vec<Running> = ["1/3", "2/3", "3/3"]
        .map(|part| {
            Running::start(&plan, |command| {
                command.args(["--part", part, "--start-at", &start.to_string()]);
            })
        })
        .into();
    let files: Vec<_> = parts.iter().map(|part| part.directory.0.join("result.json")).collect();
    // Their directories are needed until they have been merged.
    let mut ran = Vec::new();
    let mut texts = Vec::new();
    for (part, file) in parts.into_iter().zip(&files) {
        let mut part = part;
        let directory = std::mem::replace(&mut part.directory, tidegate_testkit::Directory::new());
        ran.push(part.ended());
        texts.push(std::fs::read_to_string(file).expect("a result"));
        drop(directory);
    }
    assert!(ran.iter().all(|ran| ran.requests("sent") == 50), "a third each");
    let clients = |target: &Upstream| -> Vec<String> {
        let mut all: Vec<String> =
            target.received().iter().map(|request| request.header("x-client").expect("one").to_owned()).collect();
        all.sort_unstable();
        all
    };
    let alone = Upstream::start();
    let whole = run(&with(plan.clone(), "limiterUrl", json!(url(alone.address))));
    assert_eq!(whole.requests("sent"), 150);
    assert_eq!(clients(&target), clients(&alone), "the same requests");

    let directory = tidegate_testkit::Directory::new();
    let files: Vec<_> =
        texts.iter().enumerate().map(|(place, text)| directory.file(&format!("{place}.json"), text)).collect();
    let merged = directory.0.join("merged.json");
    let done = tidegate_testkit::tidegate()
        .args(["load", "merge"])
        .args(&files)
        .arg("--json")
        .arg(&merged)
        .output()
        .expect("it runs");
    assert!(done.status.success(), "{done:?}");
    let merged: Value = serde_json::from_slice(&std::fs::read(&merged).expect("a file")).expect("JSON");
    assert_eq!(merged["requests"]["success"], json!(150));
    let starts: BTreeSet<&str> = merged["instances"]
        .as_array()
        .expect("instances")
        .iter()
        .map(|one| one["startedAt"].as_str().expect("a time"))
        .collect();
    assert_eq!(starts.len(), 1, "all at the same time");
}

#[test]
fn a_start_in_the_past_is_rejected() {
    let target = Upstream::start();
    let ran = run(&with(constant(url(target.address), 10, 0.1), "startAt", json!(1_000_000_000)));
    assert_eq!((ran.code, target.count()), (2, 0));
    assert!(ran.stderr.contains("startAt: must be in the future, got a time "), "{}", ran.stderr);
}

/// A polite client comes back when it was asked to; all of that is extra.
#[test]
fn polite_clients_come_back_when_they_are_asked_to() {
    // Each client is rejected twice, then served.
    let rejected: Mutex<BTreeMap<String, u32>> = Mutex::default();
    let strict = Upstream::responding(move |request| {
        let mut rejected = rejected.lock().expect("no panic");
        let times = rejected.entry(request.header("x-client").expect("one").to_owned()).or_default();
        *times += 1;
        match times {
            1 | 2 => b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n".to_vec(),
            _ => OK.to_vec(),
        }
    });
    let mut plan = constant(url(strict.address), 100, 1.0);
    plan["profile"] = json!({ "type": "trace", "params": { "timestamps": vec![0; 10] } });
    let client = json!({ "X-Client": "{n}" });
    plan["clients"] = json!([{ "count": 10_000_000, "headers": client, "polite": { "retries": 5 } }]);
    let ran = run(&plan);
    assert_eq!((ran.requests("sent"), ran.requests("rateLimited")), (10, 10), "{}", ran.result["requests"]);
    let retries = &ran.result["retries"];
    let counts = ["sent", "success", "rateLimited"].map(|name| retries[name].as_u64());
    assert_eq!(counts, [Some(20), Some(10), Some(10)], "{retries}");
    assert_eq!(strict.count(), 30);

    let later =
        Upstream::responding(|_| b"HTTP/1.1 429 Too Many\r\nretry-after: 100\r\ncontent-length: 0\r\n\r\n".to_vec());
    let ran = run(&with(plan.clone(), "limiterUrl", json!(url(later.address))));
    assert_eq!(
        (&ran.result["retries"]["sent"], &ran.result["retries"]["givenUp"]),
        (&json!(0), &json!(10)),
        "longer than any of them waits"
    );
}

#[test]
fn polite_clients_back_off_when_nobody_tells_them_how_long() {
    let never = responding("429 Too Many Requests");
    let mut plan = constant(url(never.address), 100, 2.0);
    plan["profile"] = json!({ "type": "trace", "params": { "timestamps": vec![0; 20] } });
    plan["clients"] = json!([{ "polite": { "retries": 3, "base": 0.02, "longest": 0.1 } }]);
    let ran = run(&plan);
    assert_eq!(
        (&ran.result["retries"]["sent"], &ran.result["retries"]["givenUp"]),
        (&json!(60), &json!(20)),
        "{}",
        ran.result["retries"]
    );
    let rude = run(&with(plan, "clients", json!([{ "polite": false }])));
    assert_eq!(rude.result["retries"]["sent"], json!(0));
}

/// They make an overload worse: that is what they are for.
#[test]
fn stubborn_clients_send_again_what_failed() {
    let plan = |address, clients| {
        let mut plan = constant(url(address), 100, 1.0);
        plan["profile"] = json!({ "type": "trace", "params": { "timestamps": vec![0; 10] } });
        plan["requestOptions"] = json!({ "timeout": 0.2 });
        plan["clients"] = clients;
        plan
    };
    let failing = responding("503 Service Unavailable\r\nretry-after: 100");
    let silent = Upstream::behaving(|_, _| {
        tidegate_testkit::pause(Duration::from_secs(2));
        false
    });
    let closing = Upstream::behaving(|_, _| false);
    for (upstream, after, sent) in [
        (&failing, json!(["5xx"]), 20),
        (&failing, json!(["timeout", "failure", "500"]), 0),
        (&silent, json!(["timeout"]), 20),
        (&silent, json!(["failure", "5xx"]), 0),
        (&closing, json!(["failure"]), 20),
        (&closing, json!(["timeout"]), 0),
    ] {
        let retry = json!({ "retries": 2, "base": 0.01, "after": after });
        let ran = run(&plan(upstream.address, json!([{ "retry": retry }])));
        assert_eq!(ran.requests("sent"), 10);
        let retries = &ran.result["retries"];
        let given_up = if sent > 0 { 10 } else { 0 };
        assert_eq!((&retries["sent"], &retries["givenUp"]), (&json!(sent), &json!(given_up)), "{after}: {retries}");
    }
}

#[test]
fn a_group_may_request_a_path_of_its_own() {
    let target = Upstream::start();
    let mut plan = constant(url(target.address), 100, 0.5);
    plan["clients"] = json!([{ "name": "some" }, { "name": "others", "path": "/b?c=d" }]);
    assert_eq!(run(&plan).requests("sent"), 50);
    let lines: BTreeSet<String> = target.received().into_iter().map(|request| request.line).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.contains("GET /b?c=d HTTP/1.1"), "{lines:?}");
}

/// A server that restarts its connections at will costs the requests on them and nothing else.
#[test]
fn connections_that_end_are_made_again() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let moody = Upstream::behaving(move |_, stream| {
        stream.write_all(OK).is_ok() && !count.fetch_add(1, Ordering::SeqCst).is_multiple_of(5)
    });
    let ran: Ran = run(&constant(url(moody.address), 200, 1.0));
    assert_eq!(ran.requests("sent"), 200);
    // Whoever is closed just when the next request is sent loses it; most are closed while they are idle.
    assert!(ran.requests("success") >= 150, "{}", ran.result["requests"]);
}

//! Checks of endpoints, and endpoints that fail requests.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{gateway, named, shares, shown, state};
use tidegate_testkit::{Client, Directory, Gateway, Upstream, binary, wait_until};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK";
const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";

/// Health checks get 200 or 503 as the switch says, all other requests 200.
fn switched() -> (Upstream, Arc<AtomicBool>) {
    let is_healthy = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&is_healthy);
    let upstream = Upstream::responding(move |received| {
        let is_sick = received.line.contains("/health") && !is_healthy.load(Ordering::Relaxed);
        if is_sick { UNAVAILABLE } else { OK }.to_vec()
    });
    (upstream, switch)
}

fn requests(upstream: &Upstream) -> usize {
    upstream.received().iter().filter(|received| !received.line.contains("/health")).count()
}

#[test]
fn an_endpoint_that_fails_its_checks_gets_no_requests_until_it_passes_them_again() {
    let (sick, is_healthy) = switched();
    let healthy = named("healthy");
    let check = "health_check: {path: /health?deep=1, interval: 100ms, healthy: 2, unhealthy: 2}, slow_start: 0";
    let gateway = gateway(&[sick.address, healthy.address], check);
    wait_until("it is checked", || sick.received().iter().any(|received| received.line.contains("/health?deep=1")));
    let seen = sick.last();
    assert_eq!(seen.header("user-agent"), Some("tidegate-health-check"));
    is_healthy.store(false, Ordering::Relaxed);
    wait_until("it is out", || state(&gateway, sick.address) == "unhealthy");
    gateway.wait_for_line("fails its health checks: status 503");
    assert_eq!(shown(&gateway, sick.address)["failedCheck"], "status 503");
    let before = requests(&sick);
    for _ in 0..30 {
        assert_eq!(gateway.get("/").text(), "healthy");
    }
    assert_eq!(requests(&sick), before);
    is_healthy.store(true, Ordering::Relaxed);
    wait_until("it is back", || state(&gateway, sick.address) == "up");
    wait_until("it gets requests", || gateway.get("/").text() == "OK");
}

#[test]
fn a_check_may_want_another_method_and_other_statuses() {
    let upstream = Upstream::responding(|received| {
        let is_check = received.line.starts_with("HEAD /alive");
        if is_check { b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec() } else { OK.to_vec() }
    });
    let other = named("other");
    for (statuses, expected) in [("statuses: [404]", "up"), ("statuses: [200]", "unhealthy")] {
        let check = format!("health_check: {{path: /alive, method: HEAD, interval: 100ms, {statuses}}}");
        let gateway = gateway(&[upstream.address, other.address], &check);
        wait_until("the first check has decided", || {
            let shown = super::shown(&gateway, upstream.address);
            shown["health"] != "unknown" && shown["state"] == expected
        });
    }
}

/// Without a path a check only connects.
#[test]
fn a_check_without_a_path_only_connects() {
    let (dead, alive) = (crate::framing::origin::Rejecting::new(), named("alive"));
    let gateway = gateway(&[dead.address, alive.address], "health_check: {interval: 100ms}");
    wait_until("the first check has decided", || state(&gateway, dead.address) == "unhealthy");
    assert_eq!(shares(&gateway, 20, &[&alive]), [20]);
    assert_eq!(alive.count(), 20, "a check sends no request");
}

/// It accepts and never responds.
#[test]
fn an_endpoint_that_does_not_respond_to_its_check_in_time_is_out() {
    let stuck = Upstream::behaving(|_, _| {
        wait_until("it never is", || false);
        false
    });
    let alive = named("alive");
    let check = "health_check: {path: /health, interval: 100ms, timeout: 50ms}";
    let gateway = gateway(&[stuck.address, alive.address], check);
    wait_until("the first check has decided", || state(&gateway, stuck.address) == "unhealthy");
    assert!((0..20).all(|_| gateway.get("/").text() == "alive"));
}

/// It passes its checks and fails requests.
#[test]
fn an_endpoint_that_fails_requests_is_ejected_though_its_checks_pass() {
    let failing =
        Upstream::responding(
            |received| {
                if received.line.contains("/health") { OK.to_vec() } else { UNAVAILABLE.to_vec() }
            },
        );
    let good = named("good");
    let settings = "health_check: {path: /health, interval: 100ms}, \
                    ejection: {consecutive_failures: 5, time: 1h, max_time: 1h}";
    let gateway = gateway(&[failing.address, good.address], settings);
    let mut failed = 0;
    wait_until("it is ejected", || {
        failed += usize::from(gateway.get("/").status == 503);
        state(&gateway, failing.address) == "ejected"
    });
    assert_eq!(failed, 5);
    assert!((0..30).all(|_| gateway.get("/").text() == "good"));
    let shown = super::shown(&gateway, failing.address);
    assert_eq!((&shown["ejected"]["reason"], &shown["health"]), (&"consecutive_failures".into(), &"healthy".into()));
    let ejections = format!("tidegate_endpoint_ejections_total{{service=\"app\",endpoint=\"{}\"}}", failing.address);
    assert_eq!(gateway.metric(&ejections), Some(1.0));
}

#[test]
fn an_ejected_endpoint_returns_when_its_time_is_up() {
    let is_failing = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&is_failing);
    let sometimes =
        Upstream::responding(move |_| if switch.load(Ordering::Relaxed) { UNAVAILABLE } else { OK }.to_vec());
    let good = named("good");
    let settings = "ejection: {consecutive_failures: 2, time: 300ms, max_time: 300ms}, slow_start: 0";
    let gateway = gateway(&[sometimes.address, good.address], settings);
    wait_until("it is ejected", || {
        gateway.get("/");
        state(&gateway, sometimes.address) == "ejected"
    });
    is_failing.store(false, Ordering::Relaxed);
    wait_until("it gets requests again", || gateway.get("/").text() == "OK");
    gateway.wait_for_line("returns from its ejection");
}

/// Only the statuses that are named count.
#[test]
fn which_statuses_count_is_configured() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let upstream = Upstream::responding(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n".to_vec()
    });
    let good = named("good");
    for (statuses, expected) in [("[502, 503, 504]", "up"), ("[500]", "ejected")] {
        let settings = format!("ejection: {{consecutive_failures: 2, statuses: {statuses}}}");
        let gateway = gateway(&[upstream.address, good.address], &settings);
        let before = count.load(Ordering::Relaxed);
        wait_until("it has failed often enough", || {
            gateway.get("/");
            count.load(Ordering::Relaxed) >= before + 2
        });
        assert_eq!(state(&gateway, upstream.address), expected, "{statuses}");
    }
}

/// A request that lasts kept the removed checks alive, and they took the endpoint out for good.
#[test]
fn checks_that_a_reload_removes_decide_nothing_any_more() {
    let origin = crate::framing::origin::Origin::new();
    let other = Upstream::start();
    // No response is a failed check.
    let check = "health_check: {path: /health, interval: 100ms, timeout: 50ms}";
    let gateway = Gateway::start(&format!(
        "workers: 2\nupstreams:\n  app: {{url: \"http://{}\"}}\n  other: {{url: \"http://{}\", {check}}}\n\
         routes: [{{path: /other, upstream: other}}, {{upstream: app}}]\n\
         limits: {{default: {{algorithm: fixed, limit: 1000000, window: 60}}}}\n",
        origin.address, other.address
    ));
    let mut client = Client::connect(gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut visit = origin.accept();
    visit.head();
    let reload = |from: &str, to: &str| {
        let file = std::fs::read_to_string(&gateway.config).expect("its file");
        assert!(file.contains(from), "{file}");
        std::fs::write(&gateway.config, file.replace(from, to)).expect("it can be written");
        assert_eq!(gateway.post("/reload", "").status, 200);
    };
    let url = format!("\"http://{}\"", origin.address);
    reload(&url, &format!("{url}, {check}"));
    wait_until("it is out", || state(&gateway, origin.address) == "unhealthy");
    // A request that began under this configuration.
    let mut second = Client::connect(gateway.address);
    second.send("GET /second HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut held = loop {
        let mut visit = origin.accept();
        if visit.head().contains("/second") {
            break visit;
        }
    };
    reload(&format!("{url}, {check}"), &url);
    wait_until("it is in use again", || state(&gateway, origin.address) == "up");
    let checked = other.count();
    wait_until("there was time for more checks", || other.count() >= checked + 10);
    assert_eq!(super::shown(&gateway, origin.address)["health"], "unknown");
    assert_eq!(state(&gateway, origin.address), "up");
    for (client, visit) in [(&mut client, &mut visit), (&mut second, &mut held)] {
        visit.send(OK);
        assert_eq!(client.response().status, 200);
    }
}

/// Sets how many descriptors a process may have open. False if that is not possible here.
fn allow_open_files(pid: u32, most: usize) -> bool {
    let mut command = Command::new("prlimit");
    command.arg(format!("--pid={pid}")).arg(format!("--nofile={most}:"));
    command.status().is_ok_and(|status| status.success())
}

/// The endpoint is not at fault if this side can open no connection.
#[test]
fn running_out_of_file_descriptors_is_no_failed_check() {
    let [one, two] = [named("one"), named("two")];
    let check = "health_check: {path: /health, interval: 100ms, unhealthy: 1}";
    let gateway = gateway(&[one.address, two.address], check);
    wait_until("both are checked", || {
        [&one, &two].iter().all(|upstream| super::shown(&gateway, upstream.address)["health"] == "healthy")
    });
    // A connection that is open already: there will be no other.
    let mut client = Client::connect(gateway.address);
    assert_eq!(client.request("GET", "/config/upstreams", &[], b"").status, 200);
    if !allow_open_files(gateway.pid(), 3) {
        eprintln!("the limit of a process can't be changed here");
        return;
    }
    gateway.wait_for_line("can't check");
    let shown = client.request("GET", "/config/upstreams", &[], b"").json();
    let endpoints = shown["upstreams"]["app"]["endpoints"].as_array().expect("a list");
    assert!(endpoints.iter().all(|endpoint| endpoint["health"] == "healthy"), "{shown}");
    assert!(allow_open_files(gateway.pid(), 256));
    let checked = one.count();
    wait_until("it is checked again", || one.count() > checked);
    let lines = gateway.lines();
    assert!(!lines.iter().any(|line| line.contains("fails its health checks")), "{lines:#?}");
}

/// Each upstream had 64, and no descriptors were reserved for them.
#[test]
fn checks_of_all_upstreams_together_have_a_bound_that_fits_the_open_files() {
    let silent = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a free port");
    silent.set_nonblocking(true).expect("it can be asked without waiting");
    let port = silent.local_addr().expect("an address").port();
    let upstream = |name: &str, third: u8| {
        let urls: Vec<String> = (1..=20).map(|last| format!("\"http://127.0.{third}.{last}:{port}\"")).collect();
        format!("  {name}: {{endpoints: [{}], health_check: {{path: /, timeout: 1m}}}}\n", urls.join(", "))
    };
    let ok = Upstream::start();
    let directory = Directory::new();
    let config = directory.file(
        "gateway.yaml",
        &format!(
            "listeners: [{{address: \"127.0.0.1:0\"}}]\nworkers: 2\nupstreams:\n{}{}  ok: {{url: \"http://{}\"}}\n\
             routes: [{{path: /one, upstream: one}}, {{path: /two, upstream: two}}, {{upstream: ok}}]\n\
             limits: {{default: {{algorithm: fixed, limit: 1000000, window: 60}}}}\n",
            upstream("one", 1),
            upstream("two", 2),
            ok.address
        ),
    );
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg("ulimit -n 256 && exec \"$0\" \"$@\"").arg(binary());
    command.arg("gateway").arg("--config").arg(&config).stdin(Stdio::null());
    let gateway = Gateway::launch(command, config, directory);
    let mut checks = Vec::new();
    for _ in 0..2 {
        wait_until("there are as many as may be", || {
            checks.extend(silent.accept().ok());
            checks.len() == 8
        });
        assert!((0..50).all(|_| gateway.get("/").status == 200));
        assert!(silent.accept().is_err(), "more than 8 at once");
        // They end, and others begin.
        checks.clear();
    }
}

/// Only the first line was in the log.
#[test]
fn failures_that_eject_nothing_are_summarized() {
    let sick = || Upstream::responding(|_| UNAVAILABLE.to_vec());
    let [one, two] = [sick(), sick()];
    let settings = "balance: round_robin, ejection: {consecutive_failures: 1, time: 1h, max_time: 1h}";
    let mut gateway = gateway(&[one.address, two.address], settings);
    for _ in 0..10 {
        gateway.get("/");
    }
    gateway.wait_for_line("fails and is not ejected");
    gateway.signal("TERM");
    let line = gateway.wait_for_line("more failures ejected no endpoint");
    assert!(line.contains("WARN"), "{line}");
    assert!(gateway.wait_for_end());
}

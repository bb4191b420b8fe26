//! `POST /reload` and SIGHUP: the file again, at once or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use crate::control::limit_headers::left;
use crate::control::setting::{before, once};
use tidegate_testkit::{Client, Gateway, OK, PATIENCE, Upstream, wait_until};

fn applied(gateway: &Gateway) -> f64 {
    gateway.metric("tidegate_reloads_total{result=\"applied\"}").expect("it is counted")
}

fn rewrite(gateway: &Gateway, config: &str) {
    fs::write(&gateway.config, config).expect("the file can be written");
}

#[test]
fn another_file_is_in_force_when_the_reload_gets_its_response() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&before(&upstream, &format!("limits: {{default: {}}}", once(10))));
    rewrite(&gateway, &before(&upstream, "limits: {default: {algorithm: token, capacity: 1, fill_rate: 0.001}}"));
    let response = gateway.post("/reload", "");
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!((&response.json()["algorithm"], &response.json()["capacity"]), (&"token".into(), &1.into()));
    assert_eq!((gateway.get("/").status, gateway.get("/").status), (200, 429));
    gateway.wait_for_line("Reloaded the configuration");
    assert!(applied(&gateway) >= 1.0);
}

/// What `tidegate check` warns of, the log reports too: at the start and at each reload.
#[test]
fn what_is_probably_not_meant_is_reported() {
    let upstream = Upstream::start();
    let config = |cost: u32| {
        before(&upstream, &format!("limits: {{default: {{algorithm: fixed, limit: 5, window: 60, cost: {cost}}}}}"))
    };
    let gateway = Gateway::start(&config(6));
    let reported = "WARN ConfigController - limits.default.cost: is more than the limit ever holds";
    let times = || gateway.lines().iter().filter(|line| line.contains(reported)).count();
    gateway.wait_for_line(reported);
    rewrite(&gateway, &config(5));
    assert_eq!(gateway.post("/reload", "").status, 200);
    gateway.wait_for_line("Reloaded the configuration");
    assert_eq!(times(), 1, "nothing is doubtful any more");
    rewrite(&gateway, &config(7));
    assert_eq!(gateway.post("/reload", "").status, 200);
    wait_until("the warning", || times() == 2);
}

#[test]
fn a_hang_up_reloads_too() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&before(&upstream, &format!("limits: {{default: {}}}", once(10))));
    rewrite(&gateway, &before(&upstream, &format!("limits: {{default: {}}}", once(3))));
    gateway.signal("HUP");
    wait_until("the reload", || applied(&gateway) >= 1.0);
    assert_eq!(gateway.get("/config/limits").json()["limit"], 3);
}

#[test]
fn what_was_used_stays_used() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&before(&upstream, &format!("limits: {{default: {}}}", once(5))));
    assert_eq!((gateway.get("/").status, gateway.get("/").status), (200, 200));
    assert_eq!(gateway.post("/reload", "").status, 200);
    assert_eq!(left(&gateway.get("/"), "default"), 2, "the same file");
    rewrite(&gateway, &before(&upstream, &format!("limits: {{default: {}}}", once(4))));
    assert_eq!(gateway.post("/reload", "").status, 200);
    assert_eq!(left(&gateway.get("/"), "default"), 0, "other numbers");
    assert_eq!(gateway.get("/").status, 429);
}

#[test]
fn routes_limits_and_upstreams_come_and_go() {
    let (one, other) =
        (Upstream::start(), Upstream::responding(|_| b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n".into()));
    let small = before(&one, "limits: {}\nroutes: [{name: all, prefix: /, upstream: app}]");
    let gateway = Gateway::start(&small);
    assert_eq!((gateway.get("/").status, gateway.get("/other").status), (200, 200));
    let large = format!(
        "upstreams: {{app: {{url: \"http://{}\"}}, more: {{url: \"http://{}\"}}}}\nlimits: {{tight: {}}}\n\
         routes: [{{name: more, prefix: /other, upstream: more, limits: [tight]}}, {{name: all, prefix: /, upstream: \
         app}}]\n",
        one.address,
        other.address,
        once(1)
    );
    rewrite(&gateway, &large);
    assert_eq!(gateway.post("/reload", "").status, 200);
    assert_eq!((gateway.get("/").status, gateway.get("/other").status, gateway.get("/other").status), (200, 201, 429));
    assert_eq!(gateway.get("/config/limits/tight").status, 200);
    let health = gateway.get("/actuator/health").json();
    assert!(health["upstreams"]["more"].is_object(), "{health}");
    rewrite(&gateway, &small);
    assert_eq!(gateway.post("/reload", "").status, 200);
    assert_eq!((gateway.get("/other").status, gateway.get("/config/limits/tight").status), (200, 404));
    assert!(gateway.get("/actuator/health").json()["upstreams"]["more"].is_null());
    assert!(gateway.metric("tidegate_limit_quota{limit=\"tight\",algorithm=\"fixed\"}").is_none());
}

#[test]
fn a_bad_file_changes_nothing_and_the_reason_is_reported() {
    let upstream = Upstream::start();
    let good = before(&upstream, &format!("limits: {{default: {}}}", once(10)));
    let gateway = Gateway::start(&good);
    let config = gateway.get("/config/limits").json();
    let rejected = || gateway.metric("tidegate_reloads_total{result=\"refused\"}").expect("it is counted");
    let mut count = 0.0;
    for (bad, reason) in [
        ("limits: {default: {algorithm: fixed, limit: 0, window: 60}}".to_owned(), "limits.default.limit"),
        ("limits: {default: [".to_owned(), "line"),
        ("colour: blue".to_owned(), "colour"),
        (before(&upstream, "routes: [{upstream: nowhere}]"), "routes[0].upstream"),
        (format!("{good}workers: 7\n"), "workers"),
        (format!("{good}redis: {{url: \"redis://127.0.0.1:1\"}}\n"), "redis"),
        (format!("{good}admin: {{listen: \"127.0.0.1:0\"}}\n"), "admin.listen"),
    ] {
        rewrite(&gateway, &bad);
        let response = gateway.post("/reload", "");
        let detail = response.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert_eq!(response.status, 400, "{bad}: {detail}");
        assert!(detail.contains(reason), "{bad}: {detail}");
        assert_eq!(gateway.get("/config/limits").json(), config);
        count += 1.0;
        assert_eq!(rejected(), count);
    }
    assert_eq!(gateway.get("/").status, 200);
    let line = gateway.wait_for_line("limits.default.limit");
    assert!(line.contains(" ERROR ") && line.contains("nothing has changed"), "{line}");

    rewrite(&gateway, "limits: {default: {algorithm: magic}}");
    let before_it = rejected();
    gateway.signal("HUP");
    wait_until("the refused reload", || rejected() > before_it);
    gateway.wait_for_line("limits.default.algorithm");
    assert_eq!(gateway.get("/config/limits").json(), config);
}

#[test]
fn a_file_that_is_gone_changes_nothing() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&before(&upstream, &format!("limits: {{default: {}}}", once(10))));
    fs::remove_file(&gateway.config).expect("it is there");
    let response = gateway.post("/reload", "");
    assert_eq!(response.status, 400, "{}", response.text());
    assert!(
        response.json()["detail"].as_str().is_some_and(|detail| detail.contains("gateway.yaml")),
        "{}",
        response.text()
    );
    assert_eq!(gateway.get("/config/limits").json()["limit"], 10);
}

#[test]
fn without_redis_a_reload_returns_to_the_numbers_of_the_file() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&before(&upstream, &format!("limits: {{default: {}}}", once(10))));
    assert_eq!(gateway.post("/config/limits", r#"{"algorithm": "token", "capacity": 50, "fillRate": 5}"#).status, 200);
    let response = gateway.post("/reload", "").json();
    assert_eq!((&response["algorithm"], &response["limit"]), (&"fixed".into(), &10.into()));
    assert_eq!(response["limits"]["default"]["set_by"], "file");
}

/// What a reload does not obey it must reject: an operator would believe it done.
#[test]
fn what_a_reload_can_not_change_is_rejected_by_name() {
    let upstream = Upstream::start();
    let good = before(&upstream, &format!("limits: {{default: {}}}", once(10)));
    let gateway = Gateway::start(&good);
    for (section, field) in [
        ("log: {format: json}", "log"),
        ("access_log: {format: json}", "access_log"),
        ("redis: {url: \"redis://127.0.0.1:1\"}", "redis"),
        ("admin: {listen: \"127.0.0.1:0\"}", "admin.listen"),
        ("connections: {max: 7}", "connections.max"),
        ("connections: {drain_timeout: 7s}", "connections.drain_timeout"),
    ] {
        rewrite(&gateway, &format!("{good}{section}\n"));
        let response = gateway.post("/reload", "");
        assert_eq!(response.status, 400, "{section}");
        let detail = response.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert!(detail.starts_with(&format!("{field}: ")) && detail.contains("restart"), "{detail}");
    }
    assert_eq!(applied(&gateway), 0.0);
}

/// The log and the response go to more people than the file does.
#[test]
fn a_bad_file_is_reported_without_its_secrets() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&before(&upstream, &format!("limits: {{default: {}}}", once(10))));
    let secret = "identity:\n  jwt:\n    secret: \"hunter2-0123456789-0123456789-abcdef\"\n    leewai: 3\n";
    rewrite(&gateway, &before(&upstream, secret));
    let response = gateway.post("/reload", "");
    assert_eq!(response.status, 400);
    assert!(response.text().contains("leewai") && response.text().contains("line 5"), "{}", response.text());
    let line = gateway.wait_for_line("was not reloaded");
    assert!(line.contains("leewai") && line.contains("line 5"), "{line}");
    assert!(!response.text().contains("hunter2") && !line.contains("hunter2"), "{line}");
}

/// An upstream that does not respond as long as the test runs.
fn hanging() -> Upstream {
    Upstream::behaving(|_, stream| {
        let mut gone = [0];
        matches!(std::io::Read::read(stream, &mut gone), Ok(1..))
    })
}

/// Once each reload brought an upstream as many connections again.
#[test]
fn an_upstream_has_no_more_connections_than_it_may_whatever_is_reloaded() {
    let upstream = hanging();
    let config = format!("upstreams: {{app: {{url: \"http://{}\", max_connections: 2}}}}\n", upstream.address);
    let gateway = Gateway::start(&config);
    let held: Vec<Client> = (0..2)
        .map(|_| {
            let mut client = Client::connect(gateway.address);
            client.send("GET / HTTP/1.1\r\nHost: test.example\r\n\r\n");
            client
        })
        .collect();
    wait_until("both are under way", || upstream.count() == 2);
    let open = || gateway.metric("tidegate_upstream_connections{service=\"app\"}");
    for more in ["", "workers: null\n", "connections: {max_headers: 90}\n"] {
        rewrite(&gateway, &format!("{config}{more}"));
        let response = gateway.post("/reload", "");
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!((gateway.get("/").status, open()), (503, Some(2.0)));
    }
    assert_eq!(upstream.count(), 2);
    drop(held);
    wait_until("their places are free again", || open() == Some(0.0));
}

/// A connection that is kept for an upstream, and whether it still lives.
fn kept_connection(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().expect("the gateway connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    stream.write_all(OK).expect("it takes the answer");
    stream
}

/// Clients that stay connected must not keep what was configured when they came.
#[test]
fn connections_to_an_upstream_that_has_moved_or_gone_are_closed() {
    let (old, new) = (TcpListener::bind("127.0.0.1:0").expect("a free port"), Upstream::start());
    let at = |address: SocketAddr| format!("upstreams: {{app: {{url: \"http://{address}\"}}}}\n");
    let at_old = at(old.local_addr().expect("an address"));
    let gateway = Gateway::start(&at_old);
    for moved in [at(new.address), format!("upstreams: {{other: {{url: \"http://{}\"}}}}\n", new.address)] {
        rewrite(&gateway, &at_old);
        assert_eq!(gateway.post("/reload", "").status, 200);
        let mut client = Client::connect(gateway.address);
        client.send("GET / HTTP/1.1\r\nHost: test.example\r\n\r\n");
        let mut kept = kept_connection(&old);
        assert_eq!(client.response().status, 200);
        rewrite(&gateway, &moved);
        assert_eq!(gateway.post("/reload", "").status, 200);
        assert_eq!(kept.read(&mut [0]).expect("it is closed"), 0);
        assert_eq!(client.request("GET", "/", &[], b"").status, 200, "the client stays");
    }
}

#[test]
fn counters_go_on_when_the_counts_begin_anew() {
    let upstream = Upstream::start();
    let limit = |max_keys: u32| {
        before(
            &upstream,
            &format!("limits: {{default: {{algorithm: fixed, limit: 9, window: 30d, max_keys: {max_keys}}}}}"),
        )
    };
    let gateway = Gateway::start(&limit(10));
    let admitted =
        || gateway.metric("tidegate_limit_requests_total{limit=\"default\",decision=\"admitted\"}").expect("counted");
    assert_eq!((gateway.get("/").status, gateway.get("/").status), (200, 200));
    rewrite(&gateway, &limit(20));
    assert_eq!(gateway.post("/reload", "").status, 200);
    assert_eq!(admitted(), 2.0);
    assert_eq!(left(&gateway.get("/"), "default"), 8, "the counts themselves are new");
    assert_eq!(admitted(), 3.0);
}

/// Names that come and go must not grow the page without end.
#[test]
fn metrics_of_routes_and_upstreams_that_are_gone_go_too() {
    let upstream = Upstream::start();
    let named = |name: &str| {
        format!(
            "upstreams: {{{name}: {{url: \"http://{}\"}}}}\nroutes: [{{name: {name}, prefix: /}}]\n\
             limits: {{default: {}}}\n",
            upstream.address,
            once(1)
        )
    };
    let gateway = Gateway::start(&named("route-a"));
    let page = || gateway.get("/actuator/prometheus").text();
    let lines = page().lines().count();
    for name in ["route-b", "route-c"] {
        rewrite(&gateway, &named(name));
        assert_eq!(gateway.post("/reload", "").status, 200);
    }
    let page = page();
    assert!(page.contains("endpoint=\"route-c\"") && page.contains("service=\"route-c\""), "{page}");
    assert!(!page.contains("route-a") && !page.contains("route-b"), "{page}");
    // Responses of other statuses come with the requests above.
    assert!(page.lines().count() < lines + 10, "{page}");
}

#[test]
fn flags_and_environment_count_over_the_file_after_a_reload_too() {
    let upstream = Upstream::start();
    let file = |limit| format!("limits: {{default: {}}}\n", once(limit));
    let gateway = Gateway::start_with(&file(10), |command| {
        command.args(["--target-url", &format!("http://{}", upstream.address)]).env("RATE_LIMIT_LIMIT", "7");
    });
    assert_eq!(gateway.get("/config/limits").json()["limit"], 7);
    rewrite(&gateway, &file(20));
    assert_eq!(gateway.post("/reload", "").json()["limit"], 7);
    assert_eq!(gateway.get("/").status, 200);
}

#[test]
fn a_reload_tells_which_numbers_it_changes() {
    let upstream = Upstream::start();
    let limits = |one: &str, other: &str| {
        before(&upstream, &format!("limits: {{default: {one}, search: {other}}}\nroutes: [{{limits: [search]}}]"))
            + "common_limits: [default]\n"
    };
    let gateway = Gateway::start(&limits(&once(10), &once(20)));
    let token = "{algorithm: token, capacity: 3, fill_rate: 2}";
    rewrite(&gateway, &limits(&once(10), token));
    assert_eq!(gateway.post("/reload", "").status, 200);
    gateway.wait_for_line(
        "INFO ConfigController - Applied new config: algorithm=token, capacity=3, fillRate=2 (limit `search`)",
    );
    gateway.wait_for_line("INFO RateLimiter - Switched rate-limiting algorithm from fixed to token (limit `search`)");
    gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 7, "window": 60}"#);
    assert_eq!(gateway.post("/reload", "").status, 200);
    gateway.wait_for_line("Applied new config: algorithm=fixed, limit=10, window=2592000");
    assert_eq!(gateway.lines().iter().filter(|line| line.contains("Applied new config")).count(), 3, "no more changed");
}

/// Puts a pipe in the place of the file, from which nothing comes.
fn endless_file(gateway: &Gateway) {
    fs::remove_file(&gateway.config).expect("it is there");
    assert!(Command::new("mkfifo").arg(&gateway.config).status().expect("it runs").success());
}

/// Waits until somebody reads the pipe. He goes on reading as long as the result lives.
fn is_being_read(gateway: &Gateway) -> File {
    const O_NONBLOCK: i32 = 0o4000;
    let mut opened = None;
    wait_until("the file is being read", || {
        opened = OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(&gateway.config).ok();
        opened.is_some()
    });
    opened.expect("it was waited for")
}

#[test]
fn a_file_that_takes_long_to_read_holds_up_neither_requests_nor_changes_nor_the_end() {
    let upstream = Upstream::start();
    let file = before(&upstream, &format!("limits: {{default: {}}}", once(100)))
        + "workers: 1\nconnections: {drain_timeout: 100ms}\n";
    for by_signal in [true, false] {
        let mut gateway = Gateway::start(&file);
        endless_file(&gateway);
        let mut operator = Client::connect(gateway.address);
        if by_signal {
            gateway.signal("HUP");
        } else {
            operator.send("POST /reload HTTP/1.1\r\nHost: localhost\r\n\r\n");
        }
        let pipe = is_being_read(&gateway);
        assert_eq!(gateway.get("/").status, 200);
        assert_eq!(gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 7, "window": 60}"#).status, 200);
        assert_eq!(gateway.metric("ratelimiter_current_limit"), Some(7.0));
        gateway.signal("TERM");
        assert!(gateway.wait_for_end());
        drop(pipe);
    }
}

/// The number of workers that nobody has written follows the CPUs at the start; it is no reason to reject the same file
/// later.
#[test]
fn the_same_file_can_be_reloaded_when_the_number_of_cpus_has_changed() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&before(&upstream, &format!("limits: {{default: {}}}", once(100))));
    let status = fs::read_to_string(format!("/proc/{}/status", gateway.pid())).expect("it runs");
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("it has CPUs").trim();
    let first = allowed.split([',', '-']).next().expect("a CPU");
    let bound = Command::new("taskset").args(["-a", "-c", "-p", first, &gateway.pid().to_string()]).output();
    assert!(bound.expect("it runs").status.success());
    let response = gateway.post("/reload", "");
    assert_eq!(response.status, 200, "{}", response.text());
    for _ in 0..20 {
        assert_eq!(gateway.get("/").status, 200);
    }
}

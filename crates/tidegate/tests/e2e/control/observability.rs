//! Metrics, health and the event log.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};

use serde_json::Value;

use crate::control::gate::Gate;
use crate::control::limit_headers::unix_now;
use crate::control::setting::{PLENTY, before, once};
use crate::control::tokens::{SECRET, token};
use tidegate_testkit::{Client, Gateway, Upstream, request, wait_until};

/// All samples of a page by name and labels; the page is checked for its form on the way.
fn samples(gateway: &Gateway) -> BTreeMap<String, f64> {
    let page = request(gateway.admin.unwrap_or(gateway.address), "GET", "/actuator/prometheus", &[], b"");
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").is_some_and(|kind| kind.starts_with("text/plain; version=0.0.4")));
    let (mut samples, mut typed) = (BTreeMap::new(), Vec::new());
    for line in page.text().lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let name = rest.split(' ').next().expect("a name").to_owned();
            assert!(!typed.contains(&name), "{name} comes twice");
            typed.push(name);
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
            let family = name.split('{').next().expect("a name");
            let last = typed.last().expect("a type comes first");
            assert!(family.starts_with(last.as_str()), "{family} stands below {last}");
            let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
            assert_eq!(samples.insert(name.to_owned(), value), None, "{name} comes twice");
        }
    }
    samples
}

fn sum(samples: &BTreeMap<String, f64>, family: &str) -> f64 {
    samples.iter().filter(|(name, _)| name.starts_with(&format!("{family}{{"))).map(|(_, value)| value).sum()
}

#[test]
fn requests_are_counted_by_decision_algorithm_and_status() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, &once(3));
    (0..5).for_each(|_| drop(gateway.get("/")));
    gateway.post("/config/limits", r#"{"algorithm": "token", "capacity": 1, "fillRate": 0.001}"#);
    (0..4).for_each(|_| drop(gateway.get("/")));
    // A response is counted when it has ended, which may be a moment after its client has it.
    wait_until("all have ended", || gateway.metric("ratelimiter_request_duration_seconds_count") >= Some(9.0));
    let samples = samples(&gateway);
    let value = |name: &str| *samples.get(name).unwrap_or_else(|| panic!("no {name} in {samples:#?}"));
    assert_eq!(value("ratelimiter_requests_total{decision=\"forwarded\"}"), 4.0);
    assert_eq!(value("ratelimiter_requests_total{decision=\"rejected\"}"), 5.0);
    assert_eq!(value("ratelimiter_requests_by_algorithm_total{algorithm=\"fixed\"}"), 5.0);
    assert_eq!(value("ratelimiter_requests_by_algorithm_total{algorithm=\"token\"}"), 4.0);
    for algorithm in ["sliding", "sliding_log", "leaky", "gcra", "concurrency"] {
        assert_eq!(value(&format!("ratelimiter_requests_by_algorithm_total{{algorithm=\"{algorithm}\"}}")), 0.0);
    }
    assert_eq!(sum(&samples, "ratelimiter_requests_by_algorithm_total"), sum(&samples, "ratelimiter_requests_total"));
    assert_eq!(value("ratelimiter_responses_total{status=\"200\"}"), 4.0);
    assert_eq!(value("ratelimiter_responses_total{status=\"429\"}"), 5.0);
    assert_eq!(value("ratelimiter_request_duration_seconds_count"), 9.0, "the gateway's own endpoints are left out");
    assert_eq!(value("ratelimiter_request_duration_seconds_bucket{le=\"+Inf\"}"), 9.0);
    assert!(value("ratelimiter_request_duration_seconds_sum") > 0.0);
    assert_eq!(value("request_latency_seconds_count{service=\"app\",attempt=\"1\"}"), 4.0);
    assert_eq!(value("rate_limit_exceeded_total{endpoint=\"default\",user_tier=\"anonymous\"}"), 5.0);
    assert_eq!(value("ratelimiter_mode{type=\"failopen\"}"), 0.0);
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("process_cpu_seconds_total") >= 0.0);
}

/// Requests of several limits, of none, and those that never come to a limit: the sum stays the sum.
#[test]
fn the_sum_by_algorithm_is_the_total_whatever_the_routes() {
    let upstream = Upstream::start();
    let rest = format!(
        "limits: {{one: {}, two: {{algorithm: gcra, capacity: 1, fill_rate: 0.001}}}}
routes:
  - {{name: both, prefix: /both, limits: [one, two]}}
  - {{name: two, prefix: /two, limits: [two]}}
  - {{name: free, prefix: /free}}",
        once(10)
    );
    let gateway = Gateway::start(&before(&upstream, &rest));
    for path in ["/both", "/both", "/two", "/free", "/free", "/nowhere"] {
        gateway.get(path);
    }
    let samples = samples(&gateway);
    assert_eq!(sum(&samples, "ratelimiter_requests_total"), 5.0, "{samples:#?}");
    assert_eq!(sum(&samples, "ratelimiter_requests_by_algorithm_total"), 5.0);
}

#[test]
fn every_metric_of_the_seed_is_there() {
    let upstream = Upstream::start();
    let away = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    let rest = format!("redis: {{url: \"redis://{away}\"}}\nlimits: {{default: {}}}", once(10));
    let gateway = Gateway::start(&before(&upstream, &rest));
    assert_eq!(gateway.get("/").status, 200, "Redis is away: requests pass");
    wait_until("it has ended", || gateway.metric("ratelimiter_request_duration_seconds_count") >= Some(1.0));
    let samples = samples(&gateway);
    for name in [
        "ratelimiter_requests_total{decision=\"forwarded\"}",
        "ratelimiter_requests_total{decision=\"rejected\"}",
        "ratelimiter_request_duration_seconds_sum",
        "ratelimiter_requests_by_algorithm_total{algorithm=\"fixed\"}",
        "ratelimiter_current_limit",
        "ratelimiter_window_seconds",
        "ratelimiter_bucket_capacity",
        "ratelimiter_token_fill_rate",
        "ratelimiter_redis_request_duration_seconds_count",
        "ratelimiter_redis_errors_total",
        "ratelimiter_redis_connected",
        "ratelimiter_mode{type=\"failopen\"}",
        "ratelimiter_responses_total{status=\"200\"}",
        "rate_limit_exceeded_total{endpoint=\"default\",user_tier=\"anonymous\"}",
        "request_latency_seconds_sum{service=\"app\",attempt=\"1\"}",
        "rate_limit_current_limit",
        "rate_limit_algorithm{algorithm=\"fixed\"}",
        "tidegate_upstream_longest_answer_seconds{service=\"app\"}",
        "tidegate_upstream_long_answers_total{service=\"app\"}",
        "tidegate_upstream_errors_total{service=\"app\",status=\"503\"}",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
    ] {
        assert!(samples.contains_key(name), "{name} is not in {:#?}", samples.keys());
    }
    assert_eq!(samples["ratelimiter_redis_connected"], 0.0);
    assert_eq!(samples["ratelimiter_mode{type=\"failopen\"}"], 1.0);
    assert!(samples["ratelimiter_redis_errors_total"] >= 1.0);
    let line = gateway.wait_for_line("Redis could not be reached");
    assert!(line.contains(" WARN RedisClient - ") && line.contains("starting in fail-open mode"), "{line}");
    let health = gateway.get("/actuator/health").json();
    assert_eq!((&health["status"], &health["store"]["status"]), (&"UP".into(), &"DOWN".into()), "it still serves");
}

#[test]
fn upstreams_are_distinguished_by_their_errors() {
    let upstream = Upstream::responding(|received| {
        let status = received.line.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
        format!("HTTP/1.1 {status} Anything\r\nContent-Length: 0\r\n\r\n").into_bytes()
    });
    let gateway = Gateway::before(upstream.address, PLENTY);
    for status in ["/500", "/502", "/502", "/503", "/404", "/599"] {
        gateway.get(status);
    }
    wait_until("all have ended", || gateway.metric("ratelimiter_request_duration_seconds_count") >= Some(6.0));
    let samples = samples(&gateway);
    let errors =
        |status: &str| samples[&format!("tidegate_upstream_errors_total{{service=\"app\",status=\"{status}\"}}")];
    assert_eq!((errors("500"), errors("502"), errors("503")), (1.0, 2.0, 1.0));
    assert_eq!(samples["ratelimiter_responses_total{status=\"599\"}"], 1.0);
}

#[test]
fn no_label_comes_from_what_clients_send() {
    let upstream = Upstream::start();
    let rest = format!(
        "trusted_proxies: [127.0.0.1]
identity:
  jwt: {{secret: \"{SECRET}\"}}
  trusted_headers: {{user: x-auth-user, tier: x-auth-tier}}
limits: {{default: {{algorithm: fixed, limit: 1, window: 30d, key: \"tier+header:x-team\"}}}}"
    );
    let gateway = Gateway::start(&before(&upstream, &rest));
    let claims =
        serde_json::json!({"sub": "zz-user", "tier": "zz-tier", "client_id": "zz-client", "exp": unix_now() + 60});
    let bearer = format!("Bearer {}", token(&claims, SECRET));
    for _ in 0..3 {
        let path = "/zz-path/x?zz-query=1";
        let common = [("Host", "zz-host.example"), ("X-Team", "zz-team"), ("User-Agent", "zz-agent")];
        let mut client = Client::connect(gateway.address);
        client.request("ZZMETHOD", path, &[&common[..], &[("Authorization", &bearer)]].concat(), b"");
        client.request(
            "GET",
            path,
            &[&common[..], &[("X-Auth-User", "zz-user"), ("X-Auth-Tier", "zz-other")]].concat(),
            b"",
        );
        client.request("GET", path, &[&common[..], &[("X-Forwarded-For", "203.0.113.77")]].concat(), b"");
    }
    let page = gateway.get("/actuator/prometheus").text();
    for trace in ["zz", "ZZ", "203.0.113"] {
        assert!(!page.contains(trace), "{trace} in {page}");
    }
    let samples = samples(&gateway);
    let other = samples["rate_limit_exceeded_total{endpoint=\"default\",user_tier=\"other\"}"];
    assert_eq!(other, 4.0, "tiers that the configuration does not name are one");
}

#[test]
fn health_tells_how_it_stands() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address, PLENTY);
    let health = gateway.get("/actuator/health");
    assert_eq!((health.status, health.header("content-type")), (200, Some("application/json")));
    let body = health.json();
    assert_eq!((&body["status"], &body["store"]["type"]), (&"UP".into(), &"memory".into()));
    assert_eq!(body["upstreams"]["app"]["status"], "UP");
    for part in ["liveness", "readiness"] {
        let response = gateway.get(&format!("/actuator/health/{part}"));
        assert_eq!((response.status, &response.json()["status"]), (200, &"UP".into()), "{part}");
    }
    assert_eq!(gateway.get("/actuator/nothing").status, 404);
}

#[test]
fn an_upstream_that_can_not_be_reached_shows_in_health_and_comes_back() {
    // Bound, so that nobody else takes the port; nobody listens yet.
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let address = socket.local_addr().expect("an address");
    let gateway = Gateway::before(address, PLENTY);
    let status = || gateway.get("/actuator/health").json()["upstreams"]["app"]["status"].clone();
    assert_eq!(gateway.get("/").status, 502);
    assert_eq!(status(), "DOWN");
    let health = gateway.get("/actuator/health");
    assert_eq!((health.status, &health.json()["status"]), (200, &"UP".into()), "the gateway itself is well");
    assert!(gateway.wait_for_line("upstream `app`").contains(" ERROR ProxyHandler - "));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    let listener = runtime.block_on(async { socket.listen(16).and_then(tokio::net::TcpListener::into_std) });
    let listener = listener.expect("it listens");
    listener.set_nonblocking(false).expect("set");
    let _upstream =
        Upstream::listening(listener, |_, stream| std::io::Write::write_all(stream, tidegate_testkit::OK).is_ok());
    wait_until("it answers again", || gateway.get("/").status == 200);
    assert_eq!(status(), "UP");
}

/// Whoever sends traffic must learn that it is about to stop; whoever restarts it must not think it dead.
#[test]
fn a_gateway_that_drains_is_alive_and_not_ready() {
    let gate = Gate::closed();
    let rest = format!("admin: {{listen: \"127.0.0.1:0\"}}\nlimits: {{default: {PLENTY}}}");
    let mut gateway = Gateway::start(&before(&gate.upstream, &rest));
    let admin = gateway.admin.expect("the ready line names it");
    let ask = |part: &str| request(admin, "GET", &format!("/actuator/health{part}"), &[], b"");
    assert_eq!(ask("/readiness").status, 200);
    let mut client = Client::connect(gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    gate.wait_for(1);
    gateway.signal("TERM");
    wait_until("it is not ready", || ask("/readiness").status == 503);
    assert_eq!(ask("/readiness").json()["status"], "DOWN");
    assert_eq!((ask("/liveness").status, ask("").status), (200, 200));
    gate.open();
    assert_eq!(client.response().status, 200, "the request under way ends well");
    assert!(gateway.wait_for_end());
}

/// `[2026-01-19T16:30:00Z] INFO Component - message`
fn assert_text_line(line: &str) {
    let (time, rest) =
        line.strip_prefix('[').and_then(|line| line.split_once("] ")).unwrap_or_else(|| panic!("{line}"));
    let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00Z", "{line}");
    let (level, rest) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
    assert!(["DEBUG", "INFO", "WARN", "ERROR"].contains(&level), "{line}");
    let (component, message) = rest.split_once(" - ").unwrap_or_else(|| panic!("{line}"));
    assert!(!component.is_empty() && !component.contains(' ') && !message.is_empty(), "{line}");
}

#[test]
fn the_log_is_lines_of_text_and_begins_with_version_and_settings() {
    let upstream = Upstream::start();
    let mut gateway = Gateway::before(upstream.address, "{algorithm: sliding, limit: 7, window: 60}");
    gateway.get("/");
    gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 1, "window": 2592000}"#);
    (0..3).for_each(|_| drop(gateway.get("/")));
    gateway.post("/reload", "");
    gateway.signal("TERM");
    assert!(gateway.wait_for_end());
    gateway.wait_for_line("stopped");
    let lines = gateway.lines();
    for line in &lines {
        assert_text_line(line);
    }
    let start = &lines[0];
    for setting in
        [env!("CARGO_PKG_VERSION"), &upstream.address.to_string(), "algorithm=sliding, limit=7, window=60", "memory"]
    {
        assert!(start.contains(setting), "{setting} is not in {start}");
    }
    assert!(start.contains(" INFO "), "{start}");
}

#[test]
fn the_log_is_lines_of_json_where_that_is_wanted() {
    let upstream = Upstream::start();
    let url = format!("http://{}", upstream.address);
    let by_flag = Gateway::start_with("log: {format: text}\n", |command| {
        command.args(["--log-format", "json", "--target-url", &url]);
    });
    let by_file = Gateway::start(&before(&upstream, "log: {format: json}"));
    for gateway in [by_flag, by_file] {
        gateway.post("/config/limits", r#"{"algorithm": "sliding", "limit": 500, "window": 60}"#);
        gateway.wait_for_line("Applied new config: algorithm=sliding, limit=500, window=60");
        for line in gateway.lines() {
            let object: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            for field in ["timestamp", "level", "component", "message"] {
                assert!(object[field].is_string(), "{field} in {line}");
            }
        }
    }
}

#[test]
fn the_level_of_the_log_is_obeyed() {
    let upstream = Upstream::start();
    let rest = format!("log: {{level: error}}\nlimits: {{default: {PLENTY}}}");
    let mut gateway = Gateway::start(&before(&upstream, &rest));
    let changed = gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 5, "window": 60}"#);
    gateway.signal("TERM");
    assert!(changed.status == 200 && gateway.wait_for_end());
    let lines = gateway.lines();
    assert!(lines.len() == 1 && lines[0].contains("listening on "), "the ready line, and no other: {lines:#?}");
}

/// Never a line each; but every rejection is counted once, in some line's number.
#[test]
fn a_thousand_rejections_are_a_few_lines() {
    let upstream = Upstream::start();
    let mut gateway = Gateway::before(upstream.address, &once(1));
    let mut client = Client::connect(gateway.address);
    let rejected = (0..1_001).filter(|_| client.request("GET", "/", &[], b"").status == 429).count();
    assert_eq!(rejected, 1_000);
    client.close();
    gateway.signal("TERM");
    assert!(gateway.wait_for_end());
    gateway.wait_for_line("stopped");
    let lines: Vec<String> = gateway.lines().into_iter().filter(|line| line.contains("Request rejected")).collect();
    assert!((1..=5).contains(&lines.len()), "{lines:#?}");
    assert!(lines[0].contains("Request rejected: limit exceeded"), "{}", lines[0]);
    let reported: usize = lines
        .iter()
        .map(|line| {
            let counted = line.rsplit_once('(').expect("a number in brackets").1;
            counted
                .split(' ')
                .next()
                .and_then(|number| number.parse::<usize>().ok())
                .unwrap_or_else(|| panic!("{line}"))
        })
        .sum();
    assert_eq!(reported, 1_000, "{lines:#?}");
}

//! The load generator as a service: each endpoint in each state.
#![allow(clippy::float_cmp, clippy::cast_precision_loss, reason = "metrics that are counts")]

mod logs;

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use tidegate_testkit::load_run::{constant, with};
use tidegate_testkit::{Directory, Gateway, OK, Response, Upstream, pause, request, tidegate, wait_until};

/// `tidegate load serve` on a free port.
pub(crate) struct Service(pub(crate) Gateway);

impl Service {
    pub(crate) fn start() -> Self {
        Self::start_with(|_, _| {})
    }

    pub(crate) fn start_with(change: impl FnOnce(&mut Command, &Directory)) -> Self {
        let directory = Directory::new();
        let mut command = tidegate();
        command.args(["load", "serve", "--listen", "127.0.0.1:0"]);
        change(&mut command, &directory);
        let config = directory.0.join("none");
        Self(Gateway::launch(command, config, directory))
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Response {
        request(self.0.address, method, path, &[("host", "localhost")], body.as_bytes())
    }

    pub(crate) fn begin(&self, plan: &Value) -> String {
        let response = self.ask("POST", "/test/start", &plan.to_string());
        assert_eq!((response.status, &response.json()["status"]), (200, &json!("started")), "{}", response.text());
        response.json()["testId"].as_str().expect("an id").to_owned()
    }

    pub(crate) fn status(&self) -> Value {
        let response = self.ask("GET", "/test/status", "");
        assert_eq!(response.status, 200);
        response.json()
    }

    pub(crate) fn wait_for_end(&self) {
        wait_until("the test ends", || self.status()["running"] == json!(false));
    }
}

fn url(target: &Upstream) -> String {
    format!("http://{}/", target.address)
}

/// From nothing to nothing, through all that can be asked.
#[test]
fn a_test_is_started_seen_stopped_and_forgotten() {
    let (service, target) = (Service::start(), Upstream::start());
    assert_eq!(service.status(), json!({ "running": false }));
    for (method, path) in [("POST", "/test/stop"), ("GET", "/test/config"), ("GET", "/test/result")] {
        let response = service.ask(method, path, "");
        assert_eq!(response.status, 404, "{path}: {}", response.text());
    }
    assert_eq!(service.ask("PATCH", "/test", r#"{"rps": 5}"#).status, 404);

    let plan = constant(url(&target), 100, 60.0);
    let id = service.begin(&plan);
    let again = service.ask("POST", "/test/start", &plan.to_string());
    assert_eq!((again.status, &again.json()["testId"]), (409, &json!(id)), "{}", again.text());
    wait_until("requests are answered", || target.count() > 10);
    let status = service.status();
    let shown = |name: &str| status[name].clone();
    assert_eq!((shown("running"), shown("testId"), shown("profile")), (json!(true), json!(id), json!("constant")));
    assert_eq!(shown("duration").as_f64(), Some(60.0));
    assert!(shown("requestsSent").as_u64().expect("a count") > 10);
    assert_eq!((shown("errors"), shown("missed")), (json!(0), json!(0)));
    assert!((0.0..60.0).contains(&shown("elapsedTime").as_f64().expect("seconds")));
    assert_eq!(service.ask("GET", "/test/config", "").json()["profile"], plan["profile"]);

    let stopped = service.ask("POST", "/test/stop", "");
    assert_eq!((stopped.status, stopped.json()), (200, json!({ "status": "stopped", "testId": id })));
    assert_eq!(service.status(), json!({ "running": false }));
    let sent = target.count();
    assert_eq!(service.ask("POST", "/test/stop", "").status, 404, "stopped already");
    let result = service.ask("GET", "/test/result", "").json();
    assert_eq!((&result["ended"], &result["testId"]), (&json!("stopped"), &json!(id)));
    assert!(result["requests"]["sent"].as_u64().expect("a count") >= sent as u64);

    // A service that has been stopped can be started again, and ends by itself, too.
    let other = service.begin(&constant(url(&target), 100, 0.3));
    assert_ne!(other, id);
    service.wait_for_end();
    let result = service.ask("GET", "/test/result", "").json();
    assert_eq!((&result["ended"], &result["requests"]["success"]), (&json!("completed"), &json!(30)));
    assert_eq!(service.ask("POST", "/test/stop", "").status, 404, "ended by itself");
}

#[test]
fn only_the_test_that_is_meant_is_stopped() {
    let (service, target) = (Service::start(), Upstream::start());
    let id = service.begin(&constant(url(&target), 10, 60.0));
    let response = service.ask("POST", "/test/stop", r#"{"testId": "another"}"#);
    assert_eq!((response.status, &service.status()["running"]), (404, &json!(true)));
    assert_eq!(service.ask("POST", "/test/stop", r#"{"test": "x"}"#).status, 400);
    assert_eq!(service.ask("POST", "/test/stop", &json!({ "testId": id }).to_string()).status, 200);
}

#[test]
fn a_bad_plan_is_rejected_with_its_fields_and_starts_nothing() {
    let (service, target) = (Service::start(), Upstream::start());
    let good = constant(url(&target), 10, 1.0);
    let params = json!({ "minRps": 1, "maxRps": 9, "maxSpikeDuration": 1, "minIdleTime": 5, "maxIdleTime": 2 });
    let ddos = json!({ "type": "ddos", "params": params });
    for (body, path, allowed) in [
        ("{".to_owned(), "", "JSON"),
        ("[]".to_owned(), "", "must be an object"),
        (
            with(good.clone(), "profile", json!({ "type": "warp", "params": {} })).to_string(),
            "profile.type",
            "constant, burst",
        ),
        (
            with(good.clone(), "profile", json!({ "type": "constant", "params": { "rps": -5 } })).to_string(),
            "profile.params.rps",
            "must be requests a second from 0.000001 to 10000000, got -5",
        ),
        (
            with(good.clone(), "profile", json!({ "type": "constant", "params": { "rps": 1e12 } })).to_string(),
            "profile.params.rps",
            "10000000",
        ),
        (
            with(good.clone(), "profile", json!({ "type": "constant", "params": {} })).to_string(),
            "profile.params.rps",
            "is missing",
        ),
        (with(good.clone(), "profile", ddos).to_string(), "profile.params.minIdleTime", "at most `maxIdleTime`"),
        (with(good.clone(), "limiterUrl", json!("what")).to_string(), "limiterUrl", "http://host:port/path"),
        (with(good.clone(), "duration", json!("long")).to_string(), "duration", "seconds from"),
        (with(good.clone(), "surprise", json!(1)).to_string(), "surprise", "is unknown"),
        (
            with(good.clone(), "limiterUrl", json!("http://tidegate-no-such-host.invalid/")).to_string(),
            "limiterUrl",
            "--allow-host",
        ),
        (with(good.clone(), "startAt", json!(5)).to_string(), "startAt", "must be in the future"),
        (json!({ "plan": "stored" }).to_string(), "plan", "--plans"),
    ] {
        let response = service.ask("POST", "/test/start", &body);
        let reported = response.json();
        assert_eq!(response.status, 400, "{body}: {reported}");
        let problem = reported["problems"].as_array().expect("problems").iter().find(|problem| problem["path"] == path);
        let message = problem.unwrap_or_else(|| panic!("nothing of {path:?} in {reported}"))["message"].to_string();
        assert!(message.contains(allowed), "{message}");
        assert_eq!(service.status(), json!({ "running": false }));
    }
    assert_eq!(target.count(), 0);
}

/// Others are not sent to unless whoever started the service has allowed it, whatever they are called.
#[test]
fn only_this_machine_is_sent_to_unless_others_are_allowed() {
    let service = Service::start();
    for host in [
        "192.0.2.1",
        "example.com",
        "localhost.example.com",
        "127.0.0.1.example.com",
        "0.0.0.0",
        "[::]",
        "2130706433",
        "[64:ff9b::7f00:1]",
    ] {
        let response = service.ask("POST", "/test/start", &constant(format!("http://{host}/"), 1, 1.0).to_string());
        assert_eq!(response.status, 400, "{host}: {}", response.text());
        assert!(
            response.text().contains("limiterUrl") && response.text().contains("--allow-host"),
            "{}",
            response.text()
        );
    }
    let target = Upstream::start();
    for host in ["localhost", "127.0.0.1", "[::ffff:127.0.0.1]"] {
        service.begin(&constant(format!("http://{host}:{}/", target.address.port()), 10, 0.2));
        service.wait_for_end();
    }
    assert_eq!(target.count(), 6);
    // Nobody responds there, but it may be tried.
    let generous = Service::start_with(|command, _| {
        command.args(["--allow-host", "Example.com", "--allow-host", "192.0.2.1"]);
    });
    generous.begin(&with(constant("http://192.0.2.1/", 5, 0.2), "requestOptions", json!({ "timeout": 0.1 })));
    generous.wait_for_end();
    assert_eq!(generous.ask("POST", "/test/start", &constant("http://192.0.2.2/", 1, 1.0).to_string()).status, 400);
    let open = Service::start_with(|command, _| {
        command.args(["--allow-host", "*"]);
    });
    open.begin(&with(constant("http://192.0.2.2/", 5, 0.2), "requestOptions", json!({ "timeout": 0.1 })));
}

#[test]
fn the_rate_of_a_constant_test_can_be_changed_while_it_runs() {
    let (service, target) = (Service::start(), Upstream::start());
    let id = service.begin(&constant(url(&target), 1, 60.0));
    for (body, allowed) in [
        ("{}", "is missing"),
        (r#"{"rps": -1}"#, "got -1"),
        (r#"{"rps": "many"}"#, "many"),
        (r#"{"speed": 1}"#, "speed"),
        ("x", "JSON"),
        (r#"{"rps": 1e300}"#, "10000000"),
    ] {
        let response = service.ask("PATCH", "/test", body);
        assert!(response.status == 400 && response.text().contains(allowed), "{body}: {}", response.text());
    }
    let response = service.ask("PATCH", "/test", r#"{"rps": 500}"#);
    assert_eq!((response.status, response.json()), (200, json!({ "status": "changed", "testId": id, "rps": 500.0 })));
    // At one a second this would take minutes.
    wait_until("many are sent", || target.count() > 300);
    assert_eq!(service.status()["targetRps"].as_f64(), Some(500.0));
    let result = service.ask("GET", "/test/result", "");
    assert_eq!(result.status, 404, "it runs still");
    service.ask("PATCH", "/test", r#"{"rps": 0.001}"#);
    wait_until("it is calm", || service.status()["targetRps"].as_f64() == Some(0.001));
    service.ask("POST", "/test/stop", "");
    let result = service.ask("GET", "/test/result", "").text();
    assert!(result.contains("the rate was changed to 500/s after "), "{result}");

    let poisson = json!({ "type": "poisson", "params": { "averageRps": 5 } });
    service.begin(&with(constant(url(&target), 1, 60.0), "profile", poisson));
    let response = service.ask("PATCH", "/test", r#"{"rps": 500}"#);
    assert!(response.status == 409 && response.text().contains("only the rate of `constant`"), "{}", response.text());
}

/// One change right after the other, and before the test has begun: the last one counts, and nothing is lost.
#[test]
fn changes_of_the_rate_may_come_close_together() {
    let (service, target) = (Service::start(), Upstream::start());
    let start = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs_f64() + 0.5;
    service.begin(&with(constant(url(&target), 1, 60.0), "startAt", json!(start)));
    assert!(service.status()["startsIn"].as_f64().is_some(), "{}", service.status());
    for rate in [300, 310, 320] {
        assert_eq!(service.ask("PATCH", "/test", &json!({ "rps": rate }).to_string()).status, 200);
    }
    wait_until("many are sent", || target.count() > 200);
    for rate in [10, 400, 500] {
        assert_eq!(service.ask("PATCH", "/test", &json!({ "rps": rate }).to_string()).status, 200);
    }
    let before = target.count();
    wait_until("many more are sent", || target.count() > before + 300);
}

/// Of a plan full of mistakes some are reported, and keeps nobody else waiting.
#[test]
fn of_a_hundred_thousand_mistakes_fifty_are_reported() {
    let service = Service::start();
    let fields = (0..100_000).map(|number| format!("\"a{number}\": 0,")).collect::<Vec<_>>().concat();
    let response = service.ask("POST", "/test/start", &format!("{{{fields} \"limiterUrl\": 1}}"));
    let problems = response.json()["problems"].as_array().expect("problems").len();
    assert_eq!((response.status, problems), (400, 51));
    assert!(response.body.len() < 100_000, "{} bytes", response.body.len());
}

#[test]
fn options_that_can_not_work_are_reported_at_the_start() {
    let directory = Directory::new();
    let file = tidegate_testkit::text(&directory.file("x", "y"));
    for (option, value) in [
        ("--plans", file.as_str()),
        ("--plans", "/no/such/directory"),
        ("--ca", file.as_str()),
        ("--ca", "/no/such/file.pem"),
        ("--allow-host", ""),
        ("--allow-host", "http://a.example"),
        ("--allow-host", "a.example:80"),
        ("--allow-host", "[::1]"),
    ] {
        let done =
            tidegate().args(["load", "serve", "--listen", "127.0.0.1:0", option, value]).output().expect("it runs");
        assert_eq!(done.status.code(), Some(2), "{option} {value:?}");
        assert!(String::from_utf8_lossy(&done.stderr).contains(option), "{done:?}");
    }
}

#[test]
fn stored_plans_are_started_by_their_name() {
    let target = Upstream::start();
    let plan = constant(url(&target), 50, 0.2);
    let service = Service::start_with(|command, directory| {
        directory.file("small.json", &plan.to_string());
        directory.file("broken.json", "{");
        command.arg("--plans").arg(&directory.0);
    });
    for body in [json!({ "plan": "small" }), json!("small")] {
        service.begin(&body);
        service.wait_for_end();
    }
    assert_eq!(target.count(), 20);
    for (name, reported) in [
        ("large", "must be one of broken, small, got \\\"large"),
        ("../small", "letters, digits"),
        ("", "letters, digits"),
        ("broken", "JSON"),
    ] {
        let response = service.ask("POST", "/test/start", &json!({ "plan": name }).to_string());
        assert!(response.status == 400 && response.text().contains(reported), "{name}: {}", response.text());
    }
}

#[test]
fn secrets_of_a_plan_are_not_shown() {
    let (service, target) = (Service::start(), Upstream::start());
    let mut plan = constant(url(&target), 1, 60.0);
    plan["requestOptions"] = json!({ "auth": { "token": "hunter2" }, "headers": { "Cookie": "hunter2", "X-A": "1" } });
    plan["clients"] = json!([{ "apiKey": "hunter2-{n}" }]);
    service.begin(&plan);
    let config = service.ask("GET", "/test/config", "").text();
    assert!(!config.contains("hunter2") && config.contains("X-A"), "{config}");
    service.ask("POST", "/test/stop", "");
    assert!(!service.ask("GET", "/test/result", "").text().contains("hunter2"));
}

#[test]
fn metrics_are_those_of_the_seed_and_stay_for_a_last_scrape() {
    let service = Service::start();
    let target = Upstream::responding(|request| match request.header("x-who") {
        Some("limited") => b"HTTP/1.1 429 Too Many\r\ncontent-length: 0\r\n\r\n".to_vec(),
        Some("failing") => b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n".to_vec(),
        _ => OK.to_vec(),
    });
    let metric = |name: &str| service.0.metric(name).unwrap_or_else(|| panic!("no {name}"));
    assert_eq!((metric("loadgen_test_running"), metric("loadgen_current_rps")), (0.0, 0.0));
    let mut plan = constant(url(&target), 100, 60.0);
    plan["clients"] = json!([
        { "name": "a" },
        { "name": "b", "headers": { "X-Who": "limited" } },
        { "name": "c", "headers": { "X-Who": "failing" } },
    ]);
    service.begin(&plan);
    wait_until("a second has been counted", || metric("loadgen_current_rps") > 0.0);
    assert_eq!((metric("loadgen_test_running"), metric("loadgen_target_rps")), (1.0, 100.0));
    service.ask("POST", "/test/stop", "");
    let result = service.ask("GET", "/test/result", "").json();
    for round in 1..=2 {
        let count = |name: &str| result["requests"][name].as_u64().expect("a count") as f64;
        // The second round has one more test in it, of 20 requests.
        let more = if round == 2 { 20.0 } else { 0.0 };
        let by = |status: &str| metric(&format!("loadgen_requests_total{{status=\"{status}\"}}"));
        assert_eq!(
            by("success") + by("rate_limited") + by("error"),
            count("success") + count("rateLimited") + count("errors") + more
        );
        assert_eq!(metric("loadgen_errors_total"), by("error"));
        let responded = metric("loadgen_request_duration_seconds_count");
        assert_eq!(responded, by("success") + by("rate_limited") + by("error"));
        for bound in ["0.01", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"] {
            assert!(metric(&format!("loadgen_request_duration_seconds_bucket{{le=\"{bound}\"}}")) <= responded);
        }
        assert_eq!(
            (metric("loadgen_test_running"), metric("loadgen_active_threads"), metric("loadgen_current_rps")),
            (0.0, 0.0, 0.0)
        );
        assert!(metric("process_cpu_seconds_total") >= 0.0 && metric("process_resident_memory_bytes") > 1e6);
        if round == 1 {
            service.begin(&constant(url(&target), 100, 0.2));
            service.wait_for_end();
        }
    }
    let health = service.ask("GET", "/actuator/health", "");
    assert_eq!((health.status, &health.json()["status"]), (200, &json!("UP")));
}

#[test]
fn what_is_asked_for_otherwise_is_rejected() {
    let service = Service::start();
    for (method, path, status) in [
        ("GET", "/test/start", 405),
        ("DELETE", "/test/stop", 405),
        ("POST", "/test/status", 405),
        ("GET", "/test", 405),
        ("POST", "/actuator/prometheus", 405),
        ("GET", "/", 404),
        ("GET", "/test/start/x", 404),
    ] {
        let response = service.ask(method, path, "");
        assert_eq!(response.status, status, "{method} {path}");
        assert_eq!(response.header("allow").is_some(), status == 405);
    }
    let reader = request(service.0.address, "GET", "/test/config", &[("host", "evil.example")], b"");
    assert_eq!(reader.status, 403, "plans are not for pages");
    let page = request(
        service.0.address,
        "POST",
        "/test/stop",
        &[("host", "localhost"), ("origin", "http://evil.example")],
        b"",
    );
    assert_eq!(page.status, 403);
    let misled = request(service.0.address, "POST", "/test/stop", &[("host", "evil.example")], b"");
    assert_eq!(misled.status, 403);
}

/// Told to stop while a test runs, the service ends the test, writes its end down, and goes.
#[test]
fn a_service_that_gets_the_order_to_stop_ends_its_test() {
    let (mut service, target) = (
        Service::start(),
        Upstream::behaving(|_, _| {
            pause(Duration::from_secs(30));
            false
        }),
    );
    service.begin(&constant(url(&target), 50, 60.0));
    wait_until("it sends", || target.count() > 5);
    service.0.signal("TERM");
    assert!(service.0.wait_for_end(), "it ends well");
    service.0.wait_for_line("Load test stopped by user after ");
}

/// Whoever leaves before the response leaves nothing half done: whatever came of it, the service goes on.
#[test]
fn clients_that_leave_change_nothing() {
    let (service, target) = (Service::start(), Upstream::start());
    for _ in 0..20 {
        let body = constant(url(&target), 20, 0.1).to_string();
        let mut client = tidegate_testkit::Client::connect(service.0.address);
        client.send(format!(
            "POST /test/start HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ));
        client.close();
        let mut client = tidegate_testkit::Client::connect(service.0.address);
        client.send("POST /test/stop HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n");
        client.close();
    }
    // One of them may be on its way still.
    let plan = constant(url(&target), 100, 0.2).to_string();
    wait_until("a test can be started", || service.ask("POST", "/test/start", &plan).status == 200);
    service.wait_for_end();
    assert_eq!(service.ask("GET", "/test/result", "").json()["requests"]["success"], json!(20));
}

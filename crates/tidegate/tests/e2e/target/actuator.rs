//! What a target says of itself, and of what it does not know.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::target::setting::{responded, switch, target};
use tidegate_testkit::{Client, request};

#[test]
fn health_is_reported_in_three_ways() {
    let target = target(&["--workers", "3", "--queue", "4"]);
    let up = json!({
        "status": "UP", "workers": { "busy": 0, "limit": 3 }, "queue": { "length": 0, "limit": 4 }, "faults": false
    });
    assert_eq!(target.get("/actuator/health").json(), up);
    for path in ["/actuator/health/liveness", "/actuator/health/readiness"] {
        let response = target.get(path);
        assert_eq!((response.status, response.json()), (200, json!({ "status": "UP" })), "{path}");
    }
}

#[test]
fn methods_and_paths_that_are_not_there_are_rejected() {
    let target = target(&["--service-time", "0"]);
    for path in ["/", "/api", "/api/test/", "/actuator", "/actuator/env", "/faults/x", "/favicon.ico"] {
        assert_eq!(target.get(path).status, 404, "{path}");
    }
    for (method, path) in
        [("POST", "/api/test"), ("DELETE", "/api/test"), ("BREW", "/api/test"), ("POST", "/actuator/health")]
    {
        let response = request(target.address, method, path, &[], b"");
        assert_eq!((response.status, response.header("allow")), (405, Some("GET, HEAD")), "{method} {path}");
    }
    for path in ["/api/test?x=1", "/api/test/pay", "/api/test/pay/now"] {
        assert_eq!(target.get(path).status, 200, "neither a query nor what is below it changes anything: {path}");
    }
}

#[test]
fn head_is_get_without_a_body() {
    let target = target(&["--service-time", "0"]);
    let mut client = Client::connect(target.address);
    for _ in 0..2 {
        let response = client.request("HEAD", "/api/test", &[], b"");
        assert_eq!((response.status, response.header("content-length")), (200, Some("2")));
    }
    assert_eq!(client.request("GET", "/api/test", &[], b"").text(), "OK");
    let head = "http_server_requests_seconds_count{method=\"HEAD\",status=\"200\",uri=\"/api/test\"}";
    assert_eq!(target.metric(head), Some(2.0));
}

#[test]
fn requests_are_counted_by_path_method_and_status() {
    let target = target(&["--service-time", "20ms"]);
    for _ in 0..3 {
        target.get("/api/test");
    }
    switch(&target, r#"{"errors": 1}"#);
    target.get("/api/test");
    request(target.address, "BREW", "/pot", &[], b"");
    request(target.address, "BREW", "/other-pot", &[], b"");
    assert_eq!((responded(&target, 200), responded(&target, 500)), (3.0, 1.0));
    let of = |rest: &str| target.metric(&format!("http_server_requests_seconds_{rest}"));
    assert_eq!(of("count{method=\"other\",status=\"404\",uri=\"other\"}"), Some(2.0));
    assert_eq!(of("count{method=\"POST\",status=\"200\",uri=\"/faults\"}"), Some(1.0));
    let sum = of("sum{method=\"GET\",status=\"200\",uri=\"/api/test\"}").expect("a sum");
    assert!(sum >= 0.06, "{sum}");
    assert_eq!(of("bucket{method=\"GET\",status=\"200\",uri=\"/api/test\",le=\"0.015\"}"), Some(0.0));
    assert_eq!(of("bucket{method=\"GET\",status=\"200\",uri=\"/api/test\",le=\"+Inf\"}"), Some(3.0));
    for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"] {
        assert!(target.metric(name).is_some(), "{name}");
    }
}

/// Where `promtool` is installed, it has the last word on names and units.
#[test]
fn promtool_finds_nothing_to_complain_of() {
    let target = target(&[]);
    target.get("/api/test");
    let page = target.get("/actuator/prometheus");
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let promtool =
        Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut promtool) = promtool else { return };
    promtool.stdin.take().expect("it is piped").write_all(&page.body).expect("it reads");
    let output = promtool.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

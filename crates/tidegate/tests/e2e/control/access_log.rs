//! The access log: a line for each request, which nobody can forge.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::control::setting::{PLENTY, before, once};
use tidegate_testkit::{Client, Gateway, Upstream, signal, text, tidegate, wait_until};

/// A gateway with its access log in `access.log` of its own directory.
fn logging(upstream: &Upstream, limit: &str, format: &str) -> (Gateway, tidegate_testkit::Directory) {
    let directory = tidegate_testkit::Directory::new();
    let file = text(&directory.0.join("access.log"));
    let rest = format!(
        "access_log: {{format: {format}, file: \"{file}\"}}
identity: {{api_keys: {{keys: [{{key: key-of-ann, user: ann}}, {{key: key-of-eve, user: 'eve \" - [x]'}}]}}}}
limits: {{default: {limit}}}"
    );
    (Gateway::start(&before(upstream, &rest)), directory)
}

fn lines(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The lines of a file once there are so many.
fn wait_for_lines(file: &Path, count: usize) -> Vec<String> {
    wait_until("lines in the access log", || lines(file).len() >= count);
    lines(file)
}

#[test]
fn combined_lines_are_those_of_nginx_and_apache() {
    let upstream = Upstream::start();
    let (gateway, directory) = logging(&upstream, &once(1), "combined");
    let headers = [("X-Api-Key", "key-of-ann"), ("Referer", "http://a.example/"), ("User-Agent", "curl/8.0")];
    let file = directory.0.join("access.log");
    gateway.get_with("/a%20b?c=d", &headers);
    wait_for_lines(&file, 1);
    gateway.get("/");
    let lines = wait_for_lines(&file, 2);
    let (first, rest) = lines[0].split_once('[').expect("a time");
    assert_eq!(first, "127.0.0.1 - ann ");
    let (time, rest) = rest.split_once("] ").expect("a time");
    let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!((shape.len(), &shape[..3], &shape[6..]), (26, "00/", "/0000:00:00:00 +0000"), "{time}");
    assert_eq!(rest, r#""GET /a%20b?c=d HTTP/1.1" 200 2 "http://a.example/" "curl/8.0""#);
    let (first, rest) = lines[1].split_once('[').expect("a time");
    assert_eq!(first, "127.0.0.1 - - ");
    let (_, request) = rest.split_once("] ").expect("a time");
    let length = request.rsplit(' ').nth(2).and_then(|length| length.parse::<usize>().ok()).expect("its length");
    assert!(length > 100, "the refusal's body: {request}");
    assert!(request.starts_with("\"GET / HTTP/1.1\" 429 ") && request.ends_with(" \"-\" \"-\""), "{request}");
}

#[test]
fn json_lines_have_route_upstream_and_rejection() {
    let upstream = Upstream::start();
    let (gateway, directory) = logging(&upstream, &once(1), "json");
    let response = gateway.get_with("/x?y", &[("X-Api-Key", "key-of-ann"), ("User-Agent", "agent \"1\"")]);
    let file = directory.0.join("access.log");
    wait_for_lines(&file, 1);
    let rejected = gateway.get("/");
    let lines = wait_for_lines(&file, 2);
    let objects: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect();
    let (first, second) = (&objects[0], &objects[1]);
    for (field, value) in [
        ("ip", "127.0.0.1"),
        ("user", "ann"),
        ("method", "GET"),
        ("host", "test.example"),
        ("path", "/x?y"),
        ("protocol", "HTTP/1.1"),
        ("route", "default"),
        ("upstream", "app"),
        ("user_agent", "agent \"1\""),
    ] {
        assert_eq!(first[field], value, "{field} of {first}");
    }
    assert_eq!((&first["status"], &first["bytes"], &first["complete"]), (&200.into(), &2.into(), &true.into()));
    assert_eq!(first["request_id"].as_str(), response.header("x-request-id"));
    assert!(first["duration_seconds"].as_f64().is_some_and(|seconds| (0.0..20.0).contains(&seconds)));
    assert!(first["time"].as_str().is_some_and(|time| time.len() == 24 && time.ends_with('Z')), "{first}");
    assert!(first.get("refused_by").is_none());
    assert_eq!((&second["status"], &second["refused_by"]), (&429.into(), &"default".into()));
    assert_eq!(second["request_id"].as_str(), rejected.header("x-request-id"));
}

#[test]
fn it_can_go_to_standard_output() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&before(&upstream, &format!("access_log: {{}}\nlimits: {{default: {PLENTY}}}")));
    gateway.get("/somewhere");
    let line = gateway.wait_for_line("GET /somewhere");
    assert!(line.starts_with("127.0.0.1 - - [") && line.contains("\" 200 2 \""), "{line}");
}

#[test]
fn requests_that_change_limits_are_logged_too() {
    let upstream = Upstream::start();
    let (gateway, directory) = logging(&upstream, PLENTY, "json");
    gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 5, "window": 60}"#);
    let lines = wait_for_lines(&directory.0.join("access.log"), 1);
    let object: Value = serde_json::from_str(&lines[0]).expect("JSON");
    assert_eq!((&object["method"], &object["path"]), (&"POST".into(), &"/config/limits".into()));
    assert_eq!((&object["status"], &object["ip"]), (&200.into(), &"127.0.0.1".into()));
}

/// Sends one request with bytes that a line must not contain as they are; they must stand in it escaped.
#[test]
fn nobody_can_forge_a_line_or_a_field() {
    let upstream = Upstream::start();
    for format in ["combined", "json"] {
        let (gateway, directory) = logging(&upstream, &once(1), format);
        let mut client = Client::connect(gateway.address);
        assert_eq!(client.request("GET", "/used-up", &[], b"").status, 200);
        client.send(
            b"GET /%0d%0a?x=%22 HTTP/1.1\r\nHost: test.example\r\nX-Api-Key: key-of-eve\r\n\
              User-Agent: one\" 200 0 \"-\" \"two\\\t\x80\xff\r\nReferer: \"\\\r\n\r\n",
        );
        assert_eq!(client.response().status, 429);
        let file = directory.0.join("access.log");
        let ends = || fs::read(&file).unwrap_or_default().split(|byte| *byte == b'\n').count() - 1;
        wait_until("two lines", || ends() >= 2);
        assert_eq!(ends(), 2, "one request is one line");
        let log = String::from_utf8(fs::read(&file).expect("the log")).expect("it is text");
        let line = log.trim_end_matches('\n').rsplit('\n').next().expect("a line");
        assert!(!line.chars().any(char::is_control), "{line:?}");
        if format == "json" {
            let object: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!((&object["path"], &object["referer"]), (&"/%0d%0a?x=%22".into(), &"\"\\".into()));
            assert_eq!((&object["status"], &object["user"]), (&429.into(), &"eve \" - [x]".into()));
        } else {
            assert!(line.is_ascii(), "{line:?}");
            assert_eq!(line.matches('"').count(), 6, "three fields in quotes: {line}");
            let (before_time, rest) = line.split_once(" [").expect("a time");
            assert_eq!(before_time.split(' ').count(), 3, "{line}");
            let agent = "\"one\\x22 200 0 \\x22-\\x22 \\x22two\\x5C\\x09\\x";
            assert!(rest.contains("\" 429 ") && rest.contains(&format!(" \"\\x22\\x5C\" {agent}")), "{line}");
        }
    }
}

/// What is no request can't put anything into the log either.
#[test]
fn a_head_with_line_breaks_in_it_is_rejected() {
    let upstream = Upstream::start();
    let (gateway, directory) = logging(&upstream, PLENTY, "combined");
    for head in [
        "GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: a\r127.0.0.1 - admin [x] \"GET /\" 200 0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: a\0b\r\n\r\n",
        "GET /\x0b HTTP/1.1\r\nHost: x\r\n\r\n",
    ] {
        let mut client = Client::connect(gateway.address);
        client.send(head);
        let response = client.try_response_to("GET");
        assert!(response.is_none_or(|response| response.status == 400), "{head:?}");
    }
    assert_eq!(upstream.count(), 0);
    gateway.get("/last");
    let lines = wait_for_lines(&directory.0.join("access.log"), 1);
    assert!(lines.iter().all(|line| !line.contains("admin")), "{lines:?}");
}

#[test]
fn it_is_rotated_by_renaming_and_a_hang_up() {
    let upstream = Upstream::start();
    let (gateway, directory) = logging(&upstream, PLENTY, "combined");
    let (file, old) = (directory.0.join("access.log"), directory.0.join("access.log.1"));
    gateway.get("/first");
    wait_for_lines(&file, 1);
    fs::rename(&file, &old).expect("it can be moved");
    gateway.get("/second");
    wait_for_lines(&old, 2);
    gateway.signal("HUP");
    wait_until("the new file", || file.exists());
    gateway.get("/third");
    let new = wait_for_lines(&file, 1);
    assert!(new.len() == 1 && new[0].contains("/third"), "{new:?}");
    let old = lines(&old);
    assert!(old.len() == 2 && old[0].contains("/first") && old[1].contains("/second"), "{old:?}");
}

/// A reload would take back what was set.
#[test]
fn a_user_signal_rotates_it_and_leaves_limits_as_they_are() {
    let upstream = Upstream::start();
    let (gateway, directory) = logging(&upstream, PLENTY, "combined");
    let file = directory.0.join("access.log");
    let set = r#"{"algorithm": "fixed", "limit": 77, "window": 60}"#;
    assert_eq!(gateway.post("/config/limits", set).status, 200);
    fs::rename(&file, directory.0.join("access.log.1")).expect("it can be moved");
    gateway.signal("USR1");
    wait_until("the new file", || file.exists());
    assert_eq!(gateway.get("/config/limits").json()["limit"], 77);
    gateway.get("/next");
    assert!(wait_for_lines(&file, 1).iter().any(|line| line.contains("/next")));
}

#[test]
fn it_is_rotated_also_when_the_file_can_not_be_reloaded() {
    let upstream = Upstream::start();
    let (gateway, directory) = logging(&upstream, PLENTY, "combined");
    let file = directory.0.join("access.log");
    fs::rename(&file, directory.0.join("access.log.1")).expect("it can be moved");
    fs::write(&gateway.config, "colour: blue").expect("written");
    gateway.signal("HUP");
    gateway.wait_for_line("the configuration was not reloaded");
    wait_until("the new file", || file.exists());
    gateway.get("/next");
    assert!(wait_for_lines(&file, 1)[0].contains("/next"));
}

#[test]
fn what_was_logged_is_written_before_the_gateway_ends() {
    let upstream = Upstream::start();
    let (mut gateway, directory) = logging(&upstream, PLENTY, "combined");
    let mut client = Client::connect(gateway.address);
    for place in 0..300 {
        assert_eq!(client.request("GET", &format!("/{place}"), &[], b"").status, 200);
    }
    client.close();
    gateway.signal("TERM");
    assert!(gateway.wait_for_end());
    let lines = lines(&directory.0.join("access.log"));
    assert_eq!(lines.len(), 300);
    assert!(lines[299].contains("GET /299 "), "{}", lines[299]);
}

/// The log is a pipe that nobody reads: the gateway serves on, and counts what it could not write.
#[test]
fn a_log_that_is_too_slow_loses_lines_and_never_requests() {
    let upstream = Upstream::start();
    let directory = tidegate_testkit::Directory::new();
    let pipe = directory.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    // Open both ways, so that neither side waits for the other.
    let held = fs::OpenOptions::new().read(true).write(true).open(&pipe).expect("the pipe");
    let rest = format!("access_log: {{file: \"{}\", buffer: 4}}\nlimits: {{default: {PLENTY}}}", text(&pipe));
    let gateway = Gateway::start(&before(&upstream, &rest));
    let mut client = Client::connect(gateway.address);
    let path = format!("/{}", "a".repeat(2_000));
    let dropped = || gateway.metric("tidegate_access_log_dropped_total").expect("it is counted");
    let mut sent = 0;
    while dropped() < 20.0 {
        assert_eq!(client.request("GET", &path, &[], b"").status, 200);
        sent += 1;
        assert!(sent < 1_000, "a pipe holds less");
    }
    drop(held);
}

#[test]
fn a_disk_that_is_full_loses_lines_and_never_requests() {
    let upstream = Upstream::start();
    let rest = format!("access_log: {{file: /dev/full}}\nlimits: {{default: {PLENTY}}}");
    let gateway = Gateway::start(&before(&upstream, &rest));
    assert_eq!((gateway.get("/").status, gateway.get("/").status), (200, 200));
    wait_until("they are counted", || gateway.metric("tidegate_access_log_dropped_total") >= Some(2.0));
}

#[test]
fn a_file_that_can_not_be_written_is_reported_at_the_start() {
    let directory = tidegate_testkit::Directory::new();
    let file = directory.file("gateway.yaml", "access_log: {file: /nonexistent/access.log}\n");
    let outcome =
        tidegate_testkit::command::run(&["gateway", "--listen", "127.0.0.1:0", "--config", &text(&file)], &[]);
    assert!(outcome.code != 0 && outcome.err.contains("access_log.file"), "{outcome:?}");
}

#[test]
fn a_log_that_can_not_be_opened_anew_is_reported() {
    let upstream = Upstream::start();
    let (gateway, directory) = logging(&upstream, PLENTY, "combined");
    let errors = || gateway.metric("tidegate_access_log_errors_total").expect("it is counted");
    assert_eq!(errors(), 0.0);
    fs::remove_dir_all(&directory.0).expect("it can be removed");
    gateway.signal("HUP");
    let line = gateway.wait_for_line("can't reopen the access log ");
    assert!(line.contains(" ERROR ") && line.contains("access.log: "), "{line}");
    assert!(line.ends_with("; lines still go to the old file"), "{line}");
    assert_eq!(errors(), 1.0);
    // Once it has succeeded, nothing is wrong any more: the end of the gateway reports nothing.
    gateway.signal("USR1");
    wait_until("it has failed again", || errors() == 2.0);
    fs::create_dir(&directory.0).expect("it can be made");
    gateway.signal("USR1");
    wait_until("it has been reopened", || directory.0.join("access.log").exists());
    gateway.signal("TERM");
    gateway.wait_for_line("stopped");
    let lines = gateway.lines();
    let stopping = lines.iter().position(|line| line.contains("stopping: ")).expect("it stops");
    assert!(!lines[stopping..].iter().any(|line| line.contains("access log")), "{lines:#?}");
}

/// Nobody reads standard output until all is said, so that a line of the access log is half written when events come.
/// Two writers would put them in its middle.
#[test]
fn on_standard_output_the_lines_of_both_logs_stay_whole() {
    // So many take longer than a log waits for more lines before it writes what it has.
    const CHANGES: usize = 3_000;
    let upstream = Upstream::start();
    let directory = tidegate_testkit::Directory::new();
    let config = before(&upstream, &format!("access_log: {{format: json, buffer: 4}}\nlimits: {{default: {PLENTY}}}"));
    let file = directory.file("gateway.yaml", &config);
    let mut command = tidegate();
    command.args(["gateway", "--listen", "127.0.0.1:0", "--config"]).arg(&file).stdout(Stdio::piped());
    let mut child = Ended(command.spawn().expect("it starts"));
    let mut out = BufReader::new(child.0.stdout.take().expect("it is piped"));
    let address = loop {
        let mut line = String::new();
        assert!(out.read_line(&mut line).expect("text") > 0, "it ended");
        if let Some((_, rest)) = line.split_once("listening on http://") {
            break rest.trim().parse().expect("an address");
        }
    };
    let (mut client, path) = (Client::connect(address), format!("/{}", "a".repeat(25_000)));
    for change in 0..CHANGES {
        let body = format!(r#"{{"algorithm": "fixed", "limit": {}, "window": 60}}"#, 1_000 + change);
        assert_eq!(client.request("POST", "/config/limits", &[], body.as_bytes()).status, 200);
        if change % 10 == 0 {
            assert_eq!(client.request("GET", &path, &[], b"").status, 200);
        }
    }
    drop(client);
    signal(child.0.id(), "TERM");
    let lines: Vec<String> = out.lines().map(|line| line.expect("text")).collect();
    let (access, events): (Vec<&String>, Vec<&String>) = lines.iter().partition(|line| line.starts_with('{'));
    for line in &access {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "torn: {line}");
    }
    for line in &events {
        assert!(line.starts_with("[20") && line.contains(" - ") && !line.contains('{'), "torn: {line}");
    }
    assert!(!access.is_empty());
    let changes = events.iter().filter(|line| line.contains("Applied new config")).count();
    assert_eq!(changes, CHANGES, "requests leave room for events");
    assert!(events.last().is_some_and(|line| line.ends_with("stopped")), "{events:?}");
}

/// A process that does not outlive its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

#[test]
fn nothing_is_sent_to_a_rejected_head_and_the_log_says_so() {
    let upstream = Upstream::start();
    let (gateway, directory) = logging(&upstream, &once(1), "json");
    assert_eq!(gateway.get("/").status, 200);
    let file = directory.0.join("access.log");
    wait_for_lines(&file, 1);
    let rejected = tidegate_testkit::request(gateway.address, "HEAD", "/", &[], b"");
    assert_eq!(rejected.status, 429);
    let line: Value = serde_json::from_str(&wait_for_lines(&file, 2)[1]).expect("JSON");
    assert_eq!((&line["method"], &line["status"], &line["bytes"]), (&"HEAD".into(), &429.into(), &0.into()), "{line}");
}

/// Whoever tries a limit out wants to know whom it would hit.
#[test]
fn a_dry_run_limit_names_those_it_would_reject() {
    let upstream = Upstream::start();
    let trial = once(1).replace('}', ", dry_run: true}");
    let (gateway, directory) = logging(&upstream, &trial, "json");
    let mut lines = Vec::new();
    for count in 1..=2 {
        assert_eq!(gateway.get("/").status, 200);
        lines = wait_for_lines(&directory.0.join("access.log"), count);
    }
    let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[0].get("would_refuse"), None);
    assert_eq!(lines[1]["would_refuse"], serde_json::json!(["default"]), "{}", lines[1]);
}

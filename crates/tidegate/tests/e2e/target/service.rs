//! What every small server has in common: where it listens and what it says.

use std::net::TcpListener;
use std::process::Command;

use crate::target::setting::{switch, target};
use tidegate_testkit::{Directory, Gateway, text, tidegate, wait_until};

/// A target with this environment and these flags, and no others.
fn started(variables: &[(&str, &str)], arguments: &[&str]) -> Gateway {
    let mut command = tidegate();
    command.arg("target").args(arguments).envs(variables.iter().copied());
    let directory = Directory::new();
    Gateway::launch(command, directory.0.join("none"), directory)
}

/// A port that was free a moment ago.
fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port().to_string()
}

/// Exit code and what it said on standard error.
fn failed(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("it runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_environment_changes_the_port_and_flags_win() {
    let port = free_port();
    let by_port = started(&[("PORT", &port), ("SERVER_PORT", "1")], &[]);
    assert_eq!(by_port.address.to_string(), format!("127.0.0.1:{port}"));
    let port = free_port();
    let by_server_port = started(&[("SERVER_PORT", &port)], &[]);
    assert_eq!(by_server_port.address.to_string(), format!("127.0.0.1:{port}"));
    let by_flag = started(&[("PORT", "1")], &["--listen", "127.0.0.2:0"]);
    assert_eq!(by_flag.address.ip().to_string(), "127.0.0.2");
    assert_eq!(by_flag.get("/api/test").status, 200);
}

#[test]
fn a_bad_port_in_the_environment_is_an_error() {
    for name in ["PORT", "SERVER_PORT"] {
        let (code, stderr) = failed(tidegate().arg("target").env(name, "http"));
        assert_eq!(code, Some(1));
        assert!(stderr.contains(&format!("{name}: must be a port from 0 to 65535, got \"http\"")), "{stderr}");
    }
}

#[test]
fn a_port_that_is_taken_is_an_error_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let (code, stderr) = failed(tidegate().args(["target", "--listen", &address]));
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with(&format!("tidegate: can't listen on {address}: ")), "{stderr}");
}

#[test]
fn lines_can_be_json() {
    let target = target(&["--log-format", "json"]);
    let line: serde_json::Value = serde_json::from_str(&target.lines()[0]).expect("JSON");
    assert_eq!((&line["level"], &line["component"]), (&"INFO".into(), &"Target".into()));
    assert_eq!(line["message"], format!("listening on http://{}", target.address));
}

#[test]
fn a_log_file_has_the_same_lines() {
    let directory = Directory::new();
    let file = directory.file("target.log", "from before\n");
    let mut target = target(&["--log-file", &text(&file)]);
    switch(&target, r#"{"delay": 0.001}"#);
    target.wait_for_line("faults: ");
    target.signal("TERM");
    assert!(target.wait_for_end());
    wait_until("the last line", || target.lines().len() == 2);
    let written = std::fs::read_to_string(&file).expect("text");
    assert_eq!(written, format!("from before\n{}\n", target.lines().join("\n")));
}

#[test]
fn a_full_log_file_is_put_aside() {
    let directory = Directory::new();
    let file = directory.file("target.log", &"x\n".repeat(5_000_000));
    let mut target = target(&["--log-file", &text(&file)]);
    target.signal("TERM");
    assert!(target.wait_for_end());
    assert_eq!(std::fs::metadata(directory.0.join("target.log.1")).expect("a file").len(), 10_000_000);
    assert!(std::fs::read_to_string(&file).expect("text").contains("listening on "));
}

#[test]
fn a_log_file_that_cannot_be_written_is_an_error() {
    let (code, stderr) = failed(tidegate().args(["target", "--log-file", "/nonexistent/target.log"]));
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with("tidegate: /nonexistent/target.log: "), "{stderr}");
}

#[test]
fn help_says_what_the_capacity_is() {
    let output = tidegate().args(["target", "--help"]).output().expect("it runs");
    let help = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    for reported in
        ["16 / 5 ms = 3,200 requests a second", "127.0.0.1:8081", "POST /faults", "SERVER_PORT", "--log-file"]
    {
        assert!(help.contains(reported), "{reported}: {help}");
    }
}

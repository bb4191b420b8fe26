//! How a target ends.

use std::process::{Command, Stdio};

use crate::target::setting::{asking, switch, target, wait_for_standing};
use tidegate_testkit::{Client, PATIENCE, signal, tidegate, wait_for_exit, wait_until};

#[test]
fn requests_under_way_end_and_new_ones_find_nobody() {
    for name in ["TERM", "INT"] {
        let mut target = target(&["--service-time", "300ms", "--workers", "1"]);
        let (mut served, mut waiting) = (asking(&target), asking(&target));
        wait_for_standing(&target, 1.0, 1.0);
        target.signal(name);
        wait_until("nobody listens", || std::net::TcpStream::connect(target.address).is_err());
        assert_eq!((served.response().status, waiting.response().status), (200, 200), "{name}");
        assert!(served.is_closed());
        assert!(target.wait_for_end(), "with exit code 0");
    }
}

#[test]
fn what_hangs_is_cut_off_after_the_grace() {
    let mut target = target(&[]);
    switch(&target, r#"{"hang": true}"#);
    let mut hanging = asking(&target);
    wait_for_standing(&target, 1.0, 0.0);
    target.signal("TERM");
    assert!(target.wait_for_end());
    assert!(hanging.try_response_to("GET").is_none());
}

#[test]
fn a_second_signal_stops_at_once_and_shows_in_the_exit_code() {
    let mut child = tidegate()
        .args(["target", "--listen", "127.0.0.1:0", "--service-time", "60s"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("it is piped")));
    let ready = lines.next().expect("a line").expect("text");
    let address = ready.rsplit("http://").next().expect("an address").parse().expect("an address");
    let mut client = Client::connect(address);
    client.send("GET /api/test HTTP/1.1\r\nhost: x\r\n\r\n");
    let served =
        || Client::connect(address).request("GET", "/actuator/health", &[], b"").json()["workers"]["busy"] == 1;
    wait_until("it is served", served);
    signal(child.id(), "TERM");
    wait_until("it stops", || std::net::TcpStream::connect(address).is_err());
    signal(child.id(), "INT");
    let status = wait_for_exit(&mut child, PATIENCE).expect("it ends");
    assert_eq!(status.code(), Some(130));
    assert!(lines.map_while(Result::ok).any(|line| line.contains("WARN Target - stopping at once")));
}

#[test]
fn the_log_reaches_its_reader_to_the_last_line() {
    // A pipe that nobody reads does not keep it from ending.
    let mut command: Command = tidegate();
    let mut child =
        command.args(["target", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().expect("it starts");
    let stdout = child.stdout.take().expect("it is piped");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stdout));
    assert!(lines.next().expect("a line").expect("text").contains("listening on "));
    drop(lines);
    signal(child.id(), "TERM");
    wait_until("it ends", || child.try_wait().expect("it can be asked").is_some());
    assert_eq!(child.wait().expect("a status").code(), Some(0));
}

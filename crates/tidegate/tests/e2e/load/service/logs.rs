//! What the service writes into its log.

use serde_json::json;

use super::{Service, url};
use tidegate_testkit::load_run::{constant, with};
use tidegate_testkit::{Upstream, wait_until};

#[test]
fn a_run_that_was_mostly_rejected_ends_with_a_warning() {
    let rejecting = Upstream::responding(|_| b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n".to_vec());
    let service = Service::start();
    service.begin(&constant(url(&rejecting), 20, 0.5));
    let warning = service.0.wait_for_line("Most responses are rejections: ");
    assert!(warning.contains("WARN") && warning.contains("(100.0 %) are 429"), "{warning}");
    service.wait_for_end();
}

#[test]
fn start_burst_errors_end_and_stop_are_logged_to_the_file_too() {
    let failing = Upstream::responding(|_| b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n".to_vec());
    let service = Service::start_with(|command, directory| {
        command.arg("--log-file").arg(directory.0.join("load.log"));
    });
    let params = json!({ "baseRps": 10, "spikeRps": 50, "spikeDuration": 0.3, "spikePeriod": 0.6 });
    let burst = json!({ "type": "burst", "params": params });
    service.begin(&with(constant(url(&failing), 1, 1.0), "profile", burst));
    service.0.wait_for_line("Test completed: ");
    service.wait_for_end();
    let lines = service.0.lines();
    let line = |text: &str| {
        lines.iter().find(|line| line.contains(text)).unwrap_or_else(|| panic!("no {text:?} in {lines:#?}"))
    };
    let start = line("Starting load test");
    for piece in
        ["profile=burst", "baseRps=10", "spikeRps=50", "duration=1", &format!("limiterUrl=http://{}/", failing.address)]
    {
        assert!(start.contains(piece), "{start}");
    }
    assert!(line("Burst peak started at t=0.3s (target RPS=50)").contains("INFO"));
    let errors = line("Request errors: ");
    assert!(errors.contains("WARN") && errors.contains("× HTTP 500 Internal Server Error"), "{errors}");
    let end = line("Test completed: ");
    for piece in ["requests sent", "errors", "avg latency", "p95"] {
        assert!(end.contains(piece), "{end}");
    }
    service.begin(&constant(url(&failing), 10, 60.0));
    wait_until("it sends", || service.status()["requestsSent"].as_u64() > Some(2));
    service.ask("POST", "/test/stop", "");
    let stopped = service.0.wait_for_line("Load test stopped by user after ");
    assert!(stopped.contains("Sent ") && stopped.contains(" errors, ") && stopped.contains("p95"), "{stopped}");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    service.begin(&constant(format!("http://{nobody}/"), 20, 0.2));
    let rejected = service.0.wait_for_line("not_connected");
    assert!(rejected.contains("4 × not_connected (Connection refused"), "{rejected}");
    service.wait_for_end();
    let file = service.0.directory.0.join("load.log");
    wait_until("the file has it", || {
        std::fs::read_to_string(&file).is_ok_and(|text| text.contains("stopped by user after "))
    });
    let text = std::fs::read_to_string(&file).expect("a file");
    assert!(lines.iter().all(|line| text.contains(line.as_str())), "{text}");
}

/// A file that is nearly full becomes another one at 10 MB, and no line is lost or torn by that.
#[test]
fn the_log_file_rotates_at_ten_megabytes() {
    let target = Upstream::start();
    let service = Service::start_with(|command, directory| {
        let line = format!("{}\n", "x".repeat(99));
        let file = directory.file("load.log", &line.repeat(99_997));
        command.arg("--log-file").arg(file);
    });
    for _ in 0..3 {
        service.begin(&constant(url(&target), 50, 0.1));
        service.wait_for_end();
    }
    let directory = service.0.directory.0.clone();
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap_or_default();
    let is_there = |text: &str| text.matches("Test completed: ").count() == 3;
    wait_until("all is written", || is_there(&(read("load.log.1") + &read("load.log"))));
    let (old, new) = (read("load.log.1"), read("load.log"));
    assert!(old.len() <= 10_000_000 && old.len() > 9_999_000 && new.len() < 10_000, "{} and {}", old.len(), new.len());
    assert!(old.ends_with('\n') && new.starts_with('['), "lines are whole");
}

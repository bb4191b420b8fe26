//! Each setting of the breaker: with it something happens that does not happen without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_testkit::{Upstream, pause, wait_until};

use super::{breaker, gateway, gateway_with, settable, state, statuses};

/// Alternating: every second response is a failure.
fn every_second_fails() -> Upstream {
    let fails = AtomicBool::new(false);
    Upstream::responding(move |_| super::with_status(if fails.fetch_xor(true, Ordering::Relaxed) { 500 } else { 200 }))
}

#[test]
fn window_and_minimum() {
    let (upstream, status) = settable(200);
    let gateway = gateway(&[upstream.address], "breaker: {window: 6, minimum: 5, open: 1h}");
    assert_eq!(statuses(&gateway, 3), [200; 3]);
    status.store(500, Ordering::Relaxed);
    // With these four half of the last six have failed; a window of seven would have had four of seven.
    assert_eq!(statuses(&gateway, 3), [500; 3]);
    gateway.wait_for_line("is open for 3600 s: 3 of 6 attempts failed");
    let (other, _) = settable(500);
    let gateway = super::gateway(&[other.address], "breaker: {window: 6, minimum: 5, open: 1h}");
    assert_eq!(statuses(&gateway, 6), [500, 500, 500, 500, 500, 503], "five are judged");
}

#[test]
fn a_window_of_time_forgets() {
    let (upstream, _) = settable(500);
    let gateway = gateway(&[upstream.address], "breaker: {window: 500ms, minimum: 3, open: 1h}");
    assert_eq!(statuses(&gateway, 2), [500; 2]);
    wait_until("both are forgotten", || breaker(&gateway)["attempts"] == 0);
    assert_eq!(statuses(&gateway, 2), [500; 2]);
    assert_eq!(state(&gateway), "closed", "four failed, but never three within the window");
    let gateway = super::gateway(&[upstream.address], "breaker: {window: 1h, minimum: 3, open: 1h}");
    assert_eq!(statuses(&gateway, 4), [500, 500, 500, 503]);
}

#[test]
fn the_share_of_failures() {
    let upstream = every_second_fails();
    let gateway = gateway(&[upstream.address], "breaker: {window: 10, failures: 0.6, open: 1h}");
    statuses(&gateway, 20);
    assert_eq!(state(&gateway), "closed");
    let gateway = super::gateway(&[upstream.address], "breaker: {window: 10, failures: 0.5, open: 1h}");
    statuses(&gateway, 20);
    assert_eq!(state(&gateway), "open");
}

#[test]
fn failures_in_a_row() {
    let upstream = every_second_fails();
    let gateway = gateway(&[upstream.address], "breaker: {window: 10, consecutive: 2, open: 1h}");
    statuses(&gateway, 30);
    assert_eq!(state(&gateway), "closed", "with `consecutive`, shares do not count unless they are set");
    let (failing, _) = settable(500);
    let gateway = super::gateway(&[failing.address], "breaker: {window: 10, consecutive: 2, open: 1h}");
    assert_eq!(statuses(&gateway, 3), [500, 500, 503]);
    gateway.wait_for_line("is open for 3600 s: 2 attempts failed in a row");
}

#[test]
fn slow_attempts() {
    let upstream = Upstream::behaving(|received, stream| {
        if received.line.contains("slow") {
            pause(Duration::from_millis(60));
        }
        std::io::Write::write_all(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_ok()
    });
    let policy = |share: &str| format!("breaker: {{window: 4, minimum: 4, slow: 50ms, slow_calls: {share}, open: 1h}}");
    for (share, expected, slow) in [("0.75", "closed", 2), ("0.5", "open", 0)] {
        let gateway = gateway(&[upstream.address], &policy(share));
        for path in ["/", "/slow", "/", "/slow"] {
            assert_eq!(gateway.get(path).status, 200);
        }
        assert_eq!((state(&gateway).as_str(), &breaker(&gateway)["slow"]), (expected, &slow.into()), "{share}");
        assert_eq!(super::metric(&gateway, "tidegate_breaker_calls_total", ",kind=\"slow\""), 2);
        if expected == "open" {
            gateway.wait_for_line("is open for 3600 s: 2 of 4 attempts were slow");
        }
    }
}

#[test]
fn open_grows_up_to_its_maximum() {
    let (upstream, _) = settable(500);
    let policy = "breaker: {consecutive: 1, open: 20ms, growth: 10, max_open: 100ms}";
    let gateway = gateway(&[upstream.address], policy);
    wait_until("it has opened three times", || {
        gateway.get("/");
        upstream.count() == 3
    });
    for line in ["is open for 0.02 s", "is open for 0.1 s: a probe failed"] {
        gateway.wait_for_line(line);
    }
    assert!(!gateway.lines().iter().any(|line| line.contains("is open for 0.2 s")));
}

/// So many are let through at a time, and not one more.
#[test]
fn probes_and_their_timeout() {
    let hangs = Arc::new(AtomicBool::new(false));
    let hanging = Arc::clone(&hangs);
    let upstream = Upstream::behaving(move |_, stream| {
        if hanging.load(Ordering::Relaxed) {
            pause(Duration::from_secs(5));
        }
        std::io::Write::write_all(stream, &super::with_status(500)).is_ok()
    });
    let policy = "breaker: {consecutive: 1, open: 50ms, probes: 2, probe_timeout: 300ms}";
    let gateway = gateway(&[upstream.address], policy);
    assert_eq!(statuses(&gateway, 1), [500]);
    hangs.store(true, Ordering::Relaxed);
    let probes: Vec<_> = (0..2)
        .map(|_| {
            let mut client = tidegate_testkit::Client::connect(gateway.address);
            let before = upstream.count();
            wait_until("a probe is sent", || {
                if upstream.count() > before {
                    return true;
                }
                client = tidegate_testkit::Client::connect(gateway.address);
                client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                wait_until("it is sent or rejected", || upstream.count() > before || client.has_response());
                upstream.count() > before
            });
            client
        })
        .collect();
    assert_eq!((gateway.get("/").status, upstream.count()), (503, 3), "two probes are under way");
    wait_until("they are given up", || {
        gateway.get("/");
        gateway.lines().iter().any(|line| line.contains("is open for 0.05 s: probes did not end in time"))
    });
    drop(probes);
}

#[test]
fn what_counts_as_a_failure() {
    let (upstream, _) = settable(404);
    let gateway = gateway(&[upstream.address], "breaker: {consecutive: 2, on: [4xx], open: 1h}");
    assert_eq!(statuses(&gateway, 3), [404, 404, 503]);
    let (upstream, _) = settable(500);
    let gateway = super::gateway(&[upstream.address], "breaker: {consecutive: 2, on: [502, timeout], open: 1h}");
    assert_eq!(statuses(&gateway, 4), [500; 4]);
    let closing = Upstream::behaving(|_, _| false);
    for (on, expected) in [("connect, timeout, 5xx", "closed"), ("reset", "open")] {
        let policy = format!("breaker: {{consecutive: 2, on: [{on}], open: 1h}}");
        let gateway = gateway_with(&[closing.address], &policy, "", "");
        assert_eq!(statuses(&gateway, 2), [502; 2]);
        assert_eq!(state(&gateway), expected, "{on}");
    }
}

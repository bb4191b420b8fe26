//! What clients cause, or may have caused, is not held against an upstream; and what upstreams cause costs no more than
//! it must.

use std::io::Write as _;
use std::sync::{Barrier, mpsc};
use std::time::Duration;

use tidegate_testkit::{Client, Gateway, Upstream, wait_until};

use super::{config, gateway, metric, state, with_status};

/// One that makes its upstream close the connection would otherwise go through all that are kept, and what is behind
/// them.
#[test]
fn a_request_that_ends_kept_connections_is_sent_twice_at_most() {
    const KEPT: usize = 6;
    let together = Barrier::new(KEPT);
    let upstream = Upstream::behaving(move |received, stream| {
        if received.line.contains("together") {
            together.wait();
        }
        !received.line.contains("poison") && stream.write_all(&with_status(200)).is_ok()
    });
    let one_worker = config(&[upstream.address], "timeout: 30s", "", "").replace("workers: 2", "workers: 1");
    let gateway = Gateway::start(&one_worker);
    std::thread::scope(|scope| {
        for _ in 0..KEPT {
            scope.spawn(|| assert_eq!(gateway.get("/together").status, 200));
        }
    });
    let before = upstream.count();
    assert_eq!(gateway.get("/poison").status, 502);
    assert_eq!((upstream.count() - before, metric(&gateway, "tidegate_resent_total", "")), (2, 1));
}

/// The upstream has waited for the client, and has lost its patience: that is no failure of it.
#[test]
fn an_upstream_that_gives_up_on_a_client_that_takes_nothing_has_not_failed() {
    let (sender, receiver) = mpsc::channel();
    let upstream = Upstream::behaving(move |_, stream| {
        stream.set_write_timeout(Some(Duration::from_millis(1_500))).expect("a timeout that is not zero");
        let _sent = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = [b"10000\r\n".as_slice(), &vec![b'x'; 65_536], b"\r\n"].concat();
        while stream.write_all(&chunk).is_ok() {}
        sender.send(()).expect("the test waits");
        false
    });
    let gateway = gateway(&[upstream.address], "breaker: {consecutive: 1, open: 1h}");
    let mut client = Client::connect(gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    receiver.recv().expect("the upstream gives up");
    client.read_to_end();
    let failures = |reason: &str| {
        let name = format!("tidegate_upstream_failures_total{{service=\"app\",reason=\"{reason}\"}}");
        gateway.metric(&name)
    };
    wait_until("it has ended", || failures("closed_while_held") == Some(1.0));
    let endpoint = &gateway.get("/config/upstreams/app").json()["endpoints"][0];
    assert_eq!((&endpoint["failures"], state(&gateway).as_str()), (&0.into(), "closed"));
    assert_eq!(gateway.get("/actuator/health").json()["upstreams"]["app"]["status"], "UP");
    assert_eq!(failures("closed_early"), Some(0.0));
}

/// The time in which the client sends its body is not the upstream's.
#[test]
fn the_time_of_an_upload_is_no_latency() {
    let upstream = Upstream::start();
    let gateway = gateway(&[upstream.address], "timeout: 30s");
    let mut client = Client::connect(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n");
    client.send(vec![b'x'; 100_000]);
    tidegate_testkit::pause(Duration::from_millis(1_500));
    client.send(vec![b'x'; 100_000]);
    assert_eq!(client.response().status, 200);
    let sum = gateway.metric("request_latency_seconds_sum{service=\"app\",attempt=\"1\"}");
    assert!(sum.is_some_and(|sum| sum < 1.0), "{sum:?}");
}

/// Otherwise a client with a few slow bodies keeps a bulkhead full for as long as it likes.
#[test]
fn clients_that_stall_do_not_keep_the_slots_of_a_bulkhead() {
    let upstream = Upstream::start();
    let text = config(&[upstream.address], "bulkhead: {limit: 2, queue: 2, wait: 1s}", "", "");
    let patient = "connections: {body_timeout: 10m, min_rate: 0}\n";
    let gateway = Gateway::start(&format!("{patient}{text}"));
    let heads = [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n",
    ];
    for head in heads {
        let stalled: Vec<Client> = (0..4)
            .map(|_| {
                let mut client = Client::connect_from([127, 0, 0, 3], gateway.address);
                client.send(head);
                if !head.contains("Expect") {
                    client.send(vec![b'x'; 80_000]);
                }
                client
            })
            .collect();
        let full = || metric(&gateway, "tidegate_bulkhead_in_flight", "") == 2;
        wait_until("the slots are taken", || full() && metric(&gateway, "tidegate_bulkhead_waiting", "") == 2);
        wait_until("an honest client is served", || gateway.get("/").status == 200);
        drop(stalled);
        wait_until("all slots are free", || metric(&gateway, "tidegate_bulkhead_in_flight", "") == 0);
    }
    assert!(gateway.metric("tidegate_clients_cut_total{cause=\"evicted\"}") >= Some(2.0));
}

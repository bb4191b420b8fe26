//! Endpoints that a reload removes leave nothing behind.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{endpoints, gateway, named};
use crate::framing::origin::Origin;
use tidegate_testkit::{Client, Gateway, wait_until};

/// The sockets of the gateway, by the kernel. Workers have copies of some: each counts once.
fn sockets(gateway: &Gateway) -> BTreeSet<PathBuf> {
    let files = std::fs::read_dir(format!("/proc/{}/fd", gateway.pid())).expect("it runs");
    let links = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).collect()
}

/// One response is short, one is long and half sent, one request is still on its way to the endpoint.
#[test]
fn requests_in_flight_on_a_removed_endpoint_end_and_nothing_is_left() {
    let (origin, stays) = (Origin::new(), named("stays"));
    let gateway = gateway(&[origin.address, stays.address], "balance: round_robin, idle_timeout: 100ms");
    let alone = sockets(&gateway);
    assert_eq!(gateway.post(&format!("/config/upstreams/app/{}", stays.address), "{\"state\": \"drain\"}").status, 200);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(gateway.address)).collect();
    let mut visits = Vec::new();
    for (client, framing) in clients.iter_mut().zip(["", "", "Content-Length: 100000\r\n"]) {
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n"));
        client.send("x".repeat(if framing.is_empty() { 0 } else { 70_000 }));
        let mut visit = origin.accept();
        visit.head();
        visits.push(visit);
    }
    visits[1].send(format!("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{}", "x".repeat(70_000)));
    let file = std::fs::read_to_string(&gateway.config).expect("its file");
    let changed = file.replace(&format!("\"http://{}\", ", origin.address), "");
    assert_ne!(changed, file);
    std::fs::write(&gateway.config, changed).expect("it can be written");
    assert_eq!(gateway.post("/reload", "").status, 200);
    assert_eq!(endpoints(&gateway).len(), 1);
    // New requests go elsewhere, and those in flight end undisturbed.
    assert!((0..10).all(|_| gateway.get("/").text() == "stays"));
    assert!(!origin.has_visitor());
    clients[2].send("x".repeat(30_000));
    assert_eq!(visits[2].read(100_000).len(), 100_000);
    visits[1].send("x".repeat(30_000));
    for visit in [0, 2] {
        visits[visit].send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK");
    }
    let lengths: Vec<usize> = clients.iter_mut().map(|client| client.response().body.len()).collect();
    assert_eq!(lengths, [2, 100_000, 2]);
    assert!(visits.iter_mut().all(|visit| visit.read_to_end().is_empty()), "its connections are not kept");
    clients.into_iter().for_each(Client::close);
    // The metrics' own request is in flight while they are written.
    wait_until("no request is in flight", || gateway.metric("tidegate_requests_in_flight") == Some(1.0));
    wait_until("no connection is left", || {
        gateway.metric("tidegate_upstream_connections{service=\"app\"}") == Some(0.0)
    });
    wait_until("no socket is left", || sockets(&gateway) == alone);
    let shown = endpoints(&gateway);
    assert!(shown.iter().all(|shown| shown["inFlight"] == 0 && shown["connections"] == 0), "{shown:?}");
}

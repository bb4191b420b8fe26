//! A process that may have few files open, sockets among them.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::protocols::open_files::raise_open_files;
use crate::protocols::session;
use tidegate_testkit::{Client, Directory, Gateway, OK, Upstream, binary};

/// A gateway that may have so many files open.
fn with_files(files: usize, upstream: SocketAddr, more: &str) -> Gateway {
    let directory = Directory::new();
    let config = directory.file(
        "gateway.yaml",
        &format!(
            "listeners: [{{address: \"127.0.0.1:0\", h2c: true}}]\nworkers: 2\nupstreams: {{app: {{url: \"http://{upstream}\"}}}}\n\
             limits: {{default: {{algorithm: fixed, limit: 1000000, window: 60}}}}\n{more}\n"
        ),
    );
    let mut command = Command::new("/bin/sh");
    command.env_clear();
    command.arg("-c").arg(format!("ulimit -n {files} && exec \"$0\" \"$@\"")).arg(binary());
    command.arg("gateway").arg("--config").arg(&config).stdin(Stdio::null());
    Gateway::launch(command, config, directory)
}

/// With `ulimit -n 256` and a thousand clients, a quarter of the requests got 502: clients were accepted until no file was left to open for
/// the connection to the upstream.
#[test]
fn a_thousand_clients_are_served_with_256_files() {
    raise_open_files(4_000);
    let upstream = Upstream::start();
    let gateway = with_files(256, upstream.address, "");
    let line = gateway.wait_for_line("connections.max: lowered from 20000 to ");
    assert!(line.contains("WARN") && line.contains("256 files") && line.contains("ulimit -n"), "{line}");
    let mut clients: Vec<Client> = (0..1_000)
        .map(|_| {
            let mut client = Client::connect(gateway.address);
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    let mut outcomes = BTreeMap::new();
    for client in &mut clients {
        let status = client.try_answer_to("GET").map_or(0, |answer| answer.status);
        *outcomes.entry(status).or_insert(0) += 1;
    }
    assert_eq!(outcomes, BTreeMap::from([(200, 1_000)]), "0 is a connection that was closed without an answer");
    let most = gateway.metric("tidegate_connections_max").expect("it is there");
    assert!((64.0..128.0).contains(&most), "{most}: as many files are left for upstreams");
    assert_eq!(gateway.metric("ratelimiter_responses_total{status=\"502\"}"), Some(0.0));
}

/// HTTP/2 has many requests on a connection, so that files can run out all the same. They wait then, and idle connections make room.
#[test]
fn more_requests_than_files_wait_for_each_other() {
    raise_open_files(4_000);
    let (under_way, waiting) = (Arc::new(AtomicUsize::new(0)), Arc::new((Mutex::new(()), Condvar::new())));
    let (count, gate) = (Arc::clone(&under_way), Arc::clone(&waiting));
    // None is answered before forty are there: the gateway has no file left then.
    let upstream = Upstream::behaving(move |_, stream| {
        let mut guard = gate.0.lock().expect("no panic");
        if count.fetch_add(1, Ordering::SeqCst) + 1 == 40 {
            gate.1.notify_all();
        }
        while count.load(Ordering::SeqCst) < 40 {
            guard = gate.1.wait(guard).expect("no panic");
        }
        drop(guard);
        stream.write_all(OK).is_ok()
    });
    let gateway = with_files(96, upstream.address, "");
    session::run(async {
        let mut sessions = Vec::new();
        for _ in 0..2 {
            sessions.push(session::h2c(gateway.address).await);
        }
        let mut requests = tokio::task::JoinSet::new();
        for session in &sessions {
            for _ in 0..100 {
                let mut session = session.clone();
                requests.spawn(async move { session::ask(&mut session, session::get("/")).await.status.as_u16() });
            }
        }
        let mut outcomes = BTreeMap::new();
        while let Some(status) = requests.join_next().await {
            *outcomes.entry(status.expect("no panic")).or_insert(0) += 1;
        }
        assert_eq!(outcomes, BTreeMap::from([(200, 200)]));
    });
    assert!(under_way.load(Ordering::SeqCst) >= 200);
}

/// What is left of few files is shared, and each client that is idle makes room for the next.
#[test]
fn even_very_few_files_serve_one_client_after_the_other() {
    let upstream = Upstream::start();
    let gateway = with_files(64, upstream.address, "");
    let mut clients = Vec::new();
    for number in 0..100 {
        let mut client = Client::connect(gateway.address);
        assert_eq!(client.request("GET", "/", &[], b"").status, 200, "client {number}");
        clients.push(client);
    }
}

#[test]
fn where_there_are_files_enough_nothing_is_lowered() {
    let upstream = Upstream::start();
    let gateway = with_files(1_024, upstream.address, "connections: {max: 100}");
    assert_eq!(gateway.metric("tidegate_connections_max"), Some(100.0));
    let lines = gateway.lines();
    assert!(!lines.iter().any(|line| line.contains("lowered") || line.contains("WARN")), "{lines:#?}");
}

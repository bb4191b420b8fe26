//! A process that may have few file descriptors open, sockets among them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::protocols::open_files::{allow_open_files, raise_open_files};
use crate::protocols::session;
use tidegate_testkit::redis_server::Server;
use tidegate_testkit::{Client, Directory, Gateway, OK, Upstream, binary, request, wait_until};

const OUT_OF_FILES: &str = "tidegate_upstream_failures_total{service=\"app\",reason=\"out_of_files\"}";

/// A gateway that may have so many descriptors open.
/// One address may hold everything: all clients of these tests have the same one.
const ALL_FOR_ONE: &str = "connections: {max_client_share: 1}";

fn with_files(files: usize, upstream: SocketAddr, more: &str) -> Gateway {
    with_patience(files, upstream, "20s", more)
}

/// The same, with so much time for a connection to the upstream.
fn with_patience(files: usize, upstream: SocketAddr, connect_timeout: &str, more: &str) -> Gateway {
    launch(
        files,
        &format!("upstreams: {{app: {{url: \"http://{upstream}\", connect_timeout: {connect_timeout}}}}}\n{more}\n"),
    )
}

fn launch(files: usize, config: &str) -> Gateway {
    let directory = Directory::new();
    let config = directory.file(
        "gateway.yaml",
        &format!(
            "listeners: [{{address: \"127.0.0.1:0\", h2c: true}}]\nworkers: 2\n\
             limits: {{default: {{algorithm: fixed, limit: 1000000, window: 60}}}}\n{config}"
        ),
    );
    let mut command = Command::new("/bin/sh");
    command.env_clear();
    command.arg("-c").arg(format!("ulimit -n {files} && exec \"$0\" \"$@\"")).arg(binary());
    command.arg("gateway").arg("--config").arg(&config).stdin(Stdio::null());
    Gateway::launch(command, config, directory)
}

/// With `ulimit -n 256` and a thousand clients, a quarter of the requests got 502: clients were accepted until no
/// descriptor was left for the connection to the upstream.
#[test]
fn a_thousand_clients_are_served_with_256_files() {
    raise_open_files(4_000);
    let upstream = Upstream::start();
    let gateway = with_files(256, upstream.address, ALL_FOR_ONE);
    let line = gateway.wait_for_line("connections.max: lowered from 20000 to ");
    assert!(line.contains("WARN") && line.contains("256 file descriptors") && line.contains("ulimit -n"), "{line}");
    let mut clients: Vec<Client> = (0..1_000)
        .map(|_| {
            let mut client = Client::connect(gateway.address);
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    let mut outcomes = BTreeMap::new();
    for client in &mut clients {
        let status = client.try_response_to("GET").map_or(0, |response| response.status);
        *outcomes.entry(status).or_insert(0) += 1;
    }
    assert_eq!(outcomes, BTreeMap::from([(200, 1_000)]), "0 is a connection that was closed without an answer");
    let most = gateway.metric("tidegate_connections_max").expect("it is there");
    assert!((64.0..128.0).contains(&most), "{most}: as many descriptors are left for upstreams");
    assert_eq!(gateway.metric("ratelimiter_responses_total{status=\"502\"}"), Some(0.0));
}

/// HTTP/2 has many requests on a connection, so that descriptors can run out all the same. They wait then, and idle
/// connections make room.
#[test]
fn more_requests_than_files_wait_for_each_other() {
    raise_open_files(4_000);
    let (under_way, waiting) = (Arc::new(AtomicUsize::new(0)), Arc::new((Mutex::new(()), Condvar::new())));
    let (count, gate) = (Arc::clone(&under_way), Arc::clone(&waiting));
    // None gets a response before twenty are there: upstreams may have a few connections more.
    let upstream = Upstream::behaving(move |_, stream| {
        let mut guard = gate.0.lock().expect("no panic");
        if count.fetch_add(1, Ordering::SeqCst) + 1 == 20 {
            gate.1.notify_all();
        }
        while count.load(Ordering::SeqCst) < 20 {
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

/// An upstream that does not respond until it is let.
fn held() -> (Upstream, impl Fn()) {
    let gate: Arc<(Mutex<bool>, Condvar)> = Arc::default();
    let closed = Arc::clone(&gate);
    let upstream = Upstream::behaving(move |_, stream| {
        let is_open = closed.0.lock().expect("no panic");
        drop(closed.1.wait_while(is_open, |is_open| !*is_open).expect("no panic"));
        stream.write_all(OK).is_ok()
    });
    let open = move || {
        *gate.0.lock().expect("no panic") = true;
        gate.1.notify_all();
    };
    (upstream, open)
}

/// How many requests have come to it.
fn received(upstream: &Upstream) -> f64 {
    f64::from(u32::try_from(upstream.count()).expect("not so many"))
}

/// Requests over HTTP/2 took every descriptor: the admin listener could accept nobody, and Redis could not be reached
/// anew.
#[test]
fn requests_leave_the_descriptors_of_redis_and_the_admin_listener() {
    raise_open_files(4_000);
    let ((upstream, open), redis) = (held(), Server::start());
    let more = format!("admin: {{listen: \"127.0.0.1:0\"}}\nredis: {{url: \"{}\"}}", redis.url());
    let gateway = with_patience(128, upstream.address, "2s", &more);
    let admin = gateway.admin.expect("the ready line names it");
    let number = |metric: &str| gateway.metric(metric).expect("it is there");
    session::run(async {
        let sessions = [session::h2c(gateway.address).await, session::h2c(gateway.address).await];
        let mut requests = tokio::task::JoinSet::new();
        for session in &sessions {
            for _ in 0..100 {
                let mut session = session.clone();
                requests.spawn(async move { session::ask(&mut session, session::get("/")).await.status.as_u16() });
            }
        }
        let held = tokio::task::block_in_place(|| {
            let is_settled = || number(OUT_OF_FILES) >= 200.0 - received(&upstream);
            wait_until("each is at the upstream or has been given up", is_settled);
            let held = upstream.count();
            // Eight for Redis, and sixteen for whatever is opened now and then.
            let left = 128.0 - number("process_open_fds");
            assert!(left >= 24.0, "{left}, with {held} connections to the upstream");
            // A new connection to Redis, too.
            redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").exec(&mut redis.connection()).expect("killed");
            let change = br#"{"algorithm": "fixed", "limit": 1000, "window": 60}"#;
            let is_changed = || request(admin, "POST", "/config/limits", &[], change).status == 200;
            wait_until("limits can be changed", is_changed);
            held
        });
        open();
        let mut outcomes = BTreeMap::new();
        while let Some(status) = requests.join_next().await {
            *outcomes.entry(status.expect("no panic")).or_insert(0) += 1;
        }
        assert_eq!(outcomes, BTreeMap::from([(200, held), (503, 200 - held)]));
    });
    let lines = gateway.lines();
    assert!(!lines.iter().any(|line| line.contains("can be accepted")), "{lines:#?}");
}

/// Connections that nobody uses don't let a request wait, whichever upstream and worker they belong to.
#[test]
fn idle_connections_to_one_upstream_make_room_for_another() {
    let ((one, open), other) = (held(), Upstream::start());
    let upstream = |name, address| format!("{name}: {{url: \"http://{address}\", connect_timeout: 1s}}");
    let upstreams = [upstream("one", one.address), upstream("other", other.address)].join(", ");
    let routes = "[{prefix: /other, upstream: other}, {upstream: one}]";
    let gateway = launch(64, &format!("upstreams: {{{upstreams}}}\nroutes: {routes}\n"));
    let given_up = OUT_OF_FILES.replace("app", "one");
    session::run(async {
        let session = session::h2c(gateway.address).await;
        let mut requests = tokio::task::JoinSet::new();
        for _ in 0..40 {
            let mut session = session.clone();
            requests.spawn(async move { session::ask(&mut session, session::get("/")).await.status.as_u16() });
        }
        // All that upstreams may have are taken, and nobody waits any more.
        let is_settled = || gateway.metric(&given_up) >= Some(40.0 - received(&one));
        tokio::task::block_in_place(|| wait_until("the others have waited in vain", is_settled));
        open();
        requests.join_all().await;
    });
    assert_eq!(gateway.get("/other").status, 200);
    assert_eq!(gateway.get("/").status, 200);
}

/// A client that sends ahead while its request is under way had a third descriptor, by which its leaving is seen.
#[test]
fn uploads_leave_the_descriptors_of_others() {
    raise_open_files(4_000);
    let (upstream, open) = held();
    let gateway = with_files(256, upstream.address, &format!("admin: {{listen: \"127.0.0.1:0\"}}\n{ALL_FOR_ONE}"));
    let number = |metric: &str| gateway.metric(metric).expect("it is there");
    let most = number("tidegate_connections_max");
    let ahead = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30000\r\n\r\n{}", "x".repeat(30_000));
    let mut clients = Vec::new();
    while f64::from(u32::try_from(clients.len()).expect("not so many")) < most {
        let mut client = Client::connect(gateway.address);
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n\r\n{ahead}"));
        clients.push(client);
    }
    wait_until("all are under way", || upstream.count() == clients.len());
    for _ in 0..20 {
        // Sixteen are kept for whatever is opened now and then.
        let open_now = number("process_open_fds");
        assert!(open_now <= 240.0, "{open_now} with {most} clients");
    }
    open();
    for client in &mut clients {
        assert_eq!([client.response().status, client.response().status], [200, 200]);
    }
}

/// What is left of few descriptors is shared, and each client that is idle makes room for the next.
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

/// The log said that all connections were taken, where the system had no descriptor left.
#[test]
fn the_log_says_what_idle_connections_were_closed_for() {
    let upstream = Upstream::start();
    let gateway = with_files(256, upstream.address, "");
    let kept = || {
        let mut client = Client::connect(gateway.address);
        assert_eq!(client.request("GET", "/", &[], b"").status, 200);
        client
    };
    let _idle: Vec<Client> = (0..10).map(|_| kept()).collect();
    let open = fs::read_dir(format!("/proc/{}/fd", gateway.pid())).expect("it runs").count();
    if !allow_open_files(gateway.pid(), open, 256) {
        eprintln!("the limit of a process can't be changed here");
        return;
    }
    let _new: Vec<Client> = (0..5).map(|_| kept()).collect();
    let line = gateway.wait_for_line("to free file descriptors");
    assert!(line.contains("WARN") && line.contains("closed "), "{line}");
    let lines = gateway.lines();
    assert!(!lines.iter().any(|line| line.contains("to let new clients in")), "{lines:#?}");
}

#[test]
fn where_there_are_files_enough_nothing_is_lowered() {
    let upstream = Upstream::start();
    let gateway = with_files(1_024, upstream.address, "connections: {max: 100}");
    assert_eq!(gateway.metric("tidegate_connections_max"), Some(100.0));
    assert_eq!(gateway.metric(OUT_OF_FILES), Some(0.0), "the series is there before its first event");
    let lines = gateway.lines();
    assert!(!lines.iter().any(|line| line.contains("lowered") || line.contains("WARN")), "{lines:#?}");
}

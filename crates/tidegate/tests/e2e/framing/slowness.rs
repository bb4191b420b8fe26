//! Clients that are slow, silent, or send too much: bounded in time, in memory, in number.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use crate::framing::judge;
use crate::framing::origin::Origin;
use tidegate_testkit::{Client, Directory, Gateway, OK, Response, Upstream, pause, text, wait_until};

fn with_connections(upstream: std::net::SocketAddr, settings: &str) -> Gateway {
    Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{upstream}\"}}}}\n\
         limits: {{default: {{algorithm: fixed, limit: 1000000, window: 60}}}}\nconnections: {{{settings}}}\n"
    ))
}

fn error(response: &Response) -> String {
    response.json()["error"].as_str().unwrap_or_default().to_owned()
}

/// How long a test waits for a timeout it has set: far longer than that, and shorter than the default.
const SOON: Duration = Duration::from_secs(8);

#[test]
fn a_head_that_stays_unfinished_ends_the_connection() {
    let upstream = Upstream::start();
    let gateway = with_connections(upstream.address, "head_timeout: 200ms");
    for begins in ["G", "GET / HTTP/1.1\r\nHost: a\r\n", "\r\n"] {
        let mut client = Client::connect(gateway.address);
        client.send(begins);
        let response = client.read_until_closed(SOON);
        assert!(response.is_empty() || response.starts_with(b"HTTP/1.1 408 "), "{response:?}");
    }
    assert_eq!(upstream.count(), 0);
}

#[test]
fn a_head_that_comes_byte_by_byte_ends_the_connection() {
    let upstream = Upstream::start();
    let gateway = with_connections(upstream.address, "head_timeout: 300ms");
    let mut client = Client::connect(gateway.address);
    // On a connection that has been used before, too.
    assert_eq!(client.request("GET", "/", &[], b"").text(), "OK");
    client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ");
    let between = Duration::from_millis(20);
    let mut sent = 0;
    while client.try_send("x") {
        sent += 1;
        assert!(between * sent < SOON, "each byte buys time");
        pause(between);
    }
    assert_eq!(upstream.count(), 1);
}

#[test]
fn a_head_that_begins_behind_another_request_ends_the_connection() {
    let upstream = Upstream::start();
    let gateway = with_connections(upstream.address, "head_timeout: 200ms");
    let mut client = Client::connect(gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost:");
    assert_eq!(client.response().text(), "OK");
    client.stream.get_ref().set_read_timeout(Some(SOON)).expect("a timeout");
    assert!(client.is_closed(), "nobody waits for the rest of it");
}

#[test]
fn a_body_that_pauses_for_too_long_is_a_408() {
    let upstream = Upstream::start();
    let gateway = with_connections(upstream.address, "body_timeout: 200ms");
    for begins in [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    ] {
        let mut client = Client::connect(gateway.address);
        client.send(begins);
        let response = client.response();
        assert_eq!((response.status, error(&response).as_str()), (408, "client_timeout"), "{begins:?}");
        // RFC 9110 §15.5.9: whoever gives up on a request ends the connection, and says so.
        assert_eq!(response.header("connection"), Some("close"), "{begins:?}");
        assert!(client.is_closed(), "{begins:?}");
    }
    assert_eq!(upstream.count(), 0);
    for bytes in upstream.bytes() {
        assert!(
            judge::read(&bytes).expect("well-formed").requests.is_empty(),
            "half a body was passed on as a whole one"
        );
    }
    assert_eq!(gateway.metric("tidegate_upstream_failures_total{service=\"app\",reason=\"client_timeout\"}"), None);
}

#[test]
fn a_body_that_moves_may_take_longer_than_a_pause() {
    let upstream = Upstream::start();
    let gateway = with_connections(upstream.address, "body_timeout: 1s");
    let mut client = Client::connect(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n");
    for _ in 0..12 {
        pause(Duration::from_millis(100));
        client.send("x");
    }
    assert_eq!(client.response().text(), "OK");
    assert_eq!(upstream.last().body, b"xxxxxxxxxxxx");
}

#[test]
fn a_silent_connection_is_ended() {
    let upstream = Upstream::start();
    // A head timeout of an hour: it must not be what ends the connection without a request.
    let gateway = with_connections(upstream.address, "idle_timeout: 300ms, head_timeout: 1h");
    let (mut never, mut once) = (Client::connect(gateway.address), Client::connect(gateway.address));
    assert_eq!(once.request("GET", "/", &[], b"").text(), "OK");
    assert!(never.is_closed() && once.is_closed());
}

#[test]
fn a_request_under_way_is_not_idle() {
    let origin = Origin::new();
    let gateway = with_connections(
        origin.address,
        "idle_timeout: 100ms, head_timeout: 100ms, body_timeout: 100ms, write_timeout: 100ms",
    );
    let mut client = Client::connect(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    let mut visit = origin.accept();
    visit.head();
    assert_eq!(visit.read(2), b"hi");
    pause(Duration::from_millis(500));
    visit.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsl");
    pause(Duration::from_millis(500));
    visit.send("ow");
    assert_eq!(client.response().text(), "slow");
}

#[test]
fn a_client_that_does_not_read_is_ended() {
    let origin = Origin::new();
    let gateway = with_connections(origin.address, "write_timeout: 300ms");
    for head in ["HTTP/1.1 200 OK\r\nContent-Length: 400000000\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
        let mut client = Client::connect(gateway.address);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut visit = origin.accept();
        visit.head();
        visit.send(head);
        let sent = visit.flood(400_000_000);
        assert!(sent < 400_000_000, "the upstream is told to stop");
        wait_until("the request has ended", || gateway.metric("tidegate_requests_in_flight") == Some(1.0));
        let response = client.read_to_end();
        assert!(response.len() < 400_000_000 && !response.ends_with(b"0\r\n\r\n"));
    }
}

#[test]
fn a_client_that_reads_slowly_gets_its_response() {
    let upstream = Upstream::responding(|_| {
        let body = vec![b'x'; 8_000_000];
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes(), body].concat()
    });
    let gateway = with_connections(upstream.address, "write_timeout: 1s");
    let mut stream = TcpStream::connect(gateway.address).expect("it listens");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("it takes it");
    let (mut read, mut buffer) = (0, vec![0; 200_000]);
    loop {
        let count = stream.read(&mut buffer).expect("the answer goes on");
        if count == 0 {
            break;
        }
        read += count;
        pause(Duration::from_millis(10));
    }
    assert!(read > 8_000_000, "only {read} bytes came");
}

#[test]
fn a_client_that_sends_ahead_without_reading_costs_bounded_memory() {
    let upstream = Upstream::responding(|_| {
        [b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n".to_vec(), vec![b'x'; 100_000]].concat()
    });
    let gateway = with_connections(upstream.address, "write_timeout: 500ms");
    let before = gateway.resident_bytes();
    let mut clients = Vec::new();
    for _ in 0..4 {
        let stream = TcpStream::connect(gateway.address).expect("it listens");
        stream.set_write_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        clients.push(stream);
    }
    let ahead = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(50_000);
    for client in &mut clients {
        // The gateway stops reading, so this goes on only until the sockets are full.
        let sent = (0..100).take_while(|_| client.write_all(&ahead).is_ok()).count();
        assert!(sent < 100, "everything was read");
    }
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < 32_000_000, "{grown} bytes more");
    wait_until("they are ended", || gateway.metric("tidegate_requests_in_flight") == Some(1.0));
}

#[test]
fn too_large_a_head_is_a_431() {
    let upstream = Upstream::start();
    let gateway = with_connections(upstream.address, "max_head_bytes: 8192, max_headers: 20");
    let filler = |size: usize| format!("X: {}\r\n", "x".repeat(size));
    let fine = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", filler(7_000));
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", filler(9_000));
    let endless = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(100_000));
    let several = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", filler(1_000).repeat(9));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(20));
    let target = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(9_000));
    for (name, bytes, statuses) in [
        ("fine", &fine, [200, 200]),
        ("long", &long, [431, 431]),
        ("endless", &endless, [431, 431]),
        ("several", &several, [431, 431]),
        ("many", &many, [431, 431]),
        ("target", &target, [431, 414]),
    ] {
        let mut client = Client::connect(gateway.address);
        client.try_send(bytes);
        let response = client.try_response_to("GET").unwrap_or_else(|| panic!("{name}: no answer"));
        assert!(statuses.contains(&response.status), "{name}: {}", response.status);
        if response.status != 200 {
            assert!(
                client.is_closed() || client.try_response_to("GET").is_none(),
                "{name}: what follows is no request"
            );
        }
    }
    assert_eq!(upstream.count(), 1);
}

#[test]
fn too_large_a_body_is_a_413_and_no_request() {
    let upstream = Upstream::start();
    let gateway = with_connections(upstream.address, "max_body_bytes: 1000");
    let chunk = |size: usize| format!("{size:x}\r\n{}\r\n", "x".repeat(size));
    let in_chunks =
        |chunks: &str| format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n");
    let with_length =
        |size: usize| format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n{}", "x".repeat(size));
    for (bytes, status) in [
        (with_length(1_000), 200),
        (with_length(1_001), 413),
        (with_length(100_000), 413),
        (in_chunks(&chunk(1_000)), 200),
        (in_chunks(&chunk(100).repeat(10)), 200),
        (in_chunks(&chunk(1_001)), 413),
        (in_chunks(&chunk(100).repeat(11)), 413),
        (in_chunks(&chunk(100_000)), 413),
    ] {
        let mut client = Client::connect(gateway.address);
        client.try_send(&bytes);
        let response = client.response();
        assert_eq!(response.status, status, "{}", &bytes[..80]);
        if status == 413 {
            assert_eq!(error(&response), "body_too_large");
        }
    }
    let mut whole = 0;
    for bytes in upstream.bytes() {
        whole += judge::read(&bytes).expect("well-formed").requests.len();
    }
    assert_eq!((whole, upstream.count()), (3, 3));
    assert_eq!(gateway.metric("tidegate_upstream_failures_total{service=\"app\",reason=\"body_too_large\"}"), None);
}

/// Idle ones would be closed for those who wait.
#[test]
fn connections_beyond_the_most_wait_until_one_ends() {
    let origin = Origin::new();
    let gateway = with_connections(origin.address, "max: 3");
    let mut open: Vec<Client> = (0..3).map(|_| Client::connect(gateway.address)).collect();
    let mut visits = Vec::new();
    for client in &mut open {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut visit = origin.accept();
        visit.head();
        visits.push(visit);
    }
    let mut waiting = Client::connect(gateway.address);
    waiting.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(has_no_response(&mut waiting));
    open.pop().expect("there are three").close();
    let mut visit = origin.accept();
    visit.head();
    visit.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK");
    assert_eq!(waiting.response().text(), "OK");
}

/// Whether nothing comes for a while.
fn has_no_response(client: &mut Client) -> bool {
    client.stream.get_ref().set_read_timeout(Some(Duration::from_millis(400))).expect("a timeout");
    let mut byte = [0];
    let read = client.stream.get_mut().read(&mut byte);
    client.stream.get_ref().set_read_timeout(Some(tidegate_testkit::PATIENCE)).expect("a timeout");
    read.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

#[test]
fn a_tunnel_is_a_connection_too() {
    let origin = Origin::new();
    let gateway = with_connections(origin.address, "max: 1");
    let mut client = Client::connect(gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    let mut visit = origin.accept();
    visit.head();
    visit.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.response().status, 101);
    client.send("ping");
    assert_eq!(visit.read(4), b"ping");
    let mut waiting = Client::connect(gateway.address);
    waiting.send("GET /actuator/health HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(has_no_response(&mut waiting), "the tunnel is not counted");
    client.close();
    visit.close();
    assert_eq!(waiting.response().status, 200);
}

#[test]
fn a_silent_tunnel_is_ended() {
    let origin = Origin::new();
    let gateway = with_connections(origin.address, "upgrade_timeout: 1s, idle_timeout: 100ms, head_timeout: 100ms");
    let mut client = Client::connect(gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    let mut visit = origin.accept();
    visit.head();
    visit.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.response().status, 101);
    // Bytes either way keep it open for longer than a pause may last.
    for number in 0..6 {
        pause(Duration::from_millis(200));
        if number % 2 == 0 {
            client.send("ping");
            assert_eq!(visit.read(4), b"ping");
        } else {
            visit.send("pong");
            let mut pong = [0; 4];
            client.stream.read_exact(&mut pong).expect("it is open");
        }
    }
    assert!(client.is_closed());
    assert_eq!(visit.read_to_end(), b"");
}

/// When clients hold all connections, that is when somebody must be able to look.
#[test]
fn the_admin_listener_responds_while_clients_hold_all_connections() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&format!(
        "listeners: [{{address: \"127.0.0.1:0\"}}]\nadmin: {{listen: \"127.0.0.1:0\"}}\n\
         upstreams: {{app: {{url: \"http://{}\"}}}}\n\
         connections: {{max: 3}}\nworkers: 1\n",
        upstream.address
    ));
    let admin = gateway.admin.expect("an address of its own");
    let _open: Vec<Client> = (0..6).map(|_| Client::connect(gateway.address)).collect();
    for _ in 0..5 {
        let mut client = Client::connect(admin);
        client.stream.get_ref().set_read_timeout(Some(Duration::from_secs(3))).expect("a timeout");
        client.send("GET /actuator/health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(client.try_response_to("GET").map(|response| response.status), Some(200), "nobody answers");
    }
}

#[test]
fn a_slow_client_does_not_hold_up_others() {
    let upstream = Upstream::responding(|_| OK.to_vec());
    // So slow that whoever had to wait for them would wait for ever.
    let gateway = Gateway::start(&format!(
        "workers: 1\nupstreams: {{app: {{url: \"http://{}\"}}}}\nconnections: {{head_timeout: 1h, body_timeout: 1h}}\n",
        upstream.address
    ));
    let _slow: Vec<Client> = (0..50)
        .map(|number| {
            let mut client = Client::connect(gateway.address);
            client.send(["GET / HT", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhel"][number % 2]);
            client
        })
        .collect();
    assert_eq!(gateway.get("/").text(), "OK");
}

/// The rest of a body that nobody wanted is no beginning of a head: the connection may rest as long as any other.
#[test]
fn a_connection_rests_as_long_after_an_unread_body_as_after_any() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\"}}}}\nlimits: {{default: {{algorithm: fixed, limit: 1, window: 30d}}}}\n\
         connections: {{head_timeout: 100ms, idle_timeout: 60s}}\n",
        upstream.address
    ));
    let mut client = Client::connect(gateway.address);
    assert_eq!(client.request("GET", "/", &[], b"").status, 200);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(client.response().status, 429);
    client.send("hello");
    // Several times the head's time: too early an end shows itself, a late look hides nothing.
    pause(Duration::from_millis(500));
    assert_eq!(client.request("GET", "/", &[], b"").status, 429);
}

/// What can't be understood is reported and logged under an id like everything else.
#[test]
fn an_unreadable_head_has_an_id_and_a_line() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\"}}}}\naccess_log: {{format: json}}\n",
        upstream.address
    ));
    let mut client = Client::connect(gateway.address);
    client.send("NONSENSE\r\n\r\n");
    let response = client.response();
    let id = response.header("x-request-id").expect("an id").to_owned();
    assert_eq!((response.status, response.json()["request_id"].as_str()), (400, Some(id.as_str())));
    let line = gateway.wait_for_line(&id);
    assert!(line.contains("\"status\":400"), "{line}");
}

/// With room for one client the others wait in the kernel's queue. It had 128 places; whoever came then had to knock
/// again a second later.
#[test]
fn a_burst_of_clients_finds_room_in_the_queue() {
    const CLIENTS: usize = 400;
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").expect("a kernel that tells");
    if most.trim().parse::<usize>().expect("a number") < CLIENTS {
        eprintln!("the kernel allows only {} to wait: not tried", most.trim());
        return;
    }
    let upstream = Upstream::start();
    let gateway = with_connections(upstream.address, "max: 1");
    let clients: Vec<TcpStream> = (0..CLIENTS)
        .map(|_| TcpStream::connect_timeout(&gateway.address, Duration::from_millis(900)).expect("room"))
        .collect();
    assert_eq!(clients.len(), CLIENTS);
}

/// Many whole responses for a client that reads none: the last of them was never written, so it is not complete.
#[test]
fn a_response_that_nobody_took_is_not_complete_in_the_access_log() {
    let upstream = Upstream::responding(|_| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: 7000\r\n\r\n{}", "x".repeat(7_000)).into_bytes()
    });
    let directory = Directory::new();
    let log = directory.0.join("access.log");
    let gateway = Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\"}}}}\nlimits: {{}}\ncommon_limits: []\n\
         connections: {{write_timeout: 300ms}}\naccess_log: {{format: json, file: \"{}\"}}\n",
        upstream.address,
        text(&log)
    ));
    let client = Client::connect(gateway.address);
    let mut sender = client.stream.get_ref().try_clone().expect("a second handle");
    // Far more than the system keeps for it.
    let sending = thread::spawn(move || {
        let _sent = sender.write_all("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(8_000).as_bytes());
    });
    let lines = || std::fs::read_to_string(&log).unwrap_or_default();
    wait_until("one was not taken", || lines().contains("\"complete\":false"));
    wait_until("it has ended", || gateway.metric("tidegate_requests_in_flight") == Some(1.0));
    let incomplete = lines().lines().filter(|line| line.contains("\"complete\":false")).count();
    assert_eq!(incomplete, 1, "those before it were taken");
    drop(client);
    sending.join().expect("no panic");
}

//! Upstreams that speak TLS: whom the gateway trusts, and that bodies pass as they do in clear text.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::ServerConfig;

use crate::protocols::depot::{BodyReader, Depot};
use crate::protocols::footprint::Footprint;
use crate::protocols::transfer::{Length, download, upload};
use tidegate_testkit::authority::{Authority, Issued};
use tidegate_testkit::{Client, Directory, Gateway, Response, read_head, text};

/// A gateway before an upstream at `https://localhost`, which it trusts by this authority.
struct Trusting {
    gateway: Gateway,
    _directory: Directory,
}

impl Trusting {
    fn before(upstream: SocketAddr, authority: &Authority, more: &str) -> Self {
        let directory = Directory::new();
        let ca = text(&directory.file("ca.pem", &authority.pem()));
        let port = upstream.port();
        let gateway = Gateway::start(&format!(
            "workers: 1\nlimits: {{default: {{algorithm: fixed, limit: 1000000, window: 60}}}}\n\
             upstreams: {{app: {{url: \"https://localhost:{port}\", ca: \"{ca}\"{more}}}}}\n"
        ));
        Self { gateway, _directory: directory }
    }
}

/// Rejected with 502 and the reason.
fn assert_not_reached(response: &Response) {
    assert_eq!(response.status, 502, "{}", response.text());
    assert_eq!(response.json()["error"], "connect_failed");
    assert_eq!(response.header("content-type"), Some("application/problem+json"));
}

fn depot_with(issued: &Issued) -> Depot {
    Depot::with_tls(issued.server())
}

#[test]
fn an_upstream_is_trusted_by_its_authority_and_kept_alive() {
    let authority = Authority::new();
    let depot = depot_with(&authority.issue(&["localhost"]));
    let trusting = Trusting::before(depot.address, &authority, "");
    for length in 0..20 {
        let response = trusting.gateway.get(&format!("/download/length/{length}"));
        assert_eq!((response.status, response.body.len()), (200, length));
    }
    assert_eq!(depot.requests(), 20);
    assert_eq!(depot.connections(), 1, "a handshake costs more than all the rest");
    assert_eq!(depot.names(), [Some("localhost".to_owned())]);
}

#[test]
fn an_upstream_of_another_authority_is_not_trusted() {
    let (authority, other) = (Authority::new(), Authority::new());
    let depot = depot_with(&other.issue(&["localhost"]));
    let trusting = Trusting::before(depot.address, &authority, "");
    assert_not_reached(&trusting.gateway.get("/download/length/1"));
    assert_eq!(depot.requests(), 0, "it gets nothing to read");
    trusting.gateway.wait_for_line("invalid peer certificate");
}

#[test]
fn without_an_authority_of_its_own_the_systems_are_asked() {
    let depot = depot_with(&Authority::new().issue(&["localhost"]));
    let roots = Authority::new();
    let directory = Directory::new();
    let file = directory.file("roots.pem", &roots.pem());
    let config = format!("upstreams: {{app: {{url: \"https://localhost:{}\"}}}}\n", depot.address.port());
    // The system's are read from here if it says so.
    let gateway = Gateway::start_with(&config, |command| {
        command.env("SSL_CERT_FILE", file);
    });
    assert_not_reached(&gateway.get("/download/length/1"));
    assert_eq!(depot.requests(), 0);
}

#[test]
fn an_upstream_must_have_the_name_it_is_asked_for() {
    let authority = Authority::new();
    let depot = depot_with(&authority.issue(&["service.example"]));
    let wrong = Trusting::before(depot.address, &authority, "");
    assert_not_reached(&wrong.gateway.get("/download/length/1"));
    assert_eq!(depot.requests(), 0);
    let right = Trusting::before(depot.address, &authority, ", server_name: service.example");
    assert_eq!(right.gateway.get("/download/length/1").status, 200);
    assert_eq!(depot.names().last(), Some(&Some("service.example".to_owned())));
}

#[test]
fn an_upstream_may_be_named_by_its_address() {
    let authority = Authority::new();
    let depot = depot_with(&authority.issue(&["127.0.0.1"]));
    let trusting = Trusting::before(depot.address, &authority, ", server_name: 127.0.0.1");
    assert_eq!(trusting.gateway.get("/download/length/1").status, 200);
    assert_eq!(depot.names(), [None], "an address is no name to be asked for (RFC 6066 §3)");
}

#[test]
fn a_certificate_that_has_run_out_is_not_trusted() {
    let authority = Authority::new();
    let expired = authority.issue_with(&["localhost"], |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let depot = depot_with(&expired);
    let trusting = Trusting::before(depot.address, &authority, "");
    assert_not_reached(&trusting.gateway.get("/download/length/1"));
    assert_eq!(depot.requests(), 0);
}

#[test]
fn older_tls_is_spoken_where_the_upstream_has_no_other() {
    let authority = Authority::new();
    let config = authority.issue(&["localhost"]).server_with(&[&rustls::version::TLS12]);
    let depot = Depot::with_tls(config);
    let trusting = Trusting::before(depot.address, &authority, "");
    assert_eq!(trusting.gateway.get("/download/chunked/100000").body.len(), 100_000);
}

#[test]
fn an_upstream_without_tls_is_not_reached_over_it() {
    let depot = Depot::start();
    let trusting = Trusting::before(depot.address, &Authority::new(), "");
    assert_not_reached(&trusting.gateway.get("/download/length/1"));
}

/// The handshake counts to `connect_timeout`.
#[test]
fn a_handshake_that_does_not_come_is_a_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("an address");
    let trusting = Trusting::before(address, &Authority::new(), ", connect_timeout: 300ms");
    let response = trusting.gateway.get("/");
    assert_eq!((response.status, response.json()["error"].as_str()), (504, Some("connect_timeout")));
}

#[test]
fn bodies_of_all_sizes_pass_over_tls() {
    let authority = Authority::new();
    let depot = depot_with(&authority.issue(&["localhost"]));
    let trusting = Trusting::before(depot.address, &authority, "");
    let gateway = &trusting.gateway;
    assert_eq!(gateway.get("/download/length/1").status, 200);
    let before = Footprint::of(gateway);
    for length in [0, 1, 16_384, 16_385, 65_536, 64 << 20] {
        for framing in ["length", "chunked", "close"] {
            assert_eq!(
                download(gateway.address, &format!("/download/{framing}/{length}")),
                (length, true),
                "{framing}"
            );
        }
        assert_eq!(upload(gateway.address, length, Length::Told), format!("{length} true"));
    }
    before.assert_growth_below(20);
}

/// An attacker on the way to the upstream can end a connection, but can not say `close_notify`: what has come so far
/// must not look whole.
#[test]
fn a_response_that_was_cut_off_is_not_taken_for_a_whole_one() {
    let authority = Authority::new();
    let issued = authority.issue(&["localhost"]);
    for says_goodbye in [true, false] {
        let trusting = Trusting::before(responding_until_close(issued.server(), says_goodbye), &authority, "");
        let mut client = Client::connect(trusting.gateway.address);
        client.send("GET / HTTP/1.1\r\nHost: test.example\r\nConnection: close\r\n\r\n");
        let heard = client.read_to_end();
        let is_whole = heard.ends_with(b"an answer\r\n0\r\n\r\n");
        assert_eq!(is_whole, says_goodbye, "{}", heard.escape_ascii());
        let is_chunked = heard.windows(7).any(|bytes| bytes == b"chunked");
        assert!(is_chunked || heard.is_empty(), "nobody can tell whether it is whole: {}", heard.escape_ascii());
    }
}

/// Responds with a body that ends with the connection, and ends that with or without a word.
fn responding_until_close(config: Arc<ServerConfig>, says_goodbye: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let (tcp, _) = listener.accept().expect("a client");
        let session = rustls::ServerConnection::new(config).expect("a session");
        let mut stream = rustls::StreamOwned::new(session, tcp);
        read_head(&mut BufReader::new(&mut stream)).expect("a head");
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nan answer").expect("it takes them");
        if says_goodbye {
            stream.conn.send_close_notify();
        }
        stream.flush().expect("it takes them");
        stream.sock.shutdown(std::net::Shutdown::Write).expect("it is open");
        let _ended = stream.sock.read(&mut [0; 1_024]);
    });
    address
}

/// A kept connection that the upstream ends properly is not used again.
#[test]
fn a_connection_that_the_upstream_has_closed_is_replaced() {
    let authority = Authority::new();
    let (address, count) = closing(authority.issue(&["localhost"]).server());
    let trusting = Trusting::before(address, &authority, "");
    for _ in 0..10 {
        let response = trusting.gateway.post("/", "not to be sent twice");
        assert_eq!(response.status, 200, "{}", response.text());
    }
    assert_eq!(count.load(Ordering::Relaxed), 10);
}

/// Responds to one request a connection, says nothing of it, and ends the connection.
fn closing(config: Arc<ServerConfig>) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let count: Arc<AtomicUsize> = Arc::default();
    let counting = Arc::clone(&count);
    std::thread::spawn(move || {
        for tcp in listener.incoming().map_while(Result::ok) {
            tcp.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
            let session = rustls::ServerConnection::new(Arc::clone(&config)).expect("a session");
            let mut stream = BufReader::new(rustls::StreamOwned::new(session, tcp));
            let Some((_, headers)) = read_head(&mut stream) else { continue };
            let (mut body, mut piece) = (BodyReader::of(&headers), [0; 1_024]);
            while body.read(&mut stream, &mut piece).is_ok_and(|count| count > 0) {}
            counting.fetch_add(1, Ordering::Relaxed);
            let stream = stream.get_mut();
            // The response and the end in one go: whoever has the one can see the other.
            stream.conn.writer().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK").expect("it takes them");
            stream.conn.send_close_notify();
            let _sent = stream.conn.write_tls(&mut stream.sock);
            let _sent = stream.conn.complete_io(&mut stream.sock);
        }
    });
    (address, count)
}

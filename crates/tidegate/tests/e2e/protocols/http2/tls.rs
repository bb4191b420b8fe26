//! TLS before either version: certificates, handshakes, readers that stop, the end.

use std::io::Read;
use std::process::Stdio;

use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt as _};

use super::{PLENTY, Secured};
use crate::protocols::depot::Depot;
use crate::protocols::footprint::Footprint;
use crate::protocols::session::{self, Whole, ask, for_http1, get, post, run};
use crate::protocols::transfer::{Length, download_h2, read_response_h2, upload_h2};
use tidegate_testkit::authority::Authority;
use tidegate_testkit::{
    Client, Directory, PATIENCE, Upstream, text, tidegate, wait_for_exit, wait_until, wait_until_async,
};

#[test]
fn the_version_is_the_one_that_client_and_gateway_agree_on() {
    let upstream = Upstream::start();
    let secured = Secured::before(upstream.address, PLENTY, "");
    run(async {
        for (offered, chosen) in [
            (&["h2", "http/1.1"][..], Some(&b"h2"[..])),
            (&["h2"], Some(b"h2")),
            (&["http/1.1"], Some(b"http/1.1")),
            (&[], None),
        ] {
            let stream = session::tls(secured.gateway.address, secured.authority.client(offered)).await;
            assert_eq!(stream.get_ref().1.alpn_protocol(), chosen);
            let (response, via) = if chosen == Some(b"h2") {
                (ask(&mut session::http2(stream).await, get("/a?b=c")).await, "2.0 tidegate")
            } else {
                let sent = session::http1(stream).await.send_request(for_http1(get("/a?b=c"))).await;
                (Whole::of(sent.expect("an answer")).await, "1.1 tidegate")
            };
            assert_eq!((response.status, &response.body[..]), (StatusCode::OK, &b"OK"[..]));
            let received = upstream.last();
            assert_eq!(received.line, "GET /a?b=c HTTP/1.1");
            assert_eq!(received.header("via"), Some(via));
            assert_eq!(received.header("x-forwarded-proto"), Some("https"));
            assert_eq!(received.header("x-forwarded-host"), Some("test.example"));
            assert_eq!(received.header("x-request-id"), response.header("x-request-id"));
        }
        let neither = session::try_tls(secured.gateway.address, secured.authority.client(&["spdy/3"])).await;
        assert!(neither.is_err(), "what nobody offers is not spoken (RFC 7301 §3.2)");
    });
    assert_eq!(upstream.count(), 4);
}

#[test]
fn a_new_certificate_is_shown_after_a_reload_and_old_connections_go_on() {
    let upstream = Upstream::start();
    let secured = Secured::before(upstream.address, PLENTY, "");
    run(async {
        let mut before = secured.http2().await;
        assert_eq!(ask(&mut before, get("/")).await.status, StatusCode::OK);
        assert_eq!(shown(&secured).await, secured.issued.der().to_vec());

        let renewed = secured.authority.issue(&["localhost"]);
        Secured::listener(&secured.directory, &renewed);
        assert_eq!(shown(&secured).await, secured.issued.der().to_vec(), "not before it is told to");
        secured.gateway.signal("HUP");
        secured.gateway.wait_for_line("Reloaded the configuration");
        assert_eq!(shown(&secured).await, renewed.der().to_vec());
        assert_eq!(ask(&mut before, get("/")).await.status, StatusCode::OK, "the old connection goes on");

        // A key that does not fit changes nothing.
        secured.directory.file("key.pem", &secured.issued.key);
        secured.gateway.signal("HUP");
        secured.gateway.wait_for_line("the configuration was not reloaded, nothing has changed");
        assert_eq!(shown(&secured).await, renewed.der().to_vec());
        assert_eq!(ask(&mut before, get("/")).await.status, StatusCode::OK);
    });
}

/// The certificate that a new client is shown.
async fn shown(secured: &Secured) -> Vec<u8> {
    let stream = session::tls(secured.gateway.address, secured.authority.client(&["h2"])).await;
    stream.get_ref().1.peer_certificates().expect("a certificate")[0].to_vec()
}

#[test]
fn certificates_that_can_not_be_used_are_rejected_at_the_start() {
    let (authority, directory) = (Authority::new(), Directory::new());
    let (issued, other) = (authority.issue(&["localhost"]), authority.issue(&["localhost"]));
    let certificate = text(&directory.file("certificate.pem", &issued.certificate));
    let key = text(&directory.file("key.pem", &issued.key));
    let foreign = text(&directory.file("foreign.pem", &other.key));
    let empty = text(&directory.file("empty.pem", ""));
    let absent = text(&directory.0.join("absent.pem"));
    for (certificate, key, field, named) in [
        (&absent, &key, "listeners[0].tls.certificate", &absent),
        (&empty, &key, "listeners[0].tls.certificate", &empty),
        (&key, &key, "listeners[0].tls.certificate", &key),
        (&certificate, &absent, "listeners[0].tls.key", &absent),
        (&certificate, &empty, "listeners[0].tls.key", &empty),
        (&certificate, &foreign, "listeners[0].tls.key", &String::new()),
    ] {
        let tls = format!("{{certificate: \"{certificate}\", key: \"{key}\"}}");
        let reported = rejected_at_start(&format!("listeners: [{{address: \"127.0.0.1:0\", tls: {tls}}}]"));
        assert!(reported.contains(field) && reported.contains(named.as_str()), "{field}, {named}: {reported}");
    }
}

/// Starts a gateway that must not start, and returns why it did not.
fn rejected_at_start(config: &str) -> String {
    let directory = Directory::new();
    let path = directory.file("gateway.yaml", config);
    let mut command = tidegate();
    let command = command.arg("gateway").arg("--config").arg(&path).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let status = wait_for_exit(&mut child, PATIENCE).unwrap_or_else(|| {
        let _killed = child.kill();
        panic!("it starts with {config}");
    });
    assert_eq!(status.code(), Some(2), "{config}");
    let mut reported = String::new();
    child.stderr.take().expect("it is piped").read_to_string(&mut reported).expect("text");
    reported
}

#[test]
fn a_handshake_that_does_not_come_is_not_waited_for() {
    let upstream = Upstream::start();
    let secured = Secured::before(upstream.address, PLENTY, "connections: {head_timeout: 300ms}");
    let mut silent = Client::connect(secured.gateway.address);
    assert!(silent.is_closed());
    // Part of a ClientHello, and no more.
    let mut partial = Client::connect(secured.gateway.address);
    partial.send(b"\x16\x03\x01\x02\x00\x01\x00");
    assert!(partial.is_closed());
    // HTTP where TLS is spoken.
    let mut plain = Client::connect(secured.gateway.address);
    plain.send("GET / HTTP/1.1\r\nHost: test.example\r\n\r\n");
    assert!(!String::from_utf8_lossy(&plain.read_to_end()).contains("200 OK"));
    run(async { assert_eq!(ask(&mut secured.http2().await, get("/")).await.status, StatusCode::OK) });
    assert_eq!(upstream.count(), 1);
}

#[test]
fn http_1_over_tls_is_kept_alive() {
    let upstream = Upstream::start();
    let secured = Secured::before(upstream.address, PLENTY, "");
    run(async {
        let stream = session::tls(secured.gateway.address, secured.authority.client(&["http/1.1"])).await;
        let mut session = session::http1(stream).await;
        for length in [0, 1, 100_000] {
            session.ready().await.expect("it takes requests");
            let asked = for_http1(post("/", vec![b'x'; length]));
            let response = Whole::of(session.send_request(asked).await.expect("an answer")).await;
            assert_eq!(response.status, StatusCode::OK);
            assert_eq!(upstream.last().body.len(), length);
        }
    });
}

#[test]
fn long_bodies_pass_over_tls() {
    const LENGTH: u64 = 64 << 20;
    let depot = Depot::start();
    let secured = Secured::before(depot.address, PLENTY, "");
    let path = format!("/download/chunked/{LENGTH}");
    run(async {
        let mut session = secured.http2().await;
        let before = Footprint::of(&secured.gateway);
        assert_eq!(download_h2(&mut session, &path).await, (LENGTH, true));
        let (upload, _) = upload_h2("/upload", LENGTH, Length::Unreported);
        assert_eq!(ask(&mut session, upload).await.body, format!("{LENGTH} true"));

        let stream = session::tls(secured.gateway.address, secured.authority.client(&["http/1.1"])).await;
        let mut session = session::http1(stream).await;
        let response = session.send_request(for_http1(get(&path))).await.expect("an answer");
        assert_eq!(read_response_h2(response.into_body()).await, (LENGTH, true));
        for reported in [Length::Told, Length::Unreported] {
            session.ready().await.expect("it takes requests");
            let (upload, _) = upload_h2("/upload", LENGTH, reported);
            let response = session.send_request(for_http1(upload)).await.expect("an answer");
            assert_eq!(Whole::of(response).await.body, format!("{LENGTH} true"));
        }
        before.assert_growth_below(20);
    });
}

/// TLS has buffers of its own: what lies in them has not been taken.
#[test]
fn a_reader_over_tls_that_takes_nothing_is_cut_off() {
    let depot = Depot::start();
    let limit = "{algorithm: concurrency, limit: 1}";
    let secured = Secured::before(depot.address, limit, "connections: {write_timeout: 500ms}");
    run(async {
        let mut stream = session::tls(secured.gateway.address, secured.authority.client(&["http/1.1"])).await;
        let asked = b"GET /download/length/1000000000 HTTP/1.1\r\nHost: test.example\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut stream, asked).await.expect("it takes them");
        tokio::task::block_in_place(|| wait_until("the answer is under way", || depot.written() > 0));
        let mut session = secured.http2().await;
        let is_admitted = async || ask(&mut session, get("/download/length/1")).await.status == StatusCode::OK;
        wait_until_async("its slot comes back", is_admitted).await;
        let mut taken = Vec::new();
        let ended = stream.read_to_end(&mut taken).await;
        assert!(ended.is_err() || taken.len() < 1_000_000_000, "the rest comes after all");
    });
}

/// What is left of a response may fit into TLS' own buffer: then nothing but its flushing waits for the client.
#[test]
fn a_reader_over_tls_that_takes_all_but_the_last_bytes_is_cut_off() {
    let depot = Depot::start();
    let timeouts = "connections: {write_timeout: 300ms, idle_timeout: 300ms}";
    let secured = Secured::before(depot.address, PLENTY, timeouts);
    run(async {
        let mut streams = Vec::new();
        // How much the system keeps differs: of so many lengths, some end within the last buffer.
        for part in 0..60 {
            let mut stream = session::tls(secured.gateway.address, secured.authority.client(&["http/1.1"])).await;
            let asked = format!("GET /download/length/{} HTTP/1.1\r\nHost: a\r\n\r\n", 2_000_000 + part * 50_000);
            tokio::io::AsyncWriteExt::write_all(&mut stream, asked.as_bytes()).await.expect("it takes them");
            streams.push(stream);
        }
        let is_alone = async || {
            let page = ask(&mut secured.http2().await, get("/actuator/prometheus")).await;
            String::from_utf8_lossy(&page.body).contains("\ntidegate_requests_in_flight 1\n")
        };
        wait_until_async("all others end", is_alone).await;
    });
}

/// RFC 8446 §6.1: without `close_notify` nobody knows whether all has come.
#[test]
fn a_tls_connection_is_closed_as_tls_has_it() {
    let upstream = Upstream::start();
    let secured = Secured::before(upstream.address, PLENTY, "");
    run(async {
        let config = secured.authority.client(&["http/1.1"]);
        let mut stream = session::tls(secured.gateway.address, config).await;
        let asked = b"GET / HTTP/1.1\r\nHost: test.example\r\nConnection: close\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut stream, asked).await.expect("it takes them");
        let mut response = Vec::new();
        // rustls makes a missing `close_notify` an error.
        stream.read_to_end(&mut response).await.expect("a proper end");
        assert!(response.ends_with(b"OK"));
    });
}

/// Whoever has agreed on HTTP/2 and speaks something else was left without a word.
#[test]
fn what_is_not_http_2_over_tls_is_responded_in_http_2() {
    let upstream = Upstream::start();
    let secured = Secured::before(upstream.address, PLENTY, "");
    let response = run(async {
        let mut stream = session::tls(secured.gateway.address, secured.authority.client(&["h2"])).await;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: test.example\r\n\r\n").await.expect("it takes them");
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await.expect("it ends as TLS has it");
        response
    });
    let is = |frame: &[u8], kind: u8| frame.get(3) == Some(&kind);
    let settings = 9 + usize::from(response[2]);
    assert!(is(&response, tidegate_testkit::frames::SETTINGS), "{}", response.escape_ascii());
    let goaway = &response[settings..];
    assert!(is(goaway, tidegate_testkit::frames::GOAWAY), "{}", response.escape_ascii());
    assert_eq!(goaway[13..17], tidegate_testkit::frames::PROTOCOL_ERROR.to_be_bytes());
    assert_eq!(upstream.count(), 0);
}

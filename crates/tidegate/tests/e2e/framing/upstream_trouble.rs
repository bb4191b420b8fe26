//! Upstreams that can't be reached, send nonsense, stop halfway: the client learns which, and nobody else suffers.

mod malformed;

use std::io::Write as _;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use crate::framing::judge;
use crate::framing::origin::{Origin, Rejecting, Silent};
use tidegate_testkit::{Client, Gateway, OK, Response, Upstream, pause, request, wait_until};

const PLENTY: &str = "{algorithm: fixed, limit: 1000000, window: 60}";

fn failures(gateway: &Gateway, reason: &str) -> u64 {
    let name = format!("tidegate_upstream_failures_total{{service=\"app\",reason=\"{reason}\"}}");
    gateway.metric(&name).unwrap_or(0.0) as u64
}

/// Checks a response that reports trouble: RFC 9457, with the id that is in the log.
fn assert_problem(response: &Response, status: u16, reason: &str) {
    assert_eq!(response.status, status, "{}", response.text());
    assert_eq!(response.header("content-type"), Some("application/problem+json"));
    let problem = response.json();
    assert_eq!((&problem["status"], &problem["error"]), (&status.into(), &reason.into()));
    assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{problem}");
    assert_eq!(problem["request_id"].as_str(), response.header("x-request-id"));
    assert!(response.header("x-request-id").is_some_and(|id| !id.is_empty()));
}

fn with_settings(upstream: std::net::SocketAddr, settings: &str) -> Gateway {
    Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{upstream}\", {settings}}}}}\nlimits: {{default: {PLENTY}}}\n"
    ))
}

#[test]
fn an_upstream_that_rejects_connections_is_a_502() {
    let rejecting = Rejecting::new();
    let gateway = Gateway::before(rejecting.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    for _ in 0..2 {
        assert_problem(&client.request("GET", "/", &[], b""), 502, "connect_failed");
    }
    assert_problem(&client.request("POST", "/", &[], b"some body"), 502, "connect_failed");
    let response = client.request("GET", "/", &[("X-Request-Id", "my-id-7")], b"");
    assert_problem(&response, 502, "connect_failed");
    assert_eq!(response.header("x-request-id"), Some("my-id-7"));
    assert_eq!(failures(&gateway, "connect_failed"), 4);
    gateway.wait_for_line("upstream `app`: the upstream can't be reached");
}

#[test]
fn an_upstream_that_can_not_be_reached_in_time_is_a_504() {
    let silent = Silent::new();
    let gateway = with_settings(silent.address, "connect_timeout: 100ms");
    let patient = with_settings(silent.address, "connect_timeout: 1h");
    let mut waiting = Client::connect(patient.address);
    waiting.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    // Sent later, done sooner. The default, two seconds, is over by then.
    for _ in 0..25 {
        assert_problem(&gateway.get("/"), 504, "connect_timeout");
    }
    assert!(!waiting.has_response(), "it waits as long as it was told to");
    assert_eq!(failures(&gateway, "connect_timeout"), 25);
    let origin = silent.open();
    let mut client = Client::connect(gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut visit = origin.accept();
    visit.head();
    visit.send(OK);
    assert_eq!(client.response().text(), "OK");
}

#[test]
fn an_upstream_that_closes_without_a_response_is_a_502() {
    let upstream = Upstream::behaving(|_, _| false);
    let gateway = Gateway::before(upstream.address, PLENTY);
    assert_problem(&gateway.get("/"), 502, "closed_early");
    assert_problem(&gateway.post("/", "some body"), 502, "closed_early");
    assert_eq!(failures(&gateway, "closed_early"), 2);
    assert_eq!(upstream.count(), 2, "over a new connection, nothing is sent twice");
}

#[test]
fn an_upstream_that_does_not_response_in_time_is_a_504() {
    let origin = Origin::new();
    let gateway = with_settings(origin.address, "answer_timeout: 100ms");
    let mut client = Client::connect(gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut visit = origin.accept();
    visit.head();
    assert_problem(&client.response(), 504, "answer_timeout");
    assert_eq!(visit.read_to_end(), b"", "the connection is given up");
    // Half a head is no response either.
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut visit = origin.accept();
    visit.head();
    visit.send("HTTP/1.1 200 OK\r\n");
    assert_problem(&client.response(), 504, "answer_timeout");
    assert_eq!(failures(&gateway, "answer_timeout"), 2);
}

#[test]
fn a_head_that_comes_byte_by_byte_is_a_504() {
    let upstream = Upstream::behaving(|_, stream| {
        let begins = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ").is_ok();
        // It would go on for longer than any test waits.
        begins
            && (0..4_000).all(|_| {
                pause(Duration::from_millis(20));
                stream.write_all(b"x").is_ok()
            })
    });
    let gateway = with_settings(upstream.address, "answer_timeout: 300ms");
    let mut client = Client::connect(gateway.address);
    client.stream.get_ref().set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_problem(&client.try_response_to("GET").expect("each byte buys time"), 504, "answer_timeout");
}

#[test]
fn an_upstream_that_does_not_take_the_body_in_time_is_a_504() {
    let origin = Origin::new();
    let gateway = with_settings(origin.address, "body_timeout: 200ms, answer_timeout: 200ms");
    let mut client = Client::connect(gateway.address);
    let mut sender = client.stream.get_ref().try_clone().expect("a second handle");
    let sending = thread::spawn(move || {
        let _sent = sender.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n");
        let _sent = sender.write_all(&vec![b'x'; 50_000_000]);
    });
    let mut visit = origin.accept();
    visit.head();
    assert_problem(&client.response(), 504, "body_timeout");
    drop(client);
    sending.join().expect("no panic");
    assert!(visit.read_to_end().len() < 50_000_000);
}

/// How a broken response begins, and how it goes on. None may look whole to the client, which gets what there was: the
/// beginning of a body, or a proper 502 where not even that was understood.
fn broken(begins: &str, pauses: bool, reason: &str, body: Option<&str>) {
    let origin = Origin::new();
    let gateway = with_settings(origin.address, "body_timeout: 100ms");
    let mut client = Client::connect(gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut visit = origin.accept();
    visit.head();
    visit.send(begins);
    let kept = if pauses { Some(visit) } else { (visit.close(), None).1 };
    let bytes = String::from_utf8(client.read_to_end()).expect("text");
    let (head, sent) = bytes.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{begins:?}: no answer: {bytes:?}"));
    if let Some(body) = body {
        let sent = sent.replace("\r\n", "|");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{begins:?}: {bytes:?}");
        // Without the end that a whole one would have.
        let framed = if head.contains("transfer-encoding: chunked") {
            format!("{:x}|{body}|", body.len())
        } else {
            body.to_owned()
        };
        assert_eq!(sent, framed, "{begins:?}");
        assert!(head.contains("transfer-encoding: chunked") || head.contains("content-length: 10"), "{bytes:?}");
    } else {
        assert!(head.starts_with("HTTP/1.1 502 Bad Gateway\r\n") && sent.contains(reason), "{begins:?}: {bytes:?}");
    }
    wait_until("the failure is counted", || failures(&gateway, reason) > 0);
    wait_until("the request has ended", || gateway.metric("tidegate_requests_in_flight") == Some(1.0));
    drop(kept);
}

#[test]
fn a_response_that_ends_early_does_not_seem_whole() {
    let chunked = |chunks| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
    broken("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", false, "closed_early", Some("hello"));
    broken(&chunked("5\r\nhello\r\n"), false, "closed_early", Some("hello"));
    broken(&chunked("5\r\nhello\r\n0\r\n"), false, "closed_early", Some("hello"));
    broken(&chunked("5\r\nhel"), false, "closed_early", Some("hel"));
}

#[test]
fn a_response_that_pauses_for_too_long_does_not_seem_whole() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    broken("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", true, "body_timeout", Some("hello"));
    broken(chunked, true, "body_timeout", Some("hello"));
}

#[test]
fn a_response_whose_chunks_are_odd_does_not_seem_whole() {
    for (chunks, body) in [
        ("x\r\nhello\r\n0\r\n\r\n", None),
        ("5\r\nhello!\r\n0\r\n\r\n", Some("hello")),
        ("5\nhello\r\n0\r\n\r\n", None),
        ("5\r\nhello\r\n0x0\r\n\r\n", Some("hello")),
        ("5\r\nhello\r\n0\r\n bad: y\r\n\r\n", Some("hello")),
    ] {
        let response = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        broken(&response, true, "bad_answer", body);
    }
}

#[test]
fn a_full_upstream_is_a_503_that_costs_nothing() {
    let origin = Origin::new();
    let gateway = Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\", max_connections: 1}}}}\n\
         limits: {{default: {{algorithm: token, capacity: 2, fillRate: 0.0003}}}}\nworkers: 1\n",
        origin.address
    ));
    let mut first = Client::connect(gateway.address);
    first.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut visit = origin.accept();
    visit.head();
    for _ in 0..3 {
        let response = gateway.get("/second");
        assert_problem(&response, 503, "upstream_full");
        assert_eq!(response.header("x-tidegate-refused-by"), Some("gateway"));
        assert_eq!(response.header("retry-after"), Some("1"));
    }
    assert_eq!(failures(&gateway, "upstream_full"), 3);
    visit.send(OK);
    assert_eq!(first.response().text(), "OK");
    let mut third = Client::connect(gateway.address);
    third.send("GET /third HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(visit.head().starts_with("GET /third "), "the kept connection is used");
    visit.send(OK);
    let response = third.response();
    assert_eq!((response.status, response.header("x-ratelimit-remaining")), (200, Some("0")));
    assert_eq!(gateway.get("/fourth").status, 429);
}

/// Idle connections count too, and each worker keeps its own: the idle one of another worker must not stand in the way.
#[test]
fn requests_one_after_another_need_one_connection_whichever_worker_serves_them() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\", max_connections: 1}}}}\nlimits: {{default: {PLENTY}}}\nworkers: 4\n",
        upstream.address
    ));
    let mut clients: Vec<Client> = (0..64).map(|_| Client::connect(gateway.address)).collect();
    let statuses: Vec<u16> = clients.iter_mut().map(|client| client.request("GET", "/", &[], b"").status).collect();
    assert_eq!(statuses, [200; 64]);
}

/// Responds to the first request of each connection; closes at the second, as if its idle time was up in that very
/// moment.
fn forgetful() -> Upstream {
    let seen = Mutex::new(Vec::new());
    Upstream::behaving(move |received, stream| {
        let mut seen = seen.lock().expect("no panic");
        let is_first = !seen.contains(&received.connection);
        seen.push(received.connection);
        is_first && stream.write_all(OK).is_ok()
    })
}

#[test]
fn what_changes_nothing_is_sent_again_when_a_kept_connection_was_closed() {
    let upstream = forgetful();
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    for method in ["GET", "GET", "DELETE", "OPTIONS", "PUT"] {
        assert_eq!(client.request(method, "/", &[], b"").text(), "OK", "{method}");
    }
    // The first needed one attempt, each other one two.
    assert_eq!(upstream.count(), 9);
    assert_eq!(failures(&gateway, "closed_early"), 0);
}

#[test]
fn what_may_change_something_is_never_sent_again() {
    for (method, body) in [("POST", &b"pay 5"[..]), ("POST", b""), ("PATCH", b""), ("PUT", b"some body")] {
        let upstream = forgetful();
        let gateway = Gateway::before(upstream.address, PLENTY);
        let mut client = Client::connect(gateway.address);
        assert_eq!(client.request("GET", "/", &[], b"").text(), "OK");
        assert_problem(&client.request(method, "/", &[], body), 502, "closed_early");
        let count = upstream.received().iter().filter(|received| received.line.starts_with(method)).count();
        assert_eq!(count, 1, "{method} was sent twice");
    }
}

#[test]
fn a_kept_connection_that_was_closed_meanwhile_is_no_error() {
    let origin = Origin::new();
    let gateway = Gateway::start(&format!("workers: 1\nupstreams: {{app: {{url: \"http://{}\"}}}}\n", origin.address));
    let mut client = Client::connect(gateway.address);
    for _ in 0..3 {
        client.send("POST /pay HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
        let mut visit = origin.accept();
        visit.head();
        assert_eq!(visit.read(2), b"hi");
        visit.send(OK);
        assert_eq!(client.response().text(), "OK");
        visit.close();
    }
}

#[test]
fn idle_connections_to_the_upstream_end_in_time() {
    let origin = Origin::new();
    let gateway = with_settings(origin.address, "idle_timeout: 100ms");
    let mut client = Client::connect(gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut visit = origin.accept();
    visit.head();
    visit.send(OK);
    assert_eq!(client.response().text(), "OK");
    assert_eq!(visit.read_to_end(), b"");
    wait_until("it is counted no more", || {
        gateway.metric("tidegate_upstream_connections{service=\"app\"}") == Some(0.0)
    });
}

#[test]
fn a_response_before_the_body_was_read_reaches_the_client() {
    let origin = Origin::new();
    let gateway = Gateway::before(origin.address, PLENTY);
    for stays in [true, false] {
        let mut client = Client::connect(gateway.address);
        let mut sender = client.stream.get_ref().try_clone().expect("a second handle");
        let sending = thread::spawn(move || {
            let _sent = sender.write_all(b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\n");
            let _sent = sender.write_all(&b"GET /evil HTTP/1.1\r\nHost: evil\r\n\r\n".repeat(600_000)[..20_000_000]);
        });
        let mut visit = origin.accept();
        visit.head();
        visit.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 9\r\n\r\ntoo large");
        let kept = if stays { Some(visit) } else { (visit.close(), None).1 };
        let response = client.response();
        assert_eq!((response.status, response.text().as_str()), (413, "too large"));
        assert!(client.try_response_to("GET").is_none(), "the body was taken for a request");
        drop(client);
        sending.join().expect("no panic");
        if let Some(mut visit) = kept {
            let rest = visit.read_to_end();
            assert!(rest.len() < 20_000_000, "a connection with half a request on it is not used again");
        }
    }
    assert!(!origin.has_visitor());
    wait_until("the requests have ended", || gateway.metric("tidegate_requests_in_flight") == Some(1.0));
}

#[test]
fn a_response_may_begin_before_the_request_ends() {
    let origin = Origin::new();
    let gateway = with_settings(origin.address, "request_buffer_bytes: 0");
    let mut client = Client::connect(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    let mut visit = origin.accept();
    let head = visit.head();
    assert_eq!(visit.read(8), b"3\r\none\r\n");
    visit.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    let mut first = Vec::new();
    while !first.ends_with(b"one\r\n") {
        let mut byte = [0];
        std::io::Read::read_exact(&mut client.stream, &mut byte).expect("the answer begins");
        first.push(byte[0]);
    }
    client.send("3\r\ntwo\r\n0\r\n\r\n");
    let body = visit.read(13);
    judge::read(&[head.as_bytes(), b"3\r\none\r\n", &body].concat()).expect("well-formed");
    visit.send("3\r\ntwo\r\n0\r\n\r\n");
    let mut rest = Vec::new();
    while !rest.ends_with(b"0\r\n\r\n") {
        let mut byte = [0];
        std::io::Read::read_exact(&mut client.stream, &mut byte).expect("the answer goes on");
        rest.push(byte[0]);
    }
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(visit.head().starts_with("GET / "), "both connections go on");
    visit.send(OK);
    assert_eq!(client.response().text(), "OK");
}

/// Cuts a response at every byte: what a packet ends with must make no difference.
#[test]
fn responses_are_the_same_however_they_arrive() {
    const RESPONSES: [&[u8]; 2] = [
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\none\r\n4\r\n two\r\n\
          0\r\nA: b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\none two",
    ];
    let upstream = Upstream::behaving(|received, stream| {
        let numbers = received.line.split(['/', '-', ' ']).filter_map(|word| word.parse::<usize>().ok());
        let [which, cut] = numbers.collect::<Vec<usize>>()[..] else { return false };
        let sent = stream.write_all(&RESPONSES[which][..cut]).is_ok();
        pause(Duration::from_millis(1));
        sent && stream.write_all(&RESPONSES[which][cut..]).is_ok()
    });
    let gateway = Gateway::before(upstream.address, PLENTY);
    let mut client = Client::connect(gateway.address);
    for (which, response) in RESPONSES.iter().enumerate() {
        for cut in 1..response.len() {
            let response = client.request("GET", &format!("/{which}-{cut}"), &[], b"");
            assert_eq!((response.status, response.text().as_str()), (200, "one two"), "cut at {cut}");
        }
    }
    assert_eq!(upstream.last().connection, 0, "the connection is kept throughout");
}

#[test]
fn trouble_costs_one_request_not_its_neighbours() {
    let upstream =
        Upstream::behaving(|received, stream| !received.line.contains("bad") && stream.write_all(OK).is_ok());
    let gateway = Gateway::before(upstream.address, PLENTY);
    let address = gateway.address;
    let ask = move |path: &'static str, expected: u16| {
        thread::spawn(move || (0..50).all(|_| request(address, "GET", path, &[], b"").status == expected))
    };
    let threads = [ask("/good", 200), ask("/bad", 502), ask("/good", 200), ask("/bad", 502)];
    assert!(threads.into_iter().all(|thread| thread.join().expect("no panic")));
}

#[test]
fn every_status_that_means_trouble_is_counted() {
    let upstream = Upstream::responding(|_| b"HTTP/1.1 507 Full\r\nContent-Length: 0\r\n\r\n".to_vec());
    let gateway = Gateway::before(upstream.address, PLENTY);
    assert_eq!(gateway.get("/").status, 507);
    let counted =
        |status| gateway.metric(&format!("tidegate_upstream_errors_total{{service=\"app\",status=\"{status}\"}}"));
    assert_eq!((counted(507), counted(500), counted(504)), (Some(1.0), Some(0.0), None));
}

/// Where we say nothing of limits, what the upstream says of its own goes through.
#[test]
fn an_upstreams_limits_are_reported_where_we_have_none() {
    let upstream = Upstream::responding(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nRateLimit: \"own\";r=7\r\nX-Request-Id: theirs\r\n\r\nOK".to_vec()
    });
    let config = |limits: &str| format!("upstreams: {{app: {{url: \"http://{}\"}}}}\n{limits}", upstream.address);
    let without = Gateway::start(&config("limits: {}\ncommon_limits: []\n"));
    let response = without.get_with("/", &[("X-Request-Id", "ours")]);
    assert_eq!((response.header("ratelimit"), response.header("x-request-id")), (Some("\"own\";r=7"), Some("ours")));
    let with = Gateway::start(&config(&format!("limits: {{default: {PLENTY}}}\n")));
    assert!(with.get("/").header("ratelimit").is_some_and(|reported| reported.starts_with("\"default\"")));
}

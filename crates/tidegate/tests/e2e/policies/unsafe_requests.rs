//! What must never be sent twice: requests that do something, without an idempotency key.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use tidegate_testkit::{Client, Gateway};

/// How many requests, each reset at a random byte.
const REQUESTS: u64 = 10_000;

/// An upstream that resets each connection after a random number of bytes of a request, or of its own response. It
/// counts how often it saw the beginning of each request.
struct Resetting {
    address: std::net::SocketAddr,
    seen: Arc<Mutex<HashMap<String, u32>>>,
}

impl Resetting {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let seen: Arc<Mutex<HashMap<String, u32>>> = Arc::default();
        let counted = Arc::clone(&seen);
        std::thread::spawn(move || {
            for (number, stream) in (0..).zip(listener.incoming().map_while(Result::ok)) {
                let counted = Arc::clone(&counted);
                std::thread::spawn(move || converse(stream, &counted, number));
            }
        });
        Self { address, seen }
    }
}

/// Requests of one connection, until it is reset.
fn converse(mut stream: TcpStream, seen: &Mutex<HashMap<String, u32>>, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut all, mut piece) = (Vec::new(), [0; 512]);
    loop {
        // After so many bytes of the request, or of the response if that is more than the request has.
        let mut left = random.usize(1..400);
        let mut is_counted = false;
        loop {
            let Ok(count @ 1..) = stream.read(&mut piece[..left.min(512)]) else { return };
            all.extend_from_slice(&piece[..count]);
            left -= count;
            let end = all.windows(4).position(|bytes| bytes == b"\r\n\r\n");
            if !is_counted && let Some(line) = all.split(|byte| *byte == b'\r').next().filter(|line| line.len() > 8) {
                let line = String::from_utf8_lossy(line).into_owned();
                if line.ends_with("HTTP/1.1") {
                    *seen.lock().expect("no panic").entry(line).or_default() += 1;
                    is_counted = true;
                }
            }
            if left == 0 {
                // What is unread makes a reset of it.
                return;
            }
            if end.is_some_and(|end| all.len() >= end + 4 + 5) {
                break;
            }
        }
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK";
        if left < response.len() {
            let _sent = stream.write_all(&response[..left]);
            return;
        }
        if stream.write_all(response).is_err() {
            return;
        }
        all.clear();
    }
}

fn post(gateway: &Gateway, clients: &mut [Client], number: u64, headers: &str) -> u16 {
    let client = &mut clients[number as usize % 2];
    client.send(format!("POST /{number} HTTP/1.1\r\nHost: a\r\n{headers}Content-Length: 5\r\n\r\nhello"));
    let status = client.try_response_to("POST").map_or(0, |response| response.status);
    if status == 0 {
        *client = Client::connect(gateway.address);
    }
    status
}

/// Whatever a policy says, and wherever the connection breaks: in the head, in the body, before the response, in it, or
/// on a kept connection that has just ended.
#[test]
fn a_post_without_a_key_is_never_sent_twice() {
    let upstream = Resetting::start();
    let policy = "timeout: 9s, attempt_timeout: 5s, breaker: {window: 1000, failures: 1, minimum: 1000}, \
                  bulkhead: {limit: 9}, retry: {attempts: 5, base: 0, idempotency_key: idempotency-key, \
                  budget: {share: 10, floor: 1000000}}";
    let gateway = super::gateway(&[upstream.address], policy);
    let mut clients = [Client::connect(gateway.address), Client::connect(gateway.address)];
    let mut statuses: HashMap<u16, u64> = HashMap::new();
    for number in 0..REQUESTS {
        *statuses.entry(post(&gateway, &mut clients, number, "")).or_default() += 1;
    }
    let seen = upstream.seen.lock().expect("no panic").clone();
    let twice: Vec<_> = seen.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "sent twice: {twice:?}");
    assert!(statuses.get(&200) > Some(&(REQUESTS / 10)), "{statuses:?}");
    assert!(statuses.get(&502) > Some(&(REQUESTS / 10)), "{statuses:?}");

    // With a key they are: otherwise the test above would show nothing.
    let mut sent_again = 0;
    for number in REQUESTS..REQUESTS + 100 {
        let headers = format!("Idempotency-Key: {number}\r\n");
        post(&gateway, &mut clients, number, &headers);
        let line = format!("POST /{number} HTTP/1.1");
        sent_again += u32::from(upstream.seen.lock().expect("no panic").get(&line) > Some(&1));
    }
    assert!(sent_again > 10, "{sent_again} of 100");
}

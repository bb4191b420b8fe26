//! Bodies of all lengths, both ways, over both versions: as they were sent, and never held.
//!
//! The longest is 1 GiB; `TIDEGATE_BODY_MIB` makes it shorter or longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::protocols::depot::Depot;
use crate::protocols::footprint::Footprint;
use crate::protocols::pattern::Pattern;
use crate::protocols::session::{Whole, ask, get, h2c, run};
use crate::protocols::transfer::{
    Length, download, download_h2, head, read_response, read_response_h2, send_body, upload, upload_h2,
};
use tidegate_testkit::{Client, Gateway, PATIENCE, pause, wait_until};

/// From nothing over a byte and a buffer's length to what fits in none.
const LENGTHS: [u64; 4] = [0, 1, 64 << 10, 10 << 20];

/// What the kernel's buffers may hold of a body on its way through two connections, and ours beside them.
const BUFFERED: u64 = 32 << 20;

fn before(depot: &Depot) -> Gateway {
    buffering(depot, 65_536)
}

/// With so many bytes of a request's body that are read before a connection is taken.
fn buffering(depot: &Depot, bytes: usize) -> Gateway {
    Gateway::start(&format!(
        "workers: 1\nlisteners: [{{address: \"127.0.0.1:0\", h2c: true}}]\n\
         upstreams: {{app: {{url: \"http://{}\", request_buffer_bytes: {bytes}}}}}\n\
         limits: {{default: {{algorithm: fixed, limit: 1000000, window: 60}}}}\n",
        depot.address
    ))
}

fn longest() -> u64 {
    let reported = std::env::var("TIDEGATE_BODY_MIB").ok().and_then(|number| number.parse::<u64>().ok());
    reported.unwrap_or(1_024) << 20
}

/// Runs a transfer of the longest body, and sees that the gateway holds little of it.
fn in_bounded_memory(name: &str, transfer: impl FnOnce(&Gateway, u64)) {
    let depot = Depot::start();
    let (gateway, length) = (before(&depot), longest());
    assert_eq!(gateway.get("/download/length/1").status, 200);
    let (before, started) = (Footprint::of(&gateway), Instant::now());
    transfer(&gateway, length);
    let (took, growth) = (started.elapsed().as_secs_f64(), before.peak_growth() >> 10);
    let (mebibytes, resident) = (length >> 20, gateway.resident_bytes() >> 10);
    eprintln!("{name}: {mebibytes} MiB in {took:.2} s; peak + {growth} KiB, now {resident} KiB");
    before.assert_growth_below(40);
    assert_eq!(gateway.get("/download/length/1").status, 200);
}

#[test]
fn uploads_of_all_lengths_arrive_as_they_were_sent() {
    let depot = Depot::start();
    let gateway = before(&depot);
    for length in LENGTHS {
        for reported in [Length::Told, Length::Unreported] {
            assert_eq!(upload(gateway.address, length, reported), format!("{length} true"), "HTTP/1.1, {reported:?}");
            let (asked, _) = upload_h2("/upload", length, reported);
            let response = run(async { ask(&mut h2c(gateway.address).await, asked).await });
            assert_eq!(response.body, format!("{length} true"), "HTTP/2, {reported:?}");
        }
    }
}

#[test]
fn downloads_of_all_lengths_arrive_as_they_were_sent() {
    let depot = Depot::start();
    let gateway = before(&depot);
    for length in LENGTHS {
        for framing in ["length", "chunked", "close"] {
            let path = format!("/download/{framing}/{length}");
            assert_eq!(download(gateway.address, &path), (length, true), "HTTP/1.1, {framing}");
            let heard = run(async { download_h2(&mut h2c(gateway.address).await, &path).await });
            assert_eq!(heard, (length, true), "HTTP/2, {framing}");
        }
    }
}

#[test]
fn the_longest_upload_of_known_length_passes_in_bounded_memory() {
    in_bounded_memory("upload, HTTP/1.1, Content-Length", |gateway, length| {
        assert_eq!(upload(gateway.address, length, Length::Told), format!("{length} true"));
    });
}

#[test]
fn the_longest_upload_in_chunks_passes_in_bounded_memory() {
    in_bounded_memory("upload, HTTP/1.1, chunked", |gateway, length| {
        assert_eq!(upload(gateway.address, length, Length::Unreported), format!("{length} true"));
    });
}

#[test]
fn the_longest_upload_over_http_2_passes_in_bounded_memory() {
    in_bounded_memory("upload, HTTP/2", |gateway, length| {
        let (asked, _) = upload_h2("/upload", length, Length::Told);
        let response = run(async { ask(&mut h2c(gateway.address).await, asked).await });
        assert_eq!(response.body, format!("{length} true"));
    });
}

#[test]
fn the_longest_download_of_known_length_passes_in_bounded_memory() {
    in_bounded_memory("download, HTTP/1.1, Content-Length", |gateway, length| {
        assert_eq!(download(gateway.address, &format!("/download/length/{length}")), (length, true));
    });
}

#[test]
fn the_longest_download_in_chunks_passes_in_bounded_memory() {
    in_bounded_memory("download, HTTP/1.1, chunked", |gateway, length| {
        assert_eq!(download(gateway.address, &format!("/download/chunked/{length}")), (length, true));
    });
}

#[test]
fn the_longest_download_over_http_2_passes_in_bounded_memory() {
    in_bounded_memory("download, HTTP/2", |gateway, length| {
        let path = format!("/download/length/{length}");
        assert_eq!(run(async { download_h2(&mut h2c(gateway.address).await, &path).await }), (length, true));
    });
}

/// An upstream that responds while it reads: neither direction may wait for the other to end.
#[test]
fn an_echo_passes_while_it_is_spoken() {
    const LENGTH: u64 = 100 << 20;
    let depot = Depot::start();
    let gateway = before(&depot);
    assert_eq!(gateway.get("/download/length/1").status, 200);
    let footprint = Footprint::of(&gateway);
    for reported in [Length::Told, Length::Unreported] {
        let mut client = Client::connect(gateway.address);
        client.send(head("/echo", LENGTH, reported));
        let mut writer =
            Client { stream: std::io::BufReader::new(client.stream.get_ref().try_clone().expect("a handle")) };
        let writing = std::thread::spawn(move || send_body(&mut writer, LENGTH, reported, &AtomicU64::new(0)));
        assert_eq!(read_response(&mut client), (LENGTH, true), "HTTP/1.1, {reported:?}");
        writing.join().expect("no panic");
        // The connection is as good as new.
        assert_eq!(client.request("GET", "/download/length/1", &[], b"").status, 200);
    }
    run(async {
        let mut session = h2c(gateway.address).await;
        let (asked, _) = upload_h2("/echo", LENGTH, Length::Unreported);
        session.ready().await.expect("it takes requests");
        let response = session.send_request(asked).await.expect("an answer");
        assert_eq!(read_response_h2(response.into_body()).await, (LENGTH, true), "HTTP/2");
    });
    footprint.assert_growth_below(40);
}

/// Each piece must pass before the next one is sent.
#[test]
fn a_slow_writers_pieces_are_not_held_back() {
    use std::io::{BufRead, Read};
    let depot = Depot::start();
    let gateway = buffering(&depot, 0);
    let mut client = Client::connect(gateway.address);
    client.send(head("/echo", 0, Length::Unreported));
    let (line, _) = tidegate_testkit::read_head(&mut client.stream).expect("an answer before the request has ended");
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    for number in 0..500 {
        let message = format!("{number:04}");
        client.send(format!("4\r\n{message}\r\n"));
        let mut size = String::new();
        client.stream.read_line(&mut size).expect("a size");
        assert_eq!(size, "4\r\n");
        let mut echoed = [0; 6];
        client.stream.read_exact(&mut echoed).expect("a chunk");
        assert_eq!(echoed, *format!("{message}\r\n").as_bytes());
    }
    client.send("0\r\n\r\n");
    let mut rest = [0; 5];
    client.stream.read_exact(&mut rest).expect("an end");
    assert_eq!(&rest, b"0\r\n\r\n");
}

/// Waits until a count grows no more, and returns it.
fn settled(count: impl Fn() -> u64) -> u64 {
    let (mut last, mut since) = (count(), Instant::now());
    let until = Instant::now() + PATIENCE;
    while last == 0 || since.elapsed() < Duration::from_millis(300) {
        assert!(Instant::now() < until, "it goes on and on, at {last}");
        pause(Duration::from_millis(10));
        let now = count();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}

const MORE_THAN_BUFFERED: u64 = 4 * BUFFERED;

#[test]
fn a_slow_reader_holds_the_upstream_back() {
    let depot = Depot::start();
    let gateway = before(&depot);
    assert_eq!(gateway.get("/download/length/1").status, 200);
    let footprint = Footprint::of(&gateway);
    let mut client = Client::connect(gateway.address);
    client.send(format!("GET /download/chunked/{MORE_THAN_BUFFERED} HTTP/1.1\r\nHost: test.example\r\n\r\n"));
    let taken = settled(|| depot.written());
    assert!(taken < BUFFERED, "{taken} bytes were taken that nobody reads");
    footprint.assert_growth_below(8);
    assert_eq!(read_response(&mut client), (MORE_THAN_BUFFERED, true), "and then it goes on");
}

#[test]
fn a_slow_reader_of_http_2_holds_the_upstream_back() {
    let depot = Depot::start();
    let gateway = before(&depot);
    assert_eq!(gateway.get("/download/length/1").status, 200);
    let footprint = Footprint::of(&gateway);
    run(async {
        let mut session = h2c(gateway.address).await;
        session.ready().await.expect("it takes requests");
        let path = format!("/download/length/{MORE_THAN_BUFFERED}");
        let response = session.send_request(get(&path)).await.expect("an answer");
        let taken = tokio::task::block_in_place(|| settled(|| depot.written()));
        assert!(taken < BUFFERED, "{taken} bytes were taken that nobody reads");
        footprint.assert_growth_below(8);
        // Others on the same connection do not wait for it.
        let other = ask(&mut session, get("/download/length/1000")).await;
        assert!(Pattern::default().takes(&other.body) && other.body.len() == 1_000);
        assert_eq!(read_response_h2(response.into_body()).await, (MORE_THAN_BUFFERED, true), "and then it goes on");
    });
}

#[test]
fn a_slow_upstream_holds_the_client_back() {
    for reported in [Length::Told, Length::Unreported] {
        let depot = Depot::start();
        let gateway = before(&depot);
        assert_eq!(gateway.get("/download/length/1").status, 200);
        let footprint = Footprint::of(&gateway);
        let mut client = Client::connect(gateway.address);
        client.send(head("/hold", MORE_THAN_BUFFERED, reported));
        let sent: Arc<AtomicU64> = Arc::default();
        let counting = Arc::clone(&sent);
        let mut writer =
            Client { stream: std::io::BufReader::new(client.stream.get_ref().try_clone().expect("a handle")) };
        let writing = std::thread::spawn(move || send_body(&mut writer, MORE_THAN_BUFFERED, reported, &counting));
        let taken = settled(|| sent.load(Ordering::Relaxed));
        assert!(taken < BUFFERED, "{taken} bytes were taken that nobody reads");
        footprint.assert_growth_below(8);
        depot.release();
        writing.join().expect("no panic");
        assert_eq!(client.response().text(), format!("{MORE_THAN_BUFFERED} true"), "and then it goes on");
    }
}

#[test]
fn a_slow_upstream_holds_a_client_of_http_2_back() {
    let depot = Depot::start();
    let gateway = before(&depot);
    assert_eq!(gateway.get("/download/length/1").status, 200);
    let footprint = Footprint::of(&gateway);
    run(async {
        let mut session = h2c(gateway.address).await;
        session.ready().await.expect("it takes requests");
        let (asked, sent) = upload_h2("/hold", MORE_THAN_BUFFERED, Length::Told);
        let response = tokio::spawn(session.send_request(asked));
        let taken = tokio::task::block_in_place(|| settled(|| sent.load(Ordering::Relaxed)));
        assert!(taken < BUFFERED, "{taken} bytes were taken that nobody reads");
        footprint.assert_growth_below(8);
        let other = ask(&mut session, get("/download/length/1000")).await;
        assert_eq!(other.body.len(), 1_000, "others on the same connection do not wait for it");
        depot.release();
        let response = Whole::of(response.await.expect("no panic").expect("an answer")).await;
        assert_eq!(response.body, format!("{MORE_THAN_BUFFERED} true"), "and then it goes on");
    });
}

/// "The longest a client may take no byte of a response."
#[test]
fn a_reader_that_takes_nothing_is_cut_off() {
    let depot = Depot::start();
    let gateway = Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\"}}}}\nlimits: {{default: {{algorithm: concurrency, limit: 1}}}}\n\
         connections: {{write_timeout: 500ms}}\n",
        depot.address
    ));
    let mut client = Client::connect(gateway.address);
    client.send("GET /download/length/1000000000 HTTP/1.1\r\nHost: test.example\r\n\r\n");
    wait_until("the answer is under way", || depot.written() > 0);
    wait_until("its place comes back", || gateway.get("/download/length/1").status == 200);
    assert!(client.read_to_end().len() < 1_000_000_000, "the rest comes after all");
}

/// Many at once: what one holds, all hold.
#[test]
fn many_slow_readers_hold_little_memory() {
    const READERS: usize = 64;
    let depot = Depot::start();
    let gateway = before(&depot);
    assert_eq!(gateway.get("/download/length/1").status, 200);
    let footprint = Footprint::of(&gateway);
    let clients: Vec<Client> = (0..READERS)
        .map(|_| {
            let mut client = Client::connect(gateway.address);
            client.send("GET /download/chunked/1000000000 HTTP/1.1\r\nHost: test.example\r\n\r\n");
            client
        })
        .collect();
    settled(|| depot.written());
    let each = footprint.peak_growth() / READERS as u64;
    eprintln!("a reader that does not read: {} KiB of the gateway's memory", each >> 10);
    assert!(each < 512 << 10, "{each} bytes each");
    clients.into_iter().for_each(Client::close);
    footprint.wait_for_descriptors(1);
}

//! Small services over real sockets: how they respond, what they reject, how they end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tidegate_input::Problem;
use tidegate_serve::rest::{Bounds, Request, Response, serve};
use tidegate_serve::{Shutdown, ShutdownHandle};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);

async fn started<A, F>(bounds: Bounds, shutdown: Shutdown, response: A) -> (SocketAddr, JoinHandle<()>)
where
    A: Fn(Request) -> F + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    (address, tokio::spawn(serve(listener, bounds, shutdown, response)))
}

/// Sends `request`, and says what has come when the other side closes.
async fn reported(address: SocketAddr, request: &str) -> String {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("an answer");
        text
    };
    timeout(PATIENCE, exchange).await.expect("in time")
}

#[tokio::test]
async fn requests_come_whole_and_responses_go_whole() {
    let stop = ShutdownHandle::new();
    let echo = |request: Request| async move {
        let text = format!("{} {} {}", request.method, request.path(), String::from_utf8_lossy(&request.body));
        Response::text(StatusCode::OK, text)
    };
    let (address, _serving) = started(Bounds::default(), stop.observer(), echo).await;
    let request = "POST /a?b=c HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n3\r\n\
                   hel\r\n2\r\nlo\r\n0\r\n\r\n";
    let response = reported(address, request).await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\nPOST /a hello"), "{response}");
}

#[tokio::test]
async fn what_is_too_large_or_too_slow_is_rejected_and_the_connection_closed() {
    let stop = ShutdownHandle::new();
    let bounds = Bounds { body_bytes: 4, body_timeout: Duration::from_millis(50), ..Bounds::default() };
    let ok = |_: Request| async { Response::text(StatusCode::OK, "OK") };
    let (address, _serving) = started(bounds, stop.observer(), ok).await;
    let response = reported(address, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello").await;
    assert!(
        response.starts_with("HTTP/1.1 413 ") && response.contains("the body is larger than 4 bytes"),
        "{response}"
    );
    let response = reported(address, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nhe").await;
    assert!(response.starts_with("HTTP/1.1 408 ") && response.contains("the body took too long"), "{response}");
}

#[tokio::test]
async fn a_client_that_sends_nothing_is_not_waited_for_for_ever() {
    let stop = ShutdownHandle::new();
    let bounds = Bounds { idle_timeout: Duration::from_millis(50), ..Bounds::default() };
    let ok = |_: Request| async { Response::text(StatusCode::OK, "OK") };
    let (address, _serving) = started(bounds, stop.observer(), ok).await;
    reported(address, "").await;
    reported(address, "GET / HTTP/1.1\r\nhost").await;
    let kept = reported(address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(kept.starts_with("HTTP/1.1 200 OK\r\n"), "{kept}");
}

/// Whoever asks and asks and never reads a response is not waited for, and keeps nobody else out.
#[tokio::test]
async fn a_client_that_reads_nothing_is_not_waited_for_for_ever() {
    let stop = ShutdownHandle::new();
    let bounds = Bounds { connections: 1, write_timeout: Duration::from_millis(50), ..Bounds::default() };
    let large = |_: Request| async { Response::text(StatusCode::OK, vec![b'x'; 8 << 20]) };
    let (address, _serving) = started(bounds, stop.observer(), large).await;
    let mut greedy = TcpStream::connect(address).await.expect("a connection");
    greedy.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    let other = reported(address, "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(other.starts_with("HTTP/1.1 200 OK"));
    drop(greedy);
}

#[tokio::test]
async fn who_goes_away_takes_the_work_along() {
    struct Dropped(Arc<Notify>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let (stop, begun, ended) = (ShutdownHandle::new(), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (has_begun, has_ended) = (Arc::clone(&begun), Arc::clone(&ended));
    let hang = move |_: Request| {
        let held = Dropped(Arc::clone(&has_ended));
        has_begun.notify_one();
        async move {
            let _held = held;
            std::future::pending().await
        }
    };
    let (address, _serving) = started(Bounds::default(), stop.observer(), hang).await;
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    timeout(PATIENCE, begun.notified()).await.expect("the work begins");
    drop(stream);
    timeout(PATIENCE, ended.notified()).await.expect("the work ends");
}

#[tokio::test]
async fn the_end_lets_requests_under_way_end() {
    let (stop, begun, go) = (ShutdownHandle::new(), Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let (has_begun, may_go) = (Arc::clone(&begun), Arc::clone(&go));
    let wait = move |_: Request| {
        has_begun.notify_one();
        let may_go = Arc::clone(&may_go);
        async move {
            let _place = may_go.acquire().await;
            Response::text(StatusCode::OK, "OK")
        }
    };
    let bounds = Bounds { grace: PATIENCE, ..Bounds::default() };
    let (address, serving) = started(bounds, stop.observer(), wait).await;
    let asking = tokio::spawn(async move { reported(address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await });
    timeout(PATIENCE, begun.notified()).await.expect("under way");
    // This one has nothing under way.
    let idle = TcpStream::connect(address).await.expect("a connection");
    stop.fire();
    assert!(
        timeout(Duration::from_millis(50), async {
            while !serving.is_finished() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .is_err()
    );
    go.add_permits(1);
    let response = timeout(PATIENCE, asking).await.expect("in time").expect("no panic");
    assert!(response.ends_with("OK"), "{response}");
    timeout(PATIENCE, serving).await.expect("the service ends").expect("no panic");
    drop(idle);
}

#[tokio::test]
async fn only_so_many_connections_are_served_at_once() {
    let stop = ShutdownHandle::new();
    let ok = |_: Request| async { Response::text(StatusCode::OK, "OK") };
    let (address, _serving) = started(Bounds { connections: 1, ..Bounds::default() }, stop.observer(), ok).await;
    let mut first = TcpStream::connect(address).await.expect("a connection");
    first.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    let mut some = [0; 12];
    first.read_exact(&mut some).await.expect("served");
    let second =
        tokio::spawn(async move { reported(address, "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await });
    tokio::task::yield_now().await;
    assert!(!second.is_finished());
    drop(first);
    let response = timeout(PATIENCE, second).await.expect("its turn comes").expect("no panic");
    assert!(response.starts_with("HTTP/1.1 200 OK"), "{response}");
}

#[tokio::test]
async fn pages_in_a_browser_are_rejected() {
    let stop = ShutdownHandle::new();
    let listener: SocketAddr = "127.0.0.1:8080".parse().expect("an address");
    let change = move |request: Request| async move {
        request.rejection_of_pages(listener).unwrap_or_else(|| Response::text(StatusCode::OK, "OK"))
    };
    let (address, _serving) = started(Bounds::default(), stop.observer(), change).await;
    for (fields, status) in [
        ("host: localhost", 200),
        ("host: 127.0.0.1:8080\r\nsec-fetch-site: none", 200),
        ("host: localhost\r\norigin: http://evil.example", 403),
        ("host: localhost\r\nsec-fetch-site: cross-site", 403),
        ("host: evil.example", 403),
    ] {
        let response = reported(address, &format!("POST / HTTP/1.1\r\n{fields}\r\nconnection: close\r\n\r\n")).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{fields}: {response}");
    }
}

#[tokio::test]
async fn errors_are_json() {
    let stop = ShutdownHandle::new();
    let wrong = |request: Request| async move {
        match request.path() {
            "/bad" => Response::bad(&[
                Problem { path: "a.b".to_owned(), message: "must be 1 to 4, got 5".to_owned() },
                Problem { path: String::new(), message: "is odd".to_owned() },
            ]),
            "/only" => Response::only("GET, HEAD"),
            _ => Response::nothing_here(),
        }
    };
    let (address, _serving) = started(Bounds::default(), stop.observer(), wrong).await;
    for (path, status, words) in [
        (
            "/bad",
            400,
            concat!(
                r#""error":"a.b: must be 1 to 4, got 5; is odd","#,
                r#""problems":[{"message":"must be 1 to 4, got 5","path":"a.b"}"#
            ),
        ),
        ("/only", 405, "allow: GET, HEAD"),
        ("/", 404, r#"{"error":"there is nothing here","status":404}"#),
    ] {
        let response = reported(address, &format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")) && response.contains(words), "{response}");
    }
}

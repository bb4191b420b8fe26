//! Sending a request, over a kept connection if there is one.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body::Body;

use super::client_terms::ClientTerms;
use super::endpoint::Endpoint;
use super::exchange::Exchange;
use super::opening::{Local, open};
use super::request_head::Traits;
use super::response::Response;
use super::trouble::{Failed, Trouble};
use crate::request::BrokenBody;

/// Sends a request, over a kept connection if there is one, and waits for the head of its response. If a kept
/// connection ends without a response, a request that may be sent twice is sent once more, over a new one. `sending` is
/// called whenever there is a connection, before the first byte is sent. A request that fails gives its body back.
pub async fn send<B: Body<Data = Bytes, Error = BrokenBody> + Unpin>(
    endpoint: &Arc<Endpoint>,
    local: &Local<'_>,
    terms: &ClientTerms<'_>,
    traits: Traits,
    mut head: BytesMut,
    mut body: Option<B>,
    mut sending: impl FnMut(),
) -> Result<Response<B>, Failed<B>> {
    let mut was_sent = false;
    loop {
        // Once more is enough: a request that makes its upstream close connections must not go through all of them.
        let kept = if was_sent { None } else { endpoint.idle_connection(local.worker) };
        let connection = match kept {
            Some(connection) => connection,
            // Boxed, like everything that happens rarely: otherwise the future of each request would have room for it.
            None => match Box::pin(open(endpoint, local, was_sent)).await {
                Ok(connection) => connection,
                // What was sent, if anything, went over a kept connection and may be sent again.
                Err(trouble) => return Err(Failed { trouble, was_sent, is_repeatable: true, body }),
            },
        };
        sending();
        // The upstream may close a kept connection at this very moment. An idempotent request can be sent again.
        let again = connection.reused && body.is_none() && traits.is_idempotent && !was_sent;
        let copy = if again { Some(head.clone()) } else { None };
        let mut exchange = Exchange::new(endpoint, terms, &traits, head, connection, body.take());
        match poll_fn(|cx| exchange.poll_head(cx, terms.on_interim)).await {
            Err(Trouble::Closed | Trouble::Broken(_)) if again && !exchange.has_read => {
                was_sent |= exchange.was_sent();
                head = copy.unwrap_or_default();
            }
            Err(trouble) => {
                let failed = exchange.fail(trouble);
                return Err(Failed { was_sent: was_sent || failed.was_sent, ..failed });
            }
            Ok(head) => return Response::new(exchange, head, traits.is_upgrade),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use http::{HeaderMap, Method, StatusCode, Uri};
    use http_body::Frame;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::client::{BodyLength, OutgoingHead};
    use crate::client_wait::WaitTerms;
    use crate::deadlines::Deadlines;
    use crate::descriptors::Descriptors;
    use crate::eviction::Eviction;
    use crate::headers::Headers;
    use crate::pace::PaceTerms;

    /// A body that counts its pieces that were read.
    #[derive(Debug, Default)]
    struct Pieces {
        read: usize,
        all: Vec<&'static str>,
    }

    impl Body for Pieces {
        type Data = Bytes;
        type Error = BrokenBody;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
            let piece = self.all.get(self.read).copied();
            self.read += usize::from(piece.is_some());
            Poll::Ready(piece.map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes())))))
        }
    }

    /// Sends `pieces` in chunks, or a `GET` without a body.
    async fn sent(endpoint: &Arc<Endpoint>, pieces: Option<Pieces>) -> Result<Response<Pieces>, Failed<Pieces>> {
        send_to(endpoint, pieces, false).await
    }

    async fn send_to<B: Body<Data = Bytes, Error = BrokenBody> + Unpin>(
        endpoint: &Arc<Endpoint>,
        pieces: Option<B>,
        expects_continue: bool,
    ) -> Result<Response<B>, Failed<B>> {
        let (uri, headers) = (Uri::from_static("/"), Headers::from(&HeaderMap::new()));
        let outgoing = OutgoingHead {
            method: if pieces.is_some() { &Method::POST } else { &Method::GET },
            uri: &uri,
            headers: &headers,
            base: "",
            host: b"upstream",
            requested_host: b"",
            peer: "",
            peer_forwarded: "",
            forwarded: None,
            scheme: "http",
            version: "1.1",
            added: &[],
            guarded: &[],
            body: if pieces.is_some() { BodyLength::Chunked } else { BodyLength::None },
            expects_continue,
            forwards_left: None,
            upgrade: None,
        };
        let local = Local {
            worker: 0,
            deadlines: &Deadlines::new(),
            descriptors: &Descriptors::new(8),
            close_idle: &|| false,
            evict: &|_, _| Eviction::AllBusy,
            free_a_file: &|| {},
            connecting: &|| {},
        };
        let patience = Duration::from_secs(20);
        let terms = ClientTerms {
            wait: WaitTerms { timeout: patience, pace: PaceTerms { bytes_per_second: 0, window: patience, step: 0 } },
            sharing: 1,
            is_stream: false,
            max_body: 1_000,
            on_interim: &|_, _| {},
        };
        send(endpoint, &local, &terms, outgoing.traits(), outgoing.head(), pieces, || {}).await
    }

    fn failure(sent: Result<Response<Pieces>, Failed<Pieces>>) -> (&'static str, bool, Option<usize>) {
        let failed = sent.err().expect("no response");
        assert!(failed.is_repeatable || failed.was_sent);
        (failed.trouble.word(), failed.was_sent, failed.body.map(|body| body.read))
    }

    fn hello() -> Pieces {
        Pieces { read: 0, all: vec!["hello", " world"] }
    }

    /// Reads a request to its end, which is `end`.
    async fn read(stream: &mut TcpStream, end: &[u8]) {
        let mut all = Vec::new();
        while !all.ends_with(end) {
            assert!(stream.read_buf(&mut all).await.expect("a request") > 0, "it ends early");
        }
    }

    #[tokio::test]
    async fn a_request_that_finds_no_connection_keeps_its_whole_body() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        assert_eq!(
            failure(sent(&Endpoint::on_loopback(port, 0), Some(hello())).await),
            ("upstream_full", false, Some(0))
        );
        drop(listener);
        assert_eq!(
            failure(sent(&Endpoint::on_loopback(port, 1), Some(hello())).await),
            ("connect_failed", false, Some(0))
        );
        assert_eq!(failure(sent(&Endpoint::on_loopback(port, 1), None).await), ("connect_failed", false, None));
    }

    /// Also a body that was read to its end comes back: one that keeps what was read can be sent once more.
    #[tokio::test]
    async fn a_request_that_gets_no_response_gives_its_body_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let endpoint = Endpoint::on_loopback(listener.local_addr().expect("an address").port(), 1);
        for (response, word) in [
            ("", "closed_early"),
            ("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", "bad_answer"),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n", "bad_answer"),
        ] {
            let upstream = async {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                read(&mut stream, b"\r\n0\r\n\r\n").await;
                stream.write_all(response.as_bytes()).await.expect("it is read");
            };
            let (sent, ()) = tokio::join!(sent(&endpoint, Some(hello())), upstream);
            assert_eq!(failure(sent), (word, true, Some(2)), "{response}");
        }
    }

    /// The body waited until no `100 Continue` was expected any more. Here nothing sweeps deadlines: it would wait for
    /// ever.
    #[tokio::test]
    async fn a_body_is_sent_as_soon_as_the_upstream_asks_for_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let endpoint = Endpoint::on_loopback(listener.local_addr().expect("an address").port(), 1);
        let upstream = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            read(&mut stream, b"\r\n\r\n").await;
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.expect("it is read");
            read(&mut stream, b"\r\n0\r\n\r\n").await;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.expect("it is read");
        };
        let both = async { tokio::join!(send_to(&endpoint, Some(hello()), true), upstream) };
        let (sent, ()) = tokio::time::timeout(Duration::from_secs(20), both).await.expect("the body is sent");
        assert_eq!(sent.ok().map(|response| response.status), Some(StatusCode::OK));
    }

    /// A body that never comes.
    #[derive(Debug)]
    struct Never;

    impl Body for Never {
        type Data = Bytes;
        type Error = BrokenBody;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
            Poll::Pending
        }
    }

    /// It counted as a failure of the upstream, which had waited for the client's body in vain.
    #[tokio::test]
    async fn an_upstream_that_closes_while_the_client_sends_its_body_is_not_to_blame() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let endpoint = Endpoint::on_loopback(listener.local_addr().expect("an address").port(), 1);
        let upstream = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            read(&mut stream, b"\r\n\r\n").await;
        };
        let (sent, ()) = tokio::join!(send_to(&endpoint, Some(Never), false), upstream);
        assert!(matches!(sent.err().map(|failed| failed.trouble), Some(Trouble::ClosedInUpload)));
    }

    /// It was sent on the kept connection, whatever happened to it there.
    #[tokio::test]
    async fn a_request_that_is_sent_again_was_sent_though_the_second_connection_fails() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let endpoint = Endpoint::on_loopback(listener.local_addr().expect("an address").port(), 1);
        let respond = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            read(&mut stream, b"\r\n\r\n").await;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.expect("it is read");
            stream
        };
        let (first, mut kept) = tokio::join!(sent(&endpoint, None), respond);
        assert_eq!(first.ok().map(|response| response.status), Some(StatusCode::OK));
        drop(listener);
        let close = async {
            read(&mut kept, b"\r\n\r\n").await;
            drop(kept);
        };
        let (second, ()) = tokio::join!(sent(&endpoint, None), close);
        assert!(second.as_ref().is_err_and(|failed| failed.is_repeatable), "another endpoint may have it");
        assert_eq!(failure(second), ("connect_failed", true, None));
    }
}

//! Clients that speak HTTP/2 over TLS, with several requests at once.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::client::PATIENCE;
use super::mix::{Draws, LARGE, NOTE};
use super::schedule::Schedule;
use super::tally::Tally;
use crate::nginx;

/// After so many requests, about, a client closes its connection and opens another.
const KEPT_FOR: u32 = 500;

type Session = http2::SendRequest<Full<Bytes>>;
type Fault = Box<dyn std::error::Error + Send + Sync>;

pub(crate) struct Client {
    pub(crate) gateway: SocketAddr,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) start: Instant,
    pub(crate) draws: Draws,
    pub(crate) tally: Arc<Tally>,
}

/// A kind of request over HTTP/2.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    path: &'static str,
    body: usize,
    length: usize,
    /// Whether the client resets the stream when the response has begun.
    leaves: bool,
}

const SMALL: Kind = Kind { name: "HTTP/2", path: "/", body: 0, length: nginx::BODY.len(), leaves: false };
const LARGER: Kind = Kind { name: "HTTP/2, large", path: "/large", length: LARGE, ..SMALL };
const UPLOAD: Kind = Kind { name: "HTTP/2, upload", path: "/take", body: 8 * 1024, length: NOTE.len(), ..SMALL };
const LEAVING: Kind = Kind { name: "HTTP/2, left in its answer", path: "/huge", leaves: true, ..SMALL };

impl Client {
    /// Sends all that is due.
    pub(crate) async fn converse(mut self, mut schedule: Schedule) {
        let (mut session, mut under_way) = (None, JoinSet::new());
        while let Some(due) = schedule.next().await {
            if session.is_none() || self.draws.once_in(KEPT_FOR) {
                // The old one ends when the last of its responses has come.
                session = self.open().await;
            }
            let Some(session) = session.clone() else { continue };
            let kind = self.kind();
            let request = self.request(kind);
            let tally = Arc::clone(&self.tally);
            under_way.spawn(async move {
                match timeout(PATIENCE, exchange(session, kind, request, due, &tally)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tally.error(kind.name, &error.to_string()),
                    Err(_) => tally.error(kind.name, "it took too long"),
                }
            });
            while under_way.try_join_next().is_some() {}
            if under_way.len() >= schedule.at_once() {
                under_way.join_next().await;
            }
        }
        while under_way.join_next().await.is_some() {}
    }

    fn kind(&mut self) -> Kind {
        match () {
            () if self.draws.once_in(100) => LEAVING,
            () if self.draws.once_in(20) => LARGER,
            () if self.draws.once_in(10) => UPLOAD,
            () => SMALL,
        }
    }

    fn request(&mut self, kind: Kind) -> Request<Full<Bytes>> {
        let address = self.draws.address(self.start.elapsed().as_secs());
        let builder = Request::builder()
            .method(if kind.body > 0 { "POST" } else { "GET" })
            .uri(format!("https://shop.example{}", kind.path))
            .header("x-forwarded-for", address.to_string());
        builder.body(Full::new(vec![b'x'; kind.body].into())).expect("a request")
    }

    async fn open(&mut self) -> Option<Session> {
        self.tally.opened();
        match timeout(PATIENCE, connect(self.gateway, Arc::clone(&self.tls))).await {
            Ok(Ok(session)) => return Some(session),
            Ok(Err(error)) => self.tally.error(SMALL.name, &error.to_string()),
            Err(_) => self.tally.error(SMALL.name, "connecting took too long"),
        }
        None
    }
}

async fn connect(gateway: SocketAddr, tls: Arc<ClientConfig>) -> Result<Session, Fault> {
    let tcp = TcpStream::connect(gateway).await?;
    tcp.set_nodelay(true)?;
    let stream = TlsConnector::from(tls).connect(ServerName::try_from("localhost")?, tcp).await?;
    let (session, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    // What goes wrong on it is reported by the request that it goes wrong for.
    tokio::spawn(async { drop(connection.await) });
    Ok(session)
}

async fn exchange(
    mut session: Session,
    kind: Kind,
    request: Request<Full<Bytes>>,
    due: Instant,
    tally: &Tally,
) -> Result<(), Fault> {
    session.ready().await?;
    let response = session.send_request(request);
    tally.sent(kind.name, due);
    let (head, mut body) = response.await?.into_parts();
    if kind.leaves {
        tally.left(kind.name);
        return Ok(());
    }
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        length += frame?.data_ref().map_or(0, Bytes::len);
    }
    tally.responded(kind.name, head.status.as_u16(), due);
    if head.status != 200 {
        tally.error(kind.name, &format!("it was answered with {}", head.status));
    } else if length != kind.length {
        tally.error(kind.name, &format!("the answer has {length} bytes, not {}", kind.length));
    }
    Ok(())
}

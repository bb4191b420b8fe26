//! Clients that speak HTTP/2, and HTTP/1.1 over TLS.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use tidegate_testkit::PATIENCE;

pub(crate) type RequestBody = BoxBody<Bytes, std::convert::Infallible>;
pub(crate) type Http2 = http2::SendRequest<RequestBody>;
pub(crate) type Http1 = http1::SendRequest<RequestBody>;

/// Runs a client to its end, which must come within a minute.
pub(crate) fn run<T>(client: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let result = runtime.block_on(async { tokio::time::timeout(3 * PATIENCE, client).await });
    runtime.shutdown_background();
    result.expect("it ends in time")
}

/// A TLS connection to `localhost` at this address.
pub(crate) async fn tls(address: SocketAddr, config: Arc<ClientConfig>) -> TlsStream<TcpStream> {
    try_tls(address, config).await.expect("a handshake")
}

pub(crate) async fn try_tls(address: SocketAddr, config: Arc<ClientConfig>) -> std::io::Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(address).await.expect("it listens");
    tcp.set_nodelay(true).expect("no delay");
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(config).connect(name, tcp).await
}

/// HTTP/2 over any connection.
pub(crate) async fn http2<S>(stream: S) -> Http2
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = handshake.await.expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

/// HTTP/2 without TLS.
pub(crate) async fn h2c(address: SocketAddr) -> Http2 {
    let tcp = TcpStream::connect(address).await.expect("it listens");
    tcp.set_nodelay(true).expect("no delay");
    http2(tcp).await
}

/// HTTP/1.1 over any connection.
pub(crate) async fn http1<S>(stream: S) -> Http1
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
    tokio::spawn(connection);
    sender
}

/// A request without a body.
pub(crate) fn get(path: &str) -> Request<RequestBody> {
    request("GET", path, Empty::new().boxed())
}

pub(crate) fn post(path: &str, body: impl Into<Bytes>) -> Request<RequestBody> {
    request("POST", path, Full::new(body.into()).boxed())
}

pub(crate) fn request(method: &str, path: &str, body: RequestBody) -> Request<RequestBody> {
    let builder = Request::builder().method(method).uri(format!("http://test.example{path}"));
    builder.body(body).expect("a request")
}

/// A request as HTTP/1.1 has it: the authority in `Host`.
pub(crate) fn for_http1(mut request: Request<RequestBody>) -> Request<RequestBody> {
    let host = request.uri().authority().map(|authority| authority.as_str().parse().expect("a value"));
    request.headers_mut().extend(host.map(|host| (http::header::HOST, host)));
    let target = request.uri().path_and_query().expect("a path").as_str().parse().expect("a target");
    *request.uri_mut() = target;
    request
}

/// A response that has come as a whole.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Whole {
    pub(crate) async fn of(response: Response<Incoming>) -> Self {
        Self::try_of(response).await.expect("a whole answer")
    }

    pub(crate) async fn try_of(response: Response<Incoming>) -> hyper::Result<Self> {
        let (parts, body) = response.into_parts();
        let collected = body.collect().await?;
        let trailers = collected.trailers().cloned();
        Ok(Self { status: parts.status, headers: parts.headers, body: collected.to_bytes(), trailers })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }
}

/// Sends a request and waits for its whole response.
pub(crate) async fn ask(session: &mut Http2, request: Request<RequestBody>) -> Whole {
    session.ready().await.expect("it takes requests");
    Whole::of(session.send_request(request).await.expect("an answer")).await
}

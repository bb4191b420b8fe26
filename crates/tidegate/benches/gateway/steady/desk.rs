//! The upstream for what nginx does not do: responses that take a while, uploads that are read before they get a
//! response, sockets.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::mix::NOTE;

/// How long `/slow` takes.
const WHILE: Duration = Duration::from_millis(20);

type DeskResponse = Response<http_body_util::Either<Full<Bytes>, Empty<Bytes>>>;

/// Serves for ever.
pub(crate) async fn serve(listener: std::net::TcpListener) {
    let listener = TcpListener::from_std(listener).expect("it is a listener");
    loop {
        let (tcp, _peer) = listener.accept().await.expect("there are descriptors enough");
        let _set = tcp.set_nodelay(true);
        let connection = http1::Builder::new().serve_connection(TokioIo::new(tcp), service_fn(response));
        // Clients leave, and the gateway closes what it no longer needs: that a connection ends is not reported.
        tokio::spawn(async { drop(connection.with_upgrades().await) });
    }
}

async fn response(mut request: Request<Incoming>) -> Result<DeskResponse, Infallible> {
    let path = request.uri().path();
    if path == "/socket" {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async { drop(upgrade.await.map(echo).map(tokio::spawn)) });
        let mut response = Response::new(http_body_util::Either::Right(Empty::new()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        return Ok(response);
    }
    if path == "/slow" {
        tokio::time::sleep(WHILE).await;
    }
    // A body that breaks off belongs to a client that has left: nobody reads the response.
    let _read = request.into_body().collect().await;
    Ok(Response::new(http_body_util::Either::Left(Full::new(Bytes::from_static(NOTE.as_bytes())))))
}

async fn echo(socket: Upgraded) {
    let (mut from, mut to) = tokio::io::split(TokioIo::new(socket));
    let _ended = tokio::io::copy(&mut from, &mut to).await;
    let _closed = tokio::io::AsyncWriteExt::shutdown(&mut to).await;
}

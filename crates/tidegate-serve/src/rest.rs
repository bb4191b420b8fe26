//! Small HTTP services: a request comes as a whole, the response goes as a whole, and both are bounded.

mod patient;
mod request;
mod response;

pub use request::Request;
pub use response::Response;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::Shutdown;
use patient::Patient;

/// What a service bears.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections at once; a client that comes when there are so many waits in the kernel.
    pub connections: usize,
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// From the beginning of a body to its end.
    pub body_timeout: Duration,
    /// From the end of a request to the end of the next one's head.
    pub idle_timeout: Duration,
    /// How long a client may take nothing of its response.
    pub write_timeout: Duration,
    /// What requests under way have left when the service shall stop.
    pub grace: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 1_024,
            body_bytes: 1 << 20,
            body_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(20),
            grace: Duration::from_secs(5),
        }
    }
}

/// Pause after a connection that could not be accepted: the reason, mostly too many open files, does not pass at once.
const AFTER_TROUBLE: Duration = Duration::from_millis(20);

/// Serves everyone who connects, until the service shall stop; then lets requests under way end within their grace.
///
/// `respond` is dropped where it waits when its client goes away.
pub async fn serve<A, F>(listener: TcpListener, bounds: Bounds, mut shutdown: Shutdown, respond: A)
where
    A: Fn(Request) -> F + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let (respond, slots) = (Arc::new(respond), Arc::new(Semaphore::new(bounds.connections)));
    loop {
        let next = next(&listener, &slots);
        let accepted = tokio::select! {
            accepted = next => accepted,
            () = shutdown.wanted() => break,
        };
        match accepted {
            Ok((stream, peer, slot)) => {
                let (respond, shutdown) = (Arc::clone(&respond), shutdown.clone());
                tokio::spawn(async move {
                    connection(stream, peer, bounds, shutdown, respond).await;
                    drop(slot);
                });
            }
            Err(_) => sleep(AFTER_TROUBLE).await,
        }
    }
    drop(listener);
    // All slots are free when all connections have ended. Those that would not are dropped with the runtime.
    let _ended = timeout(bounds.grace, slots.acquire_many(bounds.connections as u32)).await;
}

async fn next(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer, slot))
}

async fn connection<A, F>(stream: TcpStream, peer: SocketAddr, bounds: Bounds, mut shutdown: Shutdown, respond: Arc<A>)
where
    A: Fn(Request) -> F + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let service = service_fn(|request: http::Request<Incoming>| {
        let respond = Arc::clone(&respond);
        async move {
            let response = match whole(request, peer, &bounds).await {
                Ok(request) => respond(request).await,
                Err(rejection) => rejection,
            };
            Ok::<http::Response<Full<Bytes>>, Infallible>(response.into())
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(bounds.idle_timeout).max_headers(100).max_buf_size(65_536);
    let mut serving = pin!(builder.serve_connection(TokioIo::new(Patient::new(stream, bounds.write_timeout)), service));
    // What goes wrong on a connection concerns its client alone, so it is not reported.
    tokio::select! {
        _ended = serving.as_mut() => return,
        () = shutdown.wanted() => serving.as_mut().graceful_shutdown(),
    }
    let _ended = timeout(bounds.grace, serving).await;
}

/// The request with its whole body.
async fn whole(request: http::Request<Incoming>, peer: SocketAddr, bounds: &Bounds) -> Result<Request, Response> {
    let (head, body) = request.into_parts();
    let body = match timeout(bounds.body_timeout, Limited::new(body, bounds.body_bytes).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let reason = format!("the body is larger than {} bytes", bounds.body_bytes);
            return Err(Response::error(StatusCode::PAYLOAD_TOO_LARGE, &reason).and_close());
        }
        Ok(Err(_)) => return Err(Response::error(StatusCode::BAD_REQUEST, "the body broke off").and_close()),
        Err(_) => return Err(Response::error(StatusCode::REQUEST_TIMEOUT, "the body took too long").and_close()),
    };
    Ok(Request { method: head.method, uri: head.uri, headers: head.headers, body, peer })
}

//! Requests to the forecaster: each over its own connection, bounded in time and size.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;

use http::{Method, Request, StatusCode, header};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tidegate_adapt::Miss;
use tidegate_http::client::{Trouble, cause, connect_to};
use tokio::net::lookup_host;
use tokio::time::{Instant, timeout_at};

use crate::settings::Forecaster;

/// The largest response.
const LARGEST_RESPONSE: usize = 256 * 1024;

/// Sends a snapshot, and reads the response as JSON.
pub(crate) async fn ask(forecaster: &Forecaster, snapshot: &Value) -> Result<Value, Miss> {
    let until = Instant::now() + forecaster.timeout;
    let asking = exchange(forecaster, snapshot.to_string(), until);
    let response = timeout_at(until, asking).await.unwrap_or(Err(Miss::Timeout))?;
    tidegate_input::json::read(&response).map_err(|error| Miss::Invalid(format!("it is not JSON: {error}")))
}

async fn exchange(forecaster: &Forecaster, body: String, until: Instant) -> Result<Vec<u8>, Miss> {
    let unreachable = |error: &dyn fmt::Display| Miss::Unreachable(error.to_string());
    let addresses = addresses(forecaster).await.map_err(|error| unreachable(&error))?;
    let stream = connect_to(&addresses, forecaster.tls.as_deref(), until).await;
    let stream = stream.map_err(|trouble| match &trouble {
        Trouble::ConnectTimeout => Miss::Timeout,
        // The cause alone: the text of the trouble is about upstreams.
        Trouble::Connect(error) => Miss::Unreachable(cause(error)),
        Trouble::Full
        | Trouble::OutOfFiles
        | Trouble::NoEndpoint
        | Trouble::Closed
        | Trouble::ClosedInUpload
        | Trouble::ClosedWhileHeld
        | Trouble::Broken(_)
        | Trouble::BadResponse(_)
        | Trouble::ResponseTimeout
        | Trouble::BodyTimeout
        | Trouble::ClientTimeout
        | Trouble::ClientBody(_)
        | Trouble::TooLarge
        | Trouble::ClientSlow
        | Trouble::ClientEvicted
        | Trouble::ClientShare => unreachable(&trouble),
    })?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(&error))?;
    let request = Request::builder()
        .method(Method::POST)
        .uri(&*forecaster.path)
        .header(header::HOST, &*forecaster.authority)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json")
        .header(header::CONNECTION, "close")
        .body(body)
        .map_err(|error| unreachable(&error))?;
    // Both in this task, so that a timeout ends both.
    let receiving = async {
        let response = sender.send_request(request).await.map_err(|error| unreachable(&error))?;
        if response.status() != StatusCode::OK {
            return Err(Miss::BadStatus(response.status().as_u16()));
        }
        read(response.into_body()).await
    };
    let (mut receiving, mut connection) = (std::pin::pin!(receiving), std::pin::pin!(connection));
    let mut has_ended = false;
    poll_fn(|cx| {
        // The receiving side notices the end of the connection by itself.
        has_ended = has_ended || connection.as_mut().poll(cx).is_ready();
        receiving.as_mut().poll(cx)
    })
    .await
}

async fn addresses(forecaster: &Forecaster) -> io::Result<Vec<SocketAddr>> {
    match forecaster.host.parse::<IpAddr>() {
        Ok(ip) => Ok(vec![SocketAddr::new(ip, forecaster.port)]),
        Err(_) => Ok(lookup_host((&*forecaster.host, forecaster.port)).await?.collect()),
    }
}

async fn read(mut body: Incoming) -> Result<Vec<u8>, Miss> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|error| Miss::Unreachable(format!("the response ended early: {error}")))?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        if bytes.len() > LARGEST_RESPONSE {
            return Err(Miss::Invalid(format!("it is larger than {} KiB", LARGEST_RESPONSE / 1024)));
        }
    }
    Ok(bytes)
}

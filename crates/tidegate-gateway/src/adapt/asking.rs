//! A question to the forecaster: one HTTP request over a connection of its own, bounded in time and size.

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
use tokio::net::lookup_host;
use tokio::time::{Instant, timeout_at};

use crate::settings::Forecaster;
use crate::upstream::{Trouble, cause, connect_to};

/// The largest answer.
const LARGEST_ANSWER: usize = 256 * 1024;

/// Why there is no answer that could be used.
#[derive(Debug)]
pub(crate) enum Miss {
    Unreachable(String),
    Timeout,
    BadStatus(StatusCode),
    Invalid(String),
}

impl Miss {
    /// Whether there is somebody who answers, though not what could be used.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Self::BadStatus(_) | Self::Invalid(_))
    }

    /// As metrics have it.
    pub(crate) const WORDS: [&'static str; 4] = ["unreachable", "timeout", "bad_status", "invalid"];

    pub(crate) fn word(&self) -> &'static str {
        let [unreachable, timeout, bad_status, invalid] = Self::WORDS;
        match self {
            Self::Unreachable(_) => unreachable,
            Self::Timeout => timeout,
            Self::BadStatus(_) => bad_status,
            Self::Invalid(_) => invalid,
        }
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("no answer in time"),
            Self::BadStatus(status) => write!(f, "it says {}", status.as_u16()),
            Self::Unreachable(why) | Self::Invalid(why) => f.write_str(why),
        }
    }
}

/// Asks, and reads what is answered as JSON.
pub(crate) async fn ask(forecaster: &Forecaster, snapshot: &Value) -> Result<Value, Miss> {
    let until = Instant::now() + forecaster.timeout;
    let asking = exchange(forecaster, snapshot.to_string(), until);
    let answer = timeout_at(until, asking).await.unwrap_or(Err(Miss::Timeout))?;
    tidegate_serve::json::read(&answer).map_err(|error| Miss::Invalid(format!("it is no JSON: {error}")))
}

async fn exchange(forecaster: &Forecaster, body: String, until: Instant) -> Result<Vec<u8>, Miss> {
    let unreachable = |error: &dyn fmt::Display| Miss::Unreachable(error.to_string());
    let addresses = addresses(forecaster).await.map_err(|error| unreachable(&error))?;
    let stream = connect_to(&addresses, forecaster.tls.as_deref(), until).await;
    let stream = stream.map_err(|trouble| match trouble {
        Trouble::ConnectTimeout => Miss::Timeout,
        // In words of its own: for requests it is the upstream that can't be reached.
        Trouble::Connect(error) => Miss::Unreachable(cause(&error)),
        trouble => unreachable(&trouble),
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
    // Both in this task, so that nothing is left of a question that is given up.
    let conversing = async {
        let answer = sender.send_request(request).await.map_err(|error| unreachable(&error))?;
        if answer.status() != StatusCode::OK {
            return Err(Miss::BadStatus(answer.status()));
        }
        read(answer.into_body()).await
    };
    let (mut conversing, mut connection) = (std::pin::pin!(conversing), std::pin::pin!(connection));
    let mut has_ended = false;
    poll_fn(|cx| {
        // Its end is told to whoever converses.
        has_ended = has_ended || connection.as_mut().poll(cx).is_ready();
        conversing.as_mut().poll(cx)
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
        let frame = frame.map_err(|error| Miss::Unreachable(format!("the answer broke off: {error}")))?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        if bytes.len() > LARGEST_ANSWER {
            return Err(Miss::Invalid(format!("it is larger than {} KiB", LARGEST_ANSWER / 1024)));
        }
    }
    Ok(bytes)
}

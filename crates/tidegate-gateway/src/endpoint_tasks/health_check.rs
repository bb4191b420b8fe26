//! One check of an endpoint: a connection of its own, and if configured a request on it.

use std::io;

use http::Request;
use http::header::{CONNECTION, HOST, USER_AGENT};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tidegate_http::client::{Trouble, connect_to};
use tidegate_http::descriptors::is_out_of_files;
use tokio::io::AsyncReadExt as _;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::endpoints::Member;
use crate::settings::HealthCheckSettings;

/// The most bytes that are read of an endpoint: its interim responses must not keep this process busy.
const MOST_READ: u64 = 64 * 1024;

/// Whether an endpoint is healthy, and if not, why. An endpoint that does not respond in time is not. An error if this
/// process can open no connection: that says nothing about the endpoint.
pub(super) async fn check(member: &Member, settings: &HealthCheckSettings) -> io::Result<Result<(), String>> {
    let until = Instant::now() + settings.timeout;
    let endpoint = &member.endpoint;
    let stream = match connect_to(&[endpoint.address], endpoint.tls.as_deref(), until).await {
        Ok(stream) => stream,
        Err(Trouble::Connect(error)) if is_out_of_files(&error) => return Err(error),
        Err(trouble) => return Ok(Err(trouble.to_string().replace("the upstream", "it"))),
    };
    let Some((method, path)) = &settings.request else { return Ok(Ok(())) };
    let checking = async {
        let (read, write) = tokio::io::split(stream);
        let stream = tokio::io::join(read.take(MOST_READ), write);
        let (mut sender, connection) =
            http1::handshake::<_, String>(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        // It ends with this check, however that ends. The response's body is not needed.
        let mut task = JoinSet::new();
        task.spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", member.entry.base))
            .header(HOST, &member.entry.authority)
            .header(USER_AGENT, "tidegate-health-check")
            .header(CONNECTION, "close")
            .body(String::new())
            .map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(|error| format!("no usable response: {error}"))?;
        Ok::<_, String>(response.status())
    };
    let status = match timeout_at(until, checking).await {
        Ok(Ok(status)) => status,
        Ok(Err(why)) => return Ok(Err(why)),
        Err(_) => return Ok(Err(format!("no response within {} s", settings.timeout.as_secs_f64()))),
    };
    let is_healthy = match &settings.statuses {
        Some(statuses) => statuses.contains(&status.as_u16()),
        None => status.is_success(),
    };
    Ok(if is_healthy { Ok(()) } else { Err(format!("status {}", status.as_u16())) })
}

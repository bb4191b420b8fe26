//! One check of an endpoint: a connection of its own, and if configured a request on it.

use http::Request;
use http::header::{CONNECTION, HOST, USER_AGENT};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tidegate_http::client::connect_to;
use tokio::time::{Instant, timeout_at};

use crate::endpoints::Member;
use crate::settings::HealthCheckSettings;

/// Whether an endpoint is healthy. An endpoint that does not respond in time is not.
pub(super) async fn check(member: &Member, settings: &HealthCheckSettings) -> bool {
    let until = Instant::now() + settings.timeout;
    let endpoint = &member.endpoint;
    let Ok(stream) = connect_to(&[endpoint.address], endpoint.tls.as_deref(), until).await else { return false };
    let Some((method, path)) = &settings.request else { return true };
    let checking = async {
        let (mut sender, connection) = http1::handshake::<_, String>(TokioIo::new(stream)).await.ok()?;
        let connection = tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", member.entry.base))
            .header(HOST, &member.entry.authority)
            .header(USER_AGENT, "tidegate-health-check")
            .header(CONNECTION, "close")
            .body(String::new())
            .ok()?;
        let response = sender.send_request(request).await;
        // The body is not needed.
        connection.abort();
        Some(response.ok()?.status())
    };
    let Ok(Some(status)) = timeout_at(until, checking).await else { return false };
    match &settings.statuses {
        Some(statuses) => statuses.contains(&status.as_u16()),
        None => status.is_success(),
    }
}

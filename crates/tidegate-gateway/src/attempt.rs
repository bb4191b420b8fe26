//! One exchange of a request with its upstream, and the reply that comes of it.

use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use http::Version;
use tidegate_http::client::{
    BodyLength, ClientTerms, Failed, Local, OutgoingHead, Response, ResponseContent, Traits, Trouble, send,
};
use tidegate_http::forwarded::Forwarded;
use tidegate_http::headers::Headers;
use tidegate_http::request::RequestHead;

use crate::access_log::version_name;
use crate::body::Body;
use crate::passage::Passage;
use crate::reply::{Reply, Upgrade};
use crate::request_body::RequestBody;
use crate::upstream::Upstream;
use crate::{limit_headers, rejection, validation};

/// A request that may go.
pub(crate) struct Outbound<'a> {
    pub(crate) request: &'a RequestHead,
    /// With its port, if there is one.
    pub(crate) host: &'a [u8],
    pub(crate) body: RequestBody,
    pub(crate) from_trusted: bool,
}

/// Sends an admitted request to its upstream, and waits for the head of its response. A failed attempt returns the
/// request's body, so that it can be repeated.
pub(crate) async fn attempt(
    passage: &mut Passage<'_>,
    upstream: &Arc<Upstream>,
    outbound: Outbound<'_>,
) -> Result<Response<RequestBody>, Failed<RequestBody>> {
    passage.record_would_refuse();
    passage.settlement.upstream = Some(Arc::clone(upstream));
    let (worker, connections) = (passage.worker, &passage.plan.site.connections);
    let Outbound { request, host, body, from_trusted } = outbound;
    let interim = if request.version == Version::HTTP_11 { body.interim() } else { None };
    let upgrade = validation::upgrade(request, &body);
    let (length, body) = validation::body(request, body);
    let (head, traits) = {
        let degraded = passage.settlement.admissions.degraded();
        let framing = Framing { length, has_body: body.is_some(), upgrade };
        outgoing_head(passage, upstream, request, host, from_trusted, degraded, &framing)
    };
    let local = Local {
        worker: worker.index,
        deadlines: &worker.deadlines,
        descriptors: &worker.descriptors,
        close_idle: &|| worker.close_idle_upstream(),
        free_a_file: &|| worker.free_a_file(),
    };
    let terms = ClientTerms {
        body_timeout: connections.body_timeout.get(),
        max_body: connections.max_body_bytes.unwrap_or(u64::MAX),
        on_interim: &|status, headers: &Headers| {
            if let Some(interim) = &interim {
                interim.pass_on(status, headers);
            }
        },
    };
    let started = Instant::now();
    // A client that leaves before the first byte goes out has spent nothing: the admissions are dropped unsent.
    let sending = || passage.settlement.admissions.sent();
    let response = send(&upstream.endpoint, &local, &terms, traits, head, body, sending).await;
    passage.settlement.admissions.sent();
    match &response {
        Ok(response) => upstream.responded(started.elapsed(), response.status),
        Err(failed) if failed.trouble.is_clients() => {}
        Err(failed) => {
            upstream.failed(&failed.trouble);
            worker.gateway.note_trouble(&upstream.name, &failed.trouble, passage.id.as_str());
        }
    }
    response
}

/// How the request's body goes to the upstream.
struct Framing<'a> {
    length: BodyLength,
    has_body: bool,
    /// The protocol that the client wants to go over to.
    upgrade: Option<&'a [u8]>,
}

/// The head that the upstream is sent, written anew, and what its exchange must know of it.
fn outgoing_head(
    passage: &Passage<'_>,
    upstream: &Upstream,
    request: &RequestHead,
    host: &[u8],
    from_trusted: bool,
    degraded: Option<&str>,
    framing: &Framing<'_>,
) -> (BytesMut, Traits) {
    let (site, client) = (&passage.plan.site, passage.client);
    let is_trusted = |ip| site.is_trusted(ip);
    let asks_for_https = request.uri.scheme_str().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
    let added = [("x-request-id", passage.id.as_str()), ("x-tidegate-degraded", degraded.unwrap_or_default())];
    let outgoing = OutgoingHead {
        method: &request.method,
        uri: &request.uri,
        headers: &request.headers,
        base: &upstream.base,
        host: if upstream.preserve_host && !host.is_empty() { host } else { upstream.authority.as_bytes() },
        requested_host: host,
        peer: &client.peer_text,
        peer_forwarded: &client.peer_forwarded,
        forwarded: from_trusted.then(|| Forwarded::read(is_trusted, client.peer, &request.headers)),
        // In clear text only a trusted proxy may ask for https: it has ended the TLS.
        scheme: if asks_for_https { "https" } else { client.scheme },
        version: version_name(request.version),
        // The last of them only where a limit is a little exceeded.
        added: if degraded.is_some() { &added[..] } else { &added[..1] },
        guarded: &site.guarded,
        body: framing.length,
        expects_continue: validation::expects_continue(request) && framing.has_body,
        forwards_left: validation::forwards_left(&request.method, &request.headers).map(|left| left.saturating_sub(1)),
        upgrade: framing.upgrade,
    };
    (outgoing.head(), outgoing.traits())
}

/// The reply to a request whose attempt has brought a response.
pub(crate) fn succeed(passage: &mut Passage<'_>, response: Response<RequestBody>) -> Reply {
    let Response { status, is_http10, mut headers, content } = response;
    let (body, upgrade) = match content {
        ResponseContent::Whole(bytes) => (Body::whole(bytes), None),
        ResponseContent::Stream(stream) => (Body::stream(stream), None),
        ResponseContent::Upgraded(connection, protocol) => (Body::empty(), Some((connection, protocol))),
    };
    let mut reply = Reply::new(status, body);
    reply.lines.add("via", if is_http10 { "1.0 tidegate" } else { "1.1 tidegate" });
    let admissions = &passage.settlement.admissions;
    let has_limits =
        limit_headers::write(passage.plan, admissions.asked(), None, passage.since_1970(), &mut reply.lines);
    limit_headers::write_dry_run(admissions.would_refuse(), &mut reply.lines);
    // Where we have no limits to report, the upstream may have.
    headers.remove(
        |name| {
            if has_limits { limit_headers::is_ours(name) } else { name.eq_ignore_ascii_case(b"x-request-id") }
        },
    );
    if let Some((connection, protocol)) = upgrade {
        reply.lines.add("connection", "upgrade");
        reply.lines.add("upgrade", protocol);
        // The request lasts as long as the connection does: so does what it holds.
        reply.upgrade =
            Some(Upgrade { connection, held: Box::new(std::mem::take(&mut passage.settlement.admissions)) });
    }
    reply.headers = Some(headers);
    reply
}

/// The reply to a request that is not attempted again.
pub(crate) fn give_up(passage: &mut Passage<'_>, upstream: &Upstream, trouble: &Trouble) -> Reply {
    if trouble.is_ours() {
        // The gateway itself rejects: what was taken comes back.
        passage.settlement.admissions.not_sent();
    }
    let mut reply = rejection::upstream_trouble(trouble, &upstream.name, passage.id.as_str());
    if !trouble.is_ours() {
        let asked = passage.settlement.admissions.asked();
        limit_headers::write(passage.plan, asked, None, passage.since_1970(), &mut reply.lines);
    }
    reply
}

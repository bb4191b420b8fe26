//! One exchange of a request with its upstream, and the response that comes of it.

use std::sync::Arc;
use std::time::Instant;

use http::Version;

use crate::access_log::version_name;
use crate::body::Body;
use crate::forwarded::Told;
use crate::limits::Admissions;
use crate::passage::Passage;
use crate::reply::Reply;
use crate::request_body::RequestBody;
use crate::request_head::RequestHead;
use crate::upstream::{Answer, AnswerContent, BodyLength, Local, Outgoing, Trouble, Upstream, send};
use crate::{limit_headers, rejection, validation};

/// A request that may go.
pub(crate) struct Outbound<'a> {
    pub(crate) request: &'a RequestHead,
    /// With its port, if there is one.
    pub(crate) host: &'a [u8],
    pub(crate) body: RequestBody,
    pub(crate) from_trusted: bool,
}

/// Sends an admitted request to its upstream, and turns what comes back into a response.
pub(crate) async fn attempt(
    passage: &mut Passage<'_>,
    upstream: &Arc<Upstream>,
    outbound: Outbound<'_>,
    mut admissions: Admissions,
) -> Reply {
    passage.record_would_refuse(&admissions);
    passage.settlement.upstream = Some(Arc::clone(upstream));
    let (worker, connections) = (passage.worker, &passage.plan.site.connections);
    let Outbound { request, host, body, from_trusted } = outbound;
    let interim = if request.version == Version::HTTP_11 { body.interim() } else { None };
    let upgrade = validation::upgrade(request, &body);
    let (length, body) = validation::body(request, body);
    let (head, traits) = {
        let degraded = admissions.degraded();
        let framing = Framing { length, has_body: body.is_some(), upgrade };
        let outgoing = outgoing(passage, upstream, request, host, from_trusted, degraded, &framing);
        (outgoing.head(), outgoing.traits())
    };
    let local = Local {
        worker: worker.index,
        sweep: &worker.sweep,
        client_timeout: connections.body_timeout.get(),
        max_body: connections.max_body_bytes.unwrap_or(u64::MAX),
        interim,
        descriptors: &worker.descriptors,
        close_idle: &|| worker.close_idle_upstream(),
        free_a_file: &|| worker.free_a_file(),
    };
    let started = Instant::now();
    // A client that leaves before the first byte goes out has spent nothing: the admissions are dropped unsent.
    let answer = send(upstream, &local, traits, head, body, || admissions.sent()).await;
    admissions.sent();
    passage.settlement.admissions = Some(admissions);
    match answer {
        Ok(answer) => {
            upstream.answered(started.elapsed(), answer.status);
            succeed(passage, answer)
        }
        Err(trouble) => fail(passage, upstream, &trouble),
    }
}

/// How the request's body goes to the upstream.
struct Framing<'a> {
    length: BodyLength,
    has_body: bool,
    /// The protocol that the client wants to go over to.
    upgrade: Option<&'a [u8]>,
}

/// The request as it is sent: its head is written anew.
fn outgoing<'a>(
    passage: &'a Passage<'_>,
    upstream: &'a Upstream,
    request: &'a RequestHead,
    host: &'a [u8],
    from_trusted: bool,
    degraded: Option<&'a str>,
    framing: &Framing<'a>,
) -> Outgoing<'a> {
    let (site, client, settings) = (&passage.plan.site, passage.client, &upstream.settings);
    let asks_for_https = request.uri.scheme_str().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
    Outgoing {
        method: &request.method,
        uri: &request.uri,
        fields: &request.fields,
        base: &settings.base,
        host: if settings.preserve_host && !host.is_empty() { host } else { settings.authority.as_bytes() },
        asked_host: host,
        peer: &client.peer_text,
        peer_forwarded: &client.peer_forwarded,
        told: from_trusted.then(|| Told::read(site, client.peer, &request.fields)),
        // In clear text only a trusted proxy may ask for https: it has ended the TLS.
        scheme: if asks_for_https { "https" } else { client.scheme },
        version: version_name(request.version),
        request_id: passage.id.as_str(),
        degraded,
        guarded: &site.guarded,
        body: framing.length,
        expects_continue: validation::expects_continue(request) && framing.has_body,
        forwards_left: validation::forwards_left(&request.method, &request.fields).map(|left| left.saturating_sub(1)),
        upgrade: framing.upgrade,
    }
}

fn succeed(passage: &mut Passage<'_>, answer: Answer) -> Reply {
    let Answer { status, is_old, mut fields, body } = answer;
    let (body, upgrade) = match body {
        AnswerContent::Whole(bytes) => (Body::whole(bytes), None),
        AnswerContent::Stream(stream) => (Body::stream(stream), None),
        AnswerContent::Upgraded(connection, protocol) => (Body::empty(), Some((connection, protocol))),
    };
    let mut reply = Reply::new(status, body);
    reply.lines.add("via", if is_old { "1.0 tidegate" } else { "1.1 tidegate" });
    let mut has_limits = false;
    if let Some(admissions) = &passage.settlement.admissions {
        let asked = admissions.asked();
        has_limits = limit_headers::write(passage.plan, asked, None, passage.since_1970(), &mut reply.lines);
        limit_headers::write_dry_run(admissions.would_refuse(), &mut reply.lines);
    }
    // Where we have no limits to report, the upstream may have.
    fields.remove(
        |name| {
            if has_limits { limit_headers::is_ours(name) } else { name.eq_ignore_ascii_case(b"x-request-id") }
        },
    );
    if let Some((connection, protocol)) = upgrade {
        reply.lines.add("connection", "upgrade");
        reply.lines.add("upgrade", protocol);
        // The request lasts as long as the connection does: so does what it holds.
        reply.upgrade = Some((connection, Box::new(passage.settlement.admissions.take())));
    }
    reply.fields = Some(fields);
    reply
}

fn fail(passage: &mut Passage<'_>, upstream: &Upstream, trouble: &Trouble) -> Reply {
    if let (true, Some(admissions)) = (trouble.is_ours(), &mut passage.settlement.admissions) {
        // The gateway itself rejects: what was taken comes back.
        admissions.not_sent();
    }
    if !trouble.is_clients() {
        upstream.failed(trouble);
        passage.worker.gateway.note_trouble(&upstream.settings.name, trouble, passage.id.as_str());
    }
    let mut reply = rejection::upstream_trouble(trouble, &upstream.settings.name, passage.id.as_str());
    if let Some(admissions) = passage.settlement.admissions.as_ref().filter(|_| !trouble.is_ours()) {
        limit_headers::write(passage.plan, admissions.asked(), None, passage.since_1970(), &mut reply.lines);
    }
    reply
}

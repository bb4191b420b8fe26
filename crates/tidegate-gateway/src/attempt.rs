//! One exchange of a request with its upstream, and the response that the client gets for it. `passage.rs` decides
//! whether there is one, and whether there is another.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use http::Version;
use tidegate_http::client::{
    BodyLength, ClientTerms, Failed, Local, OutgoingHead, Response as UpstreamResponse, ResponseContent, Traits,
    Trouble, UploadEnd, send,
};
use tidegate_http::eviction::Eviction;
use tidegate_http::forwarded::Forwarded;
use tidegate_http::headers::Headers;
use tidegate_http::request::RequestHead;
use tidegate_http::server::Interim;
use tidegate_http::share::GROUPS;
use tidegate_policy::Timestamp;
use tidegate_policy::breaker::Call;
use tidegate_policy::endpoints::{Cause, Outcome, Tried};
use tidegate_wait::Slot;
use tokio::time::sleep;

use crate::access_log::version_name;
use crate::attempt_hold::{AttemptHold, HeldShare};
use crate::body::Body;
use crate::buffers::Lease;
use crate::endpoints::Member;
use crate::interaction::Interaction;
use crate::request_body::RequestBody;
use crate::request_context::RequestContext;
use crate::resolve::Resolved;
use crate::response::{Response, Upgrade};
use crate::settings::EndpointEntry;
use crate::source::Source;
use crate::upstream::{Upstream, outcome_of};
use crate::{limit_headers, rejection, validation};

/// A request that is admitted, as all its attempts send it.
pub(crate) struct Outgoing<'a> {
    pub(crate) upstream: &'a Upstream,
    pub(crate) interaction: Option<&'a Interaction>,
    /// What decides the endpoint, instead of chance.
    hash: Option<u64>,
    pub(crate) request: &'a RequestHead,
    /// With its port, if there is one.
    host: &'a [u8],
    from_trusted: bool,
    pub(crate) framing: Framing<'a>,
    interim: Option<Interim>,
}

impl<'a> Outgoing<'a> {
    /// A request to its upstream. The second value is the body to send.
    pub(crate) fn new(
        request: &'a RequestHead,
        host: &'a [u8],
        from_trusted: bool,
        body: RequestBody,
        resolved: &'a Resolved<'a>,
        interaction: Option<&'a Interaction>,
    ) -> (Self, Option<RequestBody>) {
        let (upstream, hash) = (&**resolved.upstream(), resolved.endpoint_hash());
        let interim = if request.version == Version::HTTP_11 { body.interim() } else { None };
        let upgrade = validation::upgrade(request, &body);
        let (length, body) = validation::body(request, body);
        let framing = Framing { length, has_body: body.is_some(), upgrade };
        (Self { upstream, interaction, hash, request, host, from_trusted, framing, interim }, body)
    }
}

/// How many attempts a request has taken.
pub(crate) const ATTEMPTS_HEADER: &str = "x-tidegate-attempts";

/// How an attempt ended: with the head of a response, or without one.
pub(crate) type Ended = Result<UpstreamResponse<RequestBody>, Failed<RequestBody>>;

/// An attempt that may be made, as its policies permit it.
pub(crate) struct Permitted {
    /// Which one it is, counted from 1.
    pub(crate) number: u32,
    /// When it begins.
    pub(crate) started: Instant,
    /// The longest time to the head of its response. Only a request whose whole body is in memory is bound by it: it
    /// can't be said of others whether they wait for their client.
    pub(crate) within: Option<Duration>,
    /// At the breaker, if there is one.
    pub(crate) call: Option<Call>,
}

/// Sends a request to an endpoint, and waits for the head of its response. A failed attempt returns the request's body,
/// so that it can be repeated.
pub(crate) async fn attempt(
    context: &mut RequestContext<'_>,
    outgoing: &Outgoing<'_>,
    chosen: Chosen,
    permitted: Permitted,
    body: Option<RequestBody>,
) -> Ended {
    let Permitted { number, started, within, call } = permitted;
    let (head, traits) = outgoing_head(context, outgoing, &chosen.member.entry);
    let (worker, connections) = (context.worker, &context.plan.site.connections);
    let local = Local {
        worker: worker.index,
        deadlines: &worker.deadlines,
        descriptors: &worker.descriptors,
        close_idle: &|| worker.close_idle_upstream() || worker.evict_stalled() == Eviction::Started,
        evict: &|endpoint, waited_since| worker.evict_stalled_of(endpoint, waited_since),
        free_a_file: &|| worker.free_a_file(),
    };
    let terms = ClientTerms {
        wait: connections.body_wait(),
        sharing: context.client.activity.requests(),
        is_stream: context.client.activity.is_h2(),
        max_body: connections.max_body_bytes.unwrap_or(u64::MAX),
        on_interim: &|status, headers: &Headers| {
            if let Some(interim) = &outgoing.interim {
                interim.pass_on(status, headers);
            }
        },
    };
    // A client that leaves before the first byte is sent has spent nothing: the admissions are dropped unsent.
    let (admissions, sent) = (&mut context.settlement.admissions, AtomicU64::new(0));
    let ended = {
        let sending = send(&chosen.member.endpoint, &local, &terms, traits, head, body, || {
            admissions.sent();
            sent.fetch_add(1, Ordering::Relaxed);
        });
        let mut sending = pin!(sending);
        // Boxed, like everything that not every request needs.
        let mut late = within.map(|within| Box::pin(sleep(within)));
        poll_fn(|cx| match (sending.as_mut().poll(cx), &mut late) {
            (Poll::Ready(ended), _) => Poll::Ready(ended),
            (Poll::Pending, Some(late)) => {
                late.as_mut().poll(cx).map(|()| Err(too_late(sent.load(Ordering::Relaxed) > 0)))
            }
            (Poll::Pending, None) => Poll::Pending,
        })
        .await
    };
    let sent = sent.into_inner();
    context.settlement.admissions.sent();
    if sent > 1
        && let Some(interaction) = outgoing.interaction
    {
        interaction.note_resent(sent - 1, context.worker.gateway.now());
    }
    record(context, outgoing, &Recorded { number, started, began: chosen.now }, call, &ended);
    ended
}

/// An attempt that was ended because its time was over.
fn too_late(was_sent: bool) -> Failed<RequestBody> {
    let trouble = if was_sent { Trouble::ResponseTimeout } else { Trouble::ConnectTimeout };
    Failed { trouble, was_sent, is_repeatable: !was_sent, body: None }
}

/// The endpoint that gets the request.
pub(crate) struct Chosen {
    member: Arc<Member>,
    /// When it was chosen.
    now: Timestamp,
}

/// Whether there is an endpoint that may get the request and was not tried yet.
pub(crate) fn has_untried(context: &RequestContext<'_>, outgoing: &Outgoing<'_>, tried: &Tried, now: Instant) -> bool {
    let (pool, random) = (outgoing.upstream.endpoints.pool(), context.worker.ids.random());
    let now = context.worker.gateway.clock.at(now);
    let index = pool.balancer.choose(now, random, outgoing.hash.unwrap_or(random), tried);
    index.is_some_and(|index| !tried.contains(index))
}

/// Chooses an endpoint, and counts the request there and for the client's address.
/// `slot`: that of the bulkhead, which it holds from now on.
pub(crate) fn choose(
    context: &mut RequestContext<'_>,
    outgoing: &Outgoing<'_>,
    tried: &Tried,
    started: Instant,
    slot: Option<Slot>,
) -> Result<Chosen, Trouble> {
    let (upstream, hash) = (outgoing.upstream, outgoing.hash);
    let (worker, client) = (context.worker, context.client);
    let pool = upstream.endpoints.pool();
    // Of one endpoint, only its latency depends on the time: when the request began is exact enough.
    let (now, random) =
        if pool.members.len() > 1 { (worker.gateway.clock.at(started), worker.ids.random()) } else { (context.now, 0) };
    let index = pool.balancer.choose(now, random, hash.unwrap_or(random), tried);
    let chosen = index.and_then(|index| Some((pool.members.get(index)?, pool.balancer.begin(index, now)?)));
    let Some((member, in_flight)) = chosen else {
        return Err(if pool.members.is_empty() { upstream.endpoints.no_address() } else { Trouble::NoEndpoint });
    };
    let mut share = None;
    if let Some(address) = &client.share {
        let (held, before) = HeldShare::new(address, member.endpoint.pools.owner);
        let others = in_flight.endpoint().in_flight().saturating_sub(1);
        let free = member.endpoint.bounds.max_connections.saturating_sub(others as usize);
        let before = if pool.members.len() > GROUPS { before / pool.members.len().div_ceil(GROUPS) } else { before };
        if !context.plan.site.most_held.permits(before, free) {
            return Err(Trouble::ClientShare);
        }
        share = Some(held);
    }
    context.settlement.hold = Some(AttemptHold::new(in_flight, share, slot));
    Ok(Chosen { member: Arc::clone(member), now })
}

/// An attempt, for those who record how it ended.
struct Recorded {
    number: u32,
    started: Instant,
    /// When the endpoint was chosen.
    began: Timestamp,
}

/// Records how an attempt ended: for the endpoint, for the upstream, and at the breaker.
fn record(
    context: &mut RequestContext<'_>,
    outgoing: &Outgoing<'_>,
    recorded: &Recorded,
    call: Option<Call>,
    ended: &Ended,
) {
    let upstream = outgoing.upstream;
    let took = recorded.started.elapsed();
    let now = recorded.began + took;
    match ended {
        Ok(response) => {
            upstream.responded(recorded.number, took, response.status);
            // The time in which the client sent its body is not the endpoint's.
            let took = match response.upload {
                UploadEnd::NoBody => Some(took),
                UploadEnd::At(end) => Some(took.min(end.elapsed())),
                UploadEnd::UnderWay => None,
            };
            if upstream.is_failure(response.status) {
                record_failure(context, upstream, Outcome::Failure { cause: Cause::Status, took }, now);
            } else if let Some(hold) = &context.settlement.hold {
                hold.in_flight.responded(took, now);
            }
            if let (Some(call), Some(interaction)) = (call, outgoing.interaction) {
                let recorded = interaction.responded(call, response.status, took.unwrap_or_default(), now);
                if let (Some(hold), Some(recorded)) = (&mut context.settlement.hold, recorded) {
                    hold.recorded(recorded);
                }
            }
        }
        Err(failed) => {
            // A client that sends a body takes some of the time.
            let known = failed.body.is_none().then_some(took);
            let outcome = outcome_of(&failed.trouble, known);
            record_failure(context, upstream, outcome, now);
            if let (Some(call), Some(interaction), Outcome::Failure { cause, .. }) =
                (call, outgoing.interaction, outcome)
            {
                interaction.failed(call, cause, took, now);
            }
        }
    }
}

/// Counts and logs why there is no response.
#[cold]
pub(crate) fn note_trouble(context: &RequestContext<'_>, upstream: &Upstream, trouble: &Trouble) {
    if trouble.is_clients() {
        context.note_cut(trouble);
    } else {
        upstream.failed(trouble);
        context.worker.gateway.note_trouble(&upstream.name, trouble, context.id.as_str());
    }
}

#[cold]
fn record_failure(context: &RequestContext<'_>, upstream: &Upstream, outcome: Outcome, now: Timestamp) {
    let Some(hold) = &context.settlement.hold else { return };
    let pool = upstream.endpoints.pool();
    if let Some(change) = pool.balancer.record(&hold.in_flight, outcome, now) {
        context.worker.gateway.note_endpoint_change(&upstream.name, &pool, change);
    }
}

/// How the request's body goes to the upstream.
pub(crate) struct Framing<'a> {
    length: BodyLength,
    pub(crate) has_body: bool,
    /// The protocol that the client wants to switch to.
    upgrade: Option<&'a [u8]>,
}

/// Writes the head for an endpoint anew. The traits are what the exchange has to know of it.
fn outgoing_head(
    context: &RequestContext<'_>,
    outgoing: &Outgoing<'_>,
    endpoint: &EndpointEntry,
) -> (BytesMut, Traits) {
    let Outgoing { upstream, request, host, from_trusted, framing, .. } = outgoing;
    let (site, client) = (&context.plan.site, context.client);
    let degraded = context.settlement.admissions.degraded();
    let is_trusted = |ip| site.is_trusted(ip);
    let asks_for_https = request.uri.scheme_str().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
    let added =
        [("x-request-id", context.id.as_bytes()), ("x-tidegate-degraded", degraded.unwrap_or_default().as_bytes())];
    let outgoing = OutgoingHead {
        method: &request.method,
        uri: &request.uri,
        headers: &request.headers,
        base: &endpoint.base,
        host: if upstream.preserve_host && !host.is_empty() { host } else { endpoint.authority.as_bytes() },
        requested_host: host,
        peer: &client.peer_text,
        peer_forwarded: &client.peer_forwarded,
        forwarded: (*from_trusted).then(|| Forwarded::read(is_trusted, client.peer, &request.headers)),
        // In clear text only a trusted proxy may ask for https: it has ended the TLS.
        scheme: if asks_for_https { "https" } else { client.scheme },
        version: version_name(request.version),
        // The second only where the soft excess of a limit is used.
        added: if degraded.is_some() { &added[..] } else { &added[..1] },
        guarded: &site.guarded,
        body: framing.length,
        expects_continue: validation::expects_continue(request) && framing.has_body,
        forwards_left: validation::forwards_left(&request.method, &request.headers).map(|left| left.saturating_sub(1)),
        upgrade: framing.upgrade,
    };
    (outgoing.head(), outgoing.traits())
}

/// The response to a request whose attempt has succeeded.
/// `replaces_attempts`: the client learns how many attempts it took, here and not further on.
pub(crate) fn succeed(
    context: &mut RequestContext<'_>,
    response: UpstreamResponse<RequestBody>,
    replaces_attempts: bool,
) -> Response {
    let UpstreamResponse { status, is_http10, mut headers, content, .. } = response;
    let (body, upgrade) = match content {
        ResponseContent::Whole(bytes) => (Body::whole(bytes), None),
        ResponseContent::Stream(stream) => (Body::stream(stream, read_ahead_lease(context)), None),
        ResponseContent::Upgraded(connection, protocol) => (Body::empty(), Some((connection, protocol))),
    };
    let mut response = Response::new(status, body);
    response.lines.add("via", if is_http10 { "1.0 tidegate" } else { "1.1 tidegate" });
    let admissions = &context.settlement.admissions;
    let has_limits =
        limit_headers::write(context.plan, admissions.checks(), None, context.since_1970(), &mut response.lines);
    limit_headers::write_dry_run(admissions.would_reject(), &mut response.lines);
    // Where we have no limits to report, the upstream may have.
    headers.remove(|name| {
        if has_limits { limit_headers::is_replaced(name) } else { name.eq_ignore_ascii_case(b"x-request-id") }
    });
    if replaces_attempts {
        headers.remove(|name| name.eq_ignore_ascii_case(ATTEMPTS_HEADER.as_bytes()));
    }
    context.settlement.source = Some(Source::Upstream);
    if let Some((connection, protocol)) = upgrade {
        response.lines.add("connection", "upgrade");
        response.lines.add("upgrade", protocol);
        // The endpoint has responded whole: what comes now is no response.
        context.settlement.hold.iter().for_each(|hold| hold.in_flight.ended());
        // The request lasts as long as the connection, and so does what it holds.
        let held = (std::mem::take(&mut context.settlement.admissions), context.settlement.hold.take());
        response.upgrade = Some(Upgrade { connection, held: Box::new(held) });
    }
    response.headers = Some(headers);
    response
}

/// How much of the response may be read ahead of its client.
fn read_ahead_lease(context: &RequestContext<'_>) -> Lease {
    let most = context.settlement.upstream.as_ref().map_or(0, |upstream| upstream.response_buffer_bytes);
    Lease::new(&context.worker.gateway.metrics.buffers, most, context.plan.site.connections.max_buffer_bytes)
}

/// The response to a request that is not attempted again.
pub(crate) fn give_up(context: &mut RequestContext<'_>, upstream: &Upstream, trouble: &Trouble) -> Response {
    if trouble.is_rejection() {
        // The gateway itself rejects, so what was taken is given back.
        context.settlement.admissions.not_sent();
    }
    let mut response = rejection::upstream_trouble(trouble, &upstream.name, context.id.as_str());
    response.is_for_evicted = matches!(trouble, Trouble::ClientEvicted);
    if !trouble.is_rejection() {
        let checks = context.settlement.admissions.checks();
        limit_headers::write(context.plan, checks, None, context.since_1970(), &mut response.lines);
    }
    response
}

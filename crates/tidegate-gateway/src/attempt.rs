//! One exchange of a request with its upstream, and the response that the client gets for it. `passage.rs` decides
//! whether there is one, and whether there is another.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
use tidegate_policy::endpoints::{Cause, Outcome, Standing, Tried};
use tidegate_wait::Slot;
use tokio::time::sleep;

use crate::access_log::version_name;
use crate::admission::{Admission, Admissions};
use crate::attempt_hold::{AttemptHold, HeldShare};
use crate::body::Body;
use crate::buffers::Lease;
use crate::endpoints::Member;
use crate::interaction::Interaction;
use crate::request_body::RequestBody;
use crate::request_context::RequestContext;
use crate::resolve::Resolved;
use crate::response::{Response, Upgrade};
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
    pub(crate) from_trusted: bool,
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
        let framing = Framing { length, has_body: body.is_some(), is_whole: false, upgrade };
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
    /// When it begins, and the same by the gateway's clock.
    pub(crate) started: Instant,
    pub(crate) at: Timestamp,
    /// The longest time to the head of its response.
    pub(crate) within: Option<Duration>,
    /// Whether that is so short that its end says nothing about the upstream.
    pub(crate) is_short: bool,
    /// Set when the request's body has been sent, if it still comes: the time counts from then on.
    pub(crate) upload: Option<Arc<AtomicBool>>,
    /// At the breaker, if there is one.
    pub(crate) call: Option<Call>,
}

/// Sends a request to an endpoint, and waits for the head of its response. A failed attempt returns the request's body,
/// so that it can be repeated.
pub(crate) async fn attempt(
    context: &RequestContext<'_>,
    outgoing: &Outgoing<'_>,
    chosen: &mut Chosen,
    permitted: Permitted,
    body: Option<RequestBody>,
) -> Ended {
    let Permitted { number, started, at, within, is_short, upload, call } = permitted;
    if let Some(record) = &context.settlement.record {
        record.attempts.store(number, Ordering::Relaxed);
    }
    let (head, traits) = outgoing_head(context, outgoing, chosen);
    let (worker, connections) = (context.worker, &context.plan.site.connections);
    let is_connecting = AtomicBool::new(false);
    let local = Local {
        worker: worker.index,
        deadlines: &worker.deadlines,
        descriptors: &worker.descriptors,
        close_idle: &|| worker.close_idle_upstream() || worker.evict_stalled() == Eviction::Started,
        evict: &|endpoint, waited_since| worker.evict_stalled_of(endpoint, waited_since),
        free_a_file: &|| worker.free_a_file(),
        connecting: &|| is_connecting.store(true, Ordering::Relaxed),
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
    let (admissions, sent) = (&context.settlement.admissions, AtomicU64::new(0));
    let own = chosen.own_admission.as_deref();
    // Boxed, like everything that not every request needs.
    let mut late = if upload.is_none() { within.map(|within| Box::pin(sleep(within))) } else { None };
    let ended = {
        let sending = send(&chosen.member.endpoint, &local, &terms, traits, head, body, || {
            admissions.sending(own);
            if sent.fetch_add(1, Ordering::Relaxed) > 0 {
                note_resent(context, outgoing);
            }
        });
        let mut sending = pin!(sending);
        poll_fn(|cx| {
            if let Poll::Ready(ended) = sending.as_mut().poll(cx) {
                return Poll::Ready(ended);
            }
            if let (None, Some(within), Some(upload)) = (&late, within, &upload)
                && upload.load(Ordering::Relaxed)
            {
                late = Some(Box::pin(sleep(within)));
            }
            let Some(late) = &mut late else { return Poll::Pending };
            late.as_mut().poll(cx).map(|()| Err(too_late(&sent, &is_connecting)))
        })
        .await
    };
    let sent = sent.into_inner();
    if sent == 0 {
        spend_unsent(admissions, own, &ended);
    }
    let is_cut = is_short && late.is_some_and(|late| late.is_elapsed());
    record(context, outgoing, &mut chosen.hold, &Recorded { number, started, at, is_cut }, call, &ended);
    ended
}

/// The request is sent once more, because its kept connection had ended.
#[cold]
fn note_resent(context: &RequestContext<'_>, outgoing: &Outgoing<'_>) {
    if let Some(interaction) = outgoing.interaction {
        interaction.note_resent(context.worker.gateway.now());
    }
}

/// An attempt has ended that sent nothing: what it took at limits is spent all the same. One beside another that the
/// gateway itself rejects has cost nothing.
#[cold]
fn spend_unsent(admissions: &Admissions, own: Option<&Admission>, ended: &Ended) {
    if own.is_none() || !ended.as_ref().is_err_and(|failed| failed.trouble.is_rejection()) {
        admissions.attempted(own);
    }
}

/// An attempt that was ended because its time was over. A wait for room that the gateway itself has not got is not the
/// endpoint's doing.
fn too_late(sent: &AtomicU64, is_connecting: &AtomicBool) -> Failed<RequestBody> {
    let was_sent = sent.load(Ordering::Relaxed) > 0;
    let trouble = match (was_sent, is_connecting.load(Ordering::Relaxed)) {
        (true, _) => Trouble::ResponseTimeout,
        (false, true) => Trouble::ConnectTimeout,
        (false, false) => Trouble::Full,
    };
    Failed { trouble, was_sent, is_repeatable: !was_sent, body: None }
}

/// The endpoint that gets the request, and what the attempt holds of it.
pub(crate) struct Chosen {
    member: Arc<Member>,
    pub(crate) hold: AttemptHold,
    /// What the attempt took at the upstream's limits, if the request holds what another attempt took there.
    pub(crate) own_admission: Option<Box<Admission>>,
}

/// Whether there is an endpoint that may get the request and was not tried yet.
pub(crate) fn has_untried(context: &RequestContext<'_>, outgoing: &Outgoing<'_>, tried: &Tried, at: Timestamp) -> bool {
    let (pool, random) = (outgoing.upstream.endpoints.pool(), context.worker.ids.random());
    let index = pool.balancer.choose(at, random, outgoing.hash.unwrap_or(random), tried);
    index.is_some_and(|index| !tried.contains(index))
}

/// Which endpoints another attempt prefers.
pub(crate) enum Preferred<'a> {
    /// Any: it is the first attempt.
    All,
    /// Those not tried yet: no connection to the others could be made.
    Untried(&'a Tried),
    /// The same, if they are available. One that responds with an error is better than one that is out.
    Available(&'a Tried),
}

/// Chooses an endpoint, and counts the request there and for the client's address. `slot`: that of the bulkhead, which
/// it holds from now on.
pub(crate) fn choose(
    context: &RequestContext<'_>,
    outgoing: &Outgoing<'_>,
    preferred: &Preferred<'_>,
    at: Timestamp,
    slot: Option<Slot>,
) -> Result<Chosen, Trouble> {
    let (upstream, hash) = (outgoing.upstream, outgoing.hash);
    let (worker, client) = (context.worker, context.client);
    let pool = upstream.endpoints.pool();
    let random = if pool.members.len() > 1 { worker.ids.random() } else { 0 };
    let key = hash.unwrap_or(random);
    let index = match preferred {
        Preferred::All => pool.balancer.choose(at, random, key, &Tried::new()),
        Preferred::Untried(tried) => pool.balancer.choose(at, random, key, tried),
        Preferred::Available(tried) => {
            let index = pool.balancer.choose(at, random, key, tried);
            let is_up = |index: &usize| pool.members[*index].state.standing(at) == Standing::Up;
            index.filter(is_up).or_else(|| pool.balancer.choose(at, random, key, &Tried::new()))
        }
    };
    let chosen = index.and_then(|index| Some((pool.members.get(index)?, pool.balancer.begin(index, at)?)));
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
    let hold = AttemptHold::new(in_flight, share, slot);
    Ok(Chosen { member: Arc::clone(member), hold, own_admission: None })
}

/// An attempt, for those who record how it ended.
struct Recorded {
    number: u32,
    started: Instant,
    at: Timestamp,
    /// Whether it was ended before it could say anything about the upstream.
    is_cut: bool,
}

/// Records how an attempt ended: for the endpoint, for the upstream, and at the breaker.
fn record(
    context: &RequestContext<'_>,
    outgoing: &Outgoing<'_>,
    hold: &mut AttemptHold,
    recorded: &Recorded,
    call: Option<Call>,
    ended: &Ended,
) {
    let upstream = outgoing.upstream;
    let took = recorded.started.elapsed();
    let now = recorded.at + took;
    match ended {
        Ok(response) => {
            // The time in which the client sent its body is not the endpoint's.
            let took = match response.upload {
                UploadEnd::NoBody => Some(took),
                UploadEnd::At(end) => Some(took.min(end.elapsed())),
                UploadEnd::UnderWay => None,
            };
            upstream.responded(recorded.number, took, response.status);
            if upstream.is_failure(response.status) {
                record_failure(context, upstream, hold, Outcome::Failure { cause: Cause::Status, took }, now);
            } else {
                hold.in_flight.responded(took, now);
            }
            let Some(interaction) = outgoing.interaction else { return };
            if let Some(call) = call
                && let Some(recorded) = interaction.responded(call, response.status, took.unwrap_or_default(), now)
            {
                hold.recorded(recorded);
            }
            if let (1, Some(took)) = (recorded.number, took) {
                interaction.note_latency(Some(response.status), took, now);
            }
        }
        Err(_) if recorded.is_cut => {}
        Err(failed) => {
            // A client that sends a body takes some of the time.
            let known = failed.body.is_none().then_some(took);
            let outcome = outcome_of(&failed.trouble, known);
            record_failure(context, upstream, hold, outcome, now);
            let Some(interaction) = outgoing.interaction else { return };
            if let (Some(call), Outcome::Failure { cause, .. }) = (call, outcome) {
                interaction.failed(call, cause, known.unwrap_or_default(), now);
            }
            if let (1, Trouble::ResponseTimeout, Some(took)) = (recorded.number, &failed.trouble, known) {
                interaction.note_latency(None, took, now);
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
fn record_failure(
    context: &RequestContext<'_>,
    upstream: &Upstream,
    hold: &AttemptHold,
    outcome: Outcome,
    now: Timestamp,
) {
    let pool = upstream.endpoints.pool();
    if let Some(change) = pool.balancer.record(&hold.in_flight, outcome, now) {
        context.worker.gateway.note_endpoint_change(&upstream.name, &pool, change);
    }
}

/// How the request's body goes to the upstream.
pub(crate) struct Framing<'a> {
    length: BodyLength,
    pub(crate) has_body: bool,
    /// Whether it is in memory, so that it can be sent again.
    pub(crate) is_whole: bool,
    /// The protocol that the client wants to switch to.
    pub(crate) upgrade: Option<&'a [u8]>,
}

/// Writes the head for an endpoint anew. The traits are what the exchange has to know of it.
fn outgoing_head(context: &RequestContext<'_>, outgoing: &Outgoing<'_>, chosen: &Chosen) -> (BytesMut, Traits) {
    let endpoint = &chosen.member.entry;
    let Outgoing { upstream, request, host, from_trusted, framing, .. } = outgoing;
    let (site, client) = (&context.plan.site, context.client);
    let own = chosen.own_admission.as_deref();
    let degraded = context.settlement.admissions.degraded().or_else(|| own?.degraded());
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
        // A body that is here already need not wait for the upstream to ask for it.
        expects_continue: validation::expects_continue(request) && framing.has_body && !framing.is_whole,
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
        context.settlement.admissions.rejected();
    }
    let mut response = rejection::upstream_trouble(trouble, &upstream.name, context.id.as_str());
    response.is_for_evicted = matches!(trouble, Trouble::ClientEvicted);
    if !trouble.is_rejection() {
        let checks = context.settlement.admissions.checks();
        limit_headers::write(context.plan, checks, None, context.since_1970(), &mut response.lines);
    }
    response
}

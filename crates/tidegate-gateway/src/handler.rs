//! A request through the gateway, from its head to the head of its response. The page to read first.

use std::sync::Arc;
use std::time::Instant;

use http::{Method, StatusCode};
use tidegate_http::client::Trouble;
use tidegate_http::forwarded;
use tidegate_http::request::RequestHead;

use crate::admission::{Admissions, Rejection, admit};
use crate::attempt::{Outgoing, Preferred, attempt, choose, give_up};
use crate::barred::Barred;
use crate::client::Client;
use crate::client_shares::{CONNECTION_SHARE, CONNECTION_SHARE_DETAIL};
use crate::collect::collect;
use crate::config::own_paths::is_local;
use crate::cuts::Cut;
use crate::hedging::Hedged;
use crate::limit_texts::REJECTED_BY;
use crate::passage::{First, Passage, not_begun};
use crate::rejection::{self, rejected};
use crate::request_body::RequestBody;
use crate::request_context::RequestContext;
use crate::request_id::RequestId;
use crate::resolve::{Resolved, Unresolved, resolve};
use crate::response::Response;
use crate::settlement::Settlement;
use crate::source::Source;
use crate::stages::{Side, Stages, Step};
use crate::validation::{self, Fault, Host};
use crate::worker::Worker;
use crate::{admin, tally};

/// Responds to a request. However it ends, its [`Settlement`] settles it.
pub(crate) async fn handle(
    worker: Arc<Worker>,
    client: Arc<Client>,
    request: RequestHead,
    body: RequestBody,
) -> Response {
    let plan = worker.gateway.plan();
    let (settlement, busy_before) = Settlement::begin(&worker, &client);
    let id = RequestId::of(&request.headers, &worker.ids);
    let now = worker.gateway.clock.at(settlement.started);
    let is_head = request.method == Method::HEAD;
    let mut context = RequestContext { worker: &worker, client: &client, plan: &plan, id, now, settlement };
    let mut response = context.respond(request, body, busy_before).await;
    let RequestContext { mut settlement, id, .. } = context;
    settlement.status = response.status;
    response.lines.add("x-request-id", id.as_bytes());
    settlement.id = Some(id);
    let source = *settlement.source.get_or_insert(Source::Gateway);
    if let Some(record) = &mut settlement.record {
        record.source = Some(source);
    }
    response.body.settle_at_end(settlement, is_head);
    response
}

/// Why a request does not come to an attempt.
enum Stopped {
    Rejected(Rejection),
    /// The policies around its attempts do not let it through.
    Barred(Barred),
    /// Its client did not send its body.
    ByClient(Trouble),
}

impl RequestContext<'_> {
    /// Validate, resolve, pass the stages (the client's limits, the body), then the policies around the attempts, and
    /// the attempts.
    async fn respond(&mut self, request: RequestHead, mut body: RequestBody, busy_before: usize) -> Response {
        let (site, peer) = (&self.plan.site, self.client.peer);
        let may_be_https = || self.client.scheme == "https" || site.is_trusted(peer);
        let host = match validation::validate(&request, &site.connections, may_be_https) {
            Ok(host) => host,
            Err(fault) => return self.reject_head(&request, &fault),
        };
        if self.client.is_admin || !site.admin_apart && is_local(request.uri.path()) {
            self.record(&request, host.whole(), peer);
            self.settlement.is_local = true;
            return Box::pin(admin::respond(self.worker, self.client, &request, body, self.id.as_str())).await;
        }
        if !self.worker.permits_busy(busy_before) {
            return self.reject_share(&request, &host);
        }
        if validation::forwards_left(&request.method, &request.headers) == Some(0) {
            self.record(&request, host.whole(), peer);
            return rejection::no_forwards_left(&request.method, self.id.as_str());
        }
        let from_trusted = site.is_trusted(peer);
        let (unresolved, wrong_credentials) = self.identify(&request, &host, from_trusted);
        let Some(resolved) = resolve(site, unresolved) else {
            return rejected(StatusCode::NOT_FOUND, "no_route", "no route matches this request", self.id.as_str());
        };
        self.record_resolved(&resolved);
        if let Some(detail) = wrong_credentials {
            return self.reject_unidentified(&detail, &resolved).await;
        }
        let began = match self.pass_stages(&resolved, &request, &mut body).await {
            Ok(began) => began,
            Err(stopped) => return self.stop(stopped, &resolved),
        };
        let mut passage = Passage::new(self, &resolved, began);
        let passed = match passage.begin(self).await {
            Ok(passed) => passed,
            Err(barred) => return self.stop(Stopped::Barred(barred), &resolved),
        };
        tally::forwarded(self, &resolved);
        self.record_would_reject();
        self.settlement.upstream = Some(Arc::clone(resolved.upstream()));
        let (mut outgoing, mut body) =
            Outgoing::new(&request, host.whole(), from_trusted, body, &resolved, passage.interaction);
        let First { permitted, slot, replayable } = passage.first(self, &mut outgoing, passed, &mut body);
        let ended = match choose(self, &outgoing, &Preferred::All, permitted.at, slot) {
            Ok(mut chosen) => {
                if let Some(after) = passage.hedge_after(self, &outgoing) {
                    let first = Hedged { chosen, permitted, body, replayable, after };
                    return Box::pin(passage.respond_hedged(self, &outgoing, first)).await;
                }
                let ended = attempt(self, &outgoing, &mut chosen, permitted, body).await;
                self.settlement.hold = Some(chosen.hold);
                match ended {
                    Ok(response) if !passage.repeats(&response) => return passage.respond_with(self, response),
                    ended => ended,
                }
            }
            Err(trouble) => Err(not_begun(trouble, body)),
        };
        // Boxed, like everything that happens rarely.
        Box::pin(passage.go_on(self, &outgoing, ended, replayable)).await
    }

    /// The response to a request that does not come to an attempt.
    fn stop(&mut self, stopped: Stopped, resolved: &Resolved<'_>) -> Response {
        match stopped {
            Stopped::Rejected(rejection) | Stopped::Barred(Barred::Limits(rejection)) => {
                // What was taken at other limits is given back.
                self.settlement.admissions = Admissions::default();
                self.reject(&rejection, resolved)
            }
            Stopped::Barred(barred) => {
                self.settlement.admissions = Admissions::default();
                tally::forwarded(self, resolved);
                self.settlement.source = Some(barred.source());
                let upstream = &resolved.upstream().name;
                rejection::barred(self.plan, &barred, upstream, self.since_1970(), &self.id)
            }
            Stopped::ByClient(trouble) => {
                tally::forwarded(self, resolved);
                self.note_cut(&trouble);
                give_up(self, resolved.upstream(), &trouble)
            }
        }
    }

    /// Passes the stages before the request is sent on. What was taken at limits is held until the request is settled.
    /// Returns when its journey begins.
    async fn pass_stages(
        &mut self,
        resolved: &Resolved<'_>,
        request: &RequestHead,
        body: &mut RequestBody,
    ) -> Result<Instant, Stopped> {
        let mut stages = Stages::new(!body.is_at_hand());
        let mut has_waited = self.worker.gateway.store().is_some();
        loop {
            match stages.next_step() {
                Step::Check => {
                    let admission = admit(self.decision_context(self.now), resolved, Side::Client);
                    let admission = admission.await.map_err(Stopped::Rejected)?;
                    stages.admitted(admission.wait());
                    self.settlement.admissions.add(Side::Client, admission);
                }
                // Boxed, because it is rare: otherwise the future of every request would be larger.
                Step::Wait(wait) => {
                    has_waited = true;
                    Box::pin(tokio::time::sleep(wait)).await;
                }
                Step::Collect => {
                    has_waited = true;
                    let unread = std::mem::replace(body, RequestBody::empty());
                    let collected = Box::pin(collect(self, resolved.upstream(), request, unread)).await;
                    *body = collected.map_err(|trouble| {
                        // The client could have sent its body: what it took is spent.
                        self.settlement.admissions.attempted(None);
                        Stopped::ByClient(trouble)
                    })?;
                }
                // Without a wait it is when the request began, near enough: reading the clock costs more.
                Step::SendOn if !has_waited => return Ok(self.settlement.started),
                Step::SendOn => return Ok(Instant::now()),
            }
        }
    }

    /// Collects what finding the route needs, the caller among it. The second value is what is wrong with the
    /// credentials.
    fn identify<'r>(
        &mut self,
        request: &'r RequestHead,
        host: &'r Host<'_>,
        from_trusted: bool,
    ) -> (Unresolved<'r>, Option<String>) {
        let (site, peer, now) = (&self.plan.site, self.client.peer, self.since_1970().as_secs());
        let is_trusted = |ip| site.is_trusted(ip);
        let ip = if from_trusted { forwarded::client_ip(is_trusted, peer, &request.headers) } else { peer };
        self.record(request, host.whole(), ip);
        let (caller, wrong) = match site.identity.identify(&request.headers, from_trusted, now) {
            Ok(caller) => (caller, None),
            Err(unidentified) => (site.identity.anonymous(), Some(unidentified.to_string())),
        };
        let unresolved = Unresolved {
            ip,
            caller,
            is_identified: wrong.is_none(),
            host: host.name(),
            method: &request.method,
            path: request.uri.path(),
            headers: &request.headers,
        };
        (unresolved, wrong)
    }

    /// Rejects a head that is not valid.
    fn reject_head(&mut self, request: &RequestHead, fault: &Fault) -> Response {
        self.record(request, request.headers.get("host").unwrap_or_default(), self.client.peer);
        let mut response = rejected(fault.status, fault.reason, fault.detail, self.id.as_str());
        response.is_for_invalid_head = true;
        response
    }

    /// Rejects a request of a client whose address holds its share of connections.
    #[cold]
    fn reject_share(&mut self, request: &RequestHead, host: &Host<'_>) -> Response {
        self.record(request, host.whole(), self.client.peer);
        self.worker.gateway.note_cut(Cut::ConnectionShare, self.client.peer);
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let mut response = rejected(status, CONNECTION_SHARE, CONNECTION_SHARE_DETAIL, self.id.as_str());
        response.lines.add(REJECTED_BY, Source::Gateway.word());
        response.lines.add("retry-after", "1");
        response
    }

    fn reject(&mut self, rejection: &Rejection, resolved: &Resolved<'_>) -> Response {
        tally::rejected(self, resolved, rejection);
        self.settlement.source = Some(Source::Limit);
        rejection::by_limits(self.plan, rejection, self.since_1970(), &self.id)
    }

    /// Rejects wrong credentials. A client that guesses them is limited like all others, by what is known without them.
    async fn reject_unidentified(&mut self, detail: &str, resolved: &Resolved<'_>) -> Response {
        match Box::pin(admit(self.decision_context(self.now), resolved, Side::Client)).await {
            Ok(admission) => admission.spend(),
            Err(rejection @ Rejection::Limit { .. }) => return self.reject(&rejection, resolved),
            // The client learns that its credentials are wrong, not what else is missing or that Redis is away.
            Err(Rejection::NoKey { .. } | Rejection::TooMany | Rejection::StoreAway { .. }) => {}
        }
        let mut response = rejected(StatusCode::UNAUTHORIZED, "unidentified", detail, self.id.as_str());
        response.lines.add("www-authenticate", "Bearer");
        response
    }
}

//! A request through the gateway, from its head to the head of its response. The page to read first.

use std::sync::Arc;

use http::{Method, StatusCode};
use tidegate_http::forwarded;
use tidegate_http::request::RequestHead;

use crate::admission::{Admissions, Denied, admit};
use crate::attempt::{Outbound, attempt, give_up, succeed};
use crate::client::Client;
use crate::config::own_paths::is_local;
use crate::rejection::{self, rejected};
use crate::request_body::RequestBody;
use crate::request_context::Passage;
use crate::request_id::RequestId;
use crate::resolve::{Asking, Resolved, resolve};
use crate::response::Reply;
use crate::settlement::Settlement;
use crate::stages::{Side, Stages, Step};
use crate::validation::{self, Fault, Host};
use crate::worker::Worker;
use crate::{admin, tally};

/// Responds to a request. However it ends, its [`Settlement`] settles it.
pub(crate) async fn handle(worker: Arc<Worker>, client: Arc<Client>, request: RequestHead, body: RequestBody) -> Reply {
    let plan = worker.gateway.plan();
    let settlement = Settlement::begin(&worker, &client);
    let id = RequestId::of(&request.headers, &worker.ids);
    let now = worker.gateway.clock.at(settlement.started);
    let is_head = request.method == Method::HEAD;
    let mut passage = Passage { worker: &worker, client: &client, plan: &plan, id, now, settlement };
    let mut reply = passage.respond(request, body).await;
    let Passage { mut settlement, id, .. } = passage;
    settlement.status = reply.status;
    reply.lines.add("x-request-id", id.as_bytes());
    settlement.id = Some(id);
    reply.body.ends(settlement, is_head);
    reply
}

impl Passage<'_> {
    /// Validate, resolve, pass the stages (the client's limits, the upstream's limits), attempt.
    async fn respond(&mut self, request: RequestHead, body: RequestBody) -> Reply {
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
        if validation::forwards_left(&request.method, &request.headers) == Some(0) {
            self.record(&request, host.whole(), peer);
            return rejection::no_forwards_left(&request.method, self.id.as_str());
        }
        let from_trusted = site.is_trusted(peer);
        let (asking, wrong_credentials) = self.ask(&request, &host, from_trusted);
        let Some(resolved) = resolve(site, asking) else {
            return rejected(StatusCode::NOT_FOUND, "no_route", "no route matches this request", self.id.as_str());
        };
        self.record_resolved(&resolved);
        if let Some(detail) = wrong_credentials {
            return self.reject_unidentified(&detail, &resolved).await;
        }
        if let Err(denied) = self.pass(&resolved).await {
            // What other limits gave comes back.
            self.settlement.admissions = Admissions::default();
            return self.reject(&denied, &resolved);
        }
        tally::forwarded(self, &resolved);
        let outbound = Outbound { request: &request, host: host.whole(), body, from_trusted };
        match attempt(self, resolved.upstream(), outbound).await {
            Ok(response) => succeed(self, response),
            Err(failed) => give_up(self, resolved.upstream(), &failed.trouble),
        }
    }

    /// Passes the stages before the attempt. What limits give is kept until the request is settled.
    async fn pass(&mut self, resolved: &Resolved<'_>) -> Result<(), Denied> {
        let mut stages = Stages::new();
        loop {
            match stages.next() {
                Step::Check(Side::Upstream) if !resolved.has_upstream_limits() => {}
                Step::Check(side) => {
                    let now = if side == Side::Client { self.now } else { self.worker.gateway.now() };
                    let admission = admit(self.deciding(now), resolved, side).await?;
                    stages.admitted(admission.wait());
                    self.settlement.admissions.add(side, admission);
                }
                // Boxed, because it is rare: otherwise every request would carry room for it.
                Step::Wait(wait) => Box::pin(tokio::time::sleep(wait)).await,
                Step::Attempt => return Ok(()),
            }
        }
    }

    /// Who sends a request, for what; and what is wrong with its credentials.
    fn ask<'r>(
        &mut self,
        request: &'r RequestHead,
        host: &'r Host<'_>,
        from_trusted: bool,
    ) -> (Asking<'r>, Option<String>) {
        let (site, peer, now) = (&self.plan.site, self.client.peer, self.since_1970().as_secs());
        let is_trusted = |ip| site.is_trusted(ip);
        let ip = if from_trusted { forwarded::client_ip(is_trusted, peer, &request.headers) } else { peer };
        self.record(request, host.whole(), ip);
        let (caller, wrong) = match site.identity.identify(&request.headers, from_trusted, now) {
            Ok(caller) => (caller, None),
            Err(unidentified) => (site.identity.anonymous(), Some(unidentified.to_string())),
        };
        let asking = Asking {
            ip,
            caller,
            is_identified: wrong.is_none(),
            host: host.name(),
            method: &request.method,
            path: request.uri.path(),
            headers: &request.headers,
        };
        (asking, wrong)
    }

    /// A head that is not valid.
    fn reject_head(&mut self, request: &RequestHead, fault: &Fault) -> Reply {
        self.record(request, request.headers.get("host").unwrap_or_default(), self.client.peer);
        let mut reply = rejected(fault.status, fault.reason, fault.detail, self.id.as_str());
        reply.is_for_invalid_head = true;
        reply
    }

    fn reject(&mut self, denied: &Denied, resolved: &Resolved<'_>) -> Reply {
        tally::rejected(self, resolved, denied);
        rejection::denied(self.plan, denied, self.since_1970(), &self.id)
    }

    /// Wrong credentials. Who tries them is limited like everyone else, by what is known of it without them.
    async fn reject_unidentified(&mut self, detail: &str, resolved: &Resolved<'_>) -> Reply {
        match Box::pin(admit(self.deciding(self.now), resolved, Side::Client)).await {
            Ok(admission) => admission.spend(),
            Err(denied @ Denied::Limit { .. }) => return self.reject(&denied, resolved),
            // Neither what else is missing nor a store that is away says more than that the credentials are wrong.
            Err(Denied::NoKey { .. } | Denied::TooMany | Denied::StoreAway { .. }) => {}
        }
        let mut reply = rejected(StatusCode::UNAUTHORIZED, "unidentified", detail, self.id.as_str());
        reply.lines.add("www-authenticate", "Bearer");
        reply
    }
}

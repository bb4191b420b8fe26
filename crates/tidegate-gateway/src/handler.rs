//! A request through the gateway, from its head to the head of its answer. The page to read first.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, StatusCode, Version};
use tidegate_policy::Timestamp;

use crate::access_log::{Record, version_name};
use crate::body::Body;
use crate::client::Client;
use crate::config::own_paths::is_local;
use crate::ending::Ending;
use crate::facts::Facts;
use crate::forwarded::Told;
use crate::limits::{Admission, Deciding, Denied, admit};
use crate::plan::{Plan, RouteLimits};
use crate::refusal::{self, rejected};
use crate::reply::Reply;
use crate::request_body::RequestBody;
use crate::request_head::RequestHead;
use crate::request_id::RequestId;
use crate::server::Worker;
use crate::upstream::{Answer, AnswerContent, Local, Outgoing, Trouble, Upstream, send};
use crate::{admin, vetting};

/// Answers a request. However it ends, its [`Ending`] settles it.
pub(crate) async fn handle(worker: Arc<Worker>, client: Arc<Client>, request: RequestHead, body: RequestBody) -> Reply {
    let plan = worker.gateway.plan();
    let ending = Ending::begin(&worker, &client);
    let id = RequestId::of(&request.fields, &worker);
    let now = worker.gateway.clock.at(ending.started);
    let is_head = request.method == Method::HEAD;
    let mut passage = Passage { worker: &worker, client: &client, plan: &plan, id, now, ending };
    let mut reply = passage.answer(request, body).await;
    let Passage { mut ending, id, .. } = passage;
    ending.status = reply.status;
    reply.lines.add("x-request-id", id.as_bytes());
    ending.id = Some(id);
    reply.body.ends(ending, is_head);
    reply
}

/// A request on its way.
struct Passage<'a> {
    worker: &'a Arc<Worker>,
    client: &'a Arc<Client>,
    plan: &'a Arc<Plan>,
    id: RequestId,
    /// When it began, which is also when its limits are asked.
    now: Timestamp,
    ending: Box<Ending>,
}

impl Passage<'_> {
    /// Who asks, where it goes, the client's limits, the upstream's limits, the attempt.
    async fn answer(&mut self, request: RequestHead, body: RequestBody) -> Reply {
        let (plan, site, gateway) = (self.plan, &self.plan.site, &self.worker.gateway);
        let may_be_https = || self.client.scheme == "https" || site.is_trusted(self.client.peer);
        let host = match vetting::vet(&request, &site.connections, may_be_https) {
            Ok(host) => host,
            Err(fault) => {
                self.note(&request, request.fields.get("host").unwrap_or_default(), self.client.peer);
                let mut reply = rejected(fault.status, fault.reason, fault.detail, self.id.as_str());
                reply.is_for_invalid_head = true;
                return reply;
            }
        };
        if self.client.is_admin || !site.admin_apart && is_local(request.uri.path()) {
            self.note(&request, host.whole(), self.client.peer);
            self.ending.is_local = true;
            return Box::pin(admin::answer(gateway, self.client, &request, body, self.id.as_str())).await;
        }
        if vetting::forwards_left(&request.method, &request.fields) == Some(0) {
            self.note(&request, host.whole(), self.client.peer);
            return refusal::end_of_the_way(&request.method, self.id.as_str());
        }
        let from_trusted = site.is_trusted(self.client.peer);
        let ip =
            if from_trusted { vetting::client_ip(site, self.client.peer, &request.fields) } else { self.client.peer };
        self.note(&request, host.whole(), ip);
        let (caller, unidentified) =
            match site.identity.identify(&request.fields, from_trusted, self.since_1970().as_secs()) {
                Ok(caller) => (caller, None),
                Err(unidentified) => (site.identity.anonymous(), Some(unidentified.to_string())),
            };
        let Some(found) = site.find(host.name(), &request.method, request.uri.path()) else {
            return rejected(StatusCode::NOT_FOUND, "no_route", "no route matches this request", self.id.as_str());
        };
        let (place, route) = (found.route, &site.routes[found.route]);
        let upstream = &site.upstreams[route.upstream];
        let facts = Facts {
            ip,
            caller: &caller,
            tier: caller.tier.as_deref().unwrap_or(&site.default_tier),
            route: &route.name,
            path: &found.path,
            upstream: &upstream.settings.name,
            method: request.method.as_str(),
            host: host.name(),
            fields: &request.fields,
        };
        if let Some(record) = &mut self.ending.record {
            record.identified(caller.user.as_deref(), &route.name, &upstream.settings.name);
        }

        let deciding = Deciding {
            plan,
            store: gateway.store(),
            returns: &gateway.returns,
            clock: gateway.clock,
            now: self.now,
            worker: self.worker.index,
        };
        let (only, several);
        let limits: &[RouteLimits<'_>] = if found.is_ambiguous() {
            several = [route.limits()].into_iter().chain(found.other_limits(site)).collect::<Vec<_>>();
            &several
        } else {
            only = [route.limits()];
            &only
        };
        if let Some(detail) = unidentified {
            return self.refuse_unidentified(&detail, deciding, limits, &facts, place).await;
        }
        let upstream_limits = RouteLimits { route: &route.name, limits: &upstream.settings.limits };
        let admission = match admitted(deciding, limits, upstream_limits, &facts).await {
            Ok(admission) => admission,
            Err(denied) => {
                self.count(place, false);
                return self.refuse(denied, place, facts.tier);
            }
        };
        self.count(place, true);
        let outbound = Outbound { request: &request, host: host.whole(), body, from_trusted };
        self.forward(upstream, outbound, admission).await
    }

    /// Sends an admitted request to its upstream, and turns what comes back into an answer.
    async fn forward(&mut self, upstream: &Arc<Upstream>, outbound: Outbound<'_>, mut admission: Admission) -> Reply {
        let (settings, connections) = (&upstream.settings, &self.plan.site.connections);
        let Outbound { request, host, body, from_trusted } = outbound;
        let told = from_trusted.then(|| Told::read(&self.plan.site, self.client.peer, &request.fields));
        let interim = if request.version == Version::HTTP_11 { body.interim() } else { None };
        let upgrade = vetting::upgrade(request, &body);
        if let (Some(record), false) = (&mut self.ending.record, admission.would_refuse.is_empty()) {
            let name = |limit: &usize| self.plan.limits[*limit].name().into();
            record.would_refuse = admission.would_refuse.iter().map(name).collect();
        }
        let (length, body) = vetting::body(request, body);
        let asks_for_https = request.uri.scheme_str().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
        let outgoing = Outgoing {
            method: &request.method,
            uri: &request.uri,
            fields: &request.fields,
            base: &settings.base,
            host: if settings.preserve_host && !host.is_empty() { host } else { settings.authority.as_bytes() },
            asked_host: host,
            peer: &self.client.peer_text,
            peer_forwarded: &self.client.peer_forwarded,
            told,
            // In clear text only a trusted proxy may ask for https: it has ended the TLS.
            scheme: if asks_for_https { "https" } else { self.client.scheme },
            version: version_name(request.version),
            request_id: self.id.as_str(),
            degraded: admission.degraded(),
            guarded: &self.plan.site.guarded,
            body: length,
            expects_continue: vetting::expects_continue(request) && body.is_some(),
            forwards_left: vetting::forwards_left(&request.method, &request.fields).map(|left| left.saturating_sub(1)),
            upgrade,
        };
        let local = Local {
            worker: self.worker.index,
            sweep: &self.worker.sweep,
            client_timeout: connections.body_timeout.get(),
            max_body: connections.max_body_bytes.unwrap_or(u64::MAX),
            interim,
            descriptors: &self.worker.descriptors,
            close_idle: &|| self.worker.close_idle_upstream(),
            free_a_file: &|| self.worker.free_a_file(),
        };
        self.ending.upstream = Some(Arc::clone(upstream));
        let started = Instant::now();
        let (head, traits) = (outgoing.head(), outgoing.traits());
        // A client that leaves before the first byte goes out has spent nothing: the admission is dropped unsent.
        let answer = send(upstream, &local, traits, head, body, || admission.sent()).await;
        admission.sent();
        self.ending.admission = Some(admission);
        match answer {
            Ok(answer) => {
                upstream.answered(started.elapsed(), answer.status);
                self.succeed(answer)
            }
            Err(trouble) => self.fail(upstream, &trouble),
        }
    }

    fn succeed(&mut self, answer: Answer) -> Reply {
        let Answer { status, is_old, mut fields, body } = answer;
        let (body, upgrade) = match body {
            AnswerContent::Whole(bytes) => (Body::whole(bytes), None),
            AnswerContent::Stream(stream) => (Body::stream(stream), None),
            AnswerContent::Upgraded(connection, protocol) => (Body::empty(), Some((connection, protocol))),
        };
        let mut reply = Reply::new(status, body);
        reply.lines.add("via", if is_old { "1.0 tidegate" } else { "1.1 tidegate" });
        let mut tells = false;
        if let Some(admission) = &self.ending.admission {
            tells = refusal::tell(self.plan, admission.asked(), None, self.since_1970(), &mut reply.lines);
            refusal::tell_dry_run(self.plan, &admission.would_refuse, &mut reply.lines);
        }
        // Where we have nothing to say of limits, the upstream may have.
        fields.remove(|name| if tells { refusal::is_told(name) } else { name.eq_ignore_ascii_case(b"x-request-id") });
        if let Some((connection, protocol)) = upgrade {
            reply.lines.add("connection", "upgrade");
            reply.lines.add("upgrade", protocol);
            // The request lasts as long as the connection does: so does what it holds.
            reply.upgrade = Some((connection, Box::new(self.ending.admission.take())));
        }
        reply.fields = Some(fields);
        reply
    }

    fn fail(&mut self, upstream: &Upstream, trouble: &Trouble) -> Reply {
        if let (true, Some(admission)) = (trouble.is_ours(), &mut self.ending.admission) {
            // The gateway itself refuses: what was taken comes back.
            admission.not_sent();
        }
        if !trouble.is_clients() {
            upstream.failed(trouble);
            self.worker.gateway.note_trouble(&upstream.settings.name, trouble, self.id.as_str());
        }
        let mut reply = refusal::upstream_trouble(trouble, &upstream.settings.name, self.id.as_str());
        if let Some(admission) = self.ending.admission.as_ref().filter(|_| !trouble.is_ours()) {
            refusal::tell(self.plan, admission.asked(), None, self.since_1970(), &mut reply.lines);
        }
        reply
    }

    fn refuse(&mut self, denied: Denied, route: usize, tier: &str) -> Reply {
        let (plan, id) = (self.plan, &self.id);
        let (limit, response) = match denied {
            Denied::TooMany => {
                let detail = "this path can be read in several ways, with more limits than can be asked together";
                return rejected(StatusCode::BAD_REQUEST, "ambiguous_path", detail, id.as_str());
            }
            Denied::Limit { asked, by, retry_after } => {
                let response = refusal::limited(plan, &asked, by, retry_after, self.since_1970(), id.as_bytes());
                let limit = &plan.limits[asked[by].limit];
                plan.site.count_exceeded(route, tier);
                self.worker.gateway.note_refusal(limit.name(), self.ending.started);
                (limit, response)
            }
            // Neither of these has exceeded anything.
            Denied::NoKey { limit, lacks } => {
                (&plan.limits[limit], refusal::keyless(&plan.limits[limit], lacks, id.as_str()))
            }
            Denied::StoreAway { limit, retry_after } => {
                (&plan.limits[limit], refusal::store_away(&plan.limits[limit], retry_after, id.as_str()))
            }
        };
        if let Some(record) = &mut self.ending.record {
            record.refused_by = Some(limit.name().into());
        }
        response
    }

    /// Whoever tries credentials is limited like everyone else, by what is known of them without.
    async fn refuse_unidentified(
        &mut self,
        detail: &str,
        deciding: Deciding<'_>,
        limits: &[RouteLimits<'_>],
        facts: &Facts<'_>,
        route: usize,
    ) -> Reply {
        let needs_no_caller = |limit: &&usize| !self.plan.limits[**limit].settings.key.needs_caller();
        let kept = limits.iter().map(|of| (of.route, of.limits.iter().filter(needs_no_caller).copied().collect()));
        let kept: Vec<(&str, Vec<usize>)> = kept.collect();
        let limits: Vec<_> = kept.iter().map(|(route, limits)| RouteLimits { route, limits }).collect();
        match Box::pin(admit(deciding, &limits, facts)).await {
            Ok(mut admission) => admission.sent(),
            Err(denied @ Denied::Limit { .. }) => {
                self.count(route, false);
                return self.refuse(denied, route, facts.tier);
            }
            // Neither what else is missing nor a store that is away says more than that the credentials are wrong.
            Err(Denied::NoKey { .. } | Denied::TooMany | Denied::StoreAway { .. }) => {}
        }
        let mut reply = rejected(StatusCode::UNAUTHORIZED, "unidentified", detail, self.id.as_str());
        reply.lines.add("www-authenticate", "Bearer");
        reply
    }

    /// Remembers a request for its line in the access log.
    fn note(&mut self, request: &RequestHead, host: &[u8], ip: IpAddr) {
        if self.worker.gateway.access_log().is_some() {
            self.ending.record = Some(Box::new(Record::new(request, host, ip, self.id.as_str())));
        }
    }

    fn since_1970(&self) -> Duration {
        Duration::from_nanos(self.now.as_nanos())
    }

    /// Counts a decision, by the algorithm of the route's first limit.
    fn count(&self, route: usize, forwarded: bool) {
        let first = self.plan.site.routes[route].limits.first();
        let algorithm = first.map(|limit| self.plan.limits[*limit].settings.numbers.algorithm());
        self.worker.metrics().decided(forwarded, algorithm);
    }
}

/// A request that may go.
struct Outbound<'a> {
    request: &'a RequestHead,
    host: &'a [u8],
    body: RequestBody,
    from_trusted: bool,
}

/// Asks the limits of the client, waits if a shaper says so, and then asks those of the upstream. If the latter refuse, what the client's
/// took comes back: its admission is dropped unsent.
async fn admitted(
    deciding: Deciding<'_>,
    client: &[RouteLimits<'_>],
    upstream: RouteLimits<'_>,
    facts: &Facts<'_>,
) -> Result<Admission, Denied> {
    let mut admission = admit(deciding, client, facts).await?;
    let wait = admission.wait();
    if !wait.is_zero() {
        Box::pin(tokio::time::sleep(wait)).await;
    }
    if !upstream.limits.is_empty() {
        let deciding = Deciding { now: deciding.clock.now(), ..deciding };
        let more = Box::pin(admit(deciding, &[upstream], facts)).await?;
        let wait = more.wait();
        admission.join(more);
        if !wait.is_zero() {
            Box::pin(tokio::time::sleep(wait)).await;
        }
    }
    Ok(admission)
}

//! The gateway's own endpoints: limits, reload, health, metrics.

use std::borrow::Cow;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use subtle::ConstantTimeEq;
use tidegate_http::headers::bearer;
use tidegate_http::request::RequestHead;
use tidegate_serve::Exposition;
use tidegate_store::FailureMode;
use tokio::time::timeout;

use crate::body::Body;
use crate::client::Client;
use crate::control::{Control, NotChanged, describe};
use crate::endpoint_report::Availability;
use crate::gateway::Gateway;
use crate::plan::Site;
use crate::rejection::rejected;
use crate::reload::reload;
use crate::request_body::RequestBody;
use crate::response::Response;
use crate::routes::decode;
use crate::stored::numbers_of;
use crate::worker::Worker;
use crate::{endpoint_report, interaction_report, origin};

/// The largest body of a change.
const LARGEST_BODY: usize = 64 * 1024;
/// The longest time for the body of a change.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Responds to a request for one of the gateway's own paths.
pub(crate) async fn respond(
    Worker { gateway, control, .. }: &Worker,
    client: &Client,
    request: &RequestHead,
    body: RequestBody,
    request_id: &str,
) -> Response {
    let path = request.uri.path();
    if path.starts_with("/actuator/") {
        return actuator(gateway, path, &request.method, request_id);
    }
    if let Err((status, detail)) = may_change(&gateway.plan().site, client, request) {
        let mut response = rejected(status, "not_allowed", &detail, request_id);
        if status == StatusCode::UNAUTHORIZED {
            response.lines.add("www-authenticate", "Bearer");
        }
        return response;
    }
    let body = match read(body).await {
        Ok(body) => body,
        Err((status, detail)) => return rejected(status, "bad_body", detail, request_id),
    };
    let result = config(gateway, control, path, request, &body).await;
    result.unwrap_or_else(|fault| {
        let mut response = rejected(fault.status, fault.reason, &fault.detail, request_id);
        if let Some(allow) = fault.allow {
            response.lines.add("allow", allow);
        }
        response
    })
}

struct Fault {
    status: StatusCode,
    reason: &'static str,
    detail: String,
    allow: Option<&'static str>,
}

impl Fault {
    fn bad(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, reason: "bad_request", detail: detail.into(), allow: None }
    }

    fn unknown(path: &str) -> Self {
        let detail = format!(
            "unknown endpoint {path:?}; known endpoints: /config/limits, /config/limits/NAME, /config/algorithm, \
             /config/history, /config/upstreams, /config/upstreams/NAME, /config/upstreams/NAME/ENDPOINT, \
             /config/breakers, /config/breakers/POLICY/UPSTREAM, /reload"
        );
        Self { status: StatusCode::NOT_FOUND, reason: "no_such_endpoint", detail, allow: None }
    }

    fn not_found(reason: &'static str, detail: String) -> Self {
        Self { status: StatusCode::NOT_FOUND, reason, detail, allow: None }
    }

    fn method(allow: &'static str) -> Self {
        let detail = format!("allowed methods: {allow}");
        Self { status: StatusCode::METHOD_NOT_ALLOWED, reason: "method_not_allowed", detail, allow: Some(allow) }
    }
}

impl From<NotChanged> for Fault {
    fn from(not_changed: NotChanged) -> Self {
        let (status, reason) = match &not_changed {
            NotChanged::NoSuchLimit { .. } => (StatusCode::NOT_FOUND, "no_such_limit"),
            NotChanged::Invalid(_) => (StatusCode::BAD_REQUEST, "bad_request"),
            NotChanged::StoreAway => (StatusCode::SERVICE_UNAVAILABLE, "store_away"),
            NotChanged::StoreRejects(_) => (StatusCode::SERVICE_UNAVAILABLE, "store_refuses"),
            NotChanged::Unknown => (StatusCode::SERVICE_UNAVAILABLE, "change_unknown"),
            NotChanged::Contended => (StatusCode::CONFLICT, "contended"),
        };
        Self { status, reason, detail: not_changed.to_string(), allow: None }
    }
}

async fn config(
    gateway: &Gateway,
    control: &Control,
    path: &str,
    request: &RequestHead,
    body: &[u8],
) -> Result<Response, Fault> {
    let (is_read, is_post, is_delete) =
        (is_read(&request.method), request.method == Method::POST, request.method == Method::DELETE);
    match path {
        "/config/limits" if is_read => Ok(json(&all_limits(gateway))),
        "/config/limits" if is_post => {
            control.set(gateway, "default", numbers(body, "default", &all_limits(gateway))?).await?;
            Ok(json(&all_limits(gateway)))
        }
        "/config/limits" => Err(Fault::method("GET, POST")),
        "/config/history" if is_read => Ok(json(&gateway.adaptation.history(gateway.plan().site.adaptive.as_deref()))),
        "/config/algorithm" if is_post => {
            let (name, numbers) = algorithm(request, body)?;
            control.set_algorithm(gateway, &name, numbers).await?;
            if name == "default" { Ok(json(&all_limits(gateway))) } else { one_limit(gateway, &name) }
        }
        "/reload" if is_post => {
            reload(gateway, control).await?;
            Ok(json(&all_limits(gateway)))
        }
        "/config/algorithm" | "/reload" => Err(Fault::method("POST")),
        "/config/upstreams" if is_read => Ok(json(&endpoint_report::all(&gateway.plan(), gateway.now()))),
        "/config/breakers" if is_read => Ok(json(&interaction_report::breakers(&gateway.plan(), gateway.now()))),
        "/config/history" | "/config/upstreams" | "/config/breakers" => Err(Fault::method("GET")),
        _ if path.starts_with("/config/upstreams/") => upstreams(gateway, path, &request.method, body),
        _ if path.starts_with("/config/breakers/") => breakers(gateway, path, &request.method, body),
        _ => {
            let name = path.strip_prefix("/config/limits/").filter(|name| !name.is_empty() && !name.contains('/'));
            let name = name.ok_or_else(|| Fault::unknown(path))?;
            match () {
                () if is_read => {}
                () if is_post => {
                    let known = gateway.plan().limit(name).map(describe).unwrap_or_default();
                    control.set(gateway, name, numbers(body, name, &known)?).await?;
                }
                () if is_delete => control.unset(gateway, name).await?,
                () => return Err(Fault::method("GET, POST, DELETE")),
            }
            one_limit(gateway, name)
        }
    }
}

/// Shows an upstream, or sets the state of one of its endpoints.
fn upstreams(gateway: &Gateway, path: &str, method: &Method, body: &[u8]) -> Result<Response, Fault> {
    let rest = path.strip_prefix("/config/upstreams/").unwrap_or_default();
    let (name, endpoint) = rest.split_once('/').map_or((rest, None), |(name, endpoint)| (name, Some(decode(endpoint))));
    let (plan, now) = (gateway.plan(), gateway.now());
    let upstream =
        endpoint_report::upstream(&plan, name).map_err(|detail| Fault::not_found("no_such_upstream", detail))?;
    let Some(endpoint) = endpoint else {
        return if is_read(method) {
            Ok(json(&endpoint_report::one(upstream, now)))
        } else {
            Err(Fault::method("GET"))
        };
    };
    if *method != Method::POST {
        return Err(Fault::method("POST"));
    }
    let state = wanted_state(body, endpoint_report::forced, "\"drain\", \"up\", \"down\" or \"auto\"")?;
    let pool = upstream.endpoints.pool();
    let index = endpoint_report::index(&pool, &endpoint);
    let index = index.map_err(|detail| Fault::not_found("no_such_endpoint", detail))?;
    if let Some(change) = pool.balancer.force(index, state, now) {
        gateway.note_endpoint_change(&upstream.name, &pool, change);
    }
    Ok(json(&endpoint_report::one(upstream, now)))
}

/// Shows a breaker, or sets its state.
fn breakers(gateway: &Gateway, path: &str, method: &Method, body: &[u8]) -> Result<Response, Fault> {
    let rest = path.strip_prefix("/config/breakers/").unwrap_or_default();
    let (policy, upstream) = rest.split_once('/').ok_or_else(|| Fault::unknown(path))?;
    let (plan, now) = (gateway.plan(), gateway.now());
    let (interaction, breaker) = interaction_report::with_breaker(&plan, policy, upstream)
        .map_err(|detail| Fault::not_found("no_such_breaker", detail))?;
    if *method == Method::POST {
        let states = "\"open\", \"closed\", \"disabled\" or \"auto\"";
        let wanted = wanted_state(body, interaction_report::forced, states)?;
        breaker.force(wanted, now);
        let line = format!("breaker of `{upstream}` (policy `{policy}`) set to `{}` by an operator", wanted.name());
        gateway.log.info("Breaker", line);
    } else if !is_read(method) {
        return Err(Fault::method("GET, POST"));
    }
    Ok(json(&interaction_report::breaker(interaction, now).unwrap_or_default()))
}

/// The state that a body asks for: `{"state": …}`.
fn wanted_state<T>(body: &[u8], state_of: impl Fn(&str) -> Option<T>, states: &str) -> Result<T, Fault> {
    let value =
        tidegate_input::json::read(body).map_err(|error| Fault::bad(format!("the body is not JSON: {error}")))?;
    let fields = value.as_object().ok_or_else(|| Fault::bad("the body must be a JSON object"))?;
    if let Some(other) = fields.keys().find(|field| *field != "state") {
        return Err(Fault::bad(format!("unknown field {other:?}; known fields: state")));
    }
    fields.get("state").and_then(Value::as_str).and_then(state_of).ok_or_else(|| {
        let found = fields.get("state").map_or_else(|| "nothing".to_owned(), ToString::to_string);
        Fault::bad(format!("`state` must be {states}, got {found}"))
    })
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// The numbers in a body. The body may have other fields of the limit, as they are in `known`, so that a client can
/// send back what it has read; they can't be changed.
fn numbers(body: &[u8], limit: &str, known: &Value) -> Result<crate::config::model::Numbers, Fault> {
    let value =
        tidegate_input::json::read(body).map_err(|error| Fault::bad(format!("the body is not JSON: {error}")))?;
    let Value::Object(mut fields) = value else { return Err(Fault::bad("the body must be a JSON object")) };
    if let Some(name) = fields.remove("name").filter(|name| name != limit) {
        return Err(Fault::bad(format!(
            "`name` must be {limit:?} or left out, got {name}; other limits are at /config/limits/NAME"
        )));
    }
    for field in ["key", "state", "status", "soft", "dry_run", "set_by", "base", "limits"] {
        let Some(current) = known.get(field) else { continue };
        if fields.remove(field).is_some_and(|wanted| wanted != *current) {
            return Err(Fault::bad(format!("`{field}` can't be changed here; leave it as it is or leave it out")));
        }
    }
    numbers_of(Value::Object(fields)).map_err(Fault::bad)
}

/// The limit and its new algorithm, from the query or from JSON.
fn algorithm(request: &RequestHead, body: &[u8]) -> Result<(String, crate::config::model::Numbers), Fault> {
    let mut fields = if body.trim_ascii().is_empty() {
        Map::new()
    } else {
        match tidegate_input::json::read(body) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Err(Fault::bad("the body must be a JSON object")),
            Err(error) => return Err(Fault::bad(format!("the body is not JSON: {error}"))),
        }
    };
    for pair in request.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let Some((field @ ("algorithm" | "name"), value)) = pair.split_once('=') else {
            return Err(Fault::bad(format!("unknown query parameter {pair:?}; known parameters: algorithm, name")));
        };
        let value = Value::from(decode(value));
        if fields.insert(field.to_owned(), value.clone()).is_some_and(|other| other != value) {
            return Err(Fault::bad(format!("`{field}` has two different values")));
        }
    }
    let name = match fields.remove("name") {
        None => "default".to_owned(),
        Some(Value::String(name)) => name,
        Some(_) => return Err(Fault::bad("`name` must be text")),
    };
    if !fields.contains_key("algorithm") {
        return Err(Fault::bad("`algorithm` is required, in the query or in the body"));
    }
    Ok((name, numbers_of(Value::Object(fields)).map_err(Fault::bad)?))
}

/// The numbers of the limit `default` at the top, for clients that know only one limit, and all limits by name.
fn all_limits(gateway: &Gateway) -> Value {
    let plan = gateway.plan();
    let mut response = Map::new();
    let limits = plan.limits.iter().map(|limit| (limit.name().to_owned(), describe(limit)));
    let limits: Map<String, Value> = limits.collect();
    if let Some(Value::Object(fields)) = limits.get("default") {
        let numbers = ["algorithm", "limit", "window", "capacity", "fillRate", "hold"];
        let numbers = fields.iter().filter(|(field, _)| numbers.contains(&field.as_str()));
        response.extend(numbers.map(|(field, value)| (field.clone(), value.clone())));
    }
    response.insert("version".to_owned(), plan.version.into());
    response.insert("limits".to_owned(), limits.into());
    Value::Object(response)
}

fn one_limit(gateway: &Gateway, name: &str) -> Result<Response, Fault> {
    let plan = gateway.plan();
    let known = || plan.limits.iter().map(|limit| limit.name().to_owned()).collect();
    let unknown = || NotChanged::NoSuchLimit { name: name.to_owned(), known: known() };
    Ok(json(&describe(plan.limit(name).ok_or_else(unknown)?)))
}

fn actuator(gateway: &Arc<Gateway>, path: &str, method: &Method, request_id: &str) -> Response {
    if !is_read(method) {
        let detail = "allowed methods: GET";
        let mut response = rejected(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail, request_id);
        response.lines.add("allow", "GET");
        return response;
    }
    match path {
        "/actuator/health" => health(gateway, true),
        "/actuator/health/liveness" => json(&json!({ "status": "UP" })),
        "/actuator/health/readiness" => health(gateway, false),
        "/actuator/prometheus" => {
            let (plan, store) = (gateway.plan(), gateway.store_state());
            let sink = gateway.access_log().map(|log| &log.sink);
            let endpoints = |page: &mut Exposition| {
                endpoint_report::write(&plan, gateway.now(), &gateway.names, page);
                interaction_report::write(&plan, gateway.now(), page);
            };
            let page = gateway.metrics.page(&plan, store.as_ref(), sink, &gateway.adaptation, endpoints);
            let mut response = Response::new(StatusCode::OK, Body::whole(Bytes::from(page)));
            response.lines.add("content-type", Exposition::CONTENT_TYPE);
            response
        }
        _ => {
            let detail = format!(
                "unknown endpoint {path:?}; known endpoints: /actuator/health, /actuator/health/liveness, \
                 /actuator/health/readiness, /actuator/prometheus"
            );
            rejected(StatusCode::NOT_FOUND, "no_such_endpoint", &detail, request_id)
        }
    }
}

/// The health of the gateway, its store and its upstreams. The gateway is not ready while it drains, or while the store
/// is unavailable and the failure mode is `closed`.
fn health(gateway: &Gateway, always_up: bool) -> Response {
    let store = gateway.store_state();
    let rejects_all = store.as_ref().is_some_and(|store| store.is_down && store.mode == FailureMode::Closed);
    let is_ready = !gateway.is_draining() && !rejects_all;
    let store = store.map_or_else(
        || json!({ "type": "memory", "status": "UP" }),
        |store| json!({ "type": "redis", "status": up(!store.is_down), "on_failure": store.mode.name() }),
    );
    let (plan, now) = (gateway.plan(), gateway.now());
    let upstreams = plan.site.upstreams.iter().map(|upstream| {
        let failing = upstream.stats.failing.load(std::sync::atomic::Ordering::Relaxed);
        let Availability { endpoints, available, can_serve } = Availability::of(upstream, now);
        let status = up(!failing && can_serve);
        (upstream.name.to_string(), json!({ "status": status, "endpoints": endpoints, "available": available }))
    });
    let upstreams: Map<String, Value> = upstreams.collect();
    let mode = if gateway.is_draining() { "draining" } else { "serving" };
    let status = up(is_ready || always_up);
    let upstreams = Value::Object(upstreams);
    let mut response =
        json(&json!({ "status": status, "mode": mode, "ready": is_ready, "store": store, "upstreams": upstreams }));
    if status == "DOWN" {
        response.status = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

fn up(is_up: bool) -> &'static str {
    if is_up { "UP" } else { "DOWN" }
}

fn json(value: &Value) -> Response {
    let mut response = Response::new(StatusCode::OK, Body::whole(Bytes::from(format!("{value}\n"))));
    response.lines.add("content-type", "application/json");
    response.lines.add("cache-control", "no-store");
    response
}

/// Checks that the client may see and change limits.
fn may_change(site: &Site, client: &Client, request: &RequestHead) -> Result<(), (StatusCode, Cow<'static, str>)> {
    if let Some(token) = &site.admin_token {
        let given = request.headers.get("authorization").and_then(bearer);
        // In constant time, which reveals nothing about the token.
        return if given.is_some_and(|given| given.ct_eq(token.as_bytes()).into()) {
            Ok(())
        } else {
            Err((StatusCode::UNAUTHORIZED, "expected `Authorization: Bearer` with the admin token".into()))
        };
    }
    let forbidden = |detail: &'static str| Err((StatusCode::FORBIDDEN, detail.into()));
    // A web page must not be able to change limits through the browser of its reader.
    let is_cross_site =
        request.headers.get("sec-fetch-site").is_some_and(|site| !matches!(site, b"none" | b"same-origin"));
    if is_cross_site || request.headers.has("origin") {
        return forbidden("web pages can't use this endpoint without the admin token");
    }
    if site.admin_open {
        return Ok(());
    }
    if let Some(sign) = origin::proxy_sign(request) {
        let detail = format!(
            "{sign} shows that a proxy sent this request, so it may come from anyone: configure `admin.token`, or a \
             separate admin listener (`admin.listen`) and send requests to it directly (or set ADMIN_OPEN=true to \
             allow everyone)"
        );
        return Err((StatusCode::FORBIDDEN, detail.into()));
    }
    let is_loopback = client.listener.ip().is_loopback();
    if is_loopback && !origin::is_for_this_machine(request) {
        return forbidden("Host must be localhost or the listener's address; otherwise configure `admin.token`");
    }
    if site.admin_apart || is_loopback {
        return Ok(());
    }
    forbidden(
        "this listener is not on the loopback: configure `admin.token` or `admin.listen` (or set ADMIN_OPEN=true)",
    )
}

async fn read(mut body: RequestBody) -> Result<Vec<u8>, (StatusCode, &'static str)> {
    let mut bytes = Vec::new();
    let reading = async {
        while let Some(frame) = poll_fn(|cx| body.poll_piece(cx)).await {
            let frame = frame.map_err(|_| (StatusCode::BAD_REQUEST, "the body ended early"))?;
            bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            if bytes.len() > LARGEST_BODY {
                return Err((StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 64 KiB"));
            }
        }
        Ok(())
    };
    timeout(BODY_TIMEOUT, reading).await.unwrap_or(Err((StatusCode::REQUEST_TIMEOUT, "the body took too long")))?;
    Ok(bytes)
}

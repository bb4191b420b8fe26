//! From what is written to what it means. Everything that is wrong is collected, with its path.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::uri::{Authority, Scheme};
use ipnet::IpNet;
use tidegate_policy::{Cost, MAX_LEVELS};
use tidegate_store::{LeaseTerms, Name, StoreConfig, TlsFiles, Topology, Unshareable};

use super::doubts::doubts;
use super::model::{self, Config, Missing, Numbers, State, TierNumbers};
use super::numbers::LimitNumbers;
use super::span::Span;
use super::{InvalidConfig, Problem};
use crate::h1::MOST_HEADERS;
use crate::identity::Identity;
use crate::key::KeyParts;
use crate::routes::Matcher;
use crate::tls::{self, ClientTls};

/// A configuration that has been checked.
pub struct Settings {
    /// Where clients connect.
    pub listeners: Vec<ListenerSettings>,
    /// Threads that serve.
    pub workers: usize,
    /// The same as written, if it is.
    pub workers_written: Option<usize>,
    /// Bounds of client connections.
    pub connections: model::Connections,
    /// Whose headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// An own listener for changes and metrics.
    pub admin_listen: Option<SocketAddr>,
    /// What a change must carry.
    pub admin_token: Option<String>,
    /// Whether everyone may change limits.
    pub admin_open: bool,
    /// The event log.
    pub log: model::Log,
    /// The access log.
    pub access_log: Option<model::AccessLog>,
    /// Redis.
    pub redis: Option<RedisSettings>,
    /// Who callers are.
    pub(crate) identity: Identity,
    /// Tier of callers that have none.
    pub default_tier: String,
    /// All limits; those of tiers are among them, as `limit.tier`.
    pub limits: Vec<LimitSettings>,
    /// All upstreams.
    pub upstreams: Vec<UpstreamSettings>,
    /// All routes, the first match counts.
    pub routes: Vec<RouteSettings>,
    /// What is probably not meant.
    pub doubts: Vec<Problem>,
}

/// Where clients connect.
pub struct ListenerSettings {
    /// The address.
    pub address: SocketAddr,
    /// For HTTPS.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Whether HTTP/2 without TLS is taken.
    pub h2c: bool,
}

/// How Redis is reached.
pub struct RedisSettings {
    /// Where it is.
    pub topology: Topology,
    /// What gateways that share have in common.
    pub namespace: Name,
    /// The rest, as written.
    pub model: model::Redis,
}

/// A limit.
#[derive(Clone)]
pub struct LimitSettings {
    /// Its name.
    pub name: Name,
    /// How much.
    pub numbers: LimitNumbers,
    /// What may come on top, marked as degraded.
    pub soft: u64,
    /// Who shares it.
    pub(crate) key: KeyParts,
    /// When that can't be told.
    pub missing: Missing,
    /// Which limit other tiers have instead, by its place; none is no limit.
    pub tiers: Vec<(Box<str>, Option<usize>)>,
    /// What a request takes.
    pub cost: Cost,
    /// How a refusal is answered.
    pub status: StatusCode,
    /// Whether it only watches.
    pub dry_run: bool,
    /// Where counts are.
    pub state: State,
    /// How many accounts are kept in memory.
    pub max_keys: std::num::NonZeroUsize,
}

/// A service behind the gateway.
pub struct UpstreamSettings {
    /// Its name.
    pub name: Box<str>,
    /// Host and port to connect to.
    pub host: Box<str>,
    /// The port.
    pub port: u16,
    /// What goes before every path, without a slash at the end.
    pub base: Box<str>,
    /// The `Host` it is sent.
    pub authority: http::HeaderValue,
    /// For `https`.
    pub tls: Option<ClientTls>,
    /// To connect.
    pub connect_timeout: Duration,
    /// To answer.
    pub answer_timeout: Duration,
    /// The longest pause in a body.
    pub body_timeout: Duration,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// Idle connections of each worker.
    pub max_idle: usize,
    /// Connections of all workers.
    pub max_connections: usize,
    /// Bytes of an answer's head.
    pub max_head_bytes: usize,
    /// Whether it is sent the client's `Host`.
    pub preserve_host: bool,
    /// Limits on what reaches it, by their places.
    pub limits: Vec<usize>,
}

/// Which requests go where.
pub struct RouteSettings {
    /// Its name.
    pub name: Box<str>,
    /// Which requests.
    pub(crate) matcher: Matcher,
    /// Where to, by its place.
    pub upstream: usize,
    /// Limits of clients, by their places.
    pub limits: Vec<usize>,
}

struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem { path: path.into(), message: message.into() });
    }

    /// The value, or a problem at `path`.
    fn ok<T, E: ToString>(&mut self, path: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(path, error.to_string())).ok()
    }

    fn span(&mut self, path: &str, span: Span, least: Duration, most: Duration) -> Duration {
        if !(least..=most).contains(&span.get()) {
            self.add(path, format!("is {span}; from {least:?} to {most:?} is allowed"));
        }
        span.get()
    }

    fn within<T: PartialOrd + std::fmt::Display + Copy>(&mut self, path: &str, value: T, least: T, most: T) -> T {
        if value < least || value > most {
            self.add(path, format!("is {value}; from {least} to {most} is allowed"));
        }
        value
    }
}

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

impl Settings {
    /// Checks a configuration. On failure: everything that is wrong.
    pub fn check(config: &Config) -> Result<Self, InvalidConfig> {
        let mut problems = Problems(Vec::new());
        let settings = Self::build(config, &mut problems);
        match settings {
            Some(settings) if problems.0.is_empty() => Ok(settings),
            _ => Err(InvalidConfig::Meaning(problems.0)),
        }
    }

    fn build(config: &Config, problems: &mut Problems) -> Option<Self> {
        let listeners = listeners(&config.listeners, problems);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = problems.within("workers", config.workers.unwrap_or(cores), 1, 256);
        check_connections(&config.connections, problems);
        let trusted_proxies = trusted(&config.trusted_proxies, problems);
        let admin_token = admin_token(&config.admin, problems);
        let admin_listen = config.admin.listen.as_deref().and_then(|text| address("admin.listen", text, problems));
        if let Some(log) = &config.access_log {
            problems.within("access_log.buffer", log.buffer, 1, 1 << 20);
        }
        check_places(&listeners, admin_listen, config.access_log.as_ref(), problems);
        let redis = config.redis.as_ref().and_then(|redis| check_redis(redis, problems));
        let mut found = Vec::new();
        let identity = Identity::build(&config.identity, &mut found);
        problems.0.extend(found.into_iter().map(|(path, message)| Problem { path, message }));
        let default_tier = identity.default_tier().to_owned();
        problems.ok("identity.default_tier", Name::new(&default_tier));

        let (limits, places) = check_limits(config, problems);
        let places = Places { good: places, written: config.limits.as_ref() };
        let upstreams = check_upstreams(config, &places, problems);
        let routes = check_routes(config, &upstreams, &places, problems);
        let limits = with_statuses(limits, &upstreams, config);
        check_use(config, &limits, &places, problems);
        let doubts = doubts(config, &limits, admin_listen);
        Some(Self {
            listeners,
            workers,
            workers_written: config.workers,
            connections: config.connections.clone(),
            trusted_proxies,
            admin_listen,
            admin_token: admin_token?,
            admin_open: config.admin.open,
            log: config.log.clone(),
            access_log: config.access_log.clone(),
            redis,
            identity,
            default_tier,
            limits,
            upstreams,
            routes,
            doubts,
        })
    }
}

fn address(path: &str, text: &str, problems: &mut Problems) -> Option<SocketAddr> {
    let parsed = text.parse::<SocketAddr>();
    parsed
        .map_err(|_| problems.add(path, format!("{text:?} is no address; write IP:PORT, such as 127.0.0.1:8082")))
        .ok()
}

fn listeners(listeners: &[model::Listener], problems: &mut Problems) -> Vec<ListenerSettings> {
    if listeners.is_empty() {
        return vec![ListenerSettings { address: SocketAddr::from(([127, 0, 0, 1], 8082)), tls: None, h2c: false }];
    }
    let mut checked = Vec::new();
    for (place, listener) in listeners.iter().enumerate() {
        let path = format!("listeners[{place}]");
        let address = address(&format!("{path}.address"), &listener.address, problems);
        let tls = listener.tls.as_ref().map(|files| tls::server(files));
        let tls = match tls {
            None => None,
            Some(Ok(tls)) => Some(tls),
            Some(Err((field, error))) => {
                problems.add(format!("{path}.tls.{field}"), error);
                None
            }
        };
        if listener.h2c && listener.tls.is_some() {
            problems.add(format!("{path}.h2c"), "is for listeners without `tls`; with TLS, HTTP/2 is chosen by ALPN");
        }
        checked.extend(address.map(|address| ListenerSettings { address, tls, h2c: listener.h2c }));
    }
    checked
}

/// What would only show at the start: an address that is listened on twice, a log that has nowhere to be.
fn check_places(
    listeners: &[ListenerSettings],
    admin: Option<SocketAddr>,
    access_log: Option<&model::AccessLog>,
    problems: &mut Problems,
) {
    let is_taken = |address: SocketAddr, by: &[ListenerSettings]| {
        address.port() != 0 && by.iter().any(|other| other.address == address)
    };
    for (place, listener) in listeners.iter().enumerate() {
        if is_taken(listener.address, &listeners[..place]) {
            problems.add(format!("listeners[{place}].address"), "is that of an earlier listener");
        }
    }
    if admin.is_some_and(|address| is_taken(address, listeners)) {
        problems.add("admin.listen", "is the address of a listener for clients; an own one is needed");
    }
    let directory = access_log.and_then(|log| log.file.as_deref()).and_then(std::path::Path::parent);
    if let Some(directory) = directory.filter(|directory| !directory.as_os_str().is_empty() && !directory.is_dir()) {
        problems.add("access_log.file", format!("{} is no directory", directory.display()));
    }
}

fn check_connections(connections: &model::Connections, problems: &mut Problems) {
    problems.within("connections.max", connections.max, 1, 10_000_000);
    problems.within("connections.max_head_bytes", connections.max_head_bytes, 8_192, 1 << 20);
    problems.within("connections.max_headers", connections.max_headers, 8, MOST_HEADERS);
    problems.within("connections.max_streams", connections.max_streams, 1, 10_000);
    for (field, span) in [
        ("head_timeout", connections.head_timeout),
        ("body_timeout", connections.body_timeout),
        ("write_timeout", connections.write_timeout),
        ("idle_timeout", connections.idle_timeout),
        ("upgrade_timeout", connections.upgrade_timeout),
    ] {
        problems.span(&format!("connections.{field}"), span, Duration::from_millis(20), DAY);
    }
    problems.span("connections.drain_timeout", connections.drain_timeout, Duration::ZERO, HOUR);
}

fn trusted(texts: &[String], problems: &mut Problems) -> Vec<IpNet> {
    let parse = |text: &String| text.parse::<IpNet>().or_else(|_| text.parse().map(|ip: std::net::IpAddr| ip.into()));
    let mut nets = Vec::new();
    for (place, text) in texts.iter().enumerate() {
        match parse(text) {
            Ok(net) => nets.push(net),
            Err(_) => problems.add(
                format!("trusted_proxies[{place}]"),
                format!("{text:?} is no network; write 10.0.0.0/8, fd00::/8 or an address"),
            ),
        }
    }
    nets
}

/// The outer `None` is a problem, the inner one no token.
#[expect(clippy::option_option, reason = "a problem is not the absence of a token")]
fn admin_token(admin: &model::Admin, problems: &mut Problems) -> Option<Option<String>> {
    let (path, token) = match (&admin.token, &admin.token_file) {
        (None, None) => return Some(None),
        (Some(_), Some(_)) => {
            problems.add("admin.token_file", "stands beside `admin.token`; one of them is allowed");
            return None;
        }
        (Some(token), None) => ("admin.token", token.expose().to_owned()),
        (None, Some(file)) => {
            let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()));
            ("admin.token_file", problems.ok("admin.token_file", text)?.trim().to_owned())
        }
    };
    if token.len() < 16 || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        problems.add(path, "must be 16 characters at least, all of them visible ASCII");
        return None;
    }
    Some(Some(token))
}

fn check_redis(redis: &model::Redis, problems: &mut Problems) -> Option<RedisSettings> {
    let files = TlsFiles { ca: redis.ca.clone(), certificate: redis.certificate.clone(), key: redis.key.clone() };
    let topology = problems.ok("redis.url", redis.url.expose().parse::<Topology>()).and_then(|topology| {
        let topology = topology.with_tls(&files);
        topology.map_err(|error| problems.add(format!("redis.{}", error.field), error.reason)).ok()
    });
    let namespace = problems.ok("redis.namespace", Name::new(&redis.namespace));
    let (budget, span, tokens) = (StoreConfig::BUDGET, LeaseTerms::SPAN, LeaseTerms::TOKENS);
    problems.span("redis.budget", redis.budget, *budget.start(), *budget.end());
    problems.within("redis.lease_tokens", redis.lease_tokens, *tokens.start(), *tokens.end());
    problems.span("redis.lease_span", redis.lease_span, *span.start(), *span.end());
    Some(RedisSettings { topology: topology?, namespace: namespace?, model: redis.clone() })
}

/// The seed's default: 100 requests a minute for all clients together.
pub fn default_limit() -> model::Limit {
    model::Limit {
        algorithm: "fixed".to_owned(),
        limit: Some(100),
        window: Some(Span::from_secs(60)),
        ..model::Limit::default()
    }
}

/// All limits, those of tiers behind them, and the places of those that can be named.
fn check_limits(config: &Config, problems: &mut Problems) -> (Vec<LimitSettings>, BTreeMap<String, usize>) {
    let defaults = BTreeMap::from([("default".to_owned(), default_limit())]);
    let written = config.limits.as_ref().unwrap_or(&defaults);
    let mut limits = Vec::new();
    let mut places = BTreeMap::new();
    // Counts are kept by name: of two limits of one name each would count what the other lets through.
    let mut names: BTreeSet<String> = written.keys().cloned().collect();
    for (name, limit) in written {
        let path = format!("limits.{name}");
        let Some(base) = check_limit(&path, name, limit, config.redis.is_some(), problems) else { continue };
        check_sharing(&path, &base, "state", problems);
        places.insert(name.clone(), limits.len());
        limits.push(base);
    }
    for (name, limit) in written {
        let Some(&place) = places.get(name) else { continue };
        for (tier, numbers) in &limit.tiers {
            let path = format!("limits.{name}.tiers.{tier}");
            problems.ok(&path, Name::new(tier));
            let instead = match numbers {
                TierNumbers::Word(_) => None,
                TierNumbers::Numbers(numbers) => {
                    if !names.insert(format!("{name}.{tier}")) {
                        let message = format!("is known as `{name}.{tier}`, but there is another limit of that name");
                        problems.add(&path, message);
                    }
                    let base = limits[place].clone();
                    let Some(own) = check_tier(&path, base, tier, numbers, problems) else { continue };
                    check_sharing(&path, &own, "algorithm", problems);
                    limits.push(own);
                    Some(limits.len() - 1)
                }
            };
            limits[place].tiers.push((tier.as_str().into(), instead));
        }
    }
    (limits, places)
}

/// Whether Redis can hold a limit's numbers, if it shall. `chosen` is the field that decides whether they are leased.
fn check_sharing(path: &str, limit: &LimitSettings, chosen: &str, problems: &mut Problems) {
    let Some(sharing) = limit.state.sharing() else { return };
    // Numbers that make no rule have been told of already.
    let Ok(rule) = limit.numbers.rule(limit.soft) else { return };
    if let Err(error) = sharing.check(&rule) {
        let path = match error {
            Unshareable::NotLeasable { .. } => format!("{path}.{chosen}"),
            Unshareable::LongLog { .. } => format!("{path}.limit"),
            Unshareable::SubMicrosecond { .. } | Unshareable::TooFine { .. } => path.to_owned(),
        };
        problems.add(path, error.to_string());
    }
}

fn check_tier(
    path: &str,
    base: LimitSettings,
    tier: &str,
    numbers: &Numbers,
    problems: &mut Problems,
) -> Option<LimitSettings> {
    let mut numbers = numbers.clone();
    numbers.algorithm.get_or_insert_with(|| base.numbers.algorithm().name().to_owned());
    let numbers = LimitNumbers::new(numbers, base.soft);
    let numbers = numbers.map_err(|error| problems.add(format!("{path}.{}", error.field), error.reason)).ok()?;
    let name = problems.ok(path, Name::new(&format!("{}.{tier}", base.name.as_str())))?;
    Some(LimitSettings { name, numbers, tiers: Vec::new(), ..base })
}

fn check_limit(
    path: &str,
    name: &str,
    limit: &model::Limit,
    with_redis: bool,
    problems: &mut Problems,
) -> Option<LimitSettings> {
    let soft = problems.within(&format!("{path}.soft"), limit.soft.count(), 0, 1 << 20);
    let name = problems.ok(path, Name::new(name));
    let numbers = LimitNumbers::of_limit(limit, soft);
    let numbers = numbers.map_err(|error| problems.add(format!("{path}.{}", error.field), error.reason)).ok();
    let key = limit.key.as_deref().unwrap_or("global");
    let key = problems.ok(&format!("{path}.key"), key.parse::<KeyParts>());
    let cost = limit.cost.unwrap_or(1);
    let cost = Cost::new(cost);
    if cost.is_none() {
        problems.add(format!("{path}.cost"), "is 0; from 1 is allowed");
    }
    let status = limit.status.unwrap_or(429);
    problems.within(&format!("{path}.status"), status, 400, 599);
    let state = limit.kept_in(with_redis);
    if state != State::Memory && !with_redis {
        problems.add(format!("{path}.state"), "needs Redis; configure `redis`, or take `memory`");
    }
    let max_keys = problems.within(&format!("{path}.max_keys"), limit.max_keys.unwrap_or(100_000), 1, 100_000_000);
    let numbers = numbers?;
    Some(LimitSettings {
        name: name?,
        numbers,
        soft,
        key: key?,
        missing: limit.missing,
        tiers: Vec::new(),
        cost: cost?,
        status: StatusCode::from_u16(status).ok()?,
        dry_run: limit.dry_run,
        state,
        max_keys: std::num::NonZeroUsize::new(max_keys)?,
    })
}

/// Where limits are, by name.
struct Places<'a> {
    good: BTreeMap<String, usize>,
    /// All that are written, good or not.
    written: Option<&'a BTreeMap<String, model::Limit>>,
}

impl Places<'_> {
    fn get(&self, name: &str) -> Option<&usize> {
        self.good.get(name)
    }
}

fn named(path: &str, names: &[String], places: &Places<'_>, problems: &mut Problems) -> Vec<usize> {
    let mut found = Vec::new();
    for (place, name) in names.iter().enumerate() {
        match places.get(name) {
            Some(limit) if found.contains(limit) => {
                problems.add(format!("{path}[{place}]"), format!("`{name}` is named twice"));
            }
            Some(limit) => found.push(*limit),
            // One that is written but wrong has been told of already.
            None if places.written.is_some_and(|written| written.contains_key(name)) => {}
            None => {
                let there_are = places.written.map_or_else(|| list(&places.good), list);
                problems.add(format!("{path}[{place}]"), format!("there is no limit `{name}`; there are: {there_are}"));
            }
        }
    }
    found
}

fn list<T>(names: &BTreeMap<String, T>) -> String {
    let names: Vec<&str> = names.keys().map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn check_upstreams(config: &Config, places: &Places<'_>, problems: &mut Problems) -> Vec<UpstreamSettings> {
    let seed = BTreeMap::from([("default".to_owned(), upstream_at("http://127.0.0.1:8081"))]);
    let written = if config.upstreams.is_empty() { &seed } else { &config.upstreams };
    let system = tls::SystemRoots::default();
    let checked =
        written.iter().filter_map(|(name, upstream)| check_upstream(name, upstream, places, &system, problems));
    checked.collect()
}

/// An upstream with the usual settings.
pub fn upstream_at(url: &str) -> model::Upstream {
    model::Upstream {
        url: url.to_owned(),
        connect_timeout: None,
        answer_timeout: None,
        body_timeout: None,
        idle_timeout: None,
        max_idle: None,
        max_connections: None,
        max_head_bytes: None,
        preserve_host: false,
        ca: None,
        server_name: None,
        limits: Vec::new(),
    }
}

fn check_upstream(
    name: &str,
    upstream: &model::Upstream,
    places: &Places<'_>,
    system: &tls::SystemRoots,
    problems: &mut Problems,
) -> Option<UpstreamSettings> {
    let path = format!("upstreams.{name}");
    problems.ok(&path, Name::new(name));
    let mut span = |field: &str, span: Option<Span>, usual: u64| {
        let span = span.unwrap_or(Span::from_millis(usual));
        problems.span(&format!("{path}.{field}"), span, Duration::from_millis(20), DAY)
    };
    let connect_timeout = span("connect_timeout", upstream.connect_timeout, 2_000);
    let answer_timeout = span("answer_timeout", upstream.answer_timeout, 60_000);
    let body_timeout = span("body_timeout", upstream.body_timeout, 60_000);
    let idle_timeout = span("idle_timeout", upstream.idle_timeout, 55_000);
    let max_idle = problems.within(&format!("{path}.max_idle"), upstream.max_idle.unwrap_or(64), 0, 100_000);
    let max_connections = upstream.max_connections.unwrap_or(4_096);
    problems.within(&format!("{path}.max_connections"), max_connections, 1, 1_000_000);
    let max_head_bytes = upstream.max_head_bytes.unwrap_or(65_536);
    problems.within(&format!("{path}.max_head_bytes"), max_head_bytes, 1_024, 1 << 20);
    let limits = named(&format!("{path}.limits"), &upstream.limits, places, problems);
    if limits.len() > MAX_LEVELS {
        problems.add(format!("{path}.limits"), format!("are {}; at most {MAX_LEVELS}", limits.len()));
    }
    let url_path = format!("{path}.url");
    let (scheme, authority, base) = match parse_url(&upstream.url) {
        Ok(parts) => parts,
        Err(reason) => {
            // A user comes with a password.
            let url = if upstream.url.contains('@') { String::new() } else { format!("{:?} ", upstream.url) };
            problems.add(url_path, format!("{url}{reason}; write http://host:port or https://host"));
            return None;
        }
    };
    let is_tls = scheme == Scheme::HTTPS;
    if !is_tls && (upstream.ca.is_some() || upstream.server_name.is_some()) {
        problems.add(&url_path, "is not https, but `ca` or `server_name` is set");
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let server_name = upstream.server_name.as_deref().unwrap_or(host);
    let tls = if is_tls {
        match tls::client(upstream.ca.as_deref(), system, server_name) {
            Ok(tls) => Some(tls),
            Err((field, error)) => {
                problems.add(format!("{path}.{field}"), error);
                return None;
            }
        }
    } else {
        None
    };
    Some(UpstreamSettings {
        name: name.into(),
        host: host.into(),
        port: authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
        base: base.into(),
        authority: http::HeaderValue::from_str(authority.as_str()).ok()?,
        tls,
        connect_timeout,
        answer_timeout,
        body_timeout,
        idle_timeout,
        max_idle,
        max_connections,
        max_head_bytes,
        preserve_host: upstream.preserve_host,
        limits,
    })
}

/// Scheme, authority and base path of an upstream's URL.
fn parse_url(url: &str) -> Result<(Scheme, Authority, String), &'static str> {
    let uri: http::Uri = url.parse().map_err(|_| "is no URL")?;
    let parts = uri.into_parts();
    let scheme = parts.scheme.ok_or("has no scheme")?;
    if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
        return Err("has a scheme other than http and https");
    }
    let authority = parts.authority.ok_or("has no host")?;
    if authority.as_str().contains('@') {
        return Err("carries a user");
    }
    // What is no port is none to the parser: what follows the host must be one.
    let after_host = authority.as_str().rsplit_once(authority.host()).map_or("", |(_, after)| after);
    let has_bad_port = !after_host.is_empty() && authority.port_u16().is_none_or(|port| port == 0);
    if authority.host().is_empty() || has_bad_port {
        return Err("has no usable host or port");
    }
    let path = parts.path_and_query.map(|path| path.to_string()).unwrap_or_default();
    if path.contains('?') {
        return Err("has a query");
    }
    Ok((scheme, authority, path.trim_end_matches('/').to_owned()))
}

fn check_routes(
    config: &Config,
    upstreams: &[UpstreamSettings],
    places: &Places<'_>,
    problems: &mut Problems,
) -> Vec<RouteSettings> {
    let common = match &config.common_limits {
        Some(names) => named("common_limits", names, places, problems),
        None => places.get("default").copied().into_iter().collect(),
    };
    let everything = [model::Route { name: Some("default".to_owned()), ..model::Route::default() }];
    let written = if config.routes.is_empty() { &everything[..] } else { &config.routes };
    let mut routes = Vec::new();
    let mut names = BTreeSet::new();
    for (place, route) in written.iter().enumerate() {
        let path = format!("routes[{place}]");
        let name = route.name.clone().unwrap_or_else(|| format!("route-{}", place + 1));
        problems.ok(&format!("{path}.name"), Name::new(&name));
        if !names.insert(name.clone()) {
            problems.add(format!("{path}.name"), format!("`{name}` is the name of an earlier route"));
        }
        let upstream = which_upstream(&path, route, config, upstreams, problems);
        let mut limits = common.clone();
        for limit in named(&format!("{path}.limits"), &route.limits, places, problems) {
            if limits.contains(&limit) {
                problems.add(format!("{path}.limits"), "names a limit that is among `common_limits`");
            } else {
                limits.push(limit);
            }
        }
        if limits.len() > MAX_LEVELS {
            problems.add(
                format!("{path}.limits"),
                format!("are {} with the common ones; at most {MAX_LEVELS}", limits.len()),
            );
        }
        let matcher =
            Matcher::new(route).map_err(|(field, reason)| problems.add(format!("{path}.{field}"), reason)).ok();
        if let (Some(upstream), Some(matcher)) = (upstream, matcher) {
            routes.push(RouteSettings { name: name.into(), matcher, upstream, limits });
        }
    }
    routes
}

fn which_upstream(
    path: &str,
    route: &model::Route,
    config: &Config,
    upstreams: &[UpstreamSettings],
    problems: &mut Problems,
) -> Option<usize> {
    let path = format!("{path}.upstream");
    match &route.upstream {
        Some(name) => {
            let found = upstreams.iter().position(|upstream| *upstream.name == **name);
            // One that is written but wrong has been told of already.
            if found.is_none() && !config.upstreams.contains_key(name) {
                problems.add(path, format!("there is no upstream `{name}`; there are: {}", list(&config.upstreams)));
            }
            found
        }
        None if config.upstreams.len() <= 1 => (!upstreams.is_empty()).then_some(0),
        None => {
            problems.add(path, format!("is missing; one of {}", list(&config.upstreams)));
            None
        }
    }
}

/// A limit of an upstream is answered with 503, unless it says otherwise.
fn with_statuses(
    mut limits: Vec<LimitSettings>,
    upstreams: &[UpstreamSettings],
    config: &Config,
) -> Vec<LimitSettings> {
    let written = config.limits.as_ref();
    for place in upstreams.iter().flat_map(|upstream| &upstream.limits) {
        let name = limits[*place].name.as_str().to_owned();
        if written.and_then(|written| written.get(&name)).is_some_and(|limit| limit.status.is_none()) {
            limits[*place].status = StatusCode::SERVICE_UNAVAILABLE;
            for tier in limits[*place].tiers.clone().into_iter().filter_map(|(_, tier)| tier) {
                limits[tier].status = StatusCode::SERVICE_UNAVAILABLE;
            }
        }
    }
    limits
}

/// A limit that nothing uses, or that is used for clients and upstreams alike, is a mistake. What is written counts: a route that is
/// wrong uses its limits all the same.
fn check_use(config: &Config, limits: &[LimitSettings], places: &Places<'_>, problems: &mut Problems) {
    let has = |names: &[String], name: &str| names.iter().any(|used| used == name);
    for (name, place) in &places.good {
        let is_common = config.common_limits.as_ref().map_or(name == "default", |common| has(common, name));
        let for_clients = is_common || config.routes.iter().any(|route| has(&route.limits, name));
        let for_upstreams = config.upstreams.values().any(|upstream| has(&upstream.limits, name));
        let path = format!("limits.{name}");
        match (for_clients, for_upstreams) {
            (false, false) => {
                problems
                    .add(path, "is used by nothing; name it in `common_limits`, or in `limits` of a route or upstream");
            }
            (true, true) => problems.add(path, "is used for routes and for an upstream; make two limits of it"),
            (false, true) if limits[*place].dry_run => {
                problems.add(format!("{path}.dry_run"), "is for limits of routes");
            }
            _ => {}
        }
    }
}

//! From what is written to what it means. Everything that is wrong is collected, with its path.

mod adaptive;
mod limits;
mod lints;
mod routes;
mod upstreams;

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use ipnet::IpNet;
use tidegate_policy::Cost;
use tidegate_store::{LeaseTerms, Name, StoreConfig, TlsFiles, Topology};

use crate::config::model::{self, Config, Missing, State};
use crate::config::numbers::LimitNumbers;
use crate::config::span::Span;
use crate::config::{InvalidConfig, Problem};
use crate::h1::MOST_HEADERS;
use crate::identity::Identity;
use crate::key::KeyParts;
use crate::routes::Matcher;
use crate::tls::{self, ClientTls};
use adaptive::check_adaptive;
use limits::{Places, check_limits};
use lints::doubts;
use routes::{check_routes, check_use, with_statuses};
use upstreams::check_upstreams;

pub use adaptive::{AdaptiveSettings, Forecaster, Rails};
pub use limits::default_limit;
pub use upstreams::upstream_at;

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
    /// Adaptation, unless it is off.
    pub adaptive: Option<Arc<AdaptiveSettings>>,
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
        let adaptive = check_adaptive(config, &limits, problems);
        let doubts = doubts(config, &limits, &routes, &identity.tiers(), admin_listen);
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
            adaptive: adaptive.map(Arc::new),
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

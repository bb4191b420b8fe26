//! The configuration as checked. All problems of a [`model`] are reported at once, each with its path.

mod adaptive;
mod limits;
mod lints;
mod policies;
mod resolver;
mod routes;
#[cfg(test)]
mod tests;
mod upstreams;

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use ipnet::IpNet;
use tidegate_http::client::{ClientTls, EndpointBounds};
use tidegate_input::Problems;
use tidegate_policy::Cost;
use tidegate_policy::endpoints::{BalancerSettings, Weight};
use tidegate_store::{Name, TlsFiles, Topology};

use crate::config::model::{self, Config, DEFAULT_LISTENER, Missing, SHORTEST_TOKEN, State, WORKERS};
use crate::config::numbers::LimitNumbers;
use crate::config::ranges::RangeCheck;
use crate::config::{InvalidConfig, Problem};
use crate::identity::Identity;
use crate::key::KeyParts;
use crate::names::ResolverSettings;
use crate::routes::Matcher;
use crate::tls;
use adaptive::check_adaptive;
use limits::{LimitIndexes, check_limits};
use lints::lints;
use policies::check_policies;
use resolver::check_resolver;
use routes::{check_routes, check_use, with_statuses};
use upstreams::check_upstreams;

pub use adaptive::{AdaptiveSettings, Forecaster};
pub use policies::{PolicySettings, RetrySettings};

/// A configuration that has been checked.
pub struct Settings {
    /// Where clients connect.
    pub listeners: Vec<ListenerSettings>,
    /// Threads that serve requests.
    pub workers: usize,
    /// The number of threads as written, if it is.
    pub workers_written: Option<usize>,
    /// Bounds of client connections.
    pub connections: model::Connections,
    /// Networks whose headers are trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// The address of a separate listener for changes and metrics.
    pub admin_listen: Option<SocketAddr>,
    /// The token that a change must carry.
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
    /// How callers are identified.
    pub(crate) identity: Identity,
    /// Tier of callers without one.
    pub default_tier: String,
    /// All limits; those of tiers are among them, as `limit.tier`.
    pub limits: Vec<LimitSettings>,
    /// All upstreams.
    pub upstreams: Vec<UpstreamSettings>,
    /// All policies.
    pub policies: Vec<PolicySettings>,
    /// How their host names are resolved.
    pub(crate) resolver: ResolverSettings,
    /// All routes; the first that matches counts.
    pub routes: Vec<RouteSettings>,
    /// Warnings about settings that are valid, but probably not meant.
    pub lints: Vec<Problem>,
}

/// An address where clients connect.
pub struct ListenerSettings {
    /// The address.
    pub address: SocketAddr,
    /// For HTTPS.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Whether HTTP/2 without TLS is accepted.
    pub h2c: bool,
}

/// The connection to Redis.
pub struct RedisSettings {
    /// Its addresses.
    pub topology: Topology,
    /// Gateways with the same namespace share their limits.
    pub namespace: Name,
    /// The rest: as written, or the default.
    pub model: model::Redis,
}

/// A limit.
#[derive(Clone)]
pub struct LimitSettings {
    /// Its name.
    pub name: Name,
    /// Its algorithm and values.
    pub numbers: LimitNumbers,
    /// How many requests are admitted above the limit, marked as degraded.
    pub soft: u64,
    /// What requests are counted by.
    pub(crate) key: KeyParts,
    /// What happens to a request that lacks what the key needs.
    pub missing: Missing,
    /// Tiers with the index of the limit that applies to them instead; None: unlimited.
    pub tiers: Vec<(Box<str>, Option<usize>)>,
    /// What a request takes.
    pub cost: Cost,
    /// Status of a rejection.
    pub status: StatusCode,
    /// Whether it is a dry run.
    pub dry_run: bool,
    /// Where counts are kept.
    pub state: State,
    /// The most keys kept in memory.
    pub max_keys: std::num::NonZeroUsize,
}

/// An upstream.
pub struct UpstreamSettings {
    /// Its name.
    pub name: Box<str>,
    /// Its endpoints, as written: a host name may have several addresses.
    pub(crate) endpoints: Vec<Arc<EndpointEntry>>,
    /// The bounds of connections to each.
    pub bounds: EndpointBounds,
    /// How requests are spread, and when endpoints are ejected.
    pub balancing: BalancerSettings,
    /// What `balance: hash` hashes.
    pub(crate) hash_key: KeyParts,
    /// Responses with these statuses count as failures of an endpoint.
    pub failure_statuses: Vec<u16>,
    /// How endpoints are checked, if they are.
    pub health_check: Option<Arc<HealthCheckSettings>>,
    /// Whether to send the client's `Host` instead.
    pub preserve_host: bool,
    /// Indexes of the limits on requests to it.
    pub limits: Vec<usize>,
    /// How much of a request's body is read before the request takes a connection.
    pub request_buffer_bytes: usize,
    /// How much of a response is read ahead of its client.
    pub response_buffer_bytes: usize,
    /// The index of its policy.
    pub policy: Option<usize>,
}

impl UpstreamSettings {
    /// The ports and the weights of its endpoints, in their order.
    pub fn ports(&self) -> impl Iterator<Item = (u16, Weight)> {
        self.endpoints.iter().map(|endpoint| (endpoint.port, endpoint.weight))
    }
}

/// An endpoint of an upstream, as written.
pub(crate) struct EndpointEntry {
    pub(crate) is_tls: bool,
    /// Name or address, without brackets.
    pub(crate) host: Box<str>,
    pub(crate) port: u16,
    pub(crate) tls: Option<Arc<ClientTls>>,
    /// The start of every path, without a slash at the end.
    pub(crate) base: Box<str>,
    /// The `Host` to send.
    pub(crate) authority: http::HeaderValue,
    pub(crate) weight: Weight,
}

impl EndpointEntry {
    /// `http://host:port/base`.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.to_string() };
        format!("{scheme}://{host}:{}{}", self.port, self.base)
    }
}

/// How endpoints are checked.
#[derive(Debug, PartialEq, Eq)]
pub struct HealthCheckSettings {
    /// The method and the path to request. None: a check only connects.
    pub request: Option<(http::Method, Box<str>)>,
    /// The statuses of a healthy endpoint. None: 200 to 299.
    pub statuses: Option<Vec<u16>>,
    /// From the start of one check to the next.
    pub interval: Duration,
    /// The longest time of a check.
    pub timeout: Duration,
}

/// A route.
pub struct RouteSettings {
    /// Its name.
    pub name: Box<str>,
    /// Which requests it matches.
    pub(crate) matcher: Matcher,
    /// The index of its upstream.
    pub upstream: usize,
    /// Indexes of its client limits.
    pub limits: Vec<usize>,
    /// The index of its policy, or of that of its upstream.
    pub policy: Option<usize>,
}

impl Settings {
    /// Checks a configuration. The error has all problems.
    pub fn check(config: &Config) -> Result<Self, InvalidConfig> {
        let problems = Problems::unbounded();
        let settings = Self::build(config, &problems);
        let problems = problems.all();
        settings.filter(|_| problems.is_empty()).ok_or(InvalidConfig::Meaning(problems))
    }

    fn build(config: &Config, problems: &Problems) -> Option<Self> {
        let listeners = listeners(&config.listeners, problems);
        config.check_ranges("", problems);
        let trusted_proxies = trusted(&config.trusted_proxies, problems);
        let admin_token = admin_token(&config.admin, problems);
        let admin_listen = config.admin.listen.as_deref().and_then(|text| address("admin.listen", text, problems));
        check_start(&listeners, admin_listen, config.access_log.as_ref(), problems);
        let redis = config.redis.as_ref().and_then(|redis| check_redis(redis, problems));
        let identity = Identity::build(&config.identity, problems);
        let default_tier = identity.default_tier().to_owned();
        problems.ok("identity.default_tier", Name::new(&default_tier));

        let (limits, indexes) = check_limits(config, problems);
        let indexes = LimitIndexes { good: indexes, written: config.limits.as_ref() };
        let policies = check_policies(config, problems);
        let upstreams = check_upstreams(config, &indexes, problems);
        let resolver = check_resolver(&config.resolver, problems);
        let routes = check_routes(config, &upstreams, &indexes, problems);
        let limits = with_statuses(limits, &upstreams, config);
        check_use(config, &limits, &indexes, problems);
        let adaptive = check_adaptive(config, &limits, problems);
        let lints = lints(config, &limits, &upstreams, &policies, &routes, &identity.tiers(), admin_listen);
        Some(Self {
            listeners,
            workers: config.workers.unwrap_or_else(cores),
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
            policies,
            resolver,
            routes,
            lints,
        })
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(*WORKERS.end())
}

fn address(path: &str, text: &str, problems: &Problems) -> Option<SocketAddr> {
    let parsed = text.parse::<SocketAddr>();
    let message = || format!("must be ip:port such as 127.0.0.1:8082, got {text:?}");
    parsed.map_err(|_| problems.add(path, message())).ok()
}

fn listeners(listeners: &[model::Listener], problems: &Problems) -> Vec<ListenerSettings> {
    let usual = [model::Listener { address: DEFAULT_LISTENER.to_owned(), ..model::Listener::default() }];
    let listeners = if listeners.is_empty() { &usual[..] } else { listeners };
    let mut checked = Vec::new();
    for (index, listener) in listeners.iter().enumerate() {
        let path = format!("listeners[{index}]");
        let address = address(&format!("{path}.address"), &listener.address, problems);
        let tls = listener.tls.as_ref().and_then(|files| {
            let tls = tls::server(files);
            tls.map_err(|(field, error)| problems.add(format!("{path}.tls.{field}"), error)).ok()
        });
        if listener.h2c && listener.tls.is_some() {
            problems.add(format!("{path}.h2c"), "can't be combined with `tls`: with TLS, HTTP/2 is chosen by ALPN");
        }
        checked.extend(address.map(|address| ListenerSettings { address, tls, h2c: listener.h2c }));
    }
    checked
}

/// Checks what would otherwise fail at the start: an address used twice, a log file whose directory does not exist.
fn check_start(
    listeners: &[ListenerSettings],
    admin: Option<SocketAddr>,
    access_log: Option<&model::AccessLog>,
    problems: &Problems,
) {
    let is_taken = |address: SocketAddr, others: &[ListenerSettings]| {
        address.port() != 0 && others.iter().any(|other| other.address == address)
    };
    for (index, listener) in listeners.iter().enumerate() {
        if is_taken(listener.address, &listeners[..index]) {
            let message = format!("must differ from earlier listeners, got {}", listener.address);
            problems.add(format!("listeners[{index}].address"), message);
        }
    }
    if let Some(admin) = admin.filter(|address| is_taken(*address, listeners)) {
        problems.add("admin.listen", format!("must differ from the listeners for clients, got {admin}"));
    }
    let directory = access_log.and_then(|log| log.file.as_deref()).and_then(std::path::Path::parent);
    if let Some(directory) = directory.filter(|directory| !directory.as_os_str().is_empty() && !directory.is_dir()) {
        problems.add("access_log.file", format!("must be in an existing directory, got {}", directory.display()));
    }
}

fn trusted(texts: &[String], problems: &Problems) -> Vec<IpNet> {
    let parse = |text: &String| text.parse::<IpNet>().or_else(|_| text.parse().map(|ip: std::net::IpAddr| ip.into()));
    let mut nets = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        match parse(text) {
            Ok(net) => nets.push(net),
            Err(_) => problems.add(
                format!("trusted_proxies[{index}]"),
                format!("must be a network (10.0.0.0/8, fd00::/8) or an address, got {text:?}"),
            ),
        }
    }
    nets
}

/// The outer `None` means a problem, the inner one that there is no token.
#[expect(clippy::option_option, reason = "a problem is not the absence of a token")]
fn admin_token(admin: &model::Admin, problems: &Problems) -> Option<Option<String>> {
    let (path, token) = match (&admin.token, &admin.token_file) {
        (None, None) => return Some(None),
        (Some(_), Some(_)) => {
            problems.add("admin.token_file", "can't be combined with `admin.token`");
            return None;
        }
        (Some(token), None) => ("admin.token", token.expose().to_owned()),
        (None, Some(file)) => {
            let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()));
            ("admin.token_file", problems.ok("admin.token_file", text)?.trim().to_owned())
        }
    };
    if token.len() < SHORTEST_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        // Without the text that was found: it is a secret.
        problems.add(path, format!("must be at least {SHORTEST_TOKEN} characters of visible ASCII"));
        return None;
    }
    Some(Some(token))
}

fn check_redis(redis: &model::Redis, problems: &Problems) -> Option<RedisSettings> {
    let files = TlsFiles { ca: redis.ca.clone(), certificate: redis.certificate.clone(), key: redis.key.clone() };
    let topology = problems.ok("redis.url", redis.url.expose().parse::<Topology>()).and_then(|topology| {
        let topology = topology.with_tls(&files);
        topology.map_err(|error| problems.add(format!("redis.{}", error.field), error.reason)).ok()
    });
    let namespace = problems.ok("redis.namespace", Name::new(&redis.namespace()));
    Some(RedisSettings { topology: topology?, namespace: namespace?, model: redis.clone().with_defaults() })
}

//! The configuration file as written: one struct for each section. Only its shape is checked here. Each setting is
//! declared with its type, default, range and description. The schema, the reference page and the error texts come
//! from these declarations; `section.rs` explains their form.

mod adaptive;
mod endpoint;
mod identity;
mod limit;
mod policy;
mod redis;
mod resolver;
mod upstream;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_http::client_wait::WaitTerms;
use tidegate_http::pace::PaceTerms;
use tidegate_http::server::MOST_HEADERS;
use tidegate_serve::{LogFormat, LogLevel};

pub use adaptive::{Adaptive, AdaptiveMode};
pub use endpoint::{Ejection, Endpoint, HealthCheck, WeightedEndpoint};
pub use identity::{ApiKey, ApiKeys, Identity, Jwt, TrustedHeaders};
pub use limit::{Limit, Missing, Numbers, Soft, State, TierNumbers, Unlimited, default_limit};
pub use policy::{Breaker, BreakerWindow, Bulkhead, Hedge, Jitter, Policy, Retry, RetryBudget};
pub use redis::Redis;
pub(crate) use resolver::MOST_SERVERS;
pub use resolver::Resolver;
pub use upstream::{Route, Upstream};

use super::ranges::single_values;
use super::secret::Secret;
use super::section::section;
use super::span::Span;
use super::words;

/// The address of the listener if none is configured.
pub const DEFAULT_LISTENER: &str = "127.0.0.1:8082";
/// The URL of the upstream if none is configured.
pub const DEFAULT_UPSTREAM: &str = "http://127.0.0.1:8081";
/// How many threads may serve requests.
pub(crate) const WORKERS: RangeInclusive<usize> = 1..=256;
/// The shortest token that protects changes.
pub(crate) const SHORTEST_TOKEN: usize = 16;

const DAY: Span = Span::from_secs(86_400);
const HOUR: Span = Span::from_secs(3_600);
/// Deadlines are checked this often: no timeout can be shorter.
const TICK: Span = Span::of(tidegate_http::deadlines::TICK);

section! {
    /// The gateway's configuration: YAML or JSON. An empty file has one listener on `127.0.0.1:8082`, one upstream at
    /// `http://127.0.0.1:8081` and one limit of 100 requests per minute for all clients together.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Config {
        /// Addresses where clients connect. Default: one plain listener on `127.0.0.1:8082`.
        pub listeners: Vec<Listener>;
        /// Threads that serve requests. Default: one per core.
        pub workers: Option<usize>, in WORKERS;
        /// Bounds of client connections: number, sizes and timeouts.
        pub connections: Connections;
        /// Networks (CIDR) and single addresses whose `X-Forwarded-*` and identity headers are trusted. Default: none.
        pub trusted_proxies: Vec<String>;
        /// Who may change limits, and on which listener.
        pub admin: Admin;
        /// The event log, on standard output.
        pub log: Log;
        /// One line for each request. Default: off.
        pub access_log: Option<AccessLog>;
        /// Redis, for limits that several gateways share. Default: limits are kept in memory.
        pub redis: Option<Redis>;
        /// Limits that follow a forecast. Default: off.
        pub adaptive: Adaptive;
        /// How callers are identified: API keys, JSON Web Tokens, headers of a trusted proxy.
        pub identity: Identity;
        /// Limits by name. Default: one named `default`, a fixed window of 100 requests per minute for all clients
        /// together.
        pub limits: Option<BTreeMap<String, Limit>>;
        /// Limits that every route has besides its own. Default: `default`, if there is a limit of that name.
        pub common_limits: Option<Vec<String>>;
        /// Upstreams by name: the services that the gateway protects. Default: one named `default` at
        /// `http://127.0.0.1:8081`.
        pub upstreams: BTreeMap<String, Upstream>;
        /// Policies by name: timeouts, retries, breakers and bulkheads around the attempts at an upstream. An upstream
        /// or a route names the one that is in force.
        pub policies: BTreeMap<String, Policy>;
        /// How host names of upstreams are resolved.
        pub resolver: Resolver;
        /// Routes. The first that matches a request decides its upstream and limits. Default: one route, which sends
        /// all requests to the only upstream.
        pub routes: Vec<Route>;
    }
}

section! {
    /// An address where clients connect.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct Listener {
        /// IP address and port: `127.0.0.1:8082`, `[::]:443`. Port 0 takes a free one.
        pub address: String;
        /// Serves HTTPS, with HTTP/2 and HTTP/1.1 chosen by ALPN. Default: plain HTTP.
        pub tls: Option<ServerTls>;
        /// Accepts HTTP/2 without TLS (prior knowledge) besides HTTP/1.1.
        #[serde(default)]
        pub h2c: bool;
    }
}

section! {
    /// Certificate and key of a listener. Both files are read again on reload.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct ServerTls {
        /// PEM file with the certificate and its chain.
        pub certificate: PathBuf;
        /// PEM file with the private key.
        pub key: PathBuf;
    }
}

section! {
    /// Bounds of client connections. Timeouts are checked about every 20 ms.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Connections {
        /// The most connections open at once. Beyond it, an idle connection is closed for a new client; while no
        /// connection is idle, new clients wait. The maximum is lower if the process may not open enough file
        /// descriptors.
        pub max: usize = 20_000, in 1..=10_000_000;
        /// The largest head of a request in bytes (HTTP/1.1: request line and headers; HTTP/2: header list).
        pub max_head_bytes: usize = 32_768, in 8_192..=1_048_576;
        /// The most headers of a request.
        pub max_headers: usize = 100, in 8..=MOST_HEADERS;
        /// The most requests at once on one HTTP/2 connection.
        pub max_streams: u32 = 128, in 1..=10_000;
        /// How many responses on one HTTP/2 connection may wait for their client to take them before no more of its
        /// requests begin; while more than 64 HTTP/2 requests are in flight in all, requests without a response count
        /// too, for a quarter of a second. One more with each response that the client has taken whole, and with each
        /// 64 KiB of one, up to `max_streams`; half of them after the client was cut off. Trusted proxies have no such
        /// bound.
        pub max_untaken_streams: u32 = 8, in 1..=10_000;
        /// The most HTTP/2 requests at once on all connections together; requests beyond it get 503.
        pub max_total_streams: usize = 20_000, in 1..=10_000_000;
        /// The most connections, HTTP/2 requests and connections to an upstream that one client address may hold, as a
        /// share of the whole. When several addresses hold a lot, each may hold less, so that something is left for
        /// others. Trusted proxies have no share. 1: no bound.
        pub max_client_share: f64 = 0.5, in 0.001..=1.0;
        /// The least bytes per second that a client must send of a body, or take of a response, while the gateway waits
        /// for it. HTTP/2 requests on one connection share it. 0: no bound.
        pub min_rate: u64 = 240, in 0..=1_000_000_000;
        /// The time over which `min_rate` is judged. Of responses at least the time that 64 KiB take at `min_rate`,
        /// because the kernel reports what it has sent in steps.
        pub min_rate_window: Span = Span::from_secs(10), in Span::from_secs(1)..=HOUR;
        /// The most memory for bodies that are read before they can be sent on, of all requests together, in bytes.
        /// When it is used up, bodies are sent on as they come. As much again may be on its way over HTTP/2: so many
        /// connections have a window of 1 MiB, the others one of 64 KiB.
        pub max_buffer_bytes: usize = 67_108_864, in 0..=1_099_511_627_776;
        /// The largest body of a request in bytes; a larger one is rejected with 413. Default: no bound; bodies are
        /// streamed.
        pub max_body_bytes: Option<u64>;
        /// The longest time from the first byte of a head to its last, for a TLS handshake, and until the first byte on
        /// a new connection.
        pub head_timeout: Span = Span::from_secs(10), in TICK..=DAY;
        /// The longest pause in a request's body.
        pub body_timeout: Span = Span::from_secs(30), in TICK..=DAY;
        /// The longest time in which a client takes no byte of a response.
        pub write_timeout: Span = Span::from_secs(30), in TICK..=DAY;
        /// How long a connection may stay open between requests. It also bounds the wait for the first request.
        pub idle_timeout: Span = Span::from_secs(75), in TICK..=DAY;
        /// The longest time in which an upgraded connection (WebSocket) carries no byte either way.
        pub upgrade_timeout: Span = Span::from_secs(600), in TICK..=DAY;
        /// How long requests in flight may take after the signal to stop.
        pub drain_timeout: Span = Span::from_secs(30), in Span::from_secs(0)..=HOUR;
    }
}

impl Connections {
    /// How fast clients must send and take bytes.
    pub(crate) fn pace(&self) -> PaceTerms {
        PaceTerms { bytes_per_second: self.min_rate, window: self.min_rate_window.get(), step: 0 }
    }

    /// How long a client may be waited for while it sends its body.
    pub(crate) fn body_wait(&self) -> WaitTerms {
        WaitTerms { timeout: self.body_timeout.get(), pace: self.pace() }
    }
}

section! {
    /// Access to `/config/*` and `/reload`. Clients on the loopback have access, unless a proxy forwarded their
    /// request; all others need a token or a separate listener.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Admin {
        /// A separate address for `/config/*`, `/reload` and `/actuator/*`. The listeners for clients then proxy these
        /// paths like all others. Default: none.
        pub listen: Option<String>;
        /// The bearer token that requests must carry: visible ASCII. Default: none.
        pub token: Option<Secret>, length SHORTEST_TOKEN..=usize::MAX;
        /// A file with that token, instead of `token`.
        pub token_file: Option<PathBuf>;
        /// Whether everyone who can connect has access (environment: `ADMIN_OPEN=true`).
        pub open: bool;
    }
}

section! {
    /// The event log.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Log {
        /// The format of its lines.
        #[serde(deserialize_with = "words::read", serialize_with = "words::write")]
        #[schemars(schema_with = "words::schema::<LogFormat>")]
        pub format: LogFormat;
        /// The lowest level that is written.
        #[serde(deserialize_with = "words::read", serialize_with = "words::write")]
        #[schemars(schema_with = "words::schema::<LogLevel>")]
        pub level: LogLevel;
    }
}

section! {
    /// One line for each request. Lines are buffered; when the disk is too slow they are dropped and counted
    /// (`tidegate_access_log_dropped_total`).
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct AccessLog {
        /// The format of its lines.
        pub format: AccessLogFormat;
        /// Path of the file. It is reopened on SIGUSR1 and on reload, so that it can be rotated. Default: standard
        /// output.
        pub file: Option<PathBuf>;
        /// Lines kept while the disk is busy.
        pub buffer: usize = 8_192, in 1..=1_048_576;
    }
}

/// Values of `access_log.format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessLogFormat {
    /// As nginx and Apache write it.
    #[default]
    Combined,
    /// One JSON object per line.
    Json,
}

single_values!(AccessLogFormat);

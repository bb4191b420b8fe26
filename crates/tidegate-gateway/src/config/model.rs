//! The configuration file as it is written: one struct a thing, nothing checked yet but its shape. The doc comments here are the text
//! of the JSON Schema and of the reference page.

mod adaptive;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use tidegate_policy::Algorithm;
use tidegate_store::{FailureMode, Sharing};

pub use adaptive::{Adaptive, AdaptiveMode};

use super::secret::Secret;
use super::span::Span;

/// The gateway's configuration: YAML or JSON. An empty file has one listener on `127.0.0.1:8082`, one upstream at `http://127.0.0.1:8081` and one
/// limit of 100 requests a minute for all clients together. What has no default in these tables and is no list must be set where its section is.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where clients connect. Default: one plain listener on `127.0.0.1:8082`.
    pub listeners: Vec<Listener>,
    /// Threads that serve requests, 1 to 256. Default: one a core.
    #[schemars(range(min = 1, max = 256))]
    pub workers: Option<usize>,
    /// What a client connection may take: time, memory, number.
    pub connections: Connections,
    /// Addresses (CIDR, or single) whose `X-Forwarded-*` and identity headers are believed. Default: none.
    pub trusted_proxies: Vec<String>,
    /// Who may change limits, and where.
    pub admin: Admin,
    /// The event log, on standard output.
    pub log: Log,
    /// A line for each request. Default: off.
    pub access_log: Option<AccessLog>,
    /// Shares limits among gateways. Default: limits are kept in memory.
    pub redis: Option<Redis>,
    /// Limits that follow a forecast. Default: off.
    pub adaptive: Adaptive,
    /// How callers are told apart: API keys, JSON Web Tokens, headers of a trusted proxy.
    pub identity: Identity,
    /// Limits by name. Default: one named `default`, a fixed window of 100 requests a minute for all clients together.
    pub limits: Option<BTreeMap<String, Limit>>,
    /// Limits that every route has besides its own. Default: `default`, if there is a limit of that name.
    pub common_limits: Option<Vec<String>>,
    /// Services behind the gateway, by name. Default: one named `default` at `http://127.0.0.1:8081`.
    pub upstreams: BTreeMap<String, Upstream>,
    /// Which requests go where: the first that matches. Default: all to the only upstream.
    pub routes: Vec<Route>,
}

/// An address where clients connect.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// IP address and port: `127.0.0.1:8082`, `[::]:443`. Port 0 takes a free one.
    pub address: String,
    /// Serves HTTPS, with HTTP/2 and HTTP/1.1 chosen by ALPN. Default: plain HTTP.
    pub tls: Option<ServerTls>,
    /// Takes HTTP/2 without TLS (prior knowledge) besides HTTP/1.1. Default: false.
    #[serde(default)]
    pub h2c: bool,
}

/// Certificate and key of a listener. Both files are read again on reload.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerTls {
    /// PEM file with the certificate and its chain.
    pub certificate: PathBuf,
    /// PEM file with the private key.
    pub key: PathBuf,
}

/// Bounds of client connections. Times are checked about every 20 ms.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Connections {
    /// Connections held at once. For a new client beyond it, an idle connection is closed; where there is none, the client waits. Fewer are
    /// held if the process may not have enough file descriptors open. Default: 20000.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max: usize,
    /// Bytes of a request's head (HTTP/1.1: line and headers; HTTP/2: header list). From 8192 to 1 MiB. Default: 32768.
    #[schemars(range(min = 8_192, max = 1_048_576))]
    pub max_head_bytes: usize,
    /// Headers of a request, 8 to 256. Default: 100.
    #[schemars(range(min = 8, max = 256))]
    pub max_headers: usize,
    /// Requests at once on one HTTP/2 connection. Default: 128.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_streams: u32,
    /// Bytes of a request body; above it 413. Default: no bound, bodies are streamed.
    pub max_body_bytes: Option<u64>,
    /// From the first byte of a head to its last, for a TLS handshake, and for the first byte of a new connection. Default: 10 s.
    pub head_timeout: Span,
    /// The longest pause in a request's body. Default: 30 s.
    pub body_timeout: Span,
    /// The longest a client may take no byte of an answer. Default: 30 s.
    pub write_timeout: Span,
    /// How long a connection may stay open between requests. Also caps the wait for a first request. Default: 75 s.
    pub idle_timeout: Span,
    /// An upgraded connection (WebSocket) without a byte either way. Default: 10 min.
    pub upgrade_timeout: Span,
    /// After the order to stop: how long requests under way may take. Default: 30 s.
    pub drain_timeout: Span,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            max: 20_000,
            max_head_bytes: 32_768,
            max_headers: 100,
            max_streams: 128,
            max_body_bytes: None,
            head_timeout: Span::from_secs(10),
            body_timeout: Span::from_secs(30),
            write_timeout: Span::from_secs(30),
            idle_timeout: Span::from_secs(75),
            upgrade_timeout: Span::from_secs(600),
            drain_timeout: Span::from_secs(30),
        }
    }
}

/// Access to `/config/*` and `/reload`. They are open to clients on the loopback, unless a proxy has sent their requests on; elsewhere
/// they need a token or a listener of their own.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// An own address for `/config/*`, `/reload` and `/actuator/*`. The main listeners then proxy everything. Default: none.
    pub listen: Option<String>,
    /// A bearer token that changes need, 16 characters at least. Default: none.
    #[schemars(length(min = 16))]
    pub token: Option<Secret>,
    /// A file with that token, instead of `token`.
    pub token_file: Option<PathBuf>,
    /// Open to everyone who can connect (environment: `ADMIN_OPEN=true`). Default: false.
    pub open: bool,
}

/// The event log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// `text`: `[time] LEVEL component - message`; `json`: one object a line. Default: `text`.
    pub format: LogFormat,
    /// The least level that is written. Default: `info`.
    pub level: LogLevel,
}

/// How events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// `[time] LEVEL component - message`.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// How much is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// What happens in normal operation.
    #[default]
    Info,
    /// What may matter.
    Warn,
    /// What went wrong.
    Error,
}

/// A line for each request. Lines are buffered; when the disk is too slow they are dropped and counted
/// (`tidegate_access_log_dropped_total`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessLog {
    /// `combined` (as nginx and Apache write it) or `json`. Default: `combined`.
    #[serde(default)]
    pub format: AccessLogFormat,
    /// The file; it is opened anew on SIGUSR1 and on reload, so that it can be rotated. Default: standard output.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// Lines kept while the disk is busy. Default: 8192.
    #[serde(default = "default_log_buffer")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub buffer: usize,
}

fn default_log_buffer() -> usize {
    8_192
}

/// The shape of access log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessLogFormat {
    /// As nginx and Apache write it.
    #[default]
    Combined,
    /// One JSON object a line.
    Json,
}

/// Redis, for limits that several gateways share. Its files are read at the start.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Redis {
    /// `redis://[user:password@]host[:port][/db]`, `redis+sentinel://host:port,…/master`, `redis+cluster://host:port,…`; the same with
    /// `rediss` for TLS, to sentinels and nodes alike.
    pub url: Secret,
    /// PEM file with the authorities to trust for TLS. Default: the system's.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// PEM file with the gateway's own certificate and its chain, for a Redis that asks for one (`tls-auth-clients`). Default: none.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// PEM file with the private key of `certificate`.
    #[serde(default)]
    pub key: Option<PathBuf>,
    /// Gateways with the same namespace share their limits. Default: `ratelimiter`.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The longest a request waits for Redis. Default: 20 ms.
    #[serde(default = "default_budget")]
    pub budget: Span,
    /// When Redis is away: `open` (requests pass), `closed` (requests are refused), `local` (limits in memory). Default: `open`.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Tokens taken in advance by limits with `state: leased`. Default: 1000.
    #[serde(default = "default_lease_tokens")]
    #[schemars(range(min = 1, max = 1_073_741_824))]
    pub lease_tokens: u32,
    /// How long a lease lasts. Default: 1 s.
    #[serde(default = "default_lease_span")]
    pub lease_span: Span,
}

fn default_namespace() -> String {
    "ratelimiter".to_owned()
}

fn default_budget() -> Span {
    Span::from_millis(20)
}

fn default_lease_tokens() -> u32 {
    1_000
}

fn default_lease_span() -> Span {
    Span::from_secs(1)
}

impl Redis {
    /// The usual settings for a server at `url`.
    pub fn at(url: String) -> Self {
        Self {
            url: Secret::new(url),
            ca: None,
            certificate: None,
            key: None,
            namespace: default_namespace(),
            budget: default_budget(),
            on_failure: OnFailure::default(),
            lease_tokens: default_lease_tokens(),
            lease_span: default_lease_span(),
        }
    }
}

/// What happens to requests while Redis is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// They pass.
    #[default]
    Open,
    /// They are refused with 503.
    Closed,
    /// They are limited in memory.
    Local,
}

impl OnFailure {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Local => "local",
        }
    }
}

impl From<OnFailure> for FailureMode {
    fn from(on_failure: OnFailure) -> Self {
        match on_failure {
            OnFailure::Open => Self::Open,
            OnFailure::Closed => Self::Closed,
            OnFailure::Local => Self::Local,
        }
    }
}

/// Who a caller is. Sources are asked in the order API key, token, header; the first that is there counts. An unknown key or a token
/// that does not hold is answered with 401.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Identity {
    /// Tier of callers that have none. Default: `anonymous`.
    pub default_tier: Option<String>,
    /// Known API keys.
    pub api_keys: Option<ApiKeys>,
    /// Tokens in `Authorization: Bearer`.
    pub jwt: Option<Jwt>,
    /// Headers that a trusted proxy has set. From anyone else they are removed.
    pub trusted_headers: Option<TrustedHeaders>,
}

/// A table of API keys.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiKeys {
    /// The header that carries the key. Default: `x-api-key`.
    #[serde(default = "default_key_header")]
    pub header: String,
    /// The keys.
    pub keys: Vec<ApiKey>,
}

fn default_key_header() -> String {
    "x-api-key".to_owned()
}

/// One API key, and whose it is.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    /// The SHA-256 of the key in hex, so that the file holds no secret (`printf %s KEY | sha256sum`).
    #[serde(default)]
    pub sha256: Option<String>,
    /// The key itself, instead of `sha256`.
    #[serde(default)]
    pub key: Option<Secret>,
    /// Whose it is.
    pub user: String,
    /// Their tier.
    #[serde(default)]
    pub tier: Option<String>,
    /// The calling program, for limits by `clientId`. Default: the user.
    #[serde(default)]
    pub client_id: Option<String>,
}

/// JSON Web Tokens. Exactly one of `secret`, `secret_file`, `public_key` and `jwks` is needed.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Jwt {
    /// Shared secret (HS256, HS384, HS512), 32 characters at least.
    pub secret: Option<Secret>,
    /// A file with that secret.
    pub secret_file: Option<PathBuf>,
    /// PEM file with a public key (RS256…, ES256…, `EdDSA`).
    pub public_key: Option<PathBuf>,
    /// File with a JSON Web Key Set.
    pub jwks: Option<PathBuf>,
    /// Allowed algorithms. Default: those that fit the key.
    pub algorithms: Vec<String>,
    /// Required `iss`.
    pub issuer: Option<String>,
    /// Required `aud`.
    pub audience: Option<String>,
    /// Claim with the user. Default: `sub`.
    pub user_claim: Option<String>,
    /// Claim with the tier. Default: `tier`.
    pub tier_claim: Option<String>,
    /// Claim with the calling program. Default: `client_id`, else `azp`.
    pub client_id_claim: Option<String>,
    /// Clocks may differ by so much. Default: 30 s.
    pub leeway: Option<Span>,
}

/// Headers set by a trusted proxy.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TrustedHeaders {
    /// Header with the user, such as `x-auth-user`.
    pub user: Option<String>,
    /// Header with the tier.
    pub tier: Option<String>,
    /// Header with the calling program.
    pub client_id: Option<String>,
}

/// A limit: how much, for whom.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = with_other_spellings)]
pub struct Limit {
    /// `fixed`, `sliding`, `sliding_log`, `token`, `leaky`, `gcra` or `concurrency`.
    #[schemars(schema_with = "algorithm_names")]
    pub algorithm: String,
    /// Requests in a window (`fixed`, `sliding`, `sliding_log`), or in flight (`concurrency`).
    #[serde(default)]
    pub limit: Option<u64>,
    /// Length of the window; a bare number is seconds.
    #[serde(default)]
    pub window: Option<Span>,
    /// Requests that may come at once (`token`, `gcra`), or wait (`leaky`). Also written `burst`.
    #[serde(default, alias = "burst")]
    pub capacity: Option<u64>,
    /// Requests a second in the long run (`token`, `gcra`, `leaky`); may be fractional. Also written `fillRate`.
    #[serde(default, alias = "fillRate")]
    pub fill_rate: Option<f64>,
    /// The longest a request may hold its place (`concurrency`). Default: 1 h.
    #[serde(default)]
    pub hold: Option<Span>,
    /// Who shares it: `global` (everyone), or one or several (joined by `+`) of `ip`, `user`, `apiKey`, `clientId`, `tier`, `endpoint`
    /// (the route), `resource` (the path), `provider` (the upstream), `method`, `host`, `header:NAME`. Default: `global`.
    #[serde(default)]
    pub key: Option<String>,
    /// When a request lacks what `key` needs: `share` (all such requests share one account), `ip` (they are counted by their address),
    /// `refuse` (400), `skip` (this limit does not apply). Default: `share`.
    #[serde(default)]
    pub missing: Missing,
    /// Other numbers for some tiers, by tier: numbers, or `unlimited`. Tiers not named here have those above.
    #[serde(default)]
    pub tiers: BTreeMap<String, TierNumbers>,
    /// So many requests above the limit are still let through, marked for the upstream with `X-Tidegate-Degraded`. `true` means 10.
    /// Not for `leaky`. Default: 0.
    #[serde(default)]
    pub soft: Soft,
    /// What a request takes. Default: 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub cost: Option<u32>,
    /// Status of a refusal, 400 to 599. Default: 429; 503 for limits of an upstream.
    #[serde(default)]
    #[schemars(range(min = 400, max = 599))]
    pub status: Option<u16>,
    /// Decides, counts and tells in a header, but never refuses. Default: false.
    #[serde(default)]
    pub dry_run: bool,
    /// Where counts are kept: `memory`, `exact` (Redis, a call a request), `leased` (Redis, tokens taken in advance). Default: `exact`
    /// where Redis is configured, else `memory`.
    #[serde(default)]
    pub state: Option<State>,
    /// Accounts kept in memory; beyond it the least used are forgotten. Another number starts the counts anew. Default: 100000.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub max_keys: Option<usize>,
}

impl Limit {
    /// Where its counts are kept, as it says or as is usual.
    pub fn kept_in(&self, with_redis: bool) -> State {
        self.state.unwrap_or(if with_redis { State::Exact } else { State::Memory })
    }
}

/// The schema of an algorithm's name.
fn algorithm_names(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = Algorithm::ALL.iter().map(|algorithm| algorithm.name()).collect();
    json_schema!({ "type": "string", "enum": names })
}

/// The same, where it may be left out.
fn algorithm_names_or_none(_: &mut SchemaGenerator) -> Schema {
    let names = Algorithm::ALL.iter().map(|algorithm| Some(algorithm.name())).chain([None]);
    json_schema!({ "type": ["string", "null"], "enum": names.collect::<Vec<_>>() })
}

/// Adds the names that serde takes as well, which schemars does not know of: one of each pair, never both.
fn with_other_spellings(schema: &mut Schema) {
    let mut never_both = Vec::new();
    for (one, other) in [("capacity", "burst"), ("fill_rate", "fillRate")] {
        let Some(properties) = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut) else { return };
        let (known, new) = if properties.contains_key(one) { (one, other) } else { (other, one) };
        let mut property = properties.get(known).cloned().unwrap_or_default();
        property["description"] = format!("The same as `{known}`.").into();
        properties.insert(new.to_owned(), property);
        never_both.push(serde_json::json!({ "not": { "required": [known, new] } }));
    }
    schema.insert("allOf".to_owned(), never_both.into());
}

/// The numbers of a limit, as `POST /config/limits` takes them too. Those of other algorithms may be present.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = with_other_spellings)]
pub struct Numbers {
    /// `fixed`, `sliding`, `sliding_log`, `token`, `leaky`, `gcra` or `concurrency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "algorithm_names_or_none")]
    pub algorithm: Option<String>,
    /// Requests in a window (`fixed`, `sliding`, `sliding_log`), or in flight (`concurrency`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Length of the window; a bare number is seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Span>,
    /// Requests that may come at once (`token`, `gcra`), or wait (`leaky`).
    #[serde(skip_serializing_if = "Option::is_none", alias = "burst")]
    pub capacity: Option<u64>,
    /// Requests a second in the long run (`token`, `gcra`, `leaky`); may be fractional.
    #[serde(skip_serializing_if = "Option::is_none", alias = "fill_rate")]
    pub fill_rate: Option<f64>,
    /// The longest a request may hold its place (`concurrency`). Default: 1 h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Span>,
}

/// What a tier has instead.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum TierNumbers {
    /// The word `unlimited`: the limit does not apply.
    Word(Unlimited),
    /// Other numbers.
    Numbers(Numbers),
}

impl<'de> Deserialize<'de> for TierNumbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TierVisitor)
    }
}

/// Not derived: of a mistake in the numbers a derived one says only that it is neither one nor the other.
struct TierVisitor;

impl<'de> Visitor<'de> for TierVisitor {
    type Value = TierNumbers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("numbers, or `unlimited`")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<TierNumbers, E> {
        match word {
            "unlimited" => Ok(TierNumbers::Word(Unlimited::Unlimited)),
            other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, numbers: A) -> Result<TierNumbers, A::Error> {
        Numbers::deserialize(MapAccessDeserializer::new(numbers)).map(TierNumbers::Numbers)
    }
}

/// The word `unlimited`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unlimited {
    /// No limit.
    Unlimited,
}

/// What to do with a request that lacks what a limit's key needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Missing {
    /// All such requests share one account.
    #[default]
    Share,
    /// They are counted by their address.
    Ip,
    /// They are refused with 400.
    Refuse,
    /// The limit does not apply to them.
    Skip,
}

/// Soft excess: a number, or `true` for 10.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Soft {
    /// On (10) or off.
    Switch(bool),
    /// So many.
    Count(#[schemars(range(max = 1_048_576))] u64),
}

impl<'de> Deserialize<'de> for Soft {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SoftVisitor)
    }
}

struct SoftVisitor;

impl Visitor<'_> for SoftVisitor {
    type Value = Soft;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of requests, true or false")
    }

    fn visit_bool<E>(self, switch: bool) -> Result<Soft, E> {
        Ok(Soft::Switch(switch))
    }

    fn visit_u64<E>(self, count: u64) -> Result<Soft, E> {
        Ok(Soft::Count(count))
    }

    fn visit_i64<E: de::Error>(self, count: i64) -> Result<Soft, E> {
        let wrong = || E::invalid_value(de::Unexpected::Signed(count), &self);
        u64::try_from(count).map(Soft::Count).map_err(|_| wrong())
    }
}

impl Soft {
    /// How many requests above the limit.
    pub fn count(self) -> u64 {
        match self {
            Self::Switch(false) => 0,
            Self::Switch(true) => 10,
            Self::Count(count) => count,
        }
    }
}

impl Default for Soft {
    fn default() -> Self {
        Self::Count(0)
    }
}

/// Where a limit's counts are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// In this process.
    Memory,
    /// In Redis, a call a request.
    Exact,
    /// In Redis, tokens taken in advance.
    Leased,
}

impl State {
    /// How they are shared; none in memory.
    pub fn sharing(self) -> Option<Sharing> {
        match self {
            Self::Memory => None,
            Self::Exact => Some(Sharing::Exact),
            Self::Leased => Some(Sharing::Leased),
        }
    }
}

/// A service behind the gateway.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// `http://host[:port][/base]` or `https://…`: the request's path and query are appended.
    pub url: String,
    /// To connect, TLS included. Default: 2 s.
    #[serde(default)]
    pub connect_timeout: Option<Span>,
    /// From the request's last byte to the answer's head. Default: 60 s.
    #[serde(default)]
    pub answer_timeout: Option<Span>,
    /// The longest pause in the answer's body, and in taking the request's. Default: 60 s.
    #[serde(default)]
    pub body_timeout: Option<Span>,
    /// A kept connection without requests. Default: 55 s.
    #[serde(default)]
    pub idle_timeout: Option<Span>,
    /// Idle connections kept by each worker. Default: 64.
    #[serde(default)]
    #[schemars(range(max = 100_000))]
    pub max_idle: Option<usize>,
    /// Connections at once, all workers together; beyond it 503. Default: 4096.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_connections: Option<usize>,
    /// Bytes of an answer's head; above it 502. Default: 65536.
    #[serde(default)]
    #[schemars(range(min = 1_024, max = 1_048_576))]
    pub max_head_bytes: Option<usize>,
    /// Whether the upstream gets the client's `Host`; otherwise its own from `url`. Default: false.
    #[serde(default)]
    pub preserve_host: bool,
    /// PEM file with the authorities to trust for `https`. Default: the system's.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// The name its certificate must have. Default: the host in `url`.
    #[serde(default)]
    pub server_name: Option<String>,
    /// Limits on what reaches it, whoever asks; answered with 503.
    #[serde(default)]
    pub limits: Vec<String>,
}

/// Which requests go where.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Route {
    /// Its name, in metrics and as `endpoint` in keys. Default: `route-N`, counted from 1.
    pub name: Option<String>,
    /// Host to match, without port: `api.example.com` or `*.example.com`. Default: any.
    pub host: Option<String>,
    /// Exact path to match.
    pub path: Option<String>,
    /// Path and everything below it: `/api` matches `/api` and `/api/x`, not `/apis`.
    pub prefix: Option<String>,
    /// Segments: `{name}` or `*` stands for one, `**` at the end for the rest: `/users/{id}/orders/**`.
    pub pattern: Option<String>,
    /// Methods to match, written in any case; `GET` includes `HEAD`. (Requests whose method is not in capitals are refused.) Default: any.
    pub methods: Vec<String>,
    /// Where to send it. Default: the only upstream.
    pub upstream: Option<String>,
    /// Limits besides `common_limits`.
    pub limits: Vec<String>,
}

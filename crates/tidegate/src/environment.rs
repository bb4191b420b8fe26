//! Settings from the environment: they override the file, flags override them.

use std::env;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use tidegate_gateway::config::model::{
    AdaptiveMode, Config, DEFAULT_LISTENER, Listener, Numbers, Redis, Upstream, default_limit,
};
use tidegate_gateway::config::numbers::{Algorithm, has_bucket, of_limit_under, written};
use tidegate_gateway::config::secret::Secret;
use tidegate_gateway::config::span::Span;

fn variable(name: &str) -> Result<Option<String>> {
    match env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(env::VarError::NotPresent) => Ok(None),
        // Without its value, which may be a password.
        Err(env::VarError::NotUnicode(_)) => bail!("{name} is not valid Unicode"),
    }
}

fn number<T: std::str::FromStr>(name: &str, allowed: &str) -> Result<Option<T>> {
    let parse = |value: String| value.parse().ok().with_context(|| format!("{name}: must be {allowed}, got {value:?}"));
    variable(name)?.map(parse).transpose()
}

/// What numbers of requests may be.
const WHOLE: &str = "a whole number";

/// The port to listen on.
pub(crate) fn port() -> Result<Option<u16>> {
    let (port, server_port) = (number("PORT", A_PORT)?, number("SERVER_PORT", A_PORT)?);
    Ok(port.or(server_port))
}

const A_PORT: &str = "a port from 0 to 65535";

/// The port of Redis. Beside a service named `redis` Kubernetes sets it to `tcp://10.0.0.1:6379` in every pod, whether
/// that wants a Redis or not. Of such a value only the port is used, and only if `REDIS_HOST` is set.
fn redis_port(has_host: bool) -> Result<Option<u16>> {
    let Some(text) = variable("REDIS_PORT")? else { return Ok(None) };
    let link = text.strip_prefix("tcp://").and_then(|address| address.rsplit_once(':'));
    let digits = link.map_or(text.as_str(), |(_, port)| port);
    let port = digits.parse().ok().with_context(|| format!("REDIS_PORT: must be {A_PORT}, got {text:?}"))?;
    Ok(Some(port).filter(|_| link.is_none() || has_host))
}

/// None leaves it to the file.
fn switch(name: &str) -> Result<Option<bool>> {
    match variable(name)?.as_deref() {
        None => Ok(None),
        Some("false" | "0" | "no") => Ok(Some(false)),
        Some("true" | "1" | "yes") => Ok(Some(true)),
        Some(other) => bail!("{name}: must be true or false, got {other:?}"),
    }
}

/// Overrides settings of the file by those of the environment. What can't be applied is an error, never ignored.
/// `redis_flag` is the URL of the command line, if it has one.
pub(crate) fn overlay(config: &mut Config, redis_flag: Option<&str>) -> Result<()> {
    if let Some(port) = port()? {
        set_port(config, port)?;
    }
    if let Some(url) = variable("TARGET_URL")? {
        set_target(config, &url)?;
    }
    redis(config, redis_flag)?;
    if let Some(open) = switch("ADMIN_OPEN")? {
        config.admin.open = open;
    }
    adaptive(config)?;
    limit(config)
}

/// Redis by the flag, else by the environment, else by the file. A password is not part of the address: it is used with
/// a flag too, unless the flag has one.
fn redis(config: &mut Config, flag: Option<&str>) -> Result<()> {
    let host = variable("REDIS_HOST")?.map(|host| host_in_url(&host)).transpose()?;
    let (port, password) = (redis_port(host.is_some())?, variable("REDIS_PASSWORD")?);
    let (tls, ca) = (switch("REDIS_TLS")?, variable("REDIS_CA")?);
    let configured = config.redis.as_ref().map(|redis| redis.url.expose());
    let (mut url, is_flag) = match (flag, configured, &host) {
        (Some(flag), ..) => (RedisUrl::split(flag), true),
        (None, Some(url), _) => (RedisUrl::split(url), false),
        (None, None, Some(_)) => (RedisUrl::split("redis://"), false),
        (None, None, None) => {
            let set = [
                (port.is_some(), "REDIS_PORT"),
                (password.is_some(), "REDIS_PASSWORD"),
                (tls.is_some(), "REDIS_TLS"),
                (ca.is_some(), "REDIS_CA"),
            ];
            if let Some((_, lonely)) = set.iter().find(|(is_set, _)| *is_set) {
                bail!("{lonely}: needs REDIS_HOST, or `redis.url` in the file");
            }
            return Ok(());
        }
    };
    if !is_flag && (host.is_some() || port.is_some()) {
        if url.scheme.contains('+') {
            bail!("REDIS_HOST, REDIS_PORT: must not be set if `redis.url` in the file names several servers");
        }
        url.set_address(host.as_deref(), port);
    }
    if let Some(password) = password.filter(|_| !is_flag || url.password.is_none()) {
        url.password = Some(encoded(&password));
    }
    if let Some(tls) = tls {
        let before = url.scheme.clone();
        url.set_tls(tls);
        if is_flag && url.scheme != before {
            bail!("REDIS_TLS: must agree with --redis ({before}://), got {tls}");
        }
    }
    let redis = set_redis(config, url.join());
    if let Some(ca) = ca {
        redis.ca = Some(ca.into());
    }
    Ok(())
}

/// An IPv6 address stands in brackets in a URL.
fn host_in_url(host: &str) -> Result<String> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if bare.parse::<std::net::Ipv6Addr>().is_ok() {
        return Ok(format!("[{bare}]"));
    }
    if host.contains(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))) {
        // A user comes with a password.
        let found = if host.contains('@') { "a URL".to_owned() } else { format!("{host:?}") };
        bail!("REDIS_HOST: must be a host name or an address (the port is REDIS_PORT), got {found}");
    }
    Ok(host.to_owned())
}

/// `scheme://[user[:password]@]host[:port][/rest]`, in parts that can be changed.
struct RedisUrl {
    scheme: String,
    user: String,
    password: Option<String>,
    /// Host and port, or several of them.
    address: String,
    /// The database, the master's name, and what else follows.
    rest: String,
}

impl RedisUrl {
    /// Text that is not a URL is kept as it is, and rejected where URLs are checked.
    fn split(text: &str) -> Self {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let (login, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (user, password) = login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
        let (address, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        Self {
            scheme: scheme.to_owned(),
            user: user.to_owned(),
            password: password.map(str::to_owned),
            address: address.to_owned(),
            rest: rest.to_owned(),
        }
    }

    fn set_address(&mut self, host: Option<&str>, port: Option<u16>) {
        let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (old_host, old_port) = match self.address.rsplit_once(':') {
            Some((host, port)) if is_port(port) => (host, port.to_owned()),
            _ => (self.address.as_str(), "6379".to_owned()),
        };
        // The port of the file is that of the file's host.
        let port = port.map(|port| port.to_string());
        let port = port.unwrap_or_else(|| if host.is_some() { "6379".to_owned() } else { old_port });
        self.address = format!("{}:{port}", host.unwrap_or(old_host));
    }

    /// `rediss` instead of `redis`, or back. Another scheme is kept, and rejected where URLs are checked.
    fn set_tls(&mut self, tls: bool) {
        let (family, kind) =
            self.scheme.split_once('+').map_or((&*self.scheme, None), |(family, kind)| (family, Some(kind)));
        if matches!(family, "redis" | "rediss") {
            let family = if tls { "rediss" } else { "redis" };
            self.scheme = kind.map_or(family.to_owned(), |kind| format!("{family}+{kind}"));
        }
    }

    fn join(&self) -> String {
        let Self { scheme, user, password, address, rest } = self;
        let separator = if scheme.is_empty() { "" } else { "://" };
        let password = password.as_ref().map(|password| format!(":{password}")).unwrap_or_default();
        let login = if user.is_empty() && password.is_empty() { String::new() } else { format!("{user}{password}@") };
        format!("{scheme}{separator}{login}{address}{rest}")
    }
}

/// Adaptation: where the forecaster is, whether it counts, how often it is asked.
fn adaptive(config: &mut Config) -> Result<()> {
    let adaptive = &mut config.adaptive;
    if let Some(url) = variable("FORECASTER_URL")? {
        adaptive.forecaster = Some(url);
    }
    let mode = match variable("ADAPTIVE_MODE")?.as_deref() {
        None => None,
        Some("true" | "1" | "yes" | "on") => Some(AdaptiveMode::On),
        Some("false" | "0" | "no" | "off") => Some(AdaptiveMode::Off),
        Some("shadow") => Some(AdaptiveMode::Shadow),
        Some(other) => bail!("ADAPTIVE_MODE: must be true, false or shadow, got {other:?}"),
    };
    adaptive.mode = mode.or(adaptive.mode);
    if let Some(seconds) = number::<f64>("ADAPTIVE_UPDATE_INTERVAL", "a number of seconds")? {
        let interval = Span::seconds(seconds).filter(|_| seconds > 0.0);
        let expected = "must be a number of seconds above 0";
        adaptive.interval =
            Some(interval.with_context(|| format!("ADAPTIVE_UPDATE_INTERVAL: {expected}, got {seconds}"))?);
    }
    Ok(())
}

/// The port of the first listener, whose address stays as the file has it; without one it is the loopback's, which
/// nobody outside reaches.
fn set_port(config: &mut Config, port: u16) -> Result<()> {
    match config.listeners.first_mut() {
        None => config.listeners.push(listener(with_port(DEFAULT_LISTENER, port)?)),
        Some(first) => first.address = with_port(&first.address, port)?,
    }
    Ok(())
}

fn with_port(address: &str, port: u16) -> Result<String> {
    let mut address: SocketAddr = address.parse().with_context(|| format!("listeners[0].address: {address:?}"))?;
    address.set_port(port);
    Ok(address.to_string())
}

fn listener(address: String) -> Listener {
    Listener { address, ..Listener::default() }
}

/// One listener at this address, with the TLS of the file's first.
pub(crate) fn set_listen(config: &mut Config, address: String) {
    match config.listeners.first_mut() {
        None => config.listeners.push(listener(address)),
        Some(first) => {
            first.address = address;
            config.listeners.truncate(1);
        }
    }
}

/// The only upstream's URL.
pub(crate) fn set_target(config: &mut Config, url: &str) -> Result<()> {
    let mut upstreams = config.upstreams.values_mut();
    match (upstreams.next(), upstreams.next()) {
        (None, _) => {
            config.upstreams.insert("default".to_owned(), Upstream::at(url));
        }
        (Some(only), None) => (only.url, only.endpoints) = (Some(url.to_owned()), None),
        _ => bail!("a target URL needs a file with one upstream, got {}", config.upstreams.len()),
    }
    Ok(())
}

/// Redis at this URL, otherwise as the file says.
fn set_redis(config: &mut Config, url: String) -> &mut Redis {
    let redis = config.redis.get_or_insert_with(|| Redis::at(String::new()));
    redis.url = Secret::new(url);
    redis
}

/// The first numbers of the limit `default`.
fn limit(config: &mut Config) -> Result<()> {
    let algorithm = variable("RATE_LIMIT_ALGORITHM")?;
    let limit = number::<u64>("RATE_LIMIT_LIMIT", WHOLE)?;
    let window = number::<f64>("RATE_LIMIT_WINDOW", "a number of seconds")?;
    let capacity = number::<u64>("RATE_LIMIT_CAPACITY", WHOLE)?;
    let fill_rate = number::<f64>("RATE_LIMIT_FILL_RATE", "a number")?;
    if algorithm.is_none() && limit.is_none() && window.is_none() && capacity.is_none() && fill_rate.is_none() {
        return Ok(());
    }
    let window = match window.map(serde_json::Value::from).map(serde_json::from_value).transpose() {
        Ok(window) => window,
        Err(error) => bail!("RATE_LIMIT_WINDOW: {error}"),
    };
    let with_redis = config.redis.is_some();
    let is_there = config.limits.as_ref().is_some_and(|limits| limits.contains_key("default"));
    if !is_there && config.common_limits.as_ref().is_some_and(|common| !common.iter().any(|name| name == "default")) {
        bail!("RATE_LIMIT_*: must have a limit `default` in the file or in its `common_limits`");
    }
    let limits = config.limits.get_or_insert_default();
    let default = limits.entry("default".to_owned()).or_insert_with(default_limit);
    default.limit = limit.or(default.limit);
    default.window = window.or(default.window);
    default.capacity = capacity.or(default.capacity);
    default.fill_rate = fill_rate.or(default.fill_rate);
    if let Some(algorithm) = algorithm {
        // Numbers that are not set come as close as possible to those of the algorithm before, as in a change at run
        // time. If there are no such numbers, the check of the whole configuration reports it.
        let closest = of_limit_under(default, &algorithm, with_redis);
        if let Some(Numbers { limit, window, capacity, fill_rate, .. }) = closest.as_ref().map(written) {
            (default.limit, default.window, default.capacity, default.fill_rate) = (limit, window, capacity, fill_rate);
        }
        default.algorithm = algorithm;
    }
    let is_bucket = default.algorithm.parse().is_ok_and(has_bucket);
    let lonely = [(capacity.is_some(), "RATE_LIMIT_CAPACITY"), (fill_rate.is_some(), "RATE_LIMIT_FILL_RATE")];
    if let Some((_, name)) = lonely.iter().find(|(is_set, _)| *is_set && !is_bucket) {
        let algorithm = &default.algorithm;
        let buckets: Vec<&str> =
            Algorithm::ALL.iter().filter(|known| has_bucket(**known)).map(|known| known.name()).collect();
        let buckets = buckets.join(", ");
        bail!("{name}: needs one of the algorithms {buckets}, got `{algorithm}`: set RATE_LIMIT_ALGORITHM too");
    }
    Ok(())
}

/// A password as it stands in a URL.
fn encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

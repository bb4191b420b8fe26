//! The environment's word: over the file's, under the flags'.

use std::env;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use tidegate_gateway::config::model::{Config, Limit, Listener, Redis};

fn variable(name: &str) -> Result<Option<String>> {
    match env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(error).with_context(|| name.to_owned()),
    }
}

fn number<T: std::str::FromStr>(name: &str) -> Result<Option<T>> {
    let parse = |value: String| value.parse().ok().with_context(|| format!("{name} is {value:?}; a number is allowed"));
    variable(name)?.map(parse).transpose()
}

fn switch(name: &str) -> Result<bool> {
    match variable(name)?.as_deref() {
        None | Some("false" | "0" | "no") => Ok(false),
        Some("true" | "1" | "yes") => Ok(true),
        Some(other) => bail!("{name} is {other:?}; true or false is allowed"),
    }
}

/// Puts what the environment says over what the file says.
pub(crate) fn overlay(config: &mut Config) -> Result<()> {
    if let Some(port) = number::<u16>("PORT")?.or(number::<u16>("SERVER_PORT")?) {
        set_port(config, port)?;
    }
    if let Some(url) = variable("TARGET_URL")? {
        set_target(config, &url)?;
    }
    if let Some(host) = variable("REDIS_HOST")? {
        let port = number::<u16>("REDIS_PORT")?.unwrap_or(6379);
        let login = variable("REDIS_PASSWORD")?.map(|password| format!(":{}@", encoded(&password))).unwrap_or_default();
        let scheme = if switch("REDIS_TLS")? { "rediss" } else { "redis" };
        set_redis(config, format!("{scheme}://{login}{host}:{port}"));
    }
    if switch("ADMIN_OPEN")? {
        config.admin.open = true;
    }
    limit(config)
}

/// Things that the environment asks for and that are not there.
pub(crate) fn unknown_wishes() -> Result<Vec<&'static str>> {
    let mut wishes = Vec::new();
    if switch("ADAPTIVE_MODE")? {
        wishes.push("ADAPTIVE_MODE");
    }
    if variable("FORECASTER_URL")?.is_some() {
        wishes.push("FORECASTER_URL");
    }
    Ok(wishes)
}

/// The port of the first listener. In a container the seed's services are reached from outside, so the address stays as it was.
fn set_port(config: &mut Config, port: u16) -> Result<()> {
    match config.listeners.first_mut() {
        None => config.listeners.push(listener(format!("127.0.0.1:{port}"))),
        Some(first) => {
            let mut address: SocketAddr =
                first.address.parse().with_context(|| format!("listeners[0].address: {:?}", first.address))?;
            address.set_port(port);
            first.address = address.to_string();
        }
    }
    Ok(())
}

fn listener(address: String) -> Listener {
    Listener { address, tls: None, h2c: false }
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
            config.upstreams.insert("default".to_owned(), tidegate_gateway::config::upstream_at(url));
        }
        (Some(only), None) => url.clone_into(&mut only.url),
        _ => bail!("a target URL is for one upstream; the file has {}", config.upstreams.len()),
    }
    Ok(())
}

/// Redis at this URL, otherwise as the file says.
pub(crate) fn set_redis(config: &mut Config, url: String) {
    match &mut config.redis {
        Some(redis) => redis.url = url,
        none => *none = Some(Redis::at(url)),
    }
}

/// Whom to trust for TLS to Redis, wherever its address comes from: it is looked for when the flags have been obeyed.
pub(crate) fn set_redis_ca(config: &mut Config) -> Result<()> {
    if let (Some(redis), Some(ca)) = (&mut config.redis, variable("REDIS_CA")?) {
        redis.ca = Some(ca.into());
    }
    Ok(())
}

/// The first numbers of the limit `default`.
fn limit(config: &mut Config) -> Result<()> {
    let algorithm = variable("RATE_LIMIT_ALGORITHM")?;
    let limit = number::<u64>("RATE_LIMIT_LIMIT")?;
    let window = number::<f64>("RATE_LIMIT_WINDOW")?;
    let capacity = number::<u64>("RATE_LIMIT_CAPACITY")?;
    let fill_rate = number::<f64>("RATE_LIMIT_FILL_RATE")?;
    if algorithm.is_none() && limit.is_none() && window.is_none() && capacity.is_none() && fill_rate.is_none() {
        return Ok(());
    }
    let window = match window.map(serde_json::Value::from).map(serde_json::from_value).transpose() {
        Ok(window) => window,
        Err(error) => bail!("RATE_LIMIT_WINDOW: {error}"),
    };
    let limits = config.limits.get_or_insert_default();
    let default = limits.entry("default".to_owned()).or_insert_with(|| Limit {
        algorithm: "fixed".to_owned(),
        limit: Some(100),
        window: serde_json::from_value(60.into()).ok(),
        ..Limit::default()
    });
    if let Some(algorithm) = algorithm {
        default.algorithm = algorithm;
    }
    default.limit = limit.or(default.limit);
    default.window = window.or(default.window);
    default.capacity = capacity.or(default.capacity);
    default.fill_rate = fill_rate.or(default.fill_rate);
    Ok(())
}

/// A password as it stands in a URL.
fn encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

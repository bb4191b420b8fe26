//! The key of a limit: what it counts by, and its value for a request.

use std::fmt;
use std::str::FromStr;

use http::HeaderName;
use tidegate_store::Key;

use crate::client_address::ClientAddress;
use crate::config::model::Missing;
use crate::facts::Facts;

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Ip,
    User,
    ApiKey,
    ClientId,
    Tier,
    Endpoint,
    Resource,
    Provider,
    Method,
    Host,
    Header(HeaderName),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip => f.write_str("ip"),
            Self::User => f.write_str("user"),
            Self::ApiKey => f.write_str("apiKey"),
            Self::ClientId => f.write_str("clientId"),
            Self::Tier => f.write_str("tier"),
            Self::Endpoint => f.write_str("endpoint"),
            Self::Resource => f.write_str("resource"),
            Self::Provider => f.write_str("provider"),
            Self::Method => f.write_str("method"),
            Self::Host => f.write_str("host"),
            Self::Header(name) => write!(f, "header:{name}"),
        }
    }
}

/// The parts of a limit's key. None for a limit that all requests share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyParts {
    parts: Vec<Part>,
    /// The key of requests that share one: all of them, or those that lack a part.
    shared: Key,
}

/// A key that is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvalidKey(String);

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "must be `global`, or one or several (joined by `+`) of ip, user, apiKey, clientId, tier, endpoint, \
             resource, provider, method, host, header:NAME, got {:?}",
            self.0
        )
    }
}

const MOST_PARTS: usize = 6;

impl FromStr for KeyParts {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        if text.trim() == "global" {
            return Ok(Self::new(Vec::new()));
        }
        let parts: Option<Vec<Part>> = text.split('+').map(|word| part(word.trim())).collect();
        let parts = parts.filter(|parts| parts.len() <= MOST_PARTS);
        let distinct = |parts: &Vec<Part>| parts.iter().enumerate().all(|(index, part)| !parts[..index].contains(part));
        parts.filter(distinct).map(Self::new).ok_or_else(|| InvalidKey(text.to_owned()))
    }
}

/// As it is written: `user+endpoint`.
impl fmt::Display for KeyParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.parts.is_empty() {
            return f.write_str("global");
        }
        self.parts
            .iter()
            .enumerate()
            .try_for_each(|(index, part)| write!(f, "{}{part}", if index == 0 { "" } else { "+" }))
    }
}

fn part(word: &str) -> Option<Part> {
    if let Some(name) = word.strip_prefix("header:") {
        return HeaderName::from_bytes(name.as_bytes()).ok().map(Part::Header);
    }
    Some(match word {
        "ip" => Part::Ip,
        "user" => Part::User,
        "apiKey" | "api_key" => Part::ApiKey,
        "clientId" | "client_id" => Part::ClientId,
        "tier" => Part::Tier,
        "endpoint" => Part::Endpoint,
        "resource" => Part::Resource,
        "provider" => Part::Provider,
        "method" => Part::Method,
        "host" => Part::Host,
        _ => return None,
    })
}

/// A limit's key for one request.
pub(crate) enum RequestKey {
    /// The key's value.
    Value(Key),
    /// The limit does not apply to the request.
    Exempt,
    /// The request lacks this and is rejected for it.
    Missing(&'static str),
}

impl KeyParts {
    fn new(parts: Vec<Part>) -> Self {
        let shared = Key::of_bytes(if parts.is_empty() { &[b"="] } else { &[b"?"] });
        Self { parts, shared }
    }

    /// Whether the client chooses all values in it, and so can evade the limit by another value.
    pub(crate) fn is_up_to_clients(&self) -> bool {
        let is_free = |part: &Part| matches!(part, Part::Header(_) | Part::Host | Part::Method | Part::Resource);
        self.parts.iter().any(is_free) && self.parts.iter().all(|part| is_free(part) || *part == Part::Endpoint)
    }

    /// Whether all requests share it.
    pub(crate) fn is_global(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether it counts by caller.
    pub(crate) fn needs_caller(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::User | Part::ApiKey | Part::ClientId))
    }

    /// The key's value for a request. `missing` decides for a request that lacks a part.
    pub(crate) fn of_request(&self, facts: &Facts<'_>, missing: Missing) -> RequestKey {
        if self.parts.is_empty() {
            return RequestKey::Value(self.shared);
        }
        let ip = ClientAddress::of(facts.ip);
        let mut texts: [&[u8]; MOST_PARTS + 1] = [b"="; MOST_PARTS + 1];
        for (index, part) in self.parts.iter().enumerate() {
            let text = match part {
                Part::Ip => Some(ip.as_ref()),
                Part::User => facts.caller.user.as_deref().map(str::as_bytes),
                Part::ApiKey => facts.caller.api_key.as_deref().map(str::as_bytes),
                Part::ClientId => facts.caller.client_id.as_deref().map(str::as_bytes),
                Part::Tier => Some(facts.tier.as_bytes()),
                Part::Endpoint => Some(facts.route.as_bytes()),
                Part::Resource => Some(facts.path.strip_suffix('/').unwrap_or(facts.path).as_bytes()),
                Part::Provider => Some(facts.upstream.as_bytes()),
                Part::Method => Some(facts.method.as_bytes()),
                Part::Host => Some(facts.host).filter(|host| !host.is_empty()),
                Part::Header(name) => facts.headers.only(name.as_str()),
            };
            // The first text marks complete keys, so that no value can be taken for a missing one.
            match text {
                Some(text) => texts[index + 1] = text,
                None => match missing {
                    Missing::Share => return RequestKey::Value(self.shared),
                    Missing::Ip => return RequestKey::Value(Key::of_bytes(&[b"@", ip.as_ref()])),
                    Missing::Refuse => return RequestKey::Missing(part.name()),
                    Missing::Skip => return RequestKey::Exempt,
                },
            }
        }
        RequestKey::Value(Key::of_bytes(&texts[..=self.parts.len()]))
    }
}

impl Part {
    fn name(&self) -> &'static str {
        match self {
            Self::User => "a user",
            Self::ApiKey => "an API key",
            Self::ClientId => "a client id",
            Self::Host => "a host",
            Self::Header(_) => "a header",
            Self::Ip | Self::Tier | Self::Endpoint | Self::Resource | Self::Provider | Self::Method => "nothing",
        }
    }
}

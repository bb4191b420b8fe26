//! Who a caller is: identified by an API key, by a token, or by the headers of a trusted proxy.
//!
//! The sources are read in that order, and the first that is *present* counts: a wrong key next to a good token is
//! rejected, so that a caller can't try one credential behind another. Nothing here reads a clock.

mod api_keys;
mod digest;
mod jwt;
mod trusted_headers;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use http::header::HeaderName;
use tidegate_http::headers::Headers;
use tidegate_input::Problems;

use crate::config::model::Identity as IdentityModel;

use self::api_keys::KeyTable;
use self::jwt::Tokens;
use self::trusted_headers::ProxyHeaders;

/// Users, tiers and client ids become keys of limits, labels of metrics and fields of logs. None may be longer than
/// this.
const MAX_NAME_BYTES: usize = 256;

/// Who sends a request. The default is anonymous.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    /// The user.
    pub(crate) user: Option<Box<str>>,
    /// The tier, which selects limits. From tokens and proxies it can be any text.
    pub(crate) tier: Option<Box<str>>,
    /// The program that sends the request.
    pub(crate) client_id: Option<Box<str>>,
    /// Distinguishes API keys without revealing them: the first 8 bytes of the key's SHA-256 in hex.
    pub(crate) api_key: Option<Box<str>>,
}

/// Why credentials are rejected, with 401. The text is safe to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unidentified {
    /// The API key is unknown.
    UnknownApiKey,
    /// The token is invalid, and why.
    InvalidToken(&'static str),
    /// The header came twice: a server that reads the other one would see another caller.
    Repeated(HeaderName),
    /// The value of a trusted proxy's header is not a valid name.
    Unusable(HeaderName),
}

impl fmt::Display for Unidentified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownApiKey => f.write_str("unknown API key"),
            Self::InvalidToken(reason) => write!(f, "invalid token: {reason}"),
            Self::Repeated(header) => write!(f, "header {header} must be given once, got it more than once"),
            Self::Unusable(header) => write!(f, "header {header} must be text of at most {MAX_NAME_BYTES} bytes"),
        }
    }
}

/// All that callers are identified by.
pub(crate) struct Identity {
    default_tier: Box<str>,
    api_keys: Option<KeyTable>,
    tokens: Option<Tokens>,
    proxy_headers: Option<ProxyHeaders>,
    /// Made once, because most requests of an open gateway are anonymous.
    anonymous: Arc<Caller>,
}

impl Identity {
    /// Checks the configuration and reads its key files. If there is a problem, the result must not be used.
    pub(crate) fn build(model: &IdentityModel, problems: &Problems) -> Self {
        let default_tier = model.default_tier();
        check_name(&default_tier, "identity.default_tier", problems);
        let api_keys = model.api_keys.as_ref().and_then(|model| KeyTable::build(model, problems));
        let proxy_headers = model.trusted_headers.as_ref().map(|model| ProxyHeaders::build(model, problems));
        if let (Some(table), Some(trusted)) = (&api_keys, &proxy_headers)
            && trusted.names().any(|name| name == table.header())
        {
            let message = format!(
                "must not be one of `identity.trusted_headers`, which clients can't send, got {}",
                table.header()
            );
            problems.add("identity.api_keys.header", message);
        }
        Self {
            default_tier: default_tier.into(),
            api_keys,
            tokens: model.jwt.as_ref().and_then(|model| Tokens::build(model, problems)),
            proxy_headers,
            anonymous: Arc::default(),
        }
    }

    /// The caller that these headers identify. `from_trusted`: the peer is a trusted proxy. `now`: Unix time in
    /// seconds.
    #[inline]
    pub(crate) fn identify(
        &self,
        headers: &Headers,
        from_trusted: bool,
        now: u64,
    ) -> Result<Arc<Caller>, Unidentified> {
        if let Some(table) = &self.api_keys
            && let Some(caller) = table.caller(headers)?
        {
            return Ok(caller);
        }
        if let Some(tokens) = &self.tokens
            && let Some(caller) = tokens.caller(headers, now)?
        {
            return Ok(caller);
        }
        if from_trusted
            && let Some(trusted) = &self.proxy_headers
            && let Some(caller) = trusted.caller(headers)?
        {
            return Ok(Arc::new(caller));
        }
        Ok(self.anonymous())
    }

    /// The caller of requests without credentials.
    pub(crate) fn anonymous(&self) -> Arc<Caller> {
        Arc::clone(&self.anonymous)
    }

    /// Headers that only a trusted proxy may set. They must be removed from the requests of other peers, because the
    /// upstream trusts them too.
    pub(crate) fn guarded_headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.proxy_headers.iter().flat_map(ProxyHeaders::names)
    }

    /// The tier of callers that have none.
    pub(crate) fn default_tier(&self) -> &str {
        &self.default_tier
    }

    /// All callers that have an API key.
    pub(crate) fn known(&self) -> impl Iterator<Item = &Arc<Caller>> {
        self.api_keys.iter().flat_map(KeyTable::callers)
    }

    /// Every tier that the configuration names: the default one and those of the API keys. Tokens and proxies may name
    /// any other, so state for each tier must map those to a fixed set first.
    pub(crate) fn tiers(&self) -> BTreeSet<&str> {
        let of_keys = self.api_keys.iter().flat_map(KeyTable::tiers);
        of_keys.chain([self.default_tier()]).collect()
    }
}

/// The value of a header that may be there at most once.
fn only<'f>(headers: &'f Headers, name: &HeaderName) -> Result<Option<&'f [u8]>, Unidentified> {
    let mut values = headers.all(name.as_str());
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(Unidentified::Repeated(name.clone())),
    }
}

/// Whether a text can name a user, a tier or a client id.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_NAME_BYTES && !text.chars().any(char::is_control)
}

fn check_name(text: &str, path: &str, problems: &Problems) {
    if !is_name(text) {
        let message =
            format!("must be 1 to {MAX_NAME_BYTES} bytes without control characters, got {} bytes", text.len());
        problems.add(path, message);
    }
}

/// Headers that have a meaning of their own: a key there would be taken for it, and removing them would break requests.
const TAKEN: [HeaderName; 10] = [
    http::header::AUTHORIZATION,
    http::header::CONNECTION,
    http::header::CONTENT_LENGTH,
    http::header::CONTENT_TYPE,
    http::header::COOKIE,
    http::header::HOST,
    http::header::TE,
    http::header::TRAILER,
    http::header::TRANSFER_ENCODING,
    http::header::UPGRADE,
];

fn header_name(text: &str, path: &str, problems: &Problems) -> Option<HeaderName> {
    let message = match HeaderName::try_from(text) {
        Ok(name) if !TAKEN.contains(&name) => return Some(name),
        Ok(name) => format!("must be another header, such as x-auth-user, got {name}, which has a meaning of its own"),
        Err(_) => format!("must be a header name of letters, digits and `-`, got {text:?}"),
    };
    problems.add(path, message);
    None
}

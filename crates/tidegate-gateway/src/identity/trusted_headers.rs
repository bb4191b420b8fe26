//! The headers in which a trusted proxy names the caller.

use http::header::HeaderName;
use tidegate_http::headers::Headers;
use tidegate_input::Problems;

use crate::config::model::TrustedHeaders;

use super::{Caller, Unidentified, header_name, is_name, only};

pub(super) struct ProxyHeaders {
    user: Option<HeaderName>,
    tier: Option<HeaderName>,
    client_id: Option<HeaderName>,
}

impl ProxyHeaders {
    pub(super) fn build(model: &TrustedHeaders, problems: &Problems) -> Self {
        let mut seen = Vec::with_capacity(3);
        let mut name = |setting: &str, text: &Option<String>| {
            let path = format!("identity.trusted_headers.{setting}");
            let name = header_name(text.as_deref()?, &path, problems)?;
            if seen.contains(&name) {
                problems.add(path, format!("must be a header of its own, got {name} again"));
            }
            seen.push(name.clone());
            Some(name)
        };
        let headers = Self {
            user: name("user", &model.user),
            tier: name("tier", &model.tier),
            client_id: name("client_id", &model.client_id),
        };
        if model.user.is_none() && model.tier.is_none() && model.client_id.is_none() {
            let message = "must have at least one of `user`, `tier` and `client_id`";
            problems.add("identity.trusted_headers", message);
        }
        headers
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &HeaderName> {
        [&self.user, &self.tier, &self.client_id].into_iter().flatten()
    }

    /// The caller that the proxy names; `None` if it names none.
    pub(super) fn caller(&self, headers: &Headers) -> Result<Option<Caller>, Unidentified> {
        let caller = Caller {
            user: read(headers, self.user.as_ref())?,
            tier: read(headers, self.tier.as_ref())?,
            client_id: read(headers, self.client_id.as_ref())?,
            api_key: None,
        };
        Ok((caller != Caller::default()).then_some(caller))
    }
}

/// Reads a name. Proxies send an empty header for a user who is not logged in: that counts as absent.
fn read(headers: &Headers, name: Option<&HeaderName>) -> Result<Option<Box<str>>, Unidentified> {
    let Some(name) = name else { return Ok(None) };
    let Some(value) = only(headers, name)?.filter(|value| !value.is_empty()) else { return Ok(None) };
    match std::str::from_utf8(value) {
        Ok(text) if is_name(text) => Ok(Some(text.into())),
        Ok(_) | Err(_) => Err(Unidentified::Unusable(name.clone())),
    }
}

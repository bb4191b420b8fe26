//! API keys: a table from the hash of a key to its caller.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use http::header::HeaderName;
use tidegate_http::headers::Headers;
use tidegate_input::Problems;

use crate::config::model::{ApiKey, ApiKeys};

use super::digest::{Digest, from_hex, sha256, short_id};
use super::{Caller, Unidentified, check_name, header_name, only};

pub(super) struct KeyTable {
    header: HeaderName,
    callers: HashMap<Digest, Arc<Caller>>,
}

impl KeyTable {
    /// `None` only if there is no header to read the key from, which is an error.
    pub(super) fn build(model: &ApiKeys, problems: &Problems) -> Option<Self> {
        let header = header_name(&model.header(), "identity.api_keys.header", problems);
        let mut callers = HashMap::with_capacity(model.keys.len());
        let mut indexes = HashMap::with_capacity(model.keys.len());
        for (index, key) in model.keys.iter().enumerate() {
            let path = format!("identity.api_keys.keys[{index}]");
            check_owner(key, &path, problems);
            let Some(digest) = digest_of(key, &path, problems) else { continue };
            match indexes.entry(digest) {
                Entry::Occupied(first) => {
                    let message = format!("must differ from keys[{}]: a key has one owner", first.get());
                    problems.add(path, message);
                }
                Entry::Vacant(free) => {
                    free.insert(index);
                    callers.insert(digest, Arc::new(owner_of(key, &digest)));
                }
            }
        }
        Some(Self { header: header?, callers })
    }

    pub(super) fn header(&self) -> &HeaderName {
        &self.header
    }

    pub(super) fn callers(&self) -> impl Iterator<Item = &Arc<Caller>> {
        self.callers.values()
    }

    pub(super) fn tiers(&self) -> impl Iterator<Item = &str> {
        self.callers.values().filter_map(|caller| caller.tier.as_deref())
    }

    /// The caller that the key belongs to; `None` if no key is sent.
    pub(super) fn caller(&self, headers: &Headers) -> Result<Option<Arc<Caller>>, Unidentified> {
        let Some(key) = only(headers, &self.header)? else { return Ok(None) };
        match self.callers.get(&sha256(key)) {
            Some(caller) => Ok(Some(Arc::clone(caller))),
            None => Err(Unidentified::UnknownApiKey),
        }
    }
}

fn owner_of(key: &ApiKey, digest: &Digest) -> Caller {
    Caller {
        user: Some(key.user.as_str().into()),
        tier: key.tier.as_deref().map(Into::into),
        client_id: Some(key.client_id.as_deref().unwrap_or(&key.user).into()),
        api_key: Some(short_id(digest)),
    }
}

fn check_owner(key: &ApiKey, path: &str, problems: &Problems) {
    check_name(&key.user, &format!("{path}.user"), problems);
    if let Some(tier) = &key.tier {
        check_name(tier, &format!("{path}.tier"), problems);
    }
    if let Some(client_id) = &key.client_id {
        check_name(client_id, &format!("{path}.client_id"), problems);
    }
}

/// The hash of a key. Messages never repeat the values of the file: one may be a key under the wrong setting.
fn digest_of(key: &ApiKey, path: &str, problems: &Problems) -> Option<Digest> {
    let (path, message) = match (&key.sha256, &key.key) {
        (Some(hex), None) => match from_hex(hex) {
            Some(digest) => return Some(digest),
            None => (format!("{path}.sha256"), "must be a SHA-256: 64 hex digits"),
        },
        (None, Some(key)) if is_sendable(key.expose()) => return Some(sha256(key.expose().as_bytes())),
        (None, Some(_)) => (
            format!("{path}.key"),
            "must be printable ASCII, not empty, without spaces at its ends, so that a header can carry it",
        ),
        (Some(_), Some(_)) => (path.to_owned(), "must have `sha256` or `key`, got both"),
        (None, None) => (path.to_owned(), "must have `sha256` (hex of the key's SHA-256) or `key`, got neither"),
    };
    problems.add(path, message);
    None
}

fn is_sendable(key: &str) -> bool {
    let printable = key.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    printable && !key.is_empty() && key.trim() == key
}

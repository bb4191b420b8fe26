//! JSON Web Tokens in `Authorization: Bearer`.
//!
//! `jsonwebtoken` reads the parts of a token, `ring` checks signatures ([`signature`]). A key has the algorithms that
//! it may be used with ([`keys`]); the token's header only chooses among them. Times are checked here, with the time
//! that is handed in.

mod claims;
mod key_source;
mod key_strength;
mod keys;
mod signature;
mod verified;

use std::sync::Arc;

use http::header::AUTHORIZATION;
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{decode, decode_header};
use tidegate_http::headers::{Headers, bearer};
use tidegate_input::Problems;

use crate::config::model::Jwt;

use self::claims::ClaimNames;
use self::keys::KeySet;
use self::verified::{Verified, VerifiedTokens};
use super::digest::sha256;
use super::{Caller, Unidentified, only};

/// Longer tokens are rejected unread.
const MAX_TOKEN_BYTES: usize = 8 * 1024;

pub(super) struct Tokens {
    keys: KeySet,
    names: ClaimNames,
    leeway_seconds: u64,
    verified: VerifiedTokens,
}

impl Tokens {
    /// `None` only if there is no key, which is an error.
    pub(super) fn build(model: &Jwt, problems: &Problems) -> Option<Self> {
        signature::use_ring();
        let names = ClaimNames::build(model, problems);
        let keys = KeySet::load(model, problems)?;
        Some(Self { keys, names, leeway_seconds: model.leeway().get().as_secs(), verified: VerifiedTokens::default() })
    }

    /// The caller that the token identifies; `None` if no token is sent. Schemes other than `Bearer` are for the
    /// upstream.
    pub(super) fn caller(&self, headers: &Headers, now: u64) -> Result<Option<Arc<Caller>>, Unidentified> {
        let Some(credentials) = only(headers, &AUTHORIZATION)? else { return Ok(None) };
        let Some(token) = bearer(credentials) else { return Ok(None) };
        self.identify(token, now).map(Some).map_err(Unidentified::InvalidToken)
    }

    fn identify(&self, token: &[u8], now: u64) -> Result<Arc<Caller>, &'static str> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err("it is longer than 8 KiB");
        }
        let digest = sha256(token);
        if let Some(known) = self.verified.get(&digest) {
            known.lifetime.check(now)?;
            return Ok(known.caller);
        }
        let verified = self.verify(token)?;
        verified.lifetime.check(now)?;
        let caller = Arc::clone(&verified.caller);
        self.verified.insert(digest, verified);
        Ok(caller)
    }

    /// Checks all that does not depend on the time.
    fn verify(&self, token: &[u8]) -> Result<Verified, &'static str> {
        let header = decode_header(token).map_err(|error| reason(&error))?;
        // RFC 7515, 4.1.11: a token with extensions must be rejected by those that don't support them. We support none.
        if header.crit.is_some() {
            return Err("it needs an extension that is not supported");
        }
        let key = self.keys.choose(&header)?;
        let token = decode(token, &key.material, &key.validation).map_err(|error| reason(&error))?;
        self.names.read(&token.claims, self.leeway_seconds)
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.verified.len()
    }
}

/// What is wrong with a token, for its sender. It reveals nothing about our keys.
fn reason(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::InvalidSignature => "its signature does not match",
        ErrorKind::InvalidAlgorithm => "its algorithm is not allowed",
        ErrorKind::InvalidIssuer => "it is from another issuer",
        ErrorKind::InvalidAudience => "it is for another audience",
        ErrorKind::MissingRequiredClaim(claim) => match claim.as_str() {
            "exp" => "it needs exp, a Unix time",
            "iss" => "it needs iss",
            _ => "it needs aud",
        },
        _ => "it is malformed, or of an unknown algorithm",
    }
}

//! The claims of a token: the caller, and when it may be used.

use std::sync::Arc;

use serde_json::{Map, Value};
use tidegate_input::Problems;

use crate::config::model::Jwt;

use super::super::{Caller, is_name};
use super::verified::{Lifetime, Verified};

pub(super) type Claims = Map<String, Value>;

/// The names of the claims that are read.
pub(super) struct ClaimNames {
    user: Box<str>,
    tier: Box<str>,
    /// The first of them that is present counts.
    client_id: Vec<Box<str>>,
}

impl ClaimNames {
    pub(super) fn build(model: &Jwt, problems: &Problems) -> Self {
        let check = |setting: &str, name: Option<&str>| {
            if name == Some("") {
                problems.add(format!("identity.jwt.{setting}"), "must be the name of a claim, got \"\"");
            }
        };
        check("user_claim", model.user_claim.as_deref());
        check("tier_claim", model.tier_claim.as_deref());
        check("client_id_claim", model.client_id_claim.as_deref());
        let client_id = model.client_id_claim.as_deref();
        Self {
            user: model.user_claim().into(),
            tier: model.tier_claim().into(),
            client_id: client_id.map_or_else(|| vec!["client_id".into(), "azp".into()], |name| vec![name.into()]),
        }
    }

    pub(super) fn read(&self, claims: &Claims, leeway_seconds: u64) -> Result<Verified, &'static str> {
        let client_id = self.client_id.iter().find_map(|name| present(claims, name));
        let caller = Caller {
            user: present(claims, &self.user).map(user).transpose()?,
            tier: present(claims, &self.tier).map(|claim| text(claim, "its tier is not a usable name")).transpose()?,
            client_id: client_id.map(|claim| text(claim, "its client is not a usable name")).transpose()?,
            api_key: None,
        };
        if caller.user.is_none() && caller.client_id.is_none() {
            return Err("it names neither a user nor a client");
        }
        Ok(Verified { caller: Arc::new(caller), lifetime: lifetime(claims, leeway_seconds)? })
    }
}

/// A claim, unless it is `null`: some issuers write that for what they don't know.
fn present<'c>(claims: &'c Claims, name: &str) -> Option<&'c Value> {
    claims.get(name).filter(|value| !value.is_null())
}

/// A number is taken if it is whole and fits 64 bits: beyond that, two users' numbers could be read as the same one.
fn user(claim: &Value) -> Result<Box<str>, &'static str> {
    match claim {
        Value::Number(number) if number.is_u64() || number.is_i64() => Ok(number.to_string().into()),
        _ => text(claim, "its user is not a usable name or number"),
    }
}

fn text(claim: &Value, otherwise: &'static str) -> Result<Box<str>, &'static str> {
    claim.as_str().filter(|text| is_name(text)).map(Into::into).ok_or(otherwise)
}

fn lifetime(claims: &Claims, leeway_seconds: u64) -> Result<Lifetime, &'static str> {
    let exp = claims.get("exp").and_then(unix_seconds).ok_or("it needs exp, a Unix time")?;
    let nbf = match present(claims, "nbf") {
        Some(nbf) => unix_seconds(nbf).ok_or("its nbf is not a Unix time")?,
        None => 0,
    };
    Ok(Lifetime { first_second: nbf.saturating_sub(leeway_seconds), end_second: exp.saturating_add(leeway_seconds) })
}

/// RFC 7519 allows fractions; the part of a second is dropped.
fn unix_seconds(claim: &Value) -> Option<u64> {
    let fractional = || claim.as_f64().filter(|seconds| (0.0..1e15).contains(seconds)).map(|seconds| seconds as u64);
    claim.as_u64().or_else(fractional)
}

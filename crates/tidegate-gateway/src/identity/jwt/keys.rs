//! The keys that tokens are checked with, and the choice among them for a token.

use std::collections::HashSet;

use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation};
use tidegate_input::Problems;

use crate::config::model::Jwt;

use super::key_source::{self, Candidate};

/// A key, and what a token must have besides its signature.
pub(super) struct Key {
    name: Option<Box<str>>,
    pub(super) material: DecodingKey,
    /// Its `algorithms` are those that the key may be used with, whatever the token's header names.
    pub(super) validation: Validation,
}

/// No two keys have the same name and a common algorithm.
pub(super) struct KeySet {
    keys: Vec<Key>,
}

impl KeySet {
    pub(super) fn load(model: &Jwt, problems: &Problems) -> Option<Self> {
        let allowed = allowed_algorithms(&model.algorithms, problems);
        let mut candidates = match key_source::read(model) {
            Ok(candidates) => candidates,
            Err((path, message)) => {
                problems.add(path, message);
                return None;
            }
        };
        for (index, algorithm) in &allowed {
            if !candidates.iter().any(|key| key.algorithms.contains(algorithm)) {
                let message = format!("must fit a key ({}), got {algorithm:?}", fitting(&candidates));
                problems.add(format!("identity.jwt.algorithms[{index}]"), message);
            }
        }
        if !model.algorithms.is_empty() {
            for key in &mut candidates {
                key.algorithms.retain(|algorithm| allowed.iter().any(|(_, allowed)| allowed == algorithm));
            }
            candidates.retain(|key| !key.algorithms.is_empty());
        }
        check_names(&candidates, problems);
        let keys = candidates.into_iter().map(|candidate| Key::new(candidate, model)).collect();
        Some(Self { keys })
    }

    /// The key that the token names. A key without a name serves every token. A token needs to name a key only if
    /// several fit.
    pub(super) fn choose(&self, header: &Header) -> Result<&Key, &'static str> {
        let mut fitting = self.keys.iter().filter(|key| key.validation.algorithms.contains(&header.alg)).peekable();
        if fitting.peek().is_none() {
            return Err("its algorithm is not allowed");
        }
        if let Some(kid) = header.kid.as_deref() {
            let (mut named, mut nameless) = (None, None);
            for key in fitting {
                match key.name.as_deref() {
                    Some(name) if name == kid => named = Some(key),
                    Some(_) => {}
                    None => nameless = Some(key),
                }
            }
            return named.or(nameless).ok_or("its kid is not known");
        }
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Ok(key),
            (Some(_) | None, _) => Err("it needs a kid: several keys fit"),
        }
    }
}

impl Key {
    fn new(candidate: Candidate, model: &Jwt) -> Self {
        let mut validation = Validation {
            algorithms: candidate.algorithms,
            // The library would read the clock for these two.
            validate_exp: false,
            validate_nbf: false,
            validate_aud: model.audience.is_some(),
            ..Validation::default()
        };
        let mut required = vec!["exp"];
        if let Some(issuer) = &model.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        if let Some(audience) = &model.audience {
            validation.set_audience(&[audience]);
            required.push("aud");
        }
        validation.set_required_spec_claims(&required);
        Self { name: candidate.name, material: candidate.material, validation }
    }
}

const KNOWN: &str = "HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA";

/// Each with its index in the list.
fn allowed_algorithms(names: &[String], problems: &Problems) -> Vec<(usize, Algorithm)> {
    let mut allowed = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        if let Ok(algorithm) = name.parse() {
            allowed.push((index, algorithm));
        } else {
            let message = format!("must be one of {KNOWN}, got {name:?}");
            problems.add(format!("identity.jwt.algorithms[{index}]"), message);
        }
    }
    allowed
}

fn fitting(candidates: &[Candidate]) -> String {
    let mut names: Vec<_> =
        candidates.iter().flat_map(|key| &key.algorithms).map(|algorithm| format!("{algorithm:?}")).collect();
    names.sort();
    names.dedup();
    names.join(", ")
}

fn check_names(candidates: &[Candidate], problems: &Problems) {
    let mut seen = HashSet::new();
    for key in candidates {
        if key.algorithms.iter().any(|algorithm| !seen.insert((&key.name, *algorithm))) {
            let message = match &key.name {
                Some(name) => format!("two keys have the kid {name:?} and a common algorithm: give each its own kid"),
                None => "two keys with a common algorithm have no kid: give each its own".to_owned(),
            };
            problems.add("identity.jwt.jwks", message);
        }
    }
}

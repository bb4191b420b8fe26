//! Where keys come from: a secret, a PEM file, a JSON Web Key Set.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};

use crate::config::model::Jwt;

use super::key_strength::algorithms_for;

/// Real key files are smaller by far.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// A key with all the algorithms it can be used with.
pub(super) struct Candidate {
    pub(super) name: Option<Box<str>>,
    pub(super) algorithms: Vec<Algorithm>,
    pub(super) material: DecodingKey,
}

/// The keys of the one source that is configured, at least one. An error is the setting and what is wrong with it.
pub(super) fn read(model: &Jwt) -> Result<Vec<Candidate>, (&'static str, String)> {
    match (&model.secret, &model.secret_file, &model.public_key, &model.jwks) {
        (Some(secret), None, None, None) => one(secret_key(secret.expose().as_bytes()), "identity.jwt.secret"),
        (None, Some(path), None, None) => {
            // Editors and `echo` end a file with a newline that is not part of the secret.
            one(file(path).and_then(|text| secret_key(text.trim_ascii_end())), "identity.jwt.secret_file")
        }
        (None, None, Some(path), None) => one(file(path).and_then(|text| public_key(&text)), "identity.jwt.public_key"),
        (None, None, None, Some(path)) => {
            file(path).and_then(|text| key_set(&text)).map_err(|message| ("identity.jwt.jwks", message))
        }
        _ => Err(("identity.jwt", "must have exactly one of secret, secret_file, public_key and jwks".to_owned())),
    }
}

fn one(key: Result<Candidate, String>, path: &'static str) -> Result<Vec<Candidate>, (&'static str, String)> {
    key.map(|key| vec![key]).map_err(|message| (path, message))
}

fn file(path: &Path) -> Result<Vec<u8>, String> {
    if path.to_str().is_some_and(|path| path.contains("://")) {
        return Err(format!("must be the path of a file, got the URL {}", path.display()));
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
    match read {
        Err(error) => Err(format!("can't read {}: {error}", path.display())),
        Ok(_) if bytes.len() as u64 > MAX_FILE_BYTES => {
            Err(format!("must be a file of at most 1 MiB, got {}, which is larger", path.display()))
        }
        Ok(_) => Ok(bytes),
    }
}

fn secret_key(secret: &[u8]) -> Result<Candidate, String> {
    candidate(None, DecodingKey::from_secret(secret))
}

fn candidate(name: Option<Box<str>>, material: DecodingKey) -> Result<Candidate, String> {
    Ok(Candidate { name, algorithms: algorithms_for(&material)?, material })
}

fn public_key(pem: &[u8]) -> Result<Candidate, String> {
    const WANTED: &str = "must be one PEM public key (BEGIN PUBLIC KEY): RSA, P-256, P-384 or Ed25519";
    // The library would also take the first bits of a certificate, and a private key for a public one.
    let text = std::str::from_utf8(pem).map_err(|_| WANTED)?;
    let labels: Vec<_> = text.split("-----BEGIN ").skip(1).filter_map(|rest| rest.split("-----").next()).collect();
    match labels[..] {
        ["PUBLIC KEY" | "RSA PUBLIC KEY"] => {}
        [label] if label.ends_with("PRIVATE KEY") => {
            return Err("must be a public key, got a private key, which a gateway must not have".to_owned());
        }
        _ => return Err(WANTED.to_owned()),
    }
    let material = DecodingKey::from_rsa_pem(pem)
        .or_else(|_| DecodingKey::from_ec_pem(pem))
        .or_else(|_| DecodingKey::from_ed_pem(pem))
        .map_err(|_| WANTED)?;
    candidate(None, material)
}

fn key_set(json: &[u8]) -> Result<Vec<Candidate>, String> {
    let set: JwkSet = serde_json::from_slice(json).map_err(|error| format!("must be a JSON Web Key Set: {error}"))?;
    let mut candidates = Vec::with_capacity(set.keys.len());
    for (index, jwk) in set.keys.iter().enumerate().filter(|(_, jwk)| is_for_us(jwk)) {
        candidates.push(from_jwk(jwk).map_err(|message| format!("keys[{index}]: {message}"))?);
    }
    if candidates.is_empty() {
        return Err("must have a key for signatures of a supported kind (RSA, P-256, P-384, Ed25519 or oct), got none"
            .to_owned());
    }
    Ok(candidates)
}

/// Sets of identity providers also have keys for encryption and of unsupported kinds. RFC 7517, 5: they are ignored.
fn is_for_us(jwk: &Jwk) -> bool {
    let common = &jwk.common;
    let kind = match &jwk.algorithm {
        AlgorithmParameters::EllipticCurve(key) => matches!(key.curve, EllipticCurve::P256 | EllipticCurve::P384),
        AlgorithmParameters::OctetKeyPair(key) => key.curve == EllipticCurve::Ed25519,
        AlgorithmParameters::RSA(_) | AlgorithmParameters::OctetKey(_) => true,
        _ => false,
    };
    kind && common.public_key_use.as_ref().is_none_or(|purpose| *purpose == PublicKeyUse::Signature)
        && common.key_operations.as_ref().is_none_or(|operations| operations.contains(&KeyOperations::Verify))
        && common.key_algorithm.is_none_or(|algorithm| Algorithm::try_from(algorithm).is_ok())
}

fn from_jwk(jwk: &Jwk) -> Result<Candidate, String> {
    let mut material = DecodingKey::from_jwk(jwk).map_err(|error| format!("must be a key: {error}"))?;
    // `ring` wants the modulus without the zeros that some issuers put before it.
    if let DecodingKeyKind::RsaModulusExponent { n, e } = material.kind() {
        material = DecodingKey::from_rsa_raw_components(without_zeros(n), without_zeros(e));
    }
    let mut key = candidate(jwk.common.key_id.as_deref().map(Into::into), material)?;
    if let Some(algorithm) = jwk.common.key_algorithm {
        key.algorithms.retain(|fitting| Algorithm::try_from(algorithm).as_ref() == Ok(fitting));
        if key.algorithms.is_empty() {
            return Err(format!("must have an alg that fits the key, got {algorithm}"));
        }
    }
    Ok(key)
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

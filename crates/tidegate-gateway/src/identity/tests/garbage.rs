//! Whatever is sent, the result is a caller or a rejection, never a panic. Seeded, so that a failure comes again.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fastrand::Rng;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tidegate_http::headers::Headers;

use super::issuer::{Issuer, KeyFile, SECRET, claims};
use super::{Caller, Identity, NOW, identity};

const ROUNDS: u32 = 20_000;

fn bytes(random: &mut Rng, at_most: usize) -> Vec<u8> {
    let length = random.usize(..=at_most);
    std::iter::repeat_with(|| random.u8(..)).take(length).collect()
}

/// `None` if a header can't carry it: the server rejects such requests by itself.
fn send(identity: &Identity, name: HeaderName, value: &[u8]) -> Option<bool> {
    let mut headers = HeaderMap::new();
    headers.insert(name, HeaderValue::from_bytes(value).ok()?);
    let caller = identity.identify(&Headers::from(&headers), true, NOW);
    Some(caller.is_ok_and(|caller| *caller != Caller::default()))
}

fn bearer(identity: &Identity, token: &[u8]) -> Option<bool> {
    send(identity, AUTHORIZATION, &[b"Bearer ", token].concat())
}

fn everything() -> (Identity, Vec<Issuer>) {
    let issuers: Vec<_> = ["RS256", "ES256", "ES384", "EdDSA", "HS256"].map(Issuer::new).into();
    let jwks: Vec<_> = issuers.iter().enumerate().map(|(at, issuer)| issuer.jwk(&at.to_string())).collect();
    let file = KeyFile::new(json!({"keys": jwks}).to_string());
    let identity = identity(json!({
        "api_keys": {"keys": [{"key": "alpha", "user": "ann"}]},
        "jwt": {"jwks": file.path()},
        "trusted_headers": {"user": "x-auth-user"},
    }));
    (identity, issuers)
}

#[test]
fn random_bytes_identify_no_caller() {
    let (identity, _) = everything();
    let mut random = Rng::with_seed(1);
    for _ in 0..ROUNDS {
        let noise = bytes(&mut random, 80);
        assert_ne!(bearer(&identity, &noise), Some(true));
        assert_ne!(send(&identity, "x-api-key".parse().expect("a name"), &noise), Some(true));
        send(&identity, "x-auth-user".parse().expect("a name"), &noise);
        send(&identity, AUTHORIZATION, &noise);
        let parts = [(); 3].map(|()| URL_SAFE_NO_PAD.encode(bytes(&mut random, 40)));
        assert_ne!(bearer(&identity, parts.join(".").as_bytes()), Some(true));
    }
}

#[test]
fn a_good_token_with_one_byte_changed_is_bad() {
    let (identity, issuers) = everything();
    let mut random = Rng::with_seed(2);
    for (kid, issuer) in issuers.iter().enumerate() {
        let good = issuer.token_of_key(&kid.to_string(), &claims("ann")).into_bytes();
        assert_eq!(bearer(&identity, &good), Some(true));
        for _ in 0..1_000 {
            let mut token = good.clone();
            let at = random.usize(..token.len());
            match random.u8(..3) {
                0 => token[at] = random.u8(..),
                1 => drop(token.remove(at)),
                _ => token.insert(at, random.u8(..)),
            }
            // White space around a token is not a part of it.
            if token.trim_ascii() != good {
                assert_ne!(bearer(&identity, &token), Some(true), "{}", String::from_utf8_lossy(&token));
            }
        }
    }
}

fn any_json(random: &mut Rng, depth: u32) -> Value {
    match random.u8(..if depth == 0 { 7 } else { 9 }) {
        0 => Value::Null,
        1 => random.bool().into(),
        2 => random.u64(..).into(),
        3 => random.i64(..).into(),
        4 => (random.f64() * 1e20 - 5e19).into(),
        5 => String::from_utf8_lossy(&bytes(random, 12)).into(),
        6 => ["HS256", "RS256", "ES256", "EdDSA", "none", "0", "1"][random.usize(..7)].into(),
        7 => (0..random.u8(..4)).map(|_| any_json(random, depth - 1)).collect(),
        _ => (0..random.u8(..4)).map(|_| (random.char('a'..='f').to_string(), any_json(random, depth - 1))).collect(),
    }
}

/// Signed by the right key, so that the code that reads claims sees them.
#[test]
fn any_signed_json_is_read_without_a_panic() {
    let identity = identity(json!({"jwt": {"secret": SECRET, "issuer": "us", "audience": "api"}}));
    let issuer = Issuer::new("HS256");
    let mut random = Rng::with_seed(3);
    for _ in 0..ROUNDS {
        let mut claims = json!({"sub": "ann", "exp": NOW + 60, "iss": "us", "aud": "api"});
        let name = ["sub", "exp", "nbf", "iss", "aud", "tier", "client_id", "azp"][random.usize(..8)];
        claims[name] = any_json(&mut random, 3);
        if random.u8(..20) == 0 {
            claims = any_json(&mut random, 3);
        }
        let mut header = json!({"alg": "HS256"});
        if random.u8(..4) == 0 {
            let name = ["alg", "kid", "typ", "crit", "jwk", "x5c", "zip", "enc"][random.usize(..8)];
            header[name] = any_json(&mut random, 2);
        }
        let token = issuer.token_with(&header, &claims);
        bearer(&identity, token.as_bytes());
    }
    for depth in [100, 127, 128, 2_500] {
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for part in [nested.clone(), format!("{{\"alg\":{nested}}}")] {
            let part = URL_SAFE_NO_PAD.encode(part);
            assert_eq!(bearer(&identity, format!("{part}.{part}.{part}").as_bytes()), Some(false));
        }
    }
}

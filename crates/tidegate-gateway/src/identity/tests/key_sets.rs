//! Several keys in a JSON Web Key Set.

use serde_json::{Value, json};
use tidegate_input::Problem;

use super::issuer::{Issuer, KeyFile, changed, claims};
use super::{Identity, Unidentified, built, identify_token, identity, user};

fn with_keys(keys: &[Value]) -> Identity {
    let file = KeyFile::new(json!({"keys": keys}).to_string());
    identity(json!({"jwt": {"jwks": file.path()}}))
}

fn errors_of(keys: &[Value]) -> Vec<Problem> {
    let file = KeyFile::new(json!({"keys": keys}).to_string());
    built(json!({"jwt": {"jwks": file.path()}})).1
}

#[test]
fn every_kind_of_key_may_be_in_a_set() {
    for algorithm in ["HS256", "RS256", "PS384", "ES256", "ES384", "EdDSA"] {
        let issuer = Issuer::new(algorithm);
        let identity = with_keys(&[issuer.jwk("k")]);
        let token = issuer.token_of_key("k", &claims("ann"));
        assert_eq!(user(identify_token(&identity, &token)).as_deref(), Some("ann"), "{algorithm}");
    }
}

#[test]
fn the_token_names_its_key() {
    let (old, new, other) = (Issuer::new("ES256"), Issuer::new("ES256"), Issuer::new("EdDSA"));
    let identity = with_keys(&[old.jwk("old"), new.jwk("new"), other.jwk("other")]);
    let unknown = Err(Unidentified::InvalidToken("its kid is not known"));
    let mismatch = Err(Unidentified::InvalidToken("its signature does not match"));
    let table = [
        (old.token_of_key("old", &claims("ann")), Ok(())),
        (new.token_of_key("new", &claims("ann")), Ok(())),
        (other.token_of_key("other", &claims("ann")), Ok(())),
        (old.token_of_key("new", &claims("ann")), mismatch),
        (old.token_of_key("older", &claims("ann")), unknown.clone()),
        (old.token_of_key("OLD", &claims("ann")), unknown.clone()),
        (old.token_of_key("other", &claims("ann")), unknown),
        (other.token(&claims("ann")), Ok(())),
        (old.token(&claims("ann")), Err(Unidentified::InvalidToken("it needs a kid: several keys fit"))),
    ];
    for (token, expected) in table {
        assert_eq!(identify_token(&identity, &token).map(|_| ()), expected);
    }
}

#[test]
fn a_key_without_a_name_serves_tokens_of_any_name() {
    let (named, nameless) = (Issuer::new("ES256"), Issuer::new("ES256"));
    let identity = with_keys(&[changed(nameless.jwk(""), &json!({"kid": null})), named.jwk("a")]);
    assert!(identify_token(&identity, &nameless.token_of_key("b", &claims("ann"))).is_ok());
    assert!(identify_token(&identity, &named.token_of_key("a", &claims("ann"))).is_ok());
    assert!(identify_token(&identity, &nameless.token_of_key("a", &claims("eve"))).is_err());
}

/// The confusion again, by way of a set: the token names the RSA key, and HMAC as its algorithm.
#[test]
fn a_name_does_not_lend_a_key_another_algorithm() {
    let (rsa, secret) = (Issuer::new("RS256"), Issuer::new("HS256"));
    let identity = with_keys(&[rsa.jwk("rsa"), secret.jwk("secret")]);
    let token = Issuer::with_secret(rsa.pem().as_bytes()).token_of_key("rsa", &claims("eve"));
    assert_eq!(identify_token(&identity, &token), Err(Unidentified::InvalidToken("its kid is not known")));
}

#[test]
fn alg_binds_a_key_to_one_algorithm() {
    let issuer = Issuer::new("RS256");
    let identity = with_keys(&[changed(issuer.jwk("k"), &json!({"alg": "PS256"}))]);
    assert!(identify_token(&identity, &issuer.token_of_key("k", &claims("ann"))).is_err());
    assert!(identify_token(&identity, &Issuer::new("PS256").token_of_key("k", &claims("ann"))).is_ok());
}

#[test]
fn a_modulus_may_have_zeros_before_it() {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let issuer = Issuer::new("RS256");
    let mut jwk = issuer.jwk("k");
    let mut modulus = vec![0];
    modulus.extend(URL_SAFE_NO_PAD.decode(jwk["n"].as_str().expect("a text")).expect("base64"));
    jwk["n"] = URL_SAFE_NO_PAD.encode(modulus).into();
    assert!(identify_token(&with_keys(&[jwk]), &issuer.token(&claims("ann"))).is_ok());
}

#[test]
fn keys_for_other_uses_are_ignored() {
    let issuer = Issuer::new("ES256");
    let identity = with_keys(&[
        changed(Issuer::new("RS256").jwk("a"), &json!({"use": "enc"})),
        changed(Issuer::new("RS256").jwk("b"), &json!({"alg": "RSA-OAEP"})),
        changed(Issuer::new("RS256").jwk("c"), &json!({"key_ops": ["encrypt"]})),
        json!({"kty": "EC", "crv": "P-521", "x": "AA", "y": "AA", "kid": "d"}),
        json!({"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA", "kid": "e"}),
        json!({"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA", "kid": "f"}),
        changed(issuer.jwk("g"), &json!({"use": "sig", "key_ops": ["verify"], "alg": "ES256"})),
    ]);
    assert!(identify_token(&identity, &issuer.token_of_key("g", &claims("ann"))).is_ok());
    assert!(identify_token(&identity, &Issuer::new("RS256").token_of_key("a", &claims("eve"))).is_err());
}

#[test]
fn a_set_that_could_not_be_used_is_rejected() {
    let (ec, rsa) = (Issuer::new("ES256"), Issuer::new("RS256"));
    let nameless = |issuer: &Issuer| changed(issuer.jwk(""), &json!({"kid": null}));
    let table = [
        (vec![], "must have a key for signatures"),
        (vec![changed(rsa.jwk("a"), &json!({"use": "enc"}))], "must have a key for signatures"),
        (vec![ec.jwk("a"), Issuer::new("ES256").jwk("a")], "the kid \"a\""),
        (vec![nameless(&ec), nameless(&Issuer::new("ES256"))], "have no kid"),
        (vec![rsa.jwk("a"), changed(ec.jwk("b"), &json!({"x": "AAAA"}))], "keys[1]: must be a point"),
        (vec![changed(ec.jwk("a"), &json!({"x": Issuer::new("ES256").jwk("")["x"]}))], "keys[0]: must be a point"),
        (vec![changed(ec.jwk("a"), &json!({"x": "!"}))], "keys[0]: must be a key"),
        (vec![changed(ec.jwk("a"), &json!({"alg": "RS256"}))], "an alg that fits the key, got RS256"),
        (vec![changed(rsa.jwk("a"), &json!({"n": "AQAB"}))], "2048 to 8192 bits"),
        (vec![changed(rsa.jwk("a"), &json!({"n": ""}))], "2048 to 8192 bits"),
        (vec![changed(rsa.jwk("a"), &json!({"e": ""}))], "2048 to 8192 bits"),
        (vec![json!({"kty": "oct", "k": "c2hvcnQ"})], "at least 32 bytes"),
        (vec![json!({"kty": "OKP", "crv": "Ed25519", "x": "AAAA"})], "Ed25519 key"),
    ];
    for (keys, message) in table {
        let errors = errors_of(&keys);
        let [Problem { path, message: reported }] = &errors[..] else { panic!("one error for {keys:?}: {errors:?}") };
        assert_eq!(path, "identity.jwt.jwks");
        assert!(reported.contains(message), "{reported:?} should have {message:?}");
    }
}

#[test]
fn one_name_may_stand_for_keys_of_different_kinds() {
    let (ec, rsa) = (Issuer::new("ES256"), Issuer::new("RS256"));
    let identity = with_keys(&[ec.jwk("a"), rsa.jwk("a")]);
    for issuer in [ec, rsa] {
        assert!(identify_token(&identity, &issuer.token_of_key("a", &claims("ann"))).is_ok());
    }
}

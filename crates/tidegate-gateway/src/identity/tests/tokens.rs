//! Tokens, good and bad.

use serde_json::{Value, json};

use super::issuer::{Issuer, KeyFile, SECRET, changed, claims, part, rsa_pkcs1_pem};
use super::{Identity, NOW, Unidentified, headers, identify_token, identity, user};

const ASYMMETRIC: [&str; 9] = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

fn with_public_key(pem: &str) -> Identity {
    let file = KeyFile::new(pem);
    identity(json!({"jwt": {"public_key": file.path()}}))
}

fn with_secret() -> Identity {
    identity(json!({"jwt": {"secret": SECRET}}))
}

/// Why a token is rejected.
fn rejection(identity: &Identity, token: &str) -> &'static str {
    match identify_token(identity, token) {
        Err(Unidentified::InvalidToken(reason)) => reason,
        other => panic!("{token} should be rejected: {other:?}"),
    }
}

#[test]
fn every_algorithm_of_a_secret_is_checked() {
    let identity = with_secret();
    for algorithm in ["HS256", "HS384", "HS512"] {
        let token = Issuer::new(algorithm).token(&claims("ann"));
        assert_eq!(user(identify_token(&identity, &token)).as_deref(), Some("ann"), "{algorithm}");
    }
    let foreign = Issuer::with_secret(b"another secret, of 32 bytes too!").token(&claims("eve"));
    assert_eq!(rejection(&identity, &foreign), "its signature does not match");
}

#[test]
fn every_algorithm_of_a_public_key_is_checked() {
    for algorithm in ASYMMETRIC {
        let issuer = Issuer::new(algorithm);
        let identity = with_public_key(&issuer.pem());
        let token = issuer.token(&claims("ann"));
        assert_eq!(user(identify_token(&identity, &token)).as_deref(), Some("ann"), "{algorithm}");
        let (message, signature) = token.rsplit_once('.').expect("a token has dots");
        let (header, _) = message.split_once('.').expect("a token has dots");
        let forged = format!("{header}.{}.{signature}", part(&claims("root")));
        assert_eq!(rejection(&identity, &forged), "its signature does not match", "{algorithm}");
    }
}

#[test]
fn an_rsa_key_may_be_written_as_pkcs_1() {
    let token = Issuer::new("RS256").token(&claims("ann"));
    assert_eq!(user(identify_token(&with_public_key(&rsa_pkcs1_pem()), &token)).as_deref(), Some("ann"));
}

#[test]
fn a_key_of_the_same_kind_is_still_another_key() {
    for algorithm in ["ES256", "ES384", "EdDSA"] {
        let identity = with_public_key(&Issuer::new(algorithm).pem());
        let token = Issuer::new(algorithm).token(&claims("eve"));
        assert_eq!(rejection(&identity, &token), "its signature does not match", "{algorithm}");
    }
}

#[test]
fn a_token_without_a_signature_is_rejected_however_it_is_written() {
    let identity = with_secret();
    for none in ["none", "None", "NONE", "nOnE", ""] {
        let message = format!("{}.{}", part(&json!({"alg": none})), part(&claims("eve")));
        for token in [format!("{message}."), message.clone(), format!("{message}.e30")] {
            assert_eq!(rejection(&identity, &token), "it is malformed, or of an unknown algorithm", "{none}");
        }
    }
    let unsigned = format!("{}.{}.", part(&json!({"alg": "HS256"})), part(&claims("eve")));
    assert_eq!(rejection(&identity, &unsigned), "its signature does not match");
}

/// The classic attack: the verifier's public key is not secret, so if it served as one, everyone could sign.
#[test]
fn a_public_key_never_serves_as_the_secret_of_an_hmac() {
    for algorithm in ASYMMETRIC {
        let pem = Issuer::new(algorithm).pem();
        let identity = with_public_key(&pem);
        for secret in [pem.as_bytes(), pem.trim_end().as_bytes(), rsa_pkcs1_pem().as_bytes()] {
            let token = Issuer::with_secret(secret).token(&claims("eve"));
            assert_eq!(rejection(&identity, &token), "its algorithm is not allowed", "{algorithm}");
        }
    }
}

#[test]
fn the_header_chooses_no_algorithm_that_the_key_is_not_for() {
    let issuer = Issuer::new("ES256");
    let identity = with_public_key(&issuer.pem());
    for algorithm in ["HS256", "RS256", "PS256", "ES384", "EdDSA"] {
        let token = issuer.token_with(&json!({"alg": algorithm}), &claims("eve"));
        assert_eq!(rejection(&identity, &token), "its algorithm is not allowed", "{algorithm}");
    }
    let secret = with_secret();
    let token = issuer.token_with(&json!({"alg": "ES256"}), &claims("eve"));
    assert_eq!(rejection(&secret, &token), "its algorithm is not allowed");
}

#[test]
fn a_key_in_the_token_itself_is_not_used() {
    let (ours, theirs) = (Issuer::new("ES256"), Issuer::new("ES256"));
    let identity = with_public_key(&ours.pem());
    let header = json!({"alg": "ES256", "jwk": theirs.jwk("eve"), "jku": "https://eve.example/keys"});
    assert_eq!(rejection(&identity, &theirs.token_with(&header, &claims("eve"))), "its signature does not match");
}

#[test]
fn unsupported_extensions_are_rejected() {
    let token =
        Issuer::new("HS256").token_with(&json!({"alg": "HS256", "crit": ["b64"], "b64": false}), &claims("ann"));
    assert_eq!(rejection(&with_secret(), &token), "it needs an extension that is not supported");
}

#[test]
fn only_configured_algorithms_are_accepted() {
    let identity = identity(json!({"jwt": {"secret": SECRET, "algorithms": ["HS512"]}}));
    assert!(identify_token(&identity, &Issuer::new("HS512").token(&claims("ann"))).is_ok());
    let token = Issuer::new("HS256").token(&claims("ann"));
    assert_eq!(rejection(&identity, &token), "its algorithm is not allowed");
}

/// Each claim with its result: the user, or why the token is rejected.
fn check_claims(model: &Value, table: &[(Value, Result<&str, &str>)]) {
    let identity = identity(json!({"jwt": changed(json!({"secret": SECRET}), model)}));
    let issuer = Issuer::new("HS256");
    for (changes, expected) in table {
        let token = issuer.token(&changed(claims("ann"), changes));
        let caller = identify_token(&identity, &token);
        let user = match &caller {
            Ok(caller) => Ok(caller.user.as_deref().unwrap_or("nobody")),
            Err(Unidentified::InvalidToken(reason)) => Err(*reason),
            Err(other) => panic!("{changes}: {other}"),
        };
        assert_eq!(user, *expected, "{changes}");
    }
}

#[test]
fn a_token_lives_from_nbf_to_exp_and_the_leeway_longer() {
    let (expired, early) = (Err("it has expired"), Err("it is not valid yet"));
    let no_exp = Err("it needs exp, a Unix time");
    check_claims(
        &json!({}),
        &[
            (json!({"exp": NOW - 29}), Ok("ann")),
            (json!({"exp": NOW - 30}), expired),
            (json!({"exp": 1_799_999_970.5}), expired),
            (json!({"exp": 0}), expired),
            (json!({"exp": u64::MAX}), Ok("ann")),
            (json!({"exp": null}), no_exp),
            (json!({"exp": (NOW + 60).to_string()}), no_exp),
            (json!({"exp": -1}), no_exp),
            (json!({"exp": 1e300}), no_exp),
            (json!({"exp": [NOW]}), Err("it is malformed, or of an unknown algorithm")),
            (json!({"nbf": NOW + 30}), Ok("ann")),
            (json!({"nbf": NOW + 31}), early),
            (json!({"nbf": u64::MAX}), early),
            (json!({"nbf": "soon"}), Err("its nbf is not a Unix time")),
            (json!({"nbf": -5}), Err("its nbf is not a Unix time")),
        ],
    );
    check_claims(
        &json!({"leeway": 0}),
        &[
            (json!({"exp": NOW + 1}), Ok("ann")),
            (json!({"exp": NOW}), expired),
            (json!({"nbf": NOW}), Ok("ann")),
            (json!({"nbf": NOW + 1}), early),
        ],
    );
}

#[test]
fn issuer_and_audience_are_checked_when_they_are_configured() {
    let (issuer, audience) = (Err("it is from another issuer"), Err("it is for another audience"));
    check_claims(
        &json!({"issuer": "us"}),
        &[
            (json!({"iss": "us"}), Ok("ann")),
            (json!({"iss": "us", "aud": "anyone"}), Ok("ann")),
            (json!({"iss": "US"}), issuer),
            (json!({"iss": ""}), issuer),
            (json!({}), Err("it needs iss")),
            (json!({"iss": 7}), Err("it needs iss")),
        ],
    );
    check_claims(
        &json!({"audience": "api"}),
        &[
            (json!({"aud": "api"}), Ok("ann")),
            (json!({"aud": ["web", "api"]}), Ok("ann")),
            (json!({"aud": "web"}), audience),
            (json!({"aud": ["web"]}), audience),
            (json!({"aud": []}), audience),
            (json!({}), Err("it needs aud")),
            (json!({"aud": 7}), Err("it needs aud")),
        ],
    );
    check_claims(&json!({}), &[(json!({"aud": ["any"], "iss": "any"}), Ok("ann")), (json!({"aud": 7}), Ok("ann"))]);
}

#[test]
fn a_user_is_a_short_text_or_a_whole_number() {
    let unusable = Err("its user is not a usable name or number");
    check_claims(
        &json!({}),
        &[
            (json!({"sub": 42}), Ok("42")),
            (json!({"sub": -42}), Ok("-42")),
            (json!({"sub": "änne"}), Ok("änne")),
            (json!({"sub": 4.5}), unusable),
            (json!({"sub": 1e30}), unusable),
            (json!({"sub": true}), unusable),
            (json!({"sub": ""}), unusable),
            (json!({"sub": "a\nb"}), unusable),
            (json!({"sub": "a\u{85}b"}), unusable),
            (json!({"sub": "u".repeat(257)}), unusable),
            (json!({"sub": null}), Err("it names neither a user nor a client")),
            (json!({"sub": null, "azp": "batch"}), Ok("nobody")),
            (json!({"tier": 3}), Err("its tier is not a usable name")),
            (json!({"tier": ""}), Err("its tier is not a usable name")),
            (json!({"client_id": ["a"]}), Err("its client is not a usable name")),
        ],
    );
    check_claims(
        &json!({"user_claim": "email"}),
        &[(json!({"email": "ann@example.com"}), Ok("ann@example.com")), (json!({"email": {}}), unusable)],
    );
}

#[test]
fn tier_and_client_are_read_from_their_claims() {
    let table = [
        (json!({}), json!({"tier": "gold", "client_id": "cli", "azp": "web"}), (Some("gold"), Some("cli"))),
        (json!({}), json!({"azp": "web"}), (None, Some("web"))),
        (json!({}), json!({}), (None, None)),
        (
            json!({"tier_claim": "plan", "client_id_claim": "app"}),
            json!({"plan": "pro", "app": "ios"}),
            (Some("pro"), Some("ios")),
        ),
        (json!({"client_id_claim": "app"}), json!({"azp": "web"}), (None, None)),
    ];
    for (model, changes, expected) in table {
        let identity = identity(json!({"jwt": changed(json!({"secret": SECRET}), &model)}));
        let token = Issuer::new("HS256").token(&changed(claims("ann"), &changes));
        let caller = identify_token(&identity, &token).expect("a good token");
        assert_eq!((caller.tier.as_deref(), caller.client_id.as_deref()), expected, "{changes}");
        assert_eq!(caller.api_key, None);
    }
    let mut claims = claims("ann");
    (claims["tier"], claims["nbf"]) = (Value::Null, Value::Null);
    let token = Issuer::new("HS256").token(&claims);
    assert_eq!(identify_token(&with_secret(), &token).expect("null counts as absent").tier, None);
}

#[test]
fn a_long_token_is_rejected_unread() {
    let identity = with_secret();
    let issuer = Issuer::new("HS256");
    let padded = |bytes: usize| issuer.token(&changed(claims("ann"), &json!({"pad": "x".repeat(bytes)})));
    assert!(identify_token(&identity, &padded(5_900)).is_ok());
    assert_eq!(rejection(&identity, &padded(6_300)), "it is longer than 8 KiB");
}

#[test]
fn a_rejection_has_a_text() {
    let identity = with_secret();
    let caller = identity.identify(&headers(&[("authorization", "Bearer a.b.c")]), false, NOW);
    let text = caller.expect_err("it is nonsense").to_string();
    assert_eq!(text, "invalid token: it is malformed, or of an unknown algorithm");
}

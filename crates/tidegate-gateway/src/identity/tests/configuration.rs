//! Settings that are rejected, with the path and what is expected.

use serde_json::{Value, json};
use tidegate_input::Problem;

use super::issuer::{Issuer, KeyFile, SECRET, claims, pem, rsa_private_pem, unhex};
use super::{built, identify_token, identity, user};

fn check(model: Value, path: &str, message: &str) {
    let shown = model.to_string();
    let (_, errors) = built(model);
    let [Problem { path: at, message: error }] = &errors[..] else { panic!("one error for {shown}: {errors:?}") };
    assert_eq!(at, path, "{shown}");
    assert!(error.contains(message), "{error:?} should have {message:?}");
    assert!(!error.contains("only for tests"), "a secret is not repeated: {error}");
}

#[test]
fn there_is_exactly_one_source_of_keys() {
    let needed = "exactly one of secret, secret_file, public_key and jwks";
    check(json!({"jwt": {}}), "identity.jwt", needed);
    check(json!({"jwt": {"secret": SECRET, "jwks": "x"}}), "identity.jwt", needed);
    check(json!({"jwt": {"secret_file": "a", "public_key": "b"}}), "identity.jwt", needed);
}

#[test]
fn settings_of_tokens_are_checked() {
    let jwt = |setting: &str, value: Value| json!({"jwt": {"secret": SECRET, setting: value}});
    check(
        jwt("algorithms", json!(["HS256", "none"])),
        "identity.jwt.algorithms[1]",
        "must be one of HS256, HS384, HS512",
    );
    check(
        jwt("algorithms", json!(["HS256", "RS256"])),
        "identity.jwt.algorithms[1]",
        "must fit a key (HS256, HS384, HS512), got RS256",
    );
    check(jwt("user_claim", json!("")), "identity.jwt.user_claim", "must be the name of a claim, got \"\"");
    check(jwt("tier_claim", json!("")), "identity.jwt.tier_claim", "must be the name of a claim, got \"\"");
    check(jwt("client_id_claim", json!("")), "identity.jwt.client_id_claim", "must be the name of a claim, got \"\"");
    check(json!({"jwt": {"secret": "short"}}), "identity.jwt.secret", "at least 32 bytes");
}

#[test]
fn the_rest_is_checked() {
    check(
        json!({"default_tier": ""}),
        "identity.default_tier",
        "must be 1 to 256 bytes without control characters, got 0 bytes",
    );
    let keys = |header: &str| json!({"header": header, "keys": []});
    check(
        json!({"api_keys": keys("a b")}),
        "identity.api_keys.header",
        "must be a header name of letters, digits and `-`, got \"a b\"",
    );
    check(json!({"api_keys": keys("Authorization")}), "identity.api_keys.header", "another header");
    let both = json!({"api_keys": keys("X-Same"), "trusted_headers": {"user": "x-same"}});
    check(both, "identity.api_keys.header", "trusted_headers");
}

#[test]
fn all_errors_are_reported_at_once() {
    let (_, errors) = built(json!({
        "default_tier": "",
        "api_keys": {"header": "", "keys": [{"user": ""}]},
        "jwt": {"secret": "short", "algorithms": ["none"]},
        "trusted_headers": {},
    }));
    assert_eq!(errors.len(), 7, "{errors:?}");
}

#[test]
fn a_key_file_must_be_there_and_hold_one_public_key() {
    let public_key = |contents: &str, message: &str| {
        let file = KeyFile::new(contents);
        check(json!({"jwt": {"public_key": file.path()}}), "identity.jwt.public_key", message);
    };
    let good = Issuer::new("ES256").pem();
    public_key("", "one PEM public key");
    public_key("nonsense", "one PEM public key");
    public_key(&good[..60], "one PEM public key");
    public_key(&format!("{good}{good}"), "one PEM public key");
    public_key(&good.replace("PUBLIC KEY", "CERTIFICATE"), "one PEM public key");
    public_key(&pem("PUBLIC KEY", b"\x30\x03\x02\x01\x01"), "one PEM public key");
    public_key(&rsa_private_pem(), "got a private key");
    // P-256's shape with a point that is not on it, as one of secp256k1 would be.
    let mut der = unhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004");
    der.extend([7; 64]);
    public_key(&pem("PUBLIC KEY", &der), "P-256 or P-384");
    // An RSA key of 512 bits.
    let mut der = unhex("305c300d06092a864886f70d0101010500034b003048024100");
    der.extend([0xc1; 64]);
    der.extend(unhex("0203010001"));
    public_key(&pem("PUBLIC KEY", &der), "2048 to 8192 bits");

    for setting in ["secret_file", "public_key", "jwks"] {
        let path = format!("identity.jwt.{setting}");
        check(json!({"jwt": {setting: "does/not/exist"}}), &path, "can't read does/not/exist");
        let large = KeyFile::new(vec![b' '; 1024 * 1024 + 1]);
        check(json!({"jwt": {setting: large.path()}}), &path, "at most 1 MiB");
    }
    let file = KeyFile::new("[]");
    check(json!({"jwt": {"jwks": file.path()}}), "identity.jwt.jwks", "must be a JSON Web Key Set");
}

#[test]
fn the_newline_at_the_end_of_a_file_is_not_part_of_the_secret() {
    for end in ["", "\n", "\r\n"] {
        let file = KeyFile::new(format!("{SECRET}{end}"));
        let identity = identity(json!({"jwt": {"secret_file": file.path()}}));
        let token = Issuer::new("HS256").token(&claims("ann"));
        assert_eq!(user(identify_token(&identity, &token)).as_deref(), Some("ann"));
    }
    let short = KeyFile::new(format!("short{}", "\n".repeat(40)));
    check(json!({"jwt": {"secret_file": short.path()}}), "identity.jwt.secret_file", "at least 32 bytes");
}

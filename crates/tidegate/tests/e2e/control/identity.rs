//! Who callers are: by API key, by token, by what a trusted proxy says; and who is not believed.

use serde_json::{Value, json};

use crate::control::limit_headers::unix_now;
use crate::control::setting::before;
use crate::control::tokens::{SECRET, base64url, signed, token};
use tidegate_testkit::{Gateway, Response, Upstream};

/// A limit of one for each user: whether two requests are the same user's shows.
const BY_USER: &str = "limits: {default: {algorithm: fixed, limit: 1, window: 30d, key: user, missing: skip}}";

fn with_identity(upstream: &Upstream, identity: &str) -> Gateway {
    Gateway::start(&before(upstream, &format!("{identity}\n{BY_USER}")))
}

/// A 401 as RFC 9110 wants it, which has cost nobody anything.
fn assert_unidentified(response: &Response, reason: &str) {
    assert_eq!(response.status, 401, "{}", response.text());
    assert!(response.header("www-authenticate").is_some(), "RFC 9110 §11.6.1: it must say how to log in");
    let body = response.json();
    assert_eq!((&body["status"], &body["error"]), (&401.into(), &"unidentified".into()));
    assert!(body["detail"].as_str().is_some_and(|detail| detail.contains(reason)), "{reason} not in {body}");
}

#[test]
fn api_keys_are_known_by_their_hash_or_in_plain() {
    let upstream = Upstream::start();
    let gateway = with_identity(
        &upstream,
        "identity:
  api_keys:
    keys:
      - {sha256: ca64daa8b294dc4835d29ca02a6a47427ebc6a225ea3ac2e15f8417fb6601db2, user: ann}
      - {key: key-of-bob, user: bob}",
    );
    let status = |key| gateway.get_with("/", &[("X-Api-Key", key)]).status;
    assert_eq!((status("key-of-ann"), status("key-of-ann")), (200, 429));
    assert_eq!((status("key-of-bob"), status("key-of-bob")), (200, 429));
    for wrong in [
        "key-of-eve",
        "KEY-OF-BOB",
        "key-of-bo",
        "key-of-bobb",
        "",
        "ca64daa8b294dc4835d29ca02a6a47427ebc6a225ea3ac2e15f8417fb6601db2",
    ] {
        assert_unidentified(&gateway.get_with("/", &[("X-Api-Key", wrong)]), "unknown API key");
    }
    let twice = gateway.get_with("/", &[("X-Api-Key", "key-of-ann"), ("X-Api-Key", "key-of-bob")]);
    assert_unidentified(&twice, "more than once");
    assert_eq!((gateway.get("/").status, upstream.count()), (200, 3), "who claims nothing is nobody in particular");
}

#[test]
fn the_header_of_api_keys_can_be_chosen() {
    let upstream = Upstream::start();
    let gateway =
        with_identity(&upstream, "identity: {api_keys: {header: x-shop-key, keys: [{key: key-of-ann, user: ann}]}}");
    assert_eq!(gateway.get_with("/", &[("X-Shop-Key", "key-of-ann")]).status, 200);
    assert_eq!(gateway.get_with("/", &[("X-Shop-Key", "wrong")]).status, 401);
    assert_eq!(gateway.get_with("/", &[("X-Api-Key", "wrong")]).status, 200, "that header is the upstream's");
}

fn with_tokens(upstream: &Upstream, more: &str) -> Gateway {
    with_identity(upstream, &format!("identity: {{jwt: {{secret: \"{SECRET}\"{more}}}}}"))
}

fn bearing(gateway: &Gateway, token: &str) -> Response {
    gateway.get_with("/", &[("Authorization", &format!("Bearer {token}"))])
}

fn claims(user: &str) -> Value {
    json!({"sub": user, "exp": unix_now() + 3_600})
}

#[test]
fn a_token_that_holds_names_its_user() {
    let upstream = Upstream::start();
    let gateway = with_tokens(&upstream, "");
    let (ann, bob) = (token(&claims("ann"), SECRET), token(&claims("bob"), SECRET));
    assert_eq!((bearing(&gateway, &ann).status, bearing(&gateway, &ann).status), (200, 429));
    assert_eq!((bearing(&gateway, &bob).status, bearing(&gateway, &bob).status), (200, 429));
    let other = token(&json!({"sub": "ann", "exp": unix_now() + 60, "jti": 2}), SECRET);
    assert_eq!(bearing(&gateway, &other).status, 429, "another token of the same user");
    assert_eq!(
        upstream.last().header("authorization"),
        Some(format!("Bearer {bob}").as_str()),
        "the upstream gets it too"
    );
    let scheme = token(&claims("cid"), SECRET);
    assert_eq!(gateway.get_with("/", &[("Authorization", &format!("bEARER {scheme}"))]).status, 200);
    assert_eq!(gateway.get_with("/", &[("Authorization", &format!("Bearer {scheme}"))]).status, 429);
    assert_eq!(
        gateway.get_with("/", &[("Authorization", "Basic YTpi")]).status,
        200,
        "other schemes are the upstream's"
    );
}

#[test]
fn an_invalid_token_is_rejected_with_the_reason() {
    let upstream = Upstream::start();
    let gateway = with_tokens(&upstream, ", issuer: \"https://id.example\", audience: shop");
    let now = unix_now();
    let with = |changes: Value| {
        let mut claims = json!({"sub": "ann", "exp": now + 600, "iss": "https://id.example", "aud": "shop"});
        for (name, value) in changes.as_object().expect("an object") {
            claims[name] = value.clone();
        }
        claims
    };
    assert_eq!(bearing(&gateway, &token(&with(json!({})), SECRET)).status, 200);
    for (changes, reason) in [
        (json!({"exp": now - 3_600}), "expired"),
        (json!({"nbf": now + 3_600}), "not valid yet"),
        (json!({"exp": null}), "exp"),
        (json!({"exp": "tomorrow"}), "exp"),
        (json!({"iss": "https://evil.example"}), "issuer"),
        (json!({"aud": "bank"}), "audience"),
        (json!({"sub": null}), "neither a user nor a client"),
        (json!({"sub": "a\nb"}), "invalid token"),
        (json!({"sub": ["ann"]}), "invalid token"),
        (json!({"tier": 5}), "tier"),
    ] {
        assert_unidentified(&bearing(&gateway, &token(&with(changes.clone()), SECRET)), reason);
    }
    let good = token(&with(json!({})), SECRET);
    let (signing, _) = good.rsplit_once('.').expect("three parts");
    let none = format!("{}.{}.", base64url(br#"{"alg":"none"}"#), base64url(with(json!({})).to_string().as_bytes()));
    for wrong in [
        token(&with(json!({})), "another secret of thirty-two chars"),
        format!("{signing}."),
        format!("{signing}.{}", base64url(&[0; 32])),
        signing.to_owned(),
        none,
        signed(r#"{"alg":"HS256","crit":["b64"],"b64":false}"#, &with(json!({})), SECRET),
        signed(r#"{"alg":"RS256"}"#, &with(json!({})), SECRET),
        "nonsense".to_owned(),
        String::new(),
        "x".repeat(9_000),
    ] {
        assert_unidentified(&bearing(&gateway, &wrong), "invalid token");
    }
    let bearer = format!("Bearer {good}");
    let twice = gateway.get_with("/", &[("Authorization", &bearer), ("Authorization", &bearer)]);
    assert_unidentified(&twice, "more than once");
    assert_eq!(upstream.count(), 1, "none of them reached the upstream");
}

#[test]
fn claims_can_have_other_names_and_tell_tier_and_program() {
    let upstream = Upstream::start();
    let jwt = format!("{{secret: \"{SECRET}\", user_claim: email, tier_claim: plan, client_id_claim: app}}");
    let config = format!(
        "identity: {{jwt: {jwt}}}
limits:
  default: {{algorithm: fixed, limit: 1, window: 30d, key: clientId, tiers: {{gold: unlimited}}}}"
    );
    let gateway = Gateway::start(&before(&upstream, &config));
    let with = |email: &str, plan: &str, app: &str| {
        let claims = json!({"sub": "x", "email": email, "plan": plan, "app": app, "exp": unix_now() + 60});
        bearing(&gateway, &token(&claims, SECRET)).status
    };
    assert_eq!(
        (with("ann", "free", "shop"), with("bob", "free", "shop"), with("ann", "free", "desk")),
        (200, 429, 200)
    );
    assert_eq!((with("ann", "gold", "shop"), with("ann", "gold", "shop")), (200, 200));
}

#[test]
fn a_wrong_key_is_not_mended_by_a_good_token() {
    let upstream = Upstream::start();
    let identity =
        format!("identity: {{api_keys: {{keys: [{{key: key-of-ann, user: ann}}]}}, jwt: {{secret: \"{SECRET}\"}}}}");
    let gateway = with_identity(&upstream, &identity);
    let bearer = format!("Bearer {}", token(&claims("bob"), SECRET));
    let both = |key| gateway.get_with("/", &[("X-Api-Key", key), ("Authorization", bearer.as_str())]);
    assert_unidentified(&both("wrong"), "unknown API key");
    assert_eq!((both("key-of-ann").status, both("key-of-ann").status), (200, 429));
    assert_eq!(gateway.get_with("/", &[("Authorization", &bearer)]).status, 200, "the key counted, not the token");
}

const TRUSTED: &str = "identity: {trusted_headers: {user: x-auth-user, tier: x-auth-tier, client_id: x-auth-client}}";

#[test]
fn a_trusted_proxys_headers_are_believed_and_passed_on() {
    let upstream = Upstream::start();
    let gateway = with_identity(&upstream, &format!("trusted_proxies: [127.0.0.1]\n{TRUSTED}"));
    let status = |user| gateway.get_with("/", &[("X-Auth-User", user), ("X-Auth-Tier", "pro")]).status;
    assert_eq!((status("ann"), status("ann"), status("bob")), (200, 429, 200));
    let received = upstream.last();
    assert_eq!((received.header("x-auth-user"), received.header("x-auth-tier")), (Some("bob"), Some("pro")));
    assert_eq!((status(""), status("")), (200, 200), "an empty one is nobody");
    assert_unidentified(&gateway.get_with("/", &[("X-Auth-User", "ann"), ("X-Auth-User", "bob")]), "more than once");
    assert_unidentified(&gateway.get_with("/", &[("X-Auth-User", &"a".repeat(300))]), "x-auth-user");
}

#[test]
fn from_anyone_else_they_are_neither_believed_nor_passed_on() {
    let upstream = Upstream::start();
    let gateway = with_identity(&upstream, TRUSTED);
    for _ in 0..2 {
        let headers = [("X-Auth-User", "ann"), ("x-auth-tier", "pro"), ("X-AUTH-CLIENT", "shop"), ("X-Other", "kept")];
        assert_eq!(gateway.get_with("/", &headers).status, 200, "nobody's account");
        let received = upstream.last();
        for name in ["x-auth-user", "x-auth-tier", "x-auth-client"] {
            assert_eq!(received.header(name), None, "{name}");
        }
        assert_eq!(received.header("x-other"), Some("kept"));
    }
}

/// Guessing is limited like everything else, by what is known without a name.
#[test]
fn wrong_credentials_are_charged_to_the_limits_that_need_no_name() {
    let upstream = Upstream::start();
    let limits = "limits: {address: {algorithm: fixed, limit: 3, window: 30d, key: ip}, \
                  person: {algorithm: fixed, limit: 1, window: 30d, key: user, missing: refuse}}\n\
                  common_limits: [address, person]\n\
                  identity: {api_keys: {keys: [{key: right, user: ann}]}}";
    let gateway = Gateway::start(&before(&upstream, limits));
    let status = |key| gateway.get_with("/", &[("X-Api-Key", key)]).status;
    assert_eq!((status("wrong"), status("false"), status("right")), (401, 401, 200));
    assert_eq!((status("bad"), status("right"), upstream.count()), (429, 429, 1));
}

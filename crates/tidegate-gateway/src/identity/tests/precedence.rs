//! Several credentials at once: the first that is present counts.

use serde_json::json;

use super::issuer::{Issuer, SECRET, claims};
use super::{Identity, NOW, Unidentified, headers, identify, identity, user};

fn everything() -> Identity {
    identity(json!({
        "api_keys": {"keys": [{"key": "alpha", "user": "by key"}]},
        "jwt": {"secret": SECRET},
        "trusted_headers": {"user": "x-auth-user"},
    }))
}

#[test]
fn a_key_comes_before_a_token_and_a_token_before_the_proxy() {
    let identity = everything();
    let bearer = format!("Bearer {}", Issuer::new("HS256").token(&claims("by token")));
    let (key, token, proxy) = (("x-api-key", "alpha"), ("authorization", bearer.as_str()), ("x-auth-user", "by proxy"));
    let table = [
        (&[key, token, proxy][..], Some("by key")),
        (&[key, proxy], Some("by key")),
        (&[token, proxy], Some("by token")),
        (&[proxy], Some("by proxy")),
        (&[], None),
    ];
    for (sent, expected) in table {
        let caller = identity.identify(&headers(sent), true, NOW);
        assert_eq!(user(caller).as_deref(), expected, "{sent:?}");
    }
}

#[test]
fn a_wrong_credential_is_not_helped_by_a_good_one_behind_it() {
    let identity = everything();
    let good = format!("Bearer {}", Issuer::new("HS256").token(&claims("by token")));
    let sent = headers(&[("x-api-key", "wrong"), ("authorization", &good), ("x-auth-user", "by proxy")]);
    assert_eq!(identity.identify(&sent, true, NOW), Err(Unidentified::UnknownApiKey));
    let sent = headers(&[("authorization", "Bearer wrong"), ("x-auth-user", "by proxy")]);
    assert!(matches!(identity.identify(&sent, true, NOW), Err(Unidentified::InvalidToken(_))));
}

#[test]
fn other_schemes_are_ignored_and_bearer_may_be_in_upper_or_lower_case() {
    let identity = everything();
    let token = Issuer::new("HS256").token(&claims("ann"));
    for (credentials, expected) in [
        (format!("Bearer {token}"), Some("ann")),
        (format!("bearer   {token}"), Some("ann")),
        (format!("BEARER\t{token}"), Some("ann")),
        ("Basic YW5uOmFubg==".to_owned(), None),
        (format!("Bearers {token}"), None),
        (token.clone(), None),
        (String::new(), None),
    ] {
        let caller = identify(&identity, &[("authorization", &credentials)]);
        assert_eq!(user(caller).as_deref(), expected, "{credentials}");
    }
    for no_token in ["Bearer", "Bearer "] {
        assert!(matches!(identify(&identity, &[("authorization", no_token)]), Err(Unidentified::InvalidToken(_))));
    }
}

#[test]
fn two_authorizations_are_rejected() {
    let identity = everything();
    let bearer = format!("Bearer {}", Issuer::new("HS256").token(&claims("ann")));
    for other in [bearer.as_str(), "Basic YW5uOmFubg=="] {
        let sent = [("authorization", other), ("authorization", bearer.as_str())];
        assert_eq!(identify(&identity, &sent), Err(Unidentified::Repeated(http::header::AUTHORIZATION)));
    }
}

#[test]
fn what_is_not_configured_is_not_read() {
    let identity = identity(json!({}));
    let sent = headers(&[
        ("x-api-key", "alpha"),
        ("authorization", "Bearer nonsense"),
        ("authorization", "Bearer nonsense"),
        ("x-auth-user", "ann"),
    ]);
    assert_eq!(user(identity.identify(&sent, true, NOW)), None);
}

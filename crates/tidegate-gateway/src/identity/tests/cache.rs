//! Verified tokens are remembered, and still expire.

use std::sync::Arc;

use serde_json::json;

use super::issuer::{Issuer, SECRET, changed, claims};
use super::{Identity, NOW, Unidentified, headers, identify_token, identity};

fn remembered(identity: &Identity) -> usize {
    identity.tokens.as_ref().expect("tokens are configured").remembered()
}

#[test]
fn a_remembered_token_is_not_checked_again() {
    let identity = identity(json!({"jwt": {"secret": SECRET}}));
    let token = Issuer::new("HS256").token(&claims("ann"));
    let first = identify_token(&identity, &token).expect("a good token");
    assert_eq!(remembered(&identity), 1);
    let second = identify_token(&identity, &token).expect("still good");
    assert!(Arc::ptr_eq(&first, &second), "the caller of the first time");
}

#[test]
fn a_remembered_token_still_expires_and_still_has_not_begun() {
    let identity = identity(json!({"jwt": {"secret": SECRET}}));
    let times = json!({"nbf": NOW - 10, "exp": NOW + 60});
    let token = Issuer::new("HS256").token(&changed(claims("ann"), &times));
    let sent = headers(&[("authorization", &format!("Bearer {token}"))]);
    let at = |now| identity.identify(&sent, false, now).map(|_| ());
    assert_eq!(at(NOW), Ok(()));
    assert_eq!(remembered(&identity), 1);
    assert_eq!(at(NOW + 89), Ok(()), "the last second of the leeway");
    assert_eq!(at(NOW + 90), Err(Unidentified::InvalidToken("it has expired")));
    assert_eq!(at(NOW - 41), Err(Unidentified::InvalidToken("it is not valid yet")), "the clock was set back");
}

#[test]
fn a_rejected_token_is_not_remembered() {
    let identity = identity(json!({"jwt": {"secret": SECRET}}));
    let issuer = Issuer::new("HS256");
    let expired = issuer.token(&changed(claims("ann"), &json!({"exp": NOW - 60})));
    let foreign = Issuer::with_secret(b"eve's").token(&claims("eve"));
    for token in [expired, foreign, "a.b.c".to_owned()] {
        assert!(identify_token(&identity, &token).is_err());
    }
    assert_eq!(remembered(&identity), 0);
}

#[test]
fn the_cache_is_bounded() {
    let identity = identity(json!({"jwt": {"secret": SECRET}}));
    let issuer = Issuer::new("HS256");
    for user in 0..1024 {
        identify_token(&identity, &issuer.token(&claims(&user.to_string()))).expect("a good token");
    }
    assert_eq!(remembered(&identity), 1024);
    identify_token(&identity, &issuer.token(&claims("one more"))).expect("a good token");
    assert_eq!(remembered(&identity), 1, "all are forgotten but the last");
}

/// A token differs from a remembered one in its last character alone: it is another token.
#[test]
fn a_remembered_token_does_not_validate_another() {
    let identity = identity(json!({"jwt": {"secret": SECRET}}));
    let token = Issuer::new("HS256").token(&claims("ann"));
    identify_token(&identity, &token).expect("a good token");
    for end in ["", "A", "=", "."] {
        let changed = format!("{}{end}", &token[..token.len() - 1]);
        assert!(changed == token || identify_token(&identity, &changed).is_err(), "{changed}");
    }
}

//! Headers of a trusted proxy.

use serde_json::{Value, json};
use tidegate_http::headers::Headers;
use tidegate_input::Problem;

use super::{Caller, NOW, Unidentified, built, headers, identity};

fn model() -> Value {
    json!({"trusted_headers": {"user": "X-Auth-User", "tier": "x-auth-tier", "client_id": "x-auth-client"}})
}

#[test]
fn only_a_trusted_proxy_may_name_the_caller() {
    let identity = identity(model());
    let sent = headers(&[("x-auth-user", "änne"), ("x-auth-tier", "gold"), ("x-auth-client", "web")]);
    let caller = identity.identify(&sent, true, NOW).expect("an identified caller");
    let expected =
        Caller { user: Some("änne".into()), tier: Some("gold".into()), client_id: Some("web".into()), api_key: None };
    assert_eq!(*caller, expected);
    assert_eq!(*identity.identify(&sent, false, NOW).expect("they are ignored"), Caller::default());
}

#[test]
fn what_the_proxy_leaves_out_is_not_known() {
    let identity = identity(model());
    let only_tier = identity.identify(&headers(&[("x-auth-tier", "gold")]), true, NOW).expect("an identified caller");
    assert_eq!((only_tier.user.as_deref(), only_tier.tier.as_deref()), (None, Some("gold")));
    let empty = identity.identify(&headers(&[("x-auth-user", "")]), true, NOW).expect("not logged in");
    assert_eq!(*empty, Caller::default());
}

#[test]
fn ambiguous_and_unusable_headers_are_rejected() {
    let identity = identity(model());
    let name = || "x-auth-user".parse().expect("a name");
    let (long, limit) = ("u".repeat(257), "u".repeat(256));
    let table = [
        (headers(&[("x-auth-user", "a"), ("x-auth-user", "b")]), Err(Unidentified::Repeated(name()))),
        (headers(&[("x-auth-user", &long)]), Err(Unidentified::Unusable(name()))),
        (headers(&[("x-auth-user", "a\tb")]), Err(Unidentified::Unusable(name()))),
        (headers(&[("x-auth-user", &limit)]), Ok(Some(limit.as_str().into()))),
    ];
    for (headers, expected) in table {
        let user = identity.identify(&headers, true, NOW).map(|caller| caller.user.clone());
        assert_eq!(user, expected, "{headers:?}");
    }
    let mut not_text = http::HeaderMap::new();
    not_text.insert("x-auth-user", http::HeaderValue::from_bytes(b"\xff\xfe").expect("bytes"));
    assert_eq!(identity.identify(&Headers::from(&not_text), true, NOW), Err(Unidentified::Unusable(name())));
    assert!(identity.identify(&Headers::from(&not_text), false, NOW).is_ok(), "it is ignored from an untrusted peer");
}

#[test]
fn guarded_headers_are_all_that_the_proxy_may_set() {
    let names = |model| {
        let identity = identity(model);
        identity.guarded_headers().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(names(model()), ["x-auth-user", "x-auth-tier", "x-auth-client"]);
    assert_eq!(names(json!({"trusted_headers": {"tier": "x-tier"}})), ["x-tier"]);
    assert!(names(json!({})).is_empty());
}

#[test]
fn wrong_names_are_rejected() {
    let table = [
        (json!({}), "identity.trusted_headers", "at least one"),
        (json!({"user": "x auth"}), "identity.trusted_headers.user", "must be a header name"),
        (json!({"user": ""}), "identity.trusted_headers.user", "must be a header name"),
        (json!({"tier": "Host"}), "identity.trusted_headers.tier", "another header"),
        (json!({"client_id": "authorization"}), "identity.trusted_headers.client_id", "another header"),
        (json!({"user": "x-a", "tier": "X-A"}), "identity.trusted_headers.tier", "a header of its own, got x-a again"),
    ];
    for (trusted, path, message) in table {
        let (_, errors) = built(json!({"trusted_headers": trusted}));
        let [Problem { path: at, message: reported }] = &errors[..] else {
            panic!("one error for {trusted}: {errors:?}")
        };
        assert_eq!(at, path);
        assert!(reported.contains(message), "{reported:?} of {trusted}");
    }
}

//! Callers with API keys.

use serde_json::json;
use tidegate_input::Problem;

use super::{Caller, Unidentified, built, headers, identify, identity};

/// `printf %s open-sesame | sha256sum`
const OPEN_SESAME: &str = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";

#[test]
fn a_key_is_known_by_itself_or_by_its_hash() {
    let identity = identity(json!({"api_keys": {"keys": [
        {"key": "alpha", "user": "ann", "tier": "gold", "client_id": "cli"},
        {"sha256": OPEN_SESAME.to_uppercase(), "user": "ali"},
    ]}}));
    let ann = identify(&identity, &[("x-api-key", "alpha")]).expect("a known key");
    assert_eq!((ann.user.as_deref(), ann.tier.as_deref()), (Some("ann"), Some("gold")));
    assert_eq!(ann.client_id.as_deref(), Some("cli"));
    let ali = identify(&identity, &[("X-API-Key", "open-sesame")]).expect("a known key");
    let expected = Caller {
        user: Some("ali".into()),
        tier: None,
        client_id: Some("ali".into()),
        api_key: Some(OPEN_SESAME[..16].into()),
    };
    assert_eq!(*ali, expected, "the client is the user, and the id is the start of the hash");
}

#[test]
fn an_unknown_key_is_rejected_and_no_key_is_anonymous() {
    let identity = identity(json!({"api_keys": {"keys": [{"key": "alpha", "user": "ann"}]}}));
    for wrong in ["alph", "alphaa", "Alpha", "", "alpha,alpha", "ümlaut"] {
        assert_eq!(identify(&identity, &[("x-api-key", wrong)]), Err(Unidentified::UnknownApiKey), "{wrong:?}");
    }
    assert_eq!(*identify(&identity, &[]).expect("an anonymous caller"), Caller::default());
}

#[test]
fn two_keys_are_rejected_even_if_they_are_the_same() {
    let identity = identity(json!({"api_keys": {"keys": [{"key": "alpha", "user": "ann"}]}}));
    let twice = [("x-api-key", "alpha"), ("x-api-key", "alpha")];
    assert_eq!(identify(&identity, &twice), Err(Unidentified::Repeated("x-api-key".parse().expect("a name"))));
}

#[test]
fn the_header_can_be_another() {
    let identity = identity(json!({"api_keys": {"header": "X-Key", "keys": [{"key": "alpha", "user": "ann"}]}}));
    assert!(identify(&identity, &[("x-key", "alpha")]).expect("a known key").user.is_some());
    assert!(identify(&identity, &[("x-api-key", "alpha")]).expect("not our header").user.is_none());
}

#[test]
fn callers_are_made_once() {
    let identity = identity(json!({"api_keys": {"keys": [{"key": "alpha", "user": "ann"}]}}));
    for pairs in [&[("x-api-key", "alpha")][..], &[]] {
        let [one, other] =
            [(); 2].map(|()| identity.identify(&headers(pairs), false, 0).expect("an identified caller"));
        assert!(std::sync::Arc::ptr_eq(&one, &other));
    }
}

#[test]
fn the_tiers_known_beforehand_are_those_of_the_table_and_the_default() {
    let keys = json!([
        {"key": "a", "user": "a", "tier": "gold"},
        {"key": "b", "user": "b", "tier": "free"},
        {"key": "c", "user": "c", "tier": "gold"},
        {"key": "d", "user": "d"},
    ]);
    let with_default = identity(json!({"api_keys": {"keys": keys}}));
    assert_eq!(with_default.tiers().into_iter().collect::<Vec<_>>(), ["anonymous", "free", "gold"]);
    let other = identity(json!({"default_tier": "guest"}));
    assert_eq!((other.default_tier(), other.tiers().len()), ("guest", 1));
}

#[test]
fn a_wrong_table_is_rejected_with_its_path_and_what_is_expected() {
    let table = [
        (json!({"user": "u"}), "identity.api_keys.keys[1]", "must have `sha256`"),
        (json!({"key": "k", "sha256": OPEN_SESAME, "user": "u"}), "identity.api_keys.keys[1]", "both"),
        (json!({"sha256": "abc", "user": "u"}), "identity.api_keys.keys[1].sha256", "64 hex digits"),
        (json!({"sha256": "g".repeat(64), "user": "u"}), "identity.api_keys.keys[1].sha256", "64 hex digits"),
        (json!({"sha256": "é".repeat(32), "user": "u"}), "identity.api_keys.keys[1].sha256", "64 hex digits"),
        (json!({"sha256": format!("+{}", "1".repeat(63)), "user": "u"}), "identity.api_keys.keys[1].sha256", "64 hex"),
        (json!({"key": "", "user": "u"}), "identity.api_keys.keys[1].key", "not empty"),
        (json!({"key": " k", "user": "u"}), "identity.api_keys.keys[1].key", "without spaces"),
        (json!({"key": "k\n", "user": "u"}), "identity.api_keys.keys[1].key", "printable"),
        (json!({"key": "first", "user": "u"}), "identity.api_keys.keys[1]", "must differ from keys[0]"),
        (json!({"key": "k", "user": ""}), "identity.api_keys.keys[1].user", "must be 1 to 256 bytes"),
        (json!({"key": "k", "user": "u".repeat(257)}), "identity.api_keys.keys[1].user", "must be 1 to 256 bytes"),
        (json!({"key": "k", "user": "u", "tier": ""}), "identity.api_keys.keys[1].tier", "must be 1 to 256 bytes"),
        (json!({"key": "k", "user": "u", "client_id": "a\tb"}), "identity.api_keys.keys[1].client_id", "control"),
    ];
    for (key, path, message) in table {
        let model = json!({"api_keys": {"keys": [{"key": "first", "user": "f"}, key]}});
        let (_, errors) = built(model);
        let [Problem { path: at, message: reported }] = &errors[..] else { panic!("one error for {key}: {errors:?}") };
        assert_eq!(at, path);
        assert!(reported.contains(message), "{reported:?} of {key}");
    }
}

#[test]
fn the_same_key_as_text_and_as_hash_is_one_key() {
    let (_, errors) = built(json!({"api_keys": {"keys": [
        {"key": "open-sesame", "user": "a"},
        {"sha256": OPEN_SESAME, "user": "b"},
    ]}}));
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].path, "identity.api_keys.keys[1]");
}

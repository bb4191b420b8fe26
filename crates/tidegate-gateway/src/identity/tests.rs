//! The module as the gateway uses it: configuration in, callers out.

mod api_keys;
mod cache;
mod configuration;
mod garbage;
mod issuer;
mod key_sets;
mod precedence;
mod proxy;
mod tokens;

use std::sync::Arc;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tidegate_http::headers::Headers;
use tidegate_input::{Problem, Problems};

use super::{Caller, Identity, Unidentified};

/// Every test's present, in Unix seconds.
const NOW: u64 = 1_800_000_000;

fn built(model: Value) -> (Identity, Vec<Problem>) {
    let model = serde_json::from_value(model).expect("the model's shape");
    let problems = Problems::unbounded();
    let identity = Identity::build(&model, &problems);
    (identity, problems.all())
}

fn identity(model: Value) -> Identity {
    let (identity, errors) = built(model);
    assert_eq!(errors, []);
    identity
}

fn headers(pairs: &[(&str, &str)]) -> Headers {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        let name: HeaderName = name.parse().expect("a header name");
        map.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a header value"));
    }
    Headers::from(&map)
}

/// The caller that the headers of an untrusted peer identify.
fn identify(identity: &Identity, pairs: &[(&str, &str)]) -> Result<Arc<Caller>, Unidentified> {
    identity.identify(&headers(pairs), false, NOW)
}

fn identify_token(identity: &Identity, token: &str) -> Result<Arc<Caller>, Unidentified> {
    identify(identity, &[("authorization", &format!("Bearer {token}"))])
}

fn user(caller: Result<Arc<Caller>, Unidentified>) -> Option<String> {
    caller.expect("an identified caller").user.as_deref().map(Into::into)
}

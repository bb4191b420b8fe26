//! A plan as it may be shown: without its secrets, and not longer than somebody reads.

use serde_json::{Map, Value};

/// What stands for a secret.
const HIDDEN: &str = "***";
/// Longer lists are told by their length.
const LONGEST_LIST: usize = 100;
/// Of what consists of more values, the rest is left out.
const MOST_VALUES: u32 = 10_000;
/// Longer texts are cut.
const LONGEST_TEXT: usize = 1_000;

/// Names of headers and fields that carry secrets have one of these in them.
const SECRETS: [&str; 10] =
    ["auth", "cookie", "api-key", "api_key", "apikey", "token", "secret", "passw", "session", "credential"];

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|secret| name.contains(secret))
}

/// A plan as it may be shown.
pub(super) fn shown(plan: &Value) -> Value {
    told(plan, &mut { MOST_VALUES })
}

fn told(value: &Value, left: &mut u32) -> Value {
    *left = left.saturating_sub(1);
    match value {
        _ if *left == 0 => "…".into(),
        Value::Object(fields) => {
            let some = fields.iter().take(LONGEST_LIST);
            let mut some: Map<String, Value> =
                some.map(|(name, value)| (name.clone(), field(name, value, left))).collect();
            if fields.len() > LONGEST_LIST {
                some.insert("…".to_owned(), format!("{} more", fields.len() - LONGEST_LIST).into());
            }
            some.into()
        }
        Value::Array(list) if list.len() > LONGEST_LIST => format!("{} entries", list.len()).into(),
        Value::Array(list) => list.iter().map(|value| told(value, left)).collect(),
        Value::String(text) if text.chars().count() > LONGEST_TEXT => {
            text.chars().take(LONGEST_TEXT).chain(['…']).collect::<String>().into()
        }
        other => other.clone(),
    }
}

fn field(name: &str, value: &Value, left: &mut u32) -> Value {
    match value {
        Value::Null => Value::Null,
        _ if is_secret(name) => HIDDEN.into(),
        Value::String(url) if name == "limiterUrl" || name == "url" => told(&without_secrets(url).into(), left),
        other => told(other, left),
    }
}

/// A URL whose query may carry secrets.
fn without_secrets(url: &str) -> String {
    let Some((path, query)) = url.split_once('?') else { return url.to_owned() };
    let word = |word: &str| match word.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}={HIDDEN}"),
        _ => word.to_owned(),
    };
    let words: Vec<String> = query.split('&').map(word).collect();
    format!("{path}?{}", words.join("&"))
}

/// A number that is the same for plans that say the same, but for their part and their secrets: a number made from a password would help
/// whoever guesses it. It stays the same from build to build (FNV-1a).
pub(super) fn digest(plan: &Value) -> u64 {
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    match plan {
        Value::Object(fields) => digest.fields(fields, |name| name == "part"),
        other => digest.value(other),
    }
    digest.0
}

struct Digest(u64);

impl Digest {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        // No byte of UTF-8: keeps what follows apart.
        self.0 = (self.0 ^ 0xff).wrapping_mul(0x0000_0100_0000_01b3);
    }

    fn fields(&mut self, fields: &Map<String, Value>, is_left_out: impl Fn(&str) -> bool) {
        // Sorted, whatever order the map keeps.
        let mut fields: Vec<(&String, &Value)> = fields.iter().filter(|(name, _)| !is_left_out(name)).collect();
        fields.sort_unstable_by_key(|(name, _)| *name);
        self.bytes(b"{");
        for (name, value) in fields {
            self.bytes(name.as_bytes());
            match value {
                _ if is_secret(name) => self.bytes(HIDDEN.as_bytes()),
                Value::String(url) if name == "limiterUrl" || name == "url" => {
                    self.bytes(without_secrets(url).as_bytes());
                }
                other => self.value(other),
            }
        }
        self.bytes(b"}");
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => self.fields(fields, |_| false),
            Value::Array(list) => {
                self.bytes(b"[");
                for value in list {
                    self.value(value);
                }
                self.bytes(b"]");
            }
            other => self.bytes(other.to_string().as_bytes()),
        }
    }
}

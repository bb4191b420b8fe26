//! A plan as it may be shown: without its secrets, and not longer than somebody reads.

use serde_json::{Map, Value};

/// What stands for a secret.
const HIDDEN: &str = "***";
/// Longer lists are shown by their length.
const LONGEST_LIST: usize = 100;
/// Of what consists of more values, the rest is left out.
const MOST_VALUES: u32 = 10_000;
/// Longer texts are cut.
const LONGEST_TEXT: usize = 1_000;

/// Names of headers and fields that carry secrets have one of these in them.
const SECRETS: [&str; 14] = [
    "auth",
    "cookie",
    "api-key",
    "api_key",
    "apikey",
    "token",
    "secret",
    "passw",
    "pwd",
    "session",
    "credential",
    "signature",
    "access-key",
    "access_key",
];

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|secret| name.contains(secret))
}

/// A plan as it may be shown.
pub(super) fn shown(plan: &Value) -> Value {
    reported(plan, &mut { MOST_VALUES })
}

fn reported(value: &Value, left: &mut u32) -> Value {
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
        Value::Array(list) => list.iter().map(|value| reported(value, left)).collect(),
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
        Value::String(url) if name == "limiterUrl" || name == "url" => reported(&without_secrets(url).into(), left),
        other => reported(other, left),
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

/// Fields that do not make another plan: which requests to send, when to begin, how the figures are judged.
const LEFT_OUT: [&str; 3] = ["part", "startAt", "thresholds"];
/// Other names of fields.
const ALIASES: [(&str, &str); 2] = [("url", "limiterUrl"), ("requestsPerThread", "concurrency")];
/// Numbers that may as well be left out.
const USUAL: [(&str, f64); 4] = [("seed", 1.0), ("concurrency", 1_024.0), ("maxLag", 1.0), ("lagBudget", 0.01)];
/// Fields that make another plan.
const IDENTIFYING: [&str; 11] = [
    "limiterUrl",
    "duration",
    "profile",
    "phases",
    "arrivals",
    "seed",
    "concurrency",
    "requestOptions",
    "clients",
    "maxLag",
    "lagBudget",
];

/// A number that is the same for plans that ask for the same load, but for their secrets: a number made from a password
/// would help an attacker who guesses it. It stays the same from build to build (FNV-1a).
pub(super) fn digest(plan: &Value) -> u64 {
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    digest.fields(identifying_fields(plan));
    digest.0
}

/// The fields in which two plans, as they are shown, differ; none if they do in what is not shown.
pub(crate) fn differences(one: &Value, other: &Value) -> Vec<&'static str> {
    let digests = [one, other].map(|plan| {
        let fields = identifying_fields(plan);
        IDENTIFYING.map(|name| {
            let mut digest = Digest(0xcbf2_9ce4_8422_2325);
            digest.fields(fields.iter().copied().filter(|(field, _)| *field == name).collect());
            digest.0
        })
    });
    let alike = digests[0].iter().zip(&digests[1]);
    IDENTIFYING.into_iter().zip(alike).filter(|(_, (one, other))| one != other).map(|(name, _)| name).collect()
}

/// The fields of a plan that make it this one, by their first names.
fn identifying_fields(plan: &Value) -> Vec<(&str, &Value)> {
    let fields = plan.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let fields = fields.map(|(name, value)| {
        let first = ALIASES.iter().find(|(alias, _)| alias == name).map_or(name.as_str(), |(_, first)| first);
        (first, value)
    });
    let is_usual = |(name, value): &(&str, &Value)| {
        USUAL.iter().any(|(field, usual)| field == name && value.as_f64() == Some(*usual))
    };
    fields.filter(|field| !LEFT_OUT.contains(&field.0) && !is_usual(field)).collect()
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

    fn fields(&mut self, mut fields: Vec<(&str, &Value)>) {
        // Sorted, whatever order the map keeps.
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
            Value::Object(fields) => self.fields(fields.iter().map(|(name, value)| (name.as_str(), value)).collect()),
            Value::Array(list) => {
                self.bytes(b"[");
                for value in list {
                    self.value(value);
                }
                self.bytes(b"]");
            }
            // 60 is 60.0, which the command line gives.
            Value::Number(number) if number.is_f64() => {
                self.bytes(number.as_f64().unwrap_or_default().to_string().as_bytes());
            }
            other => self.bytes(other.to_string().as_bytes()),
        }
    }
}

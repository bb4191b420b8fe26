//! The numbers of limits as Redis keeps them: the document under `ratelimiter:config`.

use serde_json::{Map, Value};

use crate::config::model::Numbers;
use crate::config::numbers::{LimitNumbers, checked, written};
use crate::config::syntax;
use crate::plan::Overrides;
use crate::settings::LimitSettings;

/// The limit whose numbers are at the top of the document. Programs that know only one limit read and write them there.
const DEFAULT: &str = "default";

/// A parsed document.
#[derive(Default)]
pub(crate) struct Stored {
    /// Grows with each change; 0 if the document has no valid version.
    pub(crate) version: u64,
    pub(crate) overrides: Overrides,
    /// Limits whose numbers can't be used here, and why.
    pub(crate) unusable: Vec<(String, String)>,
    /// A warning about numbers that are given twice.
    pub(crate) remark: Option<String>,
    /// The numbers of `default` as they are in the document. What does not change is written back as it was, including
    /// fields that are unknown here: others may know them, and other gateways have other files.
    top: Map<String, Value>,
    /// The numbers of all other limits.
    limits: Map<String, Value>,
}

impl Stored {
    /// Reads a document: the numbers of `default` at the top, all others under `limits`. `check` decides whether
    /// numbers can be put in force.
    pub(crate) fn read(
        text: &[u8],
        base: &[LimitSettings],
        check: impl Fn(&LimitSettings, &LimitNumbers) -> Result<(), String>,
    ) -> Result<Self, String> {
        let mut stored = Self::default();
        if text.is_empty() {
            return Ok(stored);
        }
        let document: Value = serde_json::from_slice(text).map_err(|error| format!("it is not JSON: {error}"))?;
        let Value::Object(mut top) = document else { return Err("it is not a JSON object".to_owned()) };
        stored.version = version(top.remove("version").as_ref());
        stored.limits = match top.remove("limits") {
            None => Map::new(),
            Some(Value::Object(limits)) => limits,
            Some(_) => return Err("`limits` is not an object".to_owned()),
        };
        stored.top = top;
        for (name, value) in stored.entries() {
            let Some(limit) = base.iter().find(|limit| limit.name.as_str() == name) else { continue };
            match usable(value, limit, &check) {
                Ok(numbers) => _ = stored.overrides.insert(name, numbers),
                Err(reason) => stored.unusable.push((name, reason)),
            }
        }
        if !stored.top.is_empty() && stored.limits.contains_key(DEFAULT) {
            let used = if stored.is_top_default() { "at the top" } else { "under `limits`" };
            stored.remark = Some(format!("`{DEFAULT}` is at the top and under `limits`; using the one {used}"));
        }
        Ok(stored)
    }

    /// The numbers of each limit.
    fn entries(&self) -> Vec<(String, Value)> {
        let is_top_default = self.is_top_default();
        let below = self.limits.iter().filter(|(name, _)| !(is_top_default && *name == DEFAULT));
        let top = is_top_default.then(|| (DEFAULT.to_owned(), Value::Object(self.top.clone())));
        top.into_iter().chain(below.map(|(name, value)| (name.clone(), value.clone()))).collect()
    }

    /// Whether the numbers of `default` are those at the top. Fields at the top without an algorithm, such as a
    /// comment, do not replace numbers under `limits`.
    fn is_top_default(&self) -> bool {
        !self.top.is_empty() && (self.top.contains_key("algorithm") || !self.limits.contains_key(DEFAULT))
    }

    /// The version of a text whose other contents may be invalid.
    pub(crate) fn version_of(text: &[u8]) -> u64 {
        let document: Option<Map<String, Value>> = serde_json::from_slice(text).ok();
        version(document.as_ref().and_then(|fields| fields.get("version")))
    }

    /// Replaces the numbers of a limit, or removes them.
    pub(crate) fn put(&mut self, name: &str, numbers: Option<&LimitNumbers>) {
        let entry = numbers.map(|numbers| serde_json::to_value(written(numbers)).unwrap_or_default());
        self.limits.remove(name);
        match entry {
            Some(Value::Object(fields)) if name == DEFAULT => self.top = fields,
            _ if name == DEFAULT => self.top = Map::new(),
            Some(entry) => _ = self.limits.insert(name.to_owned(), entry),
            None => {}
        }
    }

    /// The document as text.
    pub(crate) fn write(&self) -> String {
        let mut document = self.top.clone();
        document.insert("version".to_owned(), self.version.into());
        if !self.limits.is_empty() {
            document.insert("limits".to_owned(), self.limits.clone().into());
        }
        Value::Object(document).to_string()
    }
}

/// Sets or unsets a limit's numbers.
pub(crate) fn put(overrides: &mut Overrides, name: &str, numbers: Option<LimitNumbers>) {
    match numbers {
        Some(numbers) => _ = overrides.insert(name.to_owned(), numbers),
        None => _ = overrides.remove(name),
    }
}

/// The highest version: up to here every JSON parser distinguishes consecutive integers.
pub(crate) const HIGHEST_VERSION: u64 = 1 << 53;

/// The version after the highest one known. It is at least the clock of Redis, so that a later change has a higher
/// version even if the gateway does not know the changes of others.
pub(crate) fn next_version(known: u64, clock_millis: u64) -> u64 {
    known.saturating_add(1).max(clock_millis).min(HIGHEST_VERSION)
}

/// The version in a document. One that no gateway gives is ignored: it would stay the highest for ever.
fn version(value: Option<&Value>) -> u64 {
    value.and_then(Value::as_u64).filter(|version| *version <= HIGHEST_VERSION).unwrap_or(0)
}

fn usable(
    value: Value,
    limit: &LimitSettings,
    check: impl Fn(&LimitSettings, &LimitNumbers) -> Result<(), String>,
) -> Result<LimitNumbers, String> {
    let numbers = checked(&numbers_of(value)?, limit.soft).map_err(|error| error.to_string())?;
    let numbers = numbers.remembering(&limit.numbers);
    check(limit, &numbers)?;
    Ok(numbers)
}

/// Reads numbers from JSON. What a forecaster adds to them is ignored.
pub(crate) fn numbers_of(mut value: Value) -> Result<Numbers, String> {
    if let Value::Object(fields) = &mut value {
        for field in ["predictedRps", "validFor", "reason", "schedule", "version"] {
            fields.remove(field);
        }
        // One by one, so that an error names its field.
        for (field, value) in fields.iter() {
            let alone = Map::from_iter([(field.clone(), value.clone())]);
            let read = serde_json::from_value::<Numbers>(Value::Object(alone));
            read.map_err(|error| format!("`{field}`: {}", syntax::value(&error)))?;
        }
        if let (Some(burst), Some(capacity)) = (fields.get("burst"), fields.get("capacity")) {
            if burst != capacity {
                return Err("`burst` and `capacity` are two names of one value and must not differ".to_owned());
            }
            fields.remove("burst");
        }
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

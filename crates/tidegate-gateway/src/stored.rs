//! The limits' numbers as Redis keeps them: the text under `ratelimiter:config`.

use serde_json::{Map, Value};

use crate::config::LimitSettings;
use crate::config::model::Numbers;
use crate::config::numbers::LimitNumbers;
use crate::plan::Overrides;

/// What the text says.
pub(crate) struct Stored {
    /// Grows with each change.
    pub(crate) version: u64,
    pub(crate) overrides: Overrides,
    /// Limits that this gateway does not have: others may.
    pub(crate) others: Map<String, Value>,
}

impl Stored {
    /// Reads the text: the numbers of `default` at the top, as the seed has them, all others under `limits`.
    pub(crate) fn read(text: &str, base: &[LimitSettings]) -> Result<Self, String> {
        let mut stored = Self { version: 0, overrides: Overrides::new(), others: Map::new() };
        if text.is_empty() {
            return Ok(stored);
        }
        let document: Value = serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
        let Value::Object(mut fields) = document else { return Err("it is no JSON object".to_owned()) };
        stored.version = fields.remove("version").and_then(|version| version.as_u64()).unwrap_or(0);
        let mut limits = match fields.remove("limits") {
            None => Map::new(),
            Some(Value::Object(limits)) => limits,
            Some(_) => return Err("`limits` is no object".to_owned()),
        };
        if !fields.is_empty() {
            limits.insert("default".to_owned(), Value::Object(fields));
        }
        for (name, value) in limits {
            let Some(limit) = base.iter().find(|limit| limit.name.as_str() == name) else {
                stored.others.insert(name, value);
                continue;
            };
            let numbers = numbers_of(value).map_err(|error| format!("limit `{name}`: {error}"))?;
            let numbers = LimitNumbers::new(numbers, limit.soft).map_err(|error| format!("limit `{name}`: {error}"))?;
            stored.overrides.insert(name, numbers.remembering(&limit.numbers));
        }
        Ok(stored)
    }

    /// The text.
    pub(crate) fn write(&self) -> String {
        let numbers = |numbers: &LimitNumbers| serde_json::to_value(numbers.all()).unwrap_or_default();
        let mut limits = self.others.clone();
        limits.extend(self.overrides.iter().map(|(name, set)| (name.clone(), numbers(set))));
        let mut document = match limits.remove("default") {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        document.insert("version".to_owned(), self.version.into());
        if !limits.is_empty() {
            document.insert("limits".to_owned(), limits.into());
        }
        Value::Object(document).to_string()
    }
}

/// Numbers as JSON, from whoever sends them. What a forecaster adds is not ours to judge here.
pub(crate) fn numbers_of(mut value: Value) -> Result<Numbers, String> {
    if let Value::Object(fields) = &mut value {
        for field in ["predictedRps", "validFor", "reason", "schedule", "version"] {
            fields.remove(field);
        }
        // One by one, so that the fault has a name.
        for (field, value) in fields.iter() {
            let alone = Map::from_iter([(field.clone(), value.clone())]);
            let read = serde_json::from_value::<Numbers>(Value::Object(alone));
            read.map_err(|error| format!("`{field}`: {error}"))?;
        }
        if let (Some(burst), Some(capacity)) = (fields.get("burst"), fields.get("capacity")) {
            if burst != capacity {
                return Err("`burst` and `capacity` are the same thing, and differ".to_owned());
            }
            fields.remove("burst");
        }
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

//! The limits' numbers as Redis keeps them: the text under `ratelimiter:config`.

use serde_json::{Map, Value};

use crate::config::model::Numbers;
use crate::config::numbers::LimitNumbers;
use crate::config::{LimitSettings, syntax};
use crate::plan::Overrides;

/// What the text says.
#[derive(Default)]
pub(crate) struct Stored {
    /// Grows with each change.
    pub(crate) version: u64,
    pub(crate) overrides: Overrides,
    /// What stays as it is: of limits that this gateway does not have (others may), and what it can't use of its own (others may).
    others: Map<String, Value>,
    /// Limits whose numbers can't be used here, and why.
    pub(crate) unusable: Vec<(String, String)>,
}

impl Stored {
    /// Reads the text: the numbers of `default` at the top, as the seed has them, all others under `limits`. `check` says whether numbers
    /// can be put in force.
    pub(crate) fn read(
        text: &[u8],
        base: &[LimitSettings],
        check: impl Fn(&LimitSettings, &LimitNumbers) -> Result<(), String>,
    ) -> Result<Self, String> {
        let mut stored = Self::default();
        if text.is_empty() {
            return Ok(stored);
        }
        let document: Value = serde_json::from_slice(text).map_err(|error| format!("it is no JSON: {error}"))?;
        let Value::Object(mut fields) = document else { return Err("it is no JSON object".to_owned()) };
        stored.version = version(fields.remove("version").as_ref());
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
            match usable(value.clone(), limit, &check) {
                Ok(numbers) => _ = stored.overrides.insert(name, numbers),
                Err(reason) => {
                    stored.others.insert(name.clone(), value);
                    stored.unusable.push((name, reason));
                }
            }
        }
        Ok(stored)
    }

    /// In the place of a text that says nothing.
    pub(crate) fn anew(version: u64, overrides: Overrides) -> Self {
        Self { version, overrides, ..Self::default() }
    }

    /// The version of a text that may be good for nothing else.
    pub(crate) fn version_of(text: &[u8]) -> u64 {
        let document: Option<Map<String, Value>> = serde_json::from_slice(text).ok();
        version(document.as_ref().and_then(|fields| fields.get("version")))
    }

    /// Sets or unsets a limit's numbers, whatever stood there.
    pub(crate) fn put(&mut self, name: &str, numbers: Option<LimitNumbers>) {
        self.others.remove(name);
        self.unusable.retain(|(unusable, _)| unusable != name);
        put(&mut self.overrides, name, numbers);
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

/// Sets or unsets a limit's numbers.
pub(crate) fn put(overrides: &mut Overrides, name: &str, numbers: Option<LimitNumbers>) {
    match numbers {
        Some(numbers) => _ = overrides.insert(name.to_owned(), numbers),
        None => _ = overrides.remove(name),
    }
}

fn version(value: Option<&Value>) -> u64 {
    value.and_then(Value::as_u64).unwrap_or(0)
}

fn usable(
    value: Value,
    limit: &LimitSettings,
    check: impl Fn(&LimitSettings, &LimitNumbers) -> Result<(), String>,
) -> Result<LimitNumbers, String> {
    let numbers = LimitNumbers::new(numbers_of(value)?, limit.soft).map_err(|error| error.to_string())?;
    let numbers = numbers.remembering(&limit.numbers);
    check(limit, &numbers)?;
    Ok(numbers)
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
            read.map_err(|error| format!("`{field}`: {}", syntax::value(&error)))?;
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

//! What survives a restart.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::capacity::LearntCapacity;
use crate::{Adviser, Series};

const FORMAT: &str = "tidegate-forecast-state/1";
const MOST_BYTES: u64 = 64 << 20;
/// As late as a snapshot may be.
const LATEST: i64 = 100_000_000_000;

/// A source as it was.
pub(super) struct Kept {
    pub(super) series: Series,
    pub(super) capacity: LearntCapacity,
}

/// Reads what was written; nothing, if there is no file yet.
pub(super) fn read(path: &Path, most: usize) -> Result<BTreeMap<String, Kept>, String> {
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let wrong = |reason: &str| format!("{}: {reason}; delete it to begin anew", path.display());
    let text = tidegate_input::table::bytes(path, MOST_BYTES)?;
    let value: Value = serde_json::from_slice(&text).map_err(|error| wrong(&format!("can't be read: {error}")))?;
    if value["format"] != FORMAT {
        return Err(wrong(&format!("must be a state of the forecaster: `format` must be {FORMAT:?}")));
    }
    let sources = value["sources"].as_object().ok_or_else(|| wrong("has no `sources`"))?;
    let source = |(name, value): (&String, &Value)| {
        let kept = kept(value, most).ok_or_else(|| wrong(&format!("source {name:?} can't be read")))?;
        Ok((name.clone(), kept))
    };
    sources.iter().take(super::MOST_SOURCES).map(source).collect()
}

fn kept(value: &Value, most: usize) -> Option<Kept> {
    let start = value["start"].as_i64().filter(|start| (0..=LATEST).contains(start))?;
    let values = value["values"].as_array()?;
    let mut series = Series::new(1, most);
    for (second, value) in (start..).zip(values) {
        if let Some(value) = value.as_f64() {
            series.put(second, value);
        }
    }
    let number = |name: &str| value[name].as_f64();
    let capacity = LearntCapacity::restored(number("latency"), number("borne"), number("capacity"));
    Some(Kept { series, capacity })
}

/// Writes all sources: into another file first, so that there is always a whole one.
pub(super) fn write<'a>(path: &Path, sources: impl Iterator<Item = (&'a str, &'a Adviser)>) -> io::Result<()> {
    let source = |(name, adviser): (&str, &Adviser)| {
        let history = adviser.forecaster.history();
        let values: Vec<Value> =
            history.values.iter().map(|value| if value.is_nan() { Value::Null } else { json!(value) }).collect();
        let capacity = &adviser.capacity;
        let value = json!({
            "start": history.start, "values": values, "latency": capacity.usual(),
            "borne": capacity.borne(), "capacity": capacity.rate(),
        });
        (name.to_owned(), value)
    };
    let sources: Map<String, Value> = sources.map(source).collect();
    let text = json!({ "format": FORMAT, "sources": sources }).to_string();
    let beside = beside(path);
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

//! The configuration's schema, and the reference page made from it.

use std::fmt::Write as _;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::model::Config;

/// The JSON Schema of a configuration file.
pub fn schema() -> Value {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Config>();
    schema.to_value()
}

/// Every setting, as a page in Markdown.
pub fn reference() -> String {
    let schema = schema();
    let mut page = String::from(
        "# Configuration reference\n\n<!-- Made from the code by `tidegate check --reference`; a test keeps it true. -->\n\n",
    );
    section(&mut page, &schema, "The file", &schema);
    for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
        if definition["properties"].is_object() {
            section(&mut page, &schema, name, definition);
        }
    }
    page
}

fn section(page: &mut String, schema: &Value, name: &str, definition: &Value) {
    // Writing to memory can't fail, here and below.
    let _written = write!(page, "## {name}\n\n{}\n\n| setting | type | what |\n|---|---|---|\n", one_line(definition));
    let empty = Map::new();
    for (field, property) in definition["properties"].as_object().unwrap_or(&empty) {
        let kind = kind(schema, property);
        let _written = writeln!(page, "| `{field}` | {kind} | {} |", one_line(property));
    }
    page.push('\n');
}

fn one_line(value: &Value) -> String {
    value["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|")
}

/// A type as a reader understands it, with a link where it has a section of its own.
fn kind(schema: &Value, property: &Value) -> String {
    if let Some(reference) = property["$ref"].as_str() {
        return named(schema, reference.trim_start_matches("#/$defs/"));
    }
    if let Some(options) = property["anyOf"].as_array() {
        let kinds = options.iter().filter(|option| option["type"] != "null").map(|option| kind(schema, option));
        return kinds.collect::<Vec<_>>().join(" or ");
    }
    let types: Vec<&str> = match &property["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).filter(|one| *one != "null").collect(),
        _ => Vec::new(),
    };
    match types.as_slice() {
        ["array"] => format!("list of {}", kind(schema, &property["items"])),
        ["object"] if property["additionalProperties"].is_object() => {
            format!("map of {}", kind(schema, &property["additionalProperties"]))
        }
        ["integer"] => "number".to_owned(),
        [] => "any".to_owned(),
        kinds => kinds.join(" or "),
    }
}

fn named(schema: &Value, name: &str) -> String {
    let definition = &schema["$defs"][name];
    if definition["properties"].is_object() {
        return format!("[{name}](#{})", name.to_ascii_lowercase());
    }
    let words = definition["enum"].as_array().or_else(|| definition["oneOf"].as_array());
    if let Some(words) = words {
        let word = |value: &Value| value.as_str().or_else(|| value["const"].as_str()).map(|word| format!("`{word}`"));
        return words.iter().filter_map(word).collect::<Vec<_>>().join(", ");
    }
    match name {
        "Span" => "time".to_owned(),
        "Soft" => "number or `true`".to_owned(),
        "TierNumbers" => "[Numbers](#numbers) or `unlimited`".to_owned(),
        _ => name.to_owned(),
    }
}

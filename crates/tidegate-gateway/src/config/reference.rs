//! The configuration's JSON Schema, and the reference page made from it.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::model::Config;
use super::ranges::Ranged as _;
use super::span::Span;

/// The JSON Schema of a configuration file.
pub fn schema() -> Value {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Config>();
    schema.to_value()
}

/// The longest line of the page.
const WIDTH: usize = 120;

const OPENING: &str = "# Configuration reference

<!-- Made from the code by `make reference`; a test fails if it differs. -->

`tidegate check FILE` checks a file against this page. `tidegate check --schema` prints it as JSON Schema, for editors.
";

/// Every setting, as a page in Markdown.
pub fn reference() -> String {
    let schema = schema();
    let mut page = String::from(OPENING);
    section(&mut page, &schema, "The file", &schema);
    for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
        if definition["properties"].is_object() {
            section(&mut page, &schema, name, definition);
        }
    }
    page
}

fn section(page: &mut String, schema: &Value, name: &str, definition: &Value) {
    page.extend(["\n## ", name, "\n\n"]);
    wrap(page, "", &description(definition));
    page.push('\n');
    let empty = Map::new();
    let required = definition["required"].as_array().map_or(&[][..], Vec::as_slice);
    for (field, property) in definition["properties"].as_object().unwrap_or(&empty) {
        let is_required = required.iter().any(|name| name == field);
        let facts = facts(schema, property, is_required);
        wrap(page, "- ", &format!("`{field}` ({facts}): {}", description(property)));
        for (word, meaning) in meanings(schema, property) {
            wrap(page, "  - ", &format!("`{word}`: {meaning}"));
        }
    }
}

/// The words that a setting may have, and what each means.
fn meanings(schema: &Value, property: &Value) -> Vec<(String, String)> {
    if let Some(word) = property["const"].as_str() {
        return vec![(word.to_owned(), description(property))];
    }
    let definition = property["$ref"].as_str().map(|name| &schema["$defs"][name.trim_start_matches("#/$defs/")]);
    let options = ["anyOf", "oneOf"].into_iter().filter_map(|keyword| property[keyword].as_array()).flatten();
    let items = ["items", "additionalProperties"].into_iter().filter_map(|keyword| property.get(keyword));
    definition.into_iter().chain(options).chain(items).flat_map(|inside| meanings(schema, inside)).collect()
}

/// Writes a paragraph or an entry of a list, wrapped.
fn wrap(page: &mut String, mark: &str, text: &str) {
    let mut line = mark.to_owned();
    let indent = " ".repeat(mark.len());
    for word in text.split(' ') {
        let is_first = line.len() == mark.len();
        if !is_first && line.chars().count() + 1 + word.chars().count() > WIDTH {
            page.push_str(&line);
            page.push('\n');
            line.clone_from(&indent);
        } else if !is_first {
            line.push(' ');
        }
        line.push_str(word);
    }
    page.push_str(&line);
    page.push('\n');
}

fn description(property: &Value) -> String {
    property["description"].as_str().unwrap_or_default().replace('\n', " ")
}

/// Type, range and default of a setting.
fn facts(schema: &Value, property: &Value, is_required: bool) -> String {
    let kind = kind(schema, property);
    let show = |value: &Value| shown(&kind, value);
    let mut facts = vec![kind.clone()];
    if let (Some(least), Some(most)) = (property.get("minimum"), property.get("maximum")) {
        facts.push(format!("{} to {}", show(least), show(most)));
    }
    match (property["minLength"].as_u64(), property["maxLength"].as_u64()) {
        (Some(least), Some(most)) => facts.push(format!("{least} to {most} characters")),
        (Some(least), None) => facts.push(format!("at least {least} characters")),
        (None, _) => {}
    }
    match &property["default"] {
        _ if is_required => facts.push("required".to_owned()),
        default @ (Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            facts.push(format!("default: {}", show(default)));
        }
        // A section, a list or nothing: the description has the default.
        Value::Null | Value::Array(_) | Value::Object(_) => {}
    }
    facts.join("; ")
}

const TIME: &str = "time";

/// A value as written in a file.
fn shown(kind: &str, value: &Value) -> String {
    match value {
        Value::Number(number) if kind == TIME => {
            let span = number.as_f64().and_then(Span::seconds);
            span.map_or_else(|| number.to_string(), |span| span.written())
        }
        Value::Number(number) => {
            // Whole numbers of a fractional setting, such as 5.0.
            number.as_f64().filter(|_| number.is_f64()).map_or_else(|| number.to_string(), |number| number.to_string())
        }
        Value::String(text) => format!("`{text}`"),
        other => other.to_string(),
    }
}

/// The type of a setting in words.
fn kind(schema: &Value, property: &Value) -> String {
    if let Some(reference) = property["$ref"].as_str() {
        return named(schema, reference.trim_start_matches("#/$defs/"));
    }
    if let Some(options) = property["anyOf"].as_array() {
        let kinds = options.iter().filter(|option| option["type"] != "null").map(|option| kind(schema, option));
        return kinds.collect::<Vec<_>>().join(" or ");
    }
    if let Some(words) = words(property) {
        return words;
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

/// The words that a setting may have, if it is an enumeration.
fn words(definition: &Value) -> Option<String> {
    let words = definition["enum"].as_array().or_else(|| definition["oneOf"].as_array())?;
    let word = |value: &Value| value.as_str().or_else(|| value["const"].as_str()).map(|word| format!("`{word}`"));
    Some(words.iter().filter_map(word).collect::<Vec<_>>().join(", "))
}

fn named(schema: &Value, name: &str) -> String {
    let definition = &schema["$defs"][name];
    if definition["properties"].is_object() {
        return format!("[{name}](#{})", name.to_ascii_lowercase());
    }
    words(definition).unwrap_or_else(|| match name {
        "Span" => TIME.to_owned(),
        "Soft" => "number or `true`".to_owned(),
        "TierNumbers" => "[Numbers](#numbers) or `unlimited`".to_owned(),
        _ => name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The setting says what it is for, its words what each of them means. The page has both.
    #[test]
    fn what_a_word_means_is_described_at_the_word_alone() {
        let schema = schema();
        let mut with_words = Vec::new();
        for definition in schema["$defs"].as_object().expect("definitions").values() {
            for (field, property) in definition["properties"].as_object().into_iter().flatten() {
                let meanings = meanings(&schema, property);
                let description = description(property);
                let description = description.split("Default:").next().unwrap_or_default();
                for (word, meaning) in &meanings {
                    assert!(!meaning.is_empty(), "{field}: {word} has no description");
                    assert!(!description.contains(&format!("`{word}`")), "{field} describes {word}: {description}");
                }
                with_words.extend((!meanings.is_empty()).then_some(field.as_str()));
            }
        }
        let expected =
            ["format", "mode", "missing", "state", "tiers", "format", "level", "on_failure", "jitter", "balance"];
        assert_eq!(with_words, expected);
        assert!(reference().contains("\n  - `share`: They all share one key.\n  - `ip`: They are counted"));
    }
}

//! Errors in a text that can't be parsed: position and reason, but never the text itself. A file holds secrets, and its
//! errors go to logs and over HTTP.

use std::fmt;

use serde_path_to_error::{Path, Segment};
use serde_saphyr::{Error as YamlError, MessageFormatter as _, UserMessageFormatter};

/// The path of a mistake in the configuration: `limits.search.window`. Empty if it is not known.
#[derive(Default)]
pub(crate) struct FieldPath(String);

impl FieldPath {
    pub(crate) fn of(path: &Path) -> Self {
        let piece = |segment: &Segment| match segment {
            Segment::Seq { index } => Some(format!("[{index}]")),
            Segment::Map { key } if is_plain(key) => Some(format!(".{key}")),
            // Text that does not look like a name may be a misplaced secret.
            Segment::Map { .. } | Segment::Enum { .. } | Segment::Unknown => None,
        };
        let text: String = path.iter().map_while(piece).collect();
        Self(text.trim_start_matches('.').to_owned())
    }
}

/// The path with a colon, ready for the reason.
impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "{}: ", self.0) }
    }
}

/// A mistake in YAML: line, column, path, reason.
pub(super) fn yaml(error: &YamlError, path: &FieldPath) -> String {
    let reason = yaml_reason(error);
    match error.location() {
        Some(at) if at.line() > 0 => format!("line {}, column {}: {path}{reason}", at.line(), at.column()),
        _ => format!("{path}{reason}"),
    }
}

fn yaml_reason(error: &YamlError) -> String {
    match error {
        YamlError::WithSnippet { error, .. } | YamlError::AliasError { error, .. } => yaml_reason(error),
        YamlError::SerdeInvalidType { expected, .. } | YamlError::SerdeInvalidValue { expected, .. } => {
            wanted(expected)
        }
        YamlError::Unexpected { expected, .. } => wanted(expected),
        YamlError::InvalidScalar { ty, .. } => wanted(ty),
        YamlError::SerdeUnknownVariant { expected, .. } => format!("expected one of {}", expected.join(", ")),
        YamlError::SerdeUnknownField { field, expected, .. } => {
            format!("unknown field{}, expected one of {}", quoted(field), expected.join(", "))
        }
        YamlError::DuplicateMappingKey { key, .. } => {
            format!("duplicate key{}", quoted(key.as_deref().unwrap_or_default()))
        }
        YamlError::NonFiniteFloat { .. } => "expected a finite number".to_owned(),
        YamlError::UnsupportedTag { .. } | YamlError::TaggedEnumMismatch { .. } => "unknown tag".to_owned(),
        other => without_values(&UserMessageFormatter.format_message(other)),
    }
}

/// A mistake in JSON: line, column, path, reason.
pub(super) fn json(error: &serde_json::Error, path: &FieldPath) -> String {
    let (line, column, text) = (error.line(), error.column(), error.to_string());
    let reason = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
    format!("line {line}, column {column}: {path}{}", without_values(reason))
}

/// A mistake in a JSON value of a request or of Redis: the reason alone.
pub(crate) fn value(error: &serde_json::Error) -> String {
    without_values(&error.to_string())
}

/// The expected type, in words for people who write files.
fn wanted(expected: &str) -> String {
    let words = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "f32" | "f64" | "floating point" => "a number",
        "bool" | "boolean" | "a boolean" => "true or false",
        "sequence start" | "a sequence" => "a list",
        "mapping start" | "a map" => "names with values",
        "string scalar" | "a string" => "text",
        "scalar" => "a single value",
        struct_of if struct_of.starts_with("struct ") => "names with values",
        other => other,
    };
    format!("expected {words}")
}

/// Serde's message without the value that it quotes.
fn without_values(reason: &str) -> String {
    let quotes = ["invalid type: ", "invalid value: ", "unknown variant "];
    if quotes.iter().any(|start| reason.starts_with(start)) {
        let expected = reason.rsplit_once(", expected ").map_or("something else", |(_, expected)| expected);
        return wanted(expected);
    }
    if let Some(rest) = reason.strip_prefix("unknown field `") {
        let (field, expected) = rest.rsplit_once("`, expected ").unwrap_or(("", "another"));
        return format!("unknown field{}, expected {expected}", quoted(field));
    }
    if let Some((key, _)) = reason.strip_prefix("the key `").and_then(|rest| rest.rsplit_once('`')) {
        return format!("duplicate key{}", quoted(key));
    }
    reason.to_owned()
}

/// A key in backticks, if it looks like one: without a blank or a colon, a secret can become part of a key.
fn quoted(key: &str) -> String {
    if is_plain(key) { format!(" `{key}`") } else { String::new() }
}

fn is_plain(key: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !key.is_empty() && key.len() <= 32 && key.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use crate::config::parse;

    const SECRET: &str = "hunter2-hunter2-hunter2!";

    /// Mistakes near a secret, and in it.
    #[test]
    fn no_message_repeats_the_text_of_the_file() {
        for text in [
            format!("identity:\n  jwt:\n    secret: \"{SECRET}\"\n    leewai: 3\n"),
            format!("admin:\n  token: {SECRET}\n  token: {SECRET}\n"),
            format!("admin: {SECRET}\n"),
            format!("admin:{SECRET}\n"),
            format!("admin: {{token:{SECRET}}}\n"),
            format!("admin: {{token: [{SECRET}]}}\n"),
            format!("admin: {{token: {{{SECRET}: 1}}}}\n"),
            format!("admin: {{open: {SECRET}}}\n"),
            format!("admin: {{token: !{SECRET} x}}\n"),
            format!("admin: {{token: *{SECRET}}}\n"),
            format!("admin: {{token: \"{SECRET}}}\n"),
            format!("log: {{level: {SECRET}}}\n"),
            format!("workers: {SECRET}\n"),
            format!("connections: {{head_timeout: {SECRET}}}\n"),
            format!("limits: {{a: {{algorithm: fixed, soft: {SECRET}, tiers: {{pro: {SECRET}}}}}}}\n"),
            format!("limits: {{a: {{algorithm: fixed, tiers: {{pro: {SECRET}}}}}}}\n"),
            format!("redis: redis://u:{SECRET}@h\n"),
            format!("token: &x {SECRET}\nadmin: *x\n"),
            format!("a: b: {SECRET}\n"),
            format!("- {SECRET}\n"),
            format!("{SECRET}\n"),
            format!("{{\"redis\": \"redis://u:{SECRET}@h:1\"}}"),
            format!("{{\"log\": {{\"level\": \"{SECRET}\"}}}}"),
            format!("{{\"log\": \"x, expected {SECRET}\"}}"),
            format!("{{\"admin\": {{\"{SECRET}\": 1}}}}"),
            format!("{{\"admin\": {{\"{SECRET}`, expected `x\": 1}}}}"),
            format!("{{\"limits\": {{\"{SECRET}\": 1, \"{SECRET}\": 2}}}}"),
            format!("{{\"admin\": {{\"token\": \"{SECRET}\" \"{SECRET}\"}}}}"),
        ] {
            let error = parse(&text).expect_err(&text).to_string();
            assert!(!error.contains("hunter2"), "{text}: {error}");
            assert!(error.starts_with("line "), "{text}: {error}");
        }
    }

    #[test]
    fn a_mistake_is_named_all_the_same() {
        for (text, wanted) in [
            (
                "limits:\n  a: {algorithm: fixed}\n  a: {algorithm: token}\n",
                "line 3, column 3: limits: duplicate key `a`",
            ),
            ("{\"limits\": {\"a\": {},\n \"a\": {}}}", "line 2, column 4: duplicate key `a`"),
            (
                "{\"log\": {\"level\": \"loud\"}}",
                "line 1, column 24: log.level: expected one of `debug`, `info`, `warn`, `error`",
            ),
            (
                "{\"log\": {\"levle\": 1}}",
                "line 1, column 16: log.levle: unknown field `levle`, expected `format` or `level`",
            ),
            ("log:\n  levle: 1\n", "line 2, column 3: log.levle: unknown field `levle`, expected one of format, level"),
        ] {
            assert_eq!(parse(text).expect_err(text).to_string(), wanted, "{text}");
        }
        for (text, word) in [
            ("limits: {a: {algorithm: fixed, tiers: {pro: {limit: 5, windw: 1}}}}\n", "`windw`"),
            (
                "{\"limits\": {\"a\": {\"algorithm\": \"fixed\", \"tiers\": {\"pro\": {\"limit\": 5, \"windw\": 1}}}}}",
                "`windw`",
            ),
            ("limits: {a: {algorithm: fixed, tiers: {pro: unlimitd}}}\n", "`unlimited`"),
            ("limits: {a: {algorithm: fixed, soft: a little}}\n", "a number of requests"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}

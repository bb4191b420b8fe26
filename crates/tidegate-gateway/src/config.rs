//! The configuration as written: the [`model`] of a file, its parser, its schema and its reference page. The checked
//! configuration is in [`settings`](crate::settings). Nothing here knows the rest of the gateway.

pub mod model;
pub mod numbers;
pub(crate) mod own_paths;
pub(crate) mod ranges;
mod reference;
pub mod secret;
pub(crate) mod section;
pub mod span;
pub(crate) mod syntax;
mod words;

use std::fmt;
use std::fs;
use std::path::Path;

pub use model::default_limit;
pub use reference::{reference, schema};
pub use tidegate_input::Problem;

use model::Config;
use syntax::FieldPath;

/// Why a configuration can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidConfig {
    /// It can't be read: the reason, or the first syntax error with its line. It quotes nothing of the file.
    Syntax(String),
    /// It can be read but is invalid: all problems.
    Meaning(Vec<Problem>),
}

impl fmt::Display for InvalidConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => f.write_str(error),
            Self::Meaning(problems) => {
                let mut lines = problems.iter();
                lines.next().map_or(Ok(()), |first| write!(f, "{first}"))?;
                lines.try_for_each(|problem| write!(f, "\n{problem}"))
            }
        }
    }
}

impl std::error::Error for InvalidConfig {}

/// Reads a configuration from a file.
pub fn read(path: &Path) -> Result<Config, InvalidConfig> {
    let text = fs::read_to_string(path).map_err(|error| InvalidConfig::Syntax(error.to_string()))?;
    parse(&text)
}

/// Reads a configuration from JSON, if its text begins with `{`, otherwise from YAML.
pub fn parse(text: &str) -> Result<Config, InvalidConfig> {
    if text.trim().is_empty() {
        return Ok(Config::default());
    }
    parse_any(text).map_err(InvalidConfig::Syntax)
}

/// Reads any other type from JSON or YAML in the same way. An error says where, and quotes nothing of the file.
pub fn parse_any<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    if text.trim_start().starts_with('{') {
        // First for duplicate names, then with the path of any other mistake.
        tidegate_input::json::read(text.as_bytes()).map_err(|error| syntax::json(&error, &FieldPath::default()))?;
        let read = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text));
        return read.map_err(|error| syntax::json(error.inner(), &FieldPath::of(error.path())));
    }
    let options = serde_saphyr::options! { with_snippet: false };
    let mut at = FieldPath::default();
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |yaml| {
        serde_path_to_error::deserialize(yaml).map_err(|error| {
            at = FieldPath::of(error.path());
            error.into_inner()
        })
    });
    read.map_err(|error| syntax::yaml(&error, &at))
}

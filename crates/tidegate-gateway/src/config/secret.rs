//! Secrets that are never printed.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};

/// A secret of a file. It is printed as `***`.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps `secret`, so that it is not printed.
    pub fn new(secret: String) -> Self {
        Self(secret)
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use crate::config::parse;

    #[test]
    fn a_configuration_can_be_printed_without_its_secrets() {
        let text = "admin: {token: hunter2-hunter2-hunter2}\n\
                    redis: {url: \"redis://:hunter2@h\"}\n\
                    identity: {jwt: {secret: hunter2}, api_keys: {keys: [{key: hunter2, user: ann}]}}\n";
        let config = parse(text).expect("a good file");
        assert!(format!("{config:?}").contains("ann") && !format!("{config:?}").contains("hunter2"), "{config:?}");
        let json = serde_json::to_string(&config).expect("JSON");
        assert!(!json.contains("hunter2"), "{json}");
        assert_eq!(config.admin.token.expect("it is there").expose(), "hunter2-hunter2-hunter2");
    }
}

//! JSON that is bounded, or in which every name stands once. `serde_json` lets the last of several count, and
//! the others would go unnoticed.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// Reads a value; two fields of the same name in one object are an error.
pub fn read(text: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice::<Unique>(text).map(|unique| unique.0)
}

struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Values { left: None, is_unique: true }.deserialize(deserializer).map(Self)
    }
}

/// Reads the part `name` of a document, which may consist of `most` values: what it makes us keep is bounded while it
/// is read. Of two fields of the same name the last counts.
pub fn bounded<'de, D: Deserializer<'de>>(deserializer: D, name: &str, most: u32) -> Result<Value, D::Error> {
    Values { left: Some((&Cell::new(most), name)), is_unique: false }.deserialize(deserializer)
}

/// Reads any value.
#[derive(Clone, Copy)]
struct Values<'a> {
    /// How many more there may be, and of what.
    left: Option<(&'a Cell<u32>, &'a str)>,
    /// Whether a name may stand only once in an object.
    is_unique: bool,
}

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if let Some((left, name)) = self.left {
            let more = left.get().checked_sub(1);
            left.set(more.ok_or_else(|| D::Error::custom(format_args!("`{name}` has too many values")))?);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if self.is_unique && object.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the key `{name}` is there twice")));
            }
            let value = fields.next_value_seed(self)?;
            object.insert(name, value);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_serde_json_reads() {
        for text in
            ["null", "true", "-5", "5", "0.5", "1e3", "\"a\\n\\u00e4\"", "[]", "[1, [2], {}]", r#"{"a": {"b": [{}]}}"#]
        {
            let expected: Value = serde_json::from_str(text).expect(text);
            assert_eq!(read(text.as_bytes()).expect(text), expected);
        }
        for text in ["", "{", "[1,]", "{\"a\"}", "1 2"] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_that_stands_twice_is_an_error_wherever_it_is() {
        for text in [r#"{"a": 1, "a": 1}"#, r#"{"x": {"a": 1, "b": 2, "a": 3}}"#, r#"[{"a": 1, "\u0061": 2}]"#] {
            let error = read(text.as_bytes()).expect_err(text).to_string();
            assert!(error.starts_with("the key `a` is there twice at line 1"), "{error}");
        }
        assert!(read(br#"[{"a": 1}, {"a": 1}]"#).is_ok(), "in two objects");
    }

    #[test]
    fn a_part_of_a_document_is_bounded_however_its_values_are_nested() {
        struct Part(Value);
        impl<'de> Deserialize<'de> for Part {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                bounded(deserializer, "part", 4).map(Self)
            }
        }
        for text in ["1", "[1, 2, 3]", r#"{"a": [1, 2]}"#, "[[[1]]]", r#"{"a": 1, "b": 2, "c": 3}"#] {
            let expected: Value = serde_json::from_str(text).expect(text);
            assert_eq!(serde_json::from_str::<Part>(text).expect(text).0, expected);
        }
        for text in ["[1, 2, 3, 4]", r#"{"a": [1, 2, 3]}"#, "[[[[1]]]]", r#"{"a": 1, "a": 1, "a": 1, "a": 1}"#] {
            let error = serde_json::from_str::<Part>(text).err().expect(text).to_string();
            assert!(error.starts_with("`part` has too many values at line 1"), "{error}");
        }
        assert_eq!(serde_json::from_str::<Part>(r#"{"a": 1, "a": 2}"#).expect("two").0, serde_json::json!({ "a": 2 }));
    }
}

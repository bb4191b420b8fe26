//! JSON objects, read field by field: what is wrong is reported with its path, all of it at once.

use std::fmt;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::problems::{Problems, shortened};

/// A number that a field may be.
#[derive(Clone, Debug)]
pub struct Allowed {
    range: RangeInclusive<f64>,
    what: &'static str,
    shows_range: bool,
}

impl Allowed {
    /// A range, and the unit that a message calls it by: `0.0..=60.0` and "seconds" become "seconds from 0 to 60".
    pub const fn new(range: RangeInclusive<f64>, unit: &'static str) -> Self {
        Self { range, what: unit, shows_range: true }
    }

    /// A range that a message describes in other words, such as "seconds since 1970".
    pub const fn described(range: RangeInclusive<f64>, description: &'static str) -> Self {
        Self { range, what: description, shows_range: false }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        if !self.shows_range {
            return Ok(());
        }
        let (least, most) = (*self.range.start(), *self.range.end());
        write!(f, " from {}", Readable(least))?;
        if most >= f64::MAX { f.write_str(" on") } else { write!(f, " to {}", Readable(most)) }
    }
}

/// A number without long rows of zeros.
struct Readable(f64);

impl fmt::Display for Readable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = self.0 == 0.0 || (1e-6..1e8).contains(&self.0.abs());
        if is_plain { write!(f, "{}", self.0) } else { write!(f, "{:e}", self.0) }
    }
}

/// An object whose fields are taken one by one; what is left over in the end is unknown.
#[derive(Debug)]
pub struct Object<'a> {
    path: String,
    fields: Map<String, Value>,
    /// The fields that it may have.
    known: Vec<&'static str>,
    /// What is wrong with it so far.
    pub problems: &'a Problems,
}

impl<'a> Object<'a> {
    /// The fields of `value`, which stands at `path`; none, and one more problem, if it is not an object.
    pub fn new(path: impl Into<String>, value: Value, problems: &'a Problems) -> Option<Self> {
        let path = path.into();
        match value {
            Value::Object(fields) => Some(Self { path, fields, known: Vec::new(), problems }),
            other => {
                problems.add(path, format!("must be an object, got {}", shown(&other)));
                None
            }
        }
    }

    /// Where a field of it is.
    pub fn at(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }

    /// Reports what is wrong with a field.
    pub fn wrong(&self, field: &str, message: impl Into<String>) {
        self.problems.add(self.at(field), message);
    }

    /// Whether a field that it may have is there and has not been taken yet; `null` is none.
    pub fn has(&mut self, field: &'static str) -> bool {
        self.know(field);
        self.fields.get(field).is_some_and(|value| !value.is_null())
    }

    fn know(&mut self, field: &'static str) {
        if !self.known.contains(&field) {
            self.known.push(field);
        }
    }

    /// Looks at a field that has not been taken yet.
    pub fn peek(&self, field: &str) -> Option<&Value> {
        self.fields.get(field)
    }

    /// Takes a field; `null` is none.
    pub fn take(&mut self, field: &'static str) -> Option<Value> {
        self.know(field);
        self.fields.remove(field).filter(|value| !value.is_null())
    }

    /// Another name of a field, where that is not there itself.
    pub fn alias(&mut self, field: &'static str, other: &str) {
        if let Some(value) = self.fields.remove(other)
            && self.fields.insert(field.to_owned(), value).is_some()
        {
            self.wrong(field, format!("is set twice: `{other}` is another name for it"));
        }
    }

    /// A number that must be there; none is a problem that has been reported.
    pub fn number(&mut self, field: &'static str, allowed: &Allowed) -> Option<f64> {
        let Some(value) = self.take(field) else {
            self.wrong(field, format!("is missing; must be {allowed}"));
            return None;
        };
        let number = value.as_f64().filter(|number| allowed.range.contains(number));
        if number.is_none() {
            self.wrong(field, format!("must be {allowed}, got {}", shown(&value)));
        }
        number
    }

    /// A number, or else the usual one; none is a problem that has been reported.
    pub fn number_or(&mut self, field: &'static str, allowed: &Allowed, usual: f64) -> Option<f64> {
        if self.fields.get(field).is_none_or(Value::is_null) {
            self.take(field);
            return Some(usual);
        }
        self.number(field, allowed)
    }

    /// A whole number, which JSON holds exactly, or else the usual one; none is a problem that has been reported.
    pub fn whole_or(&mut self, field: &'static str, allowed: RangeInclusive<u64>, usual: u64) -> Option<u64> {
        let Some(value) = self.take(field) else { return Some(usual) };
        let number = value.as_u64().filter(|number| allowed.contains(number));
        if number.is_none() {
            let (least, most) = allowed.into_inner();
            self.wrong(field, format!("must be a whole number from {least} to {most}, got {}", shown(&value)));
        }
        number
    }

    /// Yes or no, or else the usual; none is a problem that has been reported.
    pub fn switch_or(&mut self, field: &'static str, usual: bool) -> Option<bool> {
        match self.take(field) {
            None => Some(usual),
            Some(Value::Bool(yes)) => Some(yes),
            Some(other) => {
                self.wrong(field, format!("must be true or false, got {}", shown(&other)));
                None
            }
        }
    }

    /// Some text, if it is there.
    pub fn text(&mut self, field: &'static str) -> Option<String> {
        match self.take(field)? {
            Value::String(text) => Some(text),
            other => {
                self.wrong(field, format!("must be text, got {}", shown(&other)));
                None
            }
        }
    }

    /// Yes or no; no if it is not there.
    pub fn flag(&mut self, field: &'static str) -> Option<bool> {
        self.switch_or(field, false)
    }

    /// A list of at most so many, if it is there.
    pub fn list(&mut self, field: &'static str, most: usize) -> Option<Vec<Value>> {
        match self.take(field)? {
            Value::Array(values) if values.len() <= most => Some(values),
            Value::Array(values) => {
                self.wrong(field, format!("must have at most {most} entries, got {}", values.len()));
                None
            }
            other => {
                self.wrong(field, format!("must be a list, got {}", shown(&other)));
                None
            }
        }
    }

    /// Texts by name, such as headers.
    pub fn texts(&mut self, field: &'static str) -> Vec<(String, String)> {
        let Some(value) = self.take(field) else { return Vec::new() };
        let Value::Object(fields) = value else {
            self.wrong(field, format!("must be an object of texts, got {}", shown(&value)));
            return Vec::new();
        };
        let mut texts = Vec::new();
        for (name, value) in fields {
            match value {
                Value::String(text) => texts.push((name, text)),
                Value::Number(number) => texts.push((name, number.to_string())),
                Value::Bool(flag) => texts.push((name, flag.to_string())),
                other => self.wrong(field, format!("{name:?} must be text, got {}", shown(&other))),
            }
        }
        texts
    }

    /// An object in it, if it is there.
    pub fn object(&mut self, field: &'static str) -> Option<Object<'a>> {
        let value = self.take(field)?;
        Object::new(self.at(field), value, self.problems)
    }

    /// Reports every field that has not been taken as unknown, and once which fields there are.
    pub fn end(self) {
        let mut known = format!("; known fields: {}", self.known.join(", "));
        for field in self.fields.keys().take_while(|_| !self.problems.is_full()) {
            self.problems.add(self.at(field), format!("is unknown{}", std::mem::take(&mut known)));
        }
    }
}

/// A value as a message repeats it, shortened.
pub fn shown(value: &Value) -> String {
    shortened(&value.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SHARE: Allowed = Allowed::new(0.0..=1.0, "a number");

    /// What is wrong with an object from which `read` takes fields.
    fn problems(value: Value, read: impl FnOnce(&mut Object<'_>)) -> Vec<String> {
        let problems = Problems::default();
        if let Some(mut object) = Object::new("it", value, &problems) {
            read(&mut object);
            object.end();
        }
        problems.all().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_there_and_right_is_taken() {
        let value = json!({ "share": 0.5, "count": 3, "is_on": true, "name": "a", "list": [1, 2], "inner": { "x": 1 },
            "none": null, "texts": { "a": "b", "c": 1, "d": true } });
        let found = problems(value, |object| {
            assert_eq!(object.number("share", &SHARE), Some(0.5));
            assert_eq!((object.whole_or("count", 1..=3, 9), object.whole_or("none", 1..=3, 9)), (Some(3), Some(9)));
            assert_eq!(
                (object.flag("is_on"), object.flag("none"), object.switch_or("none", true)),
                (Some(true), Some(false), Some(true))
            );
            assert_eq!(object.number_or("none", &SHARE, 7.0), Some(7.0));
            assert_eq!((object.text("name").as_deref(), object.text("none")), (Some("a"), None));
            assert_eq!(object.list("list", 2).map(|list| list.len()), Some(2));
            let texts = [("a", "b"), ("c", "1"), ("d", "true")].map(|(name, text)| (name.to_owned(), text.to_owned()));
            assert_eq!(object.texts("texts"), texts);
            assert_eq!((object.has("inner"), object.has("none")), (true, false));
            let mut inner = object.object("inner").expect("an object");
            assert_eq!((inner.at("x"), inner.take("x")), ("it.inner.x".to_owned(), Some(json!(1))));
            inner.end();
        });
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn everything_that_is_wrong_is_reported_with_its_path() {
        let value = json!({ "share": 2, "count": 1.5, "is_on": "yes", "name": 5, "list": [1, 2, 3], "inner": 7,
            "texts": { "a": [] }, "old": 1, "new": 2, "extra": 1, "more": 1 });
        let found = problems(value, |object| {
            object.alias("new", "old");
            object.take("new");
            assert_eq!((object.number("share", &SHARE), object.number("missing", &SHARE)), (None, None));
            assert_eq!((object.whole_or("count", 1..=3, 9), object.flag("is_on")), (None, None));
            assert_eq!((object.text("name"), object.list("list", 2), object.texts("texts")), (None, None, Vec::new()));
            assert!(object.object("inner").is_none());
        });
        let known = "new, share, missing, count, is_on, name, list, texts, inner";
        assert_eq!(
            found,
            [
                "it.new: is set twice: `old` is another name for it",
                "it.share: must be a number from 0 to 1, got 2",
                "it.missing: is missing; must be a number from 0 to 1",
                "it.count: must be a whole number from 1 to 3, got 1.5",
                "it.is_on: must be true or false, got \"yes\"",
                "it.name: must be text, got 5",
                "it.list: must have at most 2 entries, got 3",
                "it.texts: \"a\" must be text, got []",
                "it.inner: must be an object, got 7",
                &format!("it.extra: is unknown; known fields: {known}"),
                "it.more: is unknown",
            ]
        );
        assert_eq!(problems(json!([1]), |_| {}), ["it: must be an object, got [1]"]);
    }
}

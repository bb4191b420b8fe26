//! JSON objects, read field by field: what is wrong is told with its path, all of it at once.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::Problem;

/// The most that is reported: a million mistakes do not become a million messages.
const MOST_PROBLEMS: usize = 50;

/// All that is wrong with what somebody wrote.
#[derive(Debug)]
pub struct Problems {
    found: RefCell<Vec<Problem>>,
    most: usize,
}

/// For what comes over the network: a bounded number.
impl Default for Problems {
    fn default() -> Self {
        Self { found: RefCell::default(), most: MOST_PROBLEMS }
    }
}

impl Problems {
    /// For files of one's own: all of them.
    pub fn unbounded() -> Self {
        Self { found: RefCell::default(), most: usize::MAX }
    }

    /// One more.
    pub fn add(&self, path: impl Into<String>, message: impl Into<String>) {
        let mut found = self.found.borrow_mut();
        if found.len() < self.most {
            found.push(Problem { path: path.into(), message: message.into() });
        } else if found.len() == self.most {
            let message = format!("there are more problems than these {}", self.most);
            found.push(Problem { path: String::new(), message });
        }
    }

    /// The value, or a problem at `path`.
    pub fn ok<T, E: ToString>(&self, path: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(path, error.to_string())).ok()
    }

    /// Whether nothing more is reported.
    pub fn is_full(&self) -> bool {
        self.found.borrow().len() > self.most
    }

    /// All of them, in the order they were found.
    pub fn all(self) -> Vec<Problem> {
        self.found.into_inner()
    }
}

/// A number that a field may be.
#[derive(Clone, Debug)]
pub struct Allowed {
    range: RangeInclusive<f64>,
    what: &'static str,
}

impl Allowed {
    /// A range, and how it is told: "seconds from 0 to 60 are allowed".
    pub const fn new(range: RangeInclusive<f64>, what: &'static str) -> Self {
        Self { range, what }
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
    /// The fields of `value`, which stands at `path`; none, and a problem more, if it is no object.
    pub fn new(path: impl Into<String>, value: Value, problems: &'a Problems) -> Option<Self> {
        let path = path.into();
        match value {
            Value::Object(fields) => Some(Self { path, fields, known: Vec::new(), problems }),
            other => {
                problems.add(path, format!("is {}; an object is allowed", shown(&other)));
                None
            }
        }
    }

    /// Where a field of it is.
    pub fn at(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }

    /// Tells what is wrong with a field.
    pub fn wrong(&self, field: &str, message: impl Into<String>) {
        self.problems.add(self.at(field), message);
    }

    /// Whether a field that it may have is there, and nobody has taken it yet; `null` is none.
    pub fn has(&mut self, field: &'static str) -> bool {
        self.know(field);
        self.fields.get(field).is_some_and(|value| !value.is_null())
    }

    fn know(&mut self, field: &'static str) {
        if !self.known.contains(&field) {
            self.known.push(field);
        }
    }

    /// Looks at a field that nobody has taken yet.
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
            self.wrong(field, format!("is there twice: `{other}` is the same"));
        }
    }

    /// A number that must be there; none is a problem that has been told.
    pub fn number(&mut self, field: &'static str, allowed: &Allowed) -> Option<f64> {
        let Some(value) = self.take(field) else {
            self.wrong(field, format!("is missing; {}", allowed.what));
            return None;
        };
        let number = value.as_f64().filter(|number| allowed.range.contains(number));
        if number.is_none() {
            self.wrong(field, format!("is {}; {}", shown(&value), allowed.what));
        }
        number
    }

    /// A number, or else the usual one; none is a problem that has been told.
    pub fn number_or(&mut self, field: &'static str, allowed: &Allowed, usual: f64) -> Option<f64> {
        if self.fields.get(field).is_none_or(Value::is_null) {
            self.take(field);
            return Some(usual);
        }
        self.number(field, allowed)
    }

    /// A whole number, which JSON holds exactly, or else the usual one; none is a problem that has been told.
    pub fn whole_or(&mut self, field: &'static str, allowed: RangeInclusive<u64>, usual: u64) -> Option<u64> {
        let Some(value) = self.take(field) else { return Some(usual) };
        let number = value.as_u64().filter(|number| allowed.contains(number));
        if number.is_none() {
            let (least, most) = allowed.into_inner();
            self.wrong(field, format!("is {}; a whole number from {least} to {most} is allowed", shown(&value)));
        }
        number
    }

    /// Yes or no, or else the usual; none is a problem that has been told.
    pub fn switch_or(&mut self, field: &'static str, usual: bool) -> Option<bool> {
        match self.take(field) {
            None => Some(usual),
            Some(Value::Bool(yes)) => Some(yes),
            Some(other) => {
                self.wrong(field, format!("is {}; true or false is allowed", shown(&other)));
                None
            }
        }
    }

    /// Some text, if it is there.
    pub fn text(&mut self, field: &'static str) -> Option<String> {
        match self.take(field)? {
            Value::String(text) => Some(text),
            other => {
                self.wrong(field, format!("is {}; text is allowed", shown(&other)));
                None
            }
        }
    }

    /// Yes or no; no if it is not there.
    pub fn flag(&mut self, field: &'static str) -> Option<bool> {
        match self.take(field) {
            None => Some(false),
            Some(Value::Bool(flag)) => Some(flag),
            Some(other) => {
                self.wrong(field, format!("is {}; true or false is allowed", shown(&other)));
                None
            }
        }
    }

    /// A list of at most so many, if it is there.
    pub fn list(&mut self, field: &'static str, most: usize) -> Option<Vec<Value>> {
        match self.take(field)? {
            Value::Array(values) if values.len() <= most => Some(values),
            Value::Array(values) => {
                self.wrong(field, format!("has {} entries; at most {most} are allowed", values.len()));
                None
            }
            other => {
                self.wrong(field, format!("is {}; a list is allowed", shown(&other)));
                None
            }
        }
    }

    /// Texts by name, such as headers.
    pub fn texts(&mut self, field: &'static str) -> Vec<(String, String)> {
        let Some(value) = self.take(field) else { return Vec::new() };
        let Value::Object(fields) = value else {
            self.wrong(field, format!("is {}; an object of texts is allowed", shown(&value)));
            return Vec::new();
        };
        let mut texts = Vec::new();
        for (name, value) in fields {
            match value {
                Value::String(text) => texts.push((name, text)),
                Value::Number(number) => texts.push((name, number.to_string())),
                Value::Bool(flag) => texts.push((name, flag.to_string())),
                other => self.wrong(field, format!("has {name:?} as {}; text is allowed", shown(&other))),
            }
        }
        texts
    }

    /// An object in it, if it is there.
    pub fn object(&mut self, field: &'static str) -> Option<Object<'a>> {
        let value = self.take(field)?;
        Object::new(self.at(field), value, self.problems)
    }

    /// Tells of everything that nobody has asked for, and once of what there is.
    pub fn end(self) {
        let mut there_are = format!("; there are: {}", self.known.join(", "));
        for field in self.fields.keys().take_while(|_| !self.problems.is_full()) {
            self.problems.add(self.at(field), format!("is unknown{}", std::mem::take(&mut there_are)));
        }
    }
}

/// A value as it is repeated to whoever wrote it, shortened.
pub fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 60 { text } else { text.chars().take(60).chain(['…']).collect() }
}

//! Structured fields (RFC 9651), read as strictly as a client may: lists of strings with parameters.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

/// A value without parameters, of the kinds that rate limit headers have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bare {
    Integer(i64),
    Text(String),
}

/// A string, and what is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) parameters: BTreeMap<String, Bare>,
}

impl Item {
    pub(crate) fn integer(&self, key: &str) -> Option<i64> {
        match self.parameters.get(key)? {
            Bare::Integer(number) => Some(*number),
            Bare::Text(text) => panic!("{key} of {} is text: {text:?}", self.name),
        }
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        match self.parameters.get(key)? {
            Bare::Text(text) => Some(text),
            Bare::Integer(number) => panic!("{key} of {} is a number: {number}", self.name),
        }
    }
}

/// Reads a List whose members are Strings with parameters (RFC 9651 §4.2.1).
pub(crate) fn list(field: &str) -> Result<Vec<Item>, String> {
    let mut rest = field.trim_matches(' ').chars().peekable();
    let mut items = Vec::new();
    while rest.peek().is_some() {
        items.push(Item { name: string(&mut rest)?, parameters: parameters(&mut rest)? });
        skip(&mut rest, &[' ', '\t']);
        match rest.next() {
            None => return Ok(items),
            Some(',') => skip(&mut rest, &[' ', '\t']),
            Some(other) => return Err(format!("{other:?} after an item of {field:?}")),
        }
        if rest.peek().is_none() {
            return Err(format!("{field:?} ends with a comma"));
        }
    }
    Ok(items)
}

fn skip(rest: &mut Peekable<Chars<'_>>, blanks: &[char]) {
    while rest.next_if(|c| blanks.contains(c)).is_some() {}
}

fn string(rest: &mut Peekable<Chars<'_>>) -> Result<String, String> {
    if rest.next() != Some('"') {
        return Err("an item is no String".to_owned());
    }
    let mut text = String::new();
    loop {
        match rest.next() {
            None => return Err("a String does not end".to_owned()),
            Some('"') => return Ok(text),
            Some('\\') => match rest.next() {
                Some(escaped @ ('"' | '\\')) => text.push(escaped),
                other => return Err(format!("{other:?} is escaped")),
            },
            Some(plain @ ' '..='~') => text.push(plain),
            Some(other) => return Err(format!("{other:?} in a String")),
        }
    }
}

fn parameters(rest: &mut Peekable<Chars<'_>>) -> Result<BTreeMap<String, Bare>, String> {
    let mut parameters = BTreeMap::new();
    while rest.next_if_eq(&';').is_some() {
        skip(rest, &[' ']);
        let first = rest.next_if(|c| c.is_ascii_lowercase() || *c == '*').ok_or("a key begins wrongly")?;
        let mut key = String::from(first);
        let inner = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.*".contains(*c);
        while let Some(c) = rest.next_if(inner) {
            key.push(c);
        }
        if rest.next() != Some('=') {
            return Err(format!("{key} has no value"));
        }
        let value = if rest.peek() == Some(&'"') { Bare::Text(string(rest)?) } else { Bare::Integer(integer(rest)?) };
        parameters.insert(key, value);
    }
    Ok(parameters)
}

fn integer(rest: &mut Peekable<Chars<'_>>) -> Result<i64, String> {
    let mut digits = String::from(rest.next_if_eq(&'-').map_or("", |_| "-"));
    while let Some(c) = rest.next_if(char::is_ascii_digit) {
        digits.push(c);
    }
    if digits.trim_start_matches('-').len() > 15 {
        return Err(format!("{digits} has more than 15 digits"));
    }
    digits.parse().map_err(|_| format!("{digits:?} is no Integer"))
}

#[test]
fn fields_are_read_as_the_rfc_says() {
    let items = list(r#""burst";q=100;w=60,  "a \"b\"";qu="requests""#).expect("it is valid");
    assert_eq!((items[0].name.as_str(), items[0].integer("q"), items[0].integer("w")), ("burst", Some(100), Some(60)));
    assert_eq!(
        (items[1].name.as_str(), items[1].text("qu"), items[1].integer("w")),
        ("a \"b\"", Some("requests"), None)
    );
    for wrong in ["default;q=1", "\"a\";q=", "\"a\";q=1,", "\"a\" \"b\"", "\"ü\"", "\"a\";Q=1", "\"a\";q=1.5", "\"a"] {
        assert!(list(wrong).is_err(), "{wrong} was read");
    }
}

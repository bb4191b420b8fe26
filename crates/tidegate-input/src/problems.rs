//! What is wrong with what was written, and where.

use std::cell::RefCell;
use std::fmt;

/// The most problems of a request that are reported: a million mistakes must not become a million messages.
const MOST_REPORTED: usize = 50;

/// Something wrong with what was written, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: `routes[2].upstream`; empty for the whole.
    pub path: String,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.path.is_empty() { "" } else { ": " };
        write!(f, "{}{colon}{}", self.path, self.message)
    }
}

/// All that is wrong, in the order it was found. By default at most 50 are kept, and one more that says so.
#[derive(Debug)]
pub struct Problems {
    found: RefCell<Vec<Problem>>,
    most: usize,
}

impl Default for Problems {
    fn default() -> Self {
        Self { found: RefCell::default(), most: MOST_REPORTED }
    }
}

impl Problems {
    /// Keeps every one, for files whose owner wants to see all of them.
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

    /// Whether something is wrong at `path`.
    pub fn has(&self, path: &str) -> bool {
        self.found.borrow().iter().any(|problem| problem.path == path)
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// Whether nothing more is kept.
    pub fn is_full(&self) -> bool {
        self.found.borrow().len() > self.most
    }

    /// All of them, in the order they were found.
    pub fn all(self) -> Vec<Problem> {
        self.found.into_inner()
    }
}

/// A text as a message repeats it: its first 60 characters.
pub fn shortened(text: &str) -> String {
    if text.chars().count() <= 60 { text.to_owned() } else { text.chars().take(60).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_list_keeps_the_first_and_says_that_there_are_more() {
        let (request, file) = (Problems::default(), Problems::unbounded());
        assert!(request.is_empty() && !request.is_full());
        for number in 0..1_000 {
            request.add(format!("list[{number}]"), "is wrong");
            file.add(format!("list[{number}]"), "is wrong");
        }
        assert!(request.is_full() && !file.is_full() && !file.is_empty());
        let (request, file) = (request.all(), file.all());
        assert_eq!((request.len(), file.len()), (51, 1_000));
        assert_eq!(request[..50], file[..50]);
        assert_eq!(request[50].to_string(), "there are more problems than these 50");
        assert_eq!(file[999].to_string(), "list[999]: is wrong");
    }

    #[test]
    fn a_value_that_is_not_there_is_reported_with_its_reason() {
        let problems = Problems::default();
        assert_eq!(problems.ok("c", "7".parse::<u8>()), Some(7));
        assert_eq!(problems.ok("c", "".parse::<u8>()), None);
        let found: Vec<String> = problems.all().iter().map(Problem::to_string).collect();
        assert_eq!(found, ["c: cannot parse integer from empty string"]);
    }
}

//! What the tidy test looks for. Each function finds what breaks one rule; the reasons stand in `tests/tidy.rs`.

mod limits;
mod names;
mod sleeps;
mod visible;
mod words;

use std::fmt;

pub use limits::{long_files, long_functions, long_lines};
pub use names::{mod_files, told, unseen_documents};
pub use sleeps::sleeps_in_tests;
pub use words::words_to_avoid;

/// Something that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file, from the root of the repository.
    pub path: String,
    /// Counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

impl Violation {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Whether a path ends in one of these, each without its dot.
fn has_extension(path: &str, extensions: &[&str]) -> bool {
    path.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
}

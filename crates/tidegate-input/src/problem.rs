use std::fmt;

/// Something wrong with what somebody wrote, and where.
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

/// What came of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Every expectation holds.
    Passed,
    /// At least one expectation does not hold.
    Failed,
    /// The run itself went wrong, so its figures prove nothing.
    Invalid,
    /// The run was not made.
    Skipped,
}

impl Status {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Invalid => "invalid",
            Self::Skipped => "skipped",
        }
    }
}

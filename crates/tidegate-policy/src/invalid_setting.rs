use std::fmt;

/// Why a policy can't have these settings: which one, what is expected and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSetting {
    /// The setting at fault.
    pub field: &'static str,
    /// What is expected of it, and what was found.
    pub reason: String,
}

impl InvalidSetting {
    pub(crate) fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self { field, reason: reason.into() }
    }
}

impl fmt::Display for InvalidSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.field, self.reason)
    }
}

impl std::error::Error for InvalidSetting {}

/// A share, if it is above 0 and at most 1.
pub(crate) fn share(field: &'static str, value: f64) -> Result<f64, InvalidSetting> {
    if value > 0.0 && value <= 1.0 {
        Ok(value)
    } else {
        Err(InvalidSetting::new(field, format!("must be above 0 and at most 1, got {value}")))
    }
}

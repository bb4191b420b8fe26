//! What every model can be asked.

use crate::{History, Season};

/// A model of a series. Learning may be slow, and is done now and then; a path is cheap, and asked for all the time.
///
/// Nothing here reads a clock or draws from a generator that is not seeded: the same history gives the same path.
pub trait Model: Send {
    /// What it is called, in tables and metrics.
    fn name(&self) -> &'static str;

    /// Learns from what is known. `seasons` are the cycles that were found in it, the strongest first. A model that
    /// can't learn from this history keeps what it knew.
    fn learn(&mut self, history: History<'_>, seasons: &[Season]) -> Result<(), NotLearnt>;

    /// The expected values of the `steps` steps after the end of this history, which may have grown since it was learnt
    /// from; none if the model can't forecast yet. Never negative, never infinite.
    fn path(&self, history: History<'_>, steps: usize) -> Option<Vec<f64>>;
}

/// Why a model has not learnt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotLearnt {
    /// It needs so many known values.
    TooShort {
        /// How many there must be.
        least: usize,
    },
    /// It is for series with a cycle, and none was found.
    NoSeason,
    /// The fit has failed, and why.
    Failed(String),
}

impl std::fmt::Display for NotLearnt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooShort { least } => write!(f, "there are fewer than {least} known values"),
            Self::NoSeason => f.write_str("no cycle was found"),
            Self::Failed(reason) => write!(f, "the fit has failed: {reason}"),
        }
    }
}

impl std::error::Error for NotLearnt {}

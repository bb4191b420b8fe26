//! Cycles in a series.

/// A cycle that repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Season {
    /// Its length in steps of the series; not always a whole number.
    pub period: f64,
    /// The share of the series' variance that it explains, from 0 to 1.
    pub strength: f64,
}

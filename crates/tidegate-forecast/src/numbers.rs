//! The numbers of a limit, as gateway and forecaster send them to each other.

use serde_json::{Value, json};
use tidegate_input::object::{Allowed, Object};

/// The numbers of a limit.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// So many requests in a window.
    Window {
        /// How the window moves.
        algorithm: Windowed,
        /// Requests in a window.
        limit: u64,
        /// Its length in seconds.
        window: f64,
    },
    /// So many requests at once, and so many a second in the long run.
    Bucket {
        /// What the bucket does.
        algorithm: Bucketed,
        /// Requests that may come at once, or wait.
        capacity: u64,
        /// Requests a second.
        fill_rate: f64,
    },
}

/// Algorithms that count in windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windowed {
    /// `fixed`
    Fixed,
    /// `sliding`
    Sliding,
    /// `sliding_log`
    SlidingLog,
}

/// Algorithms that refill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bucketed {
    /// `token`
    Token,
    /// `gcra`
    Gcra,
    /// `leaky`
    Leaky,
}

const COUNT: Allowed = Allowed::new(1.0..=1e15, "a number");
/// A shaper may let nobody wait.
const ROOM: Allowed = Allowed::new(0.0..=1e15, "a number");
const WINDOW: Allowed = Allowed::new(1e-9..=1e10, "seconds");
const RATE: Allowed = Allowed::new(1e-12..=1e12, "requests a second");
const NAMES: &str = "`fixed`, `sliding`, `sliding_log`, `token`, `gcra` or `leaky`";

impl Numbers {
    /// Takes them from an object; none is a problem that has been reported.
    pub(crate) fn read(object: &mut Object<'_>) -> Option<Self> {
        let name = object.take("algorithm");
        let Some(name) = name.as_ref().map(|name| name.as_str().unwrap_or_default()) else {
            object.wrong("algorithm", format!("is missing; must be {NAMES}"));
            return None;
        };
        let windowed = [Windowed::Fixed, Windowed::Sliding, Windowed::SlidingLog];
        let bucketed = [Bucketed::Token, Bucketed::Gcra, Bucketed::Leaky];
        if let Some(algorithm) = windowed.into_iter().find(|algorithm| algorithm.name() == name) {
            let (limit, window) = (object.number("limit", &COUNT), object.number("window", &WINDOW));
            return Some(Self::Window { algorithm, limit: limit?.round() as u64, window: window? });
        }
        if let Some(algorithm) = bucketed.into_iter().find(|algorithm| algorithm.name() == name) {
            object.alias("capacity", "burst");
            let (capacity, fill_rate) = (object.number("capacity", &ROOM), object.number("fillRate", &RATE));
            return Some(Self::Bucket { algorithm, capacity: capacity?.round() as u64, fill_rate: fill_rate? });
        }
        object.wrong("algorithm", format!("must be {NAMES}"));
        None
    }

    /// As they stand in a response.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Window { algorithm, limit, window } => {
                json!({ "algorithm": algorithm.name(), "limit": limit, "window": whole_if_it_is(*window) })
            }
            Self::Bucket { algorithm, capacity, fill_rate } => {
                json!({ "algorithm": algorithm.name(), "capacity": capacity, "fillRate": whole_if_it_is(*fill_rate) })
            }
        }
    }

    /// Only what differs within a schedule.
    pub(crate) fn to_step(&self) -> Value {
        match self {
            Self::Window { limit, .. } => json!({ "limit": limit }),
            Self::Bucket { capacity, fill_rate, .. } => {
                json!({ "capacity": capacity, "fillRate": whole_if_it_is(*fill_rate) })
            }
        }
    }

    /// What its algorithm is called.
    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Window { algorithm, .. } => algorithm.name(),
            Self::Bucket { algorithm, .. } => algorithm.name(),
        }
    }

    /// Requests a second in the long run.
    pub fn rate(&self) -> f64 {
        match self {
            Self::Window { limit, window, .. } => *limit as f64 / window,
            Self::Bucket { fill_rate, .. } => *fill_rate,
        }
    }

    /// Over how many seconds they even out what comes: within it the limit may be used up at once.
    pub fn span(&self) -> f64 {
        match self {
            Self::Window { window, .. } => *window,
            Self::Bucket { capacity, fill_rate, .. } => *capacity as f64 / fill_rate,
        }
    }

    /// The same, but not above this rate; a limit is at least 1.
    #[must_use]
    pub fn within(self, bound: f64) -> Self {
        match self {
            Self::Window { algorithm, limit, window } if limit as f64 / window > bound => {
                Self::Window { algorithm, limit: (bound * window + 1e-6).floor().max(1.0) as u64, window }
            }
            Self::Bucket { algorithm, capacity, fill_rate } => {
                Self::Bucket { algorithm, capacity, fill_rate: fill_rate.min(bound) }
            }
            window @ Self::Window { .. } => window,
        }
    }

    /// The same for another rate. What a bucket holds stays as it is.
    #[must_use]
    pub fn with_rate(&self, rate: f64) -> Self {
        match self {
            Self::Window { algorithm, window, .. } => {
                // The small deficit: 100 · 0.1 is 10, whatever a binary fraction says.
                let limit = (rate * window - 1e-6).ceil().clamp(1.0, 1e15) as u64;
                Self::Window { algorithm: *algorithm, limit, window: *window }
            }
            Self::Bucket { algorithm, capacity, .. } => {
                let fill_rate = ((rate * 1_000.0).round() / 1_000.0).clamp(0.001, 1e12);
                Self::Bucket { algorithm: *algorithm, capacity: *capacity, fill_rate }
            }
        }
    }
}

/// 60 rather than 60.0.
fn whole_if_it_is(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 1e15 { json!(number as i64) } else { json!(number) }
}

impl Windowed {
    fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Sliding => "sliding",
            Self::SlidingLog => "sliding_log",
        }
    }
}

impl Bucketed {
    fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Gcra => "gcra",
            Self::Leaky => "leaky",
        }
    }
}

//! The limit that every algorithm enforces.

use tidegate_input::object::{Allowed, Object};
use tidegate_policy::Algorithm;
use tidegate_policy::numbers::{self, LimitNumbers, Values};

/// Algorithms that are compared unless a scenario says otherwise: all that limit a rate.
pub const RATE_ALGORITHMS: [Algorithm; 6] = [
    Algorithm::FixedWindow,
    Algorithm::SlidingCounter,
    Algorithm::SlidingLog,
    Algorithm::TokenBucket,
    Algorithm::Gcra,
    Algorithm::LeakyBucket,
];
// A new algorithm belongs in the list above, unless it limits something else than a rate.
const _: () = assert!(RATE_ALGORITHMS.len() + 1 == Algorithm::ALL.len());

/// A rate, whatever the algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitSetting {
    /// Requests a second.
    pub rate: f64,
    /// The window of algorithms that count in windows, in seconds.
    pub window: f64,
    /// What buckets admit at once, and how many a shaper lets wait.
    pub burst: u64,
    /// Whether each client has its own, or all have one together.
    pub is_per_client: bool,
}

const RATE: Allowed = Allowed::new(0.001..=1e7, "requests a second");
const WINDOW: Allowed = Allowed::new(0.001..=86_400.0, "seconds");

pub(super) fn read(object: &mut Object<'_>) -> Option<LimitSetting> {
    let Some(mut limit) = object.object("limit") else {
        object.wrong("limit", "is missing; must have a `rate`, may have `window`, `burst` and `key`");
        return None;
    };
    let rate = limit.number("rate", &RATE);
    let window = limit.number_or("window", &WINDOW, 1.0);
    let burst = limit.whole_or("burst", 1..=1_000_000, 20);
    let is_per_client = super::word(&mut limit, "key", &[("global", false), ("client", true)]);
    limit.end();
    let setting = LimitSetting { rate: rate?, window: window?, burst: burst?, is_per_client: is_per_client? };
    if setting.quota() < 1.0 {
        object.wrong("limit.rate", "times `window` must be at least one request");
        return None;
    }
    Some(setting)
}

impl LimitSetting {
    /// Requests a second that all clients have together; none where each has its own.
    pub fn shared_rate(&self) -> Option<f64> {
        (!self.is_per_client).then_some(self.rate)
    }

    /// Requests in a window.
    pub fn quota(&self) -> f64 {
        crate::rounding::whole(self.rate * self.window).floor()
    }

    /// The numbers by which an algorithm enforces it.
    pub fn numbers(&self, algorithm: Algorithm) -> Result<LimitNumbers, String> {
        let none = Values::default();
        let values = match algorithm {
            Algorithm::FixedWindow | Algorithm::SlidingCounter | Algorithm::SlidingLog => {
                Values { limit: Some(self.quota() as u64), window: numbers::seconds(self.window), ..none }
            }
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket | Algorithm::Concurrency => {
                Values { capacity: Some(self.burst), fill_rate: Some(self.rate), ..none }
            }
        };
        LimitNumbers::new(algorithm, values, 0).map_err(|error| error.to_string())
    }
}

/// How many requests on top of its rate an algorithm is meant to admit in a window: the burst that an operator has
/// given a bucket. A shaper's requests leave evenly.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(crate) fn burst_of(algorithm: Algorithm, burst: u64) -> f64 {
    match algorithm {
        Algorithm::TokenBucket | Algorithm::Gcra => burst as f64,
        Algorithm::FixedWindow
        | Algorithm::SlidingCounter
        | Algorithm::SlidingLog
        | Algorithm::LeakyBucket
        | Algorithm::Concurrency => 0.0,
    }
}

//! Whether and how clients send a request again.

use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;
use tidegate_input::object::{Allowed, Object, shown};

/// Whether and how a client sends a request again.
#[derive(Clone, Debug, PartialEq)]
pub struct Comeback {
    /// How often at most.
    pub retries: u32,
    /// The first pause, in seconds; each further one is twice as long, with full jitter.
    pub base: f64,
    /// The longest pause, in seconds. A client that is asked to wait longer gives up.
    pub longest: f64,
    /// After what.
    pub after: After,
    /// Whether `Retry-After` counts over the pause.
    pub heeds: bool,
}

/// What makes a client send a request again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct After {
    /// Responses with a status from the first to the second.
    statuses: Vec<(u16, u16)>,
    /// No response in time.
    pub timeouts: bool,
    /// No response for another reason.
    pub failures: bool,
}

const PAUSE: Allowed = Allowed::new(0.0..=3_600.0, "seconds");
const POLITE_PAUSE: Allowed = Allowed::new(0.001..=3_600.0, "seconds");
/// The most words in `after`.
const MOST_WORDS: usize = 20;

impl Comeback {
    /// How long a client pauses before it sends this request again, which it has sent again so often before: anything
    /// up to a bound that doubles each time (full jitter), drawn from the seed.
    pub fn pause(&self, seed: u64, request: u64, retries: u32) -> Duration {
        let bound = (self.base * 2_f64.powi(retries.min(60) as i32)).min(self.longest);
        let mut rng = Rng::with_seed(seed ^ request.rotate_left(20) ^ u64::from(retries));
        // The first numbers of neighbouring seeds resemble each other.
        rng.u64(..);
        Duration::from_secs_f64(bound * rng.f64())
    }
}

impl After {
    /// After a rejection.
    fn rejection() -> Self {
        Self { statuses: vec![(429, 429)], ..Self::default() }
    }

    /// After everything that a retry may help against.
    fn trouble() -> Self {
        Self { statuses: vec![(429, 429), (500, 599)], timeouts: true, failures: true }
    }

    /// Whether a response with this status is among it.
    pub fn has_status(&self, status: u16) -> bool {
        self.statuses.iter().any(|(first, last)| (*first..=*last).contains(&status))
    }

    fn add(&mut self, word: &str) -> bool {
        let status = || word.parse().ok().filter(|status| (400..600).contains(status) && word.len() == 3);
        match word {
            "4xx" => self.statuses.push((400, 499)),
            "5xx" => self.statuses.push((500, 599)),
            "timeout" => self.timeouts = true,
            "failure" => self.failures = true,
            _ => match status() {
                Some(status) => self.statuses.push((status, status)),
                None => return false,
            },
        }
        true
    }
}

/// Reads `polite` and `retry`. The outer `None` is a problem; the inner one is a client that sends nothing again.
#[expect(clippy::option_option, reason = "a problem is not the absence of retries")]
pub(super) fn read(group: &mut Object<'_>) -> Option<Option<Comeback>> {
    let polite = polite(group)?;
    if !group.has("retry") {
        return Some(polite);
    }
    if polite.is_some() {
        group.wrong("retry", "can't be set together with `polite`");
        return None;
    }
    let mut retry = group.object("retry")?;
    let retries = retry.whole_or("retries", 1..=100, 3);
    let (base, longest) = (retry.number_or("base", &PAUSE, 0.1), retry.number_or("longest", &PAUSE, 60.0));
    let after = match retry.list("after", MOST_WORDS) {
        None => Some(After::trouble()),
        Some(words) => after(&retry, &words),
    };
    retry.end();
    let retries = u32::try_from(retries?).ok()?;
    Some(Some(Comeback { retries, base: base?, longest: longest?, after: after?, heeds: false }))
}

fn after(retry: &Object<'_>, words: &[Value]) -> Option<After> {
    let mut after = After::default();
    let mut is_good = true;
    for (index, word) in words.iter().enumerate() {
        if !word.as_str().is_some_and(|word| after.add(word)) {
            let known = "`timeout`, `failure`, `4xx`, `5xx` or a status from 400 to 599";
            retry.wrong(&format!("after[{index}]"), format!("must be {known}, got {}", shown(word)));
            is_good = false;
        }
    }
    is_good.then_some(after)
}

#[expect(clippy::option_option, reason = "a problem is not impoliteness")]
fn polite(group: &mut Object<'_>) -> Option<Option<Comeback>> {
    let after = After::rejection();
    match group.take("polite") {
        None | Some(Value::Bool(false)) => Some(None),
        Some(Value::Bool(true)) => Some(Some(Comeback { retries: 3, base: 0.1, longest: 60.0, after, heeds: true })),
        Some(value) if !value.is_object() => {
            group.wrong("polite", format!("must be `true`, `false` or an object, got {}", shown(&value)));
            None
        }
        Some(value) => {
            let mut polite = Object::new(group.at("polite"), value, group.problems)?;
            let retries = polite.whole_or("retries", 1..=100, 3);
            let base = polite.number_or("base", &POLITE_PAUSE, 0.1);
            let longest = polite.number_or("longest", &POLITE_PAUSE, 60.0);
            polite.end();
            let retries = u32::try_from(retries?).ok()?;
            Some(Some(Comeback { retries, base: base?, longest: longest?, after, heeds: true }))
        }
    }
}

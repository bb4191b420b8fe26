//! What must hold of a run: `refused < 1%`, `worst_window <= 1.05`.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;
use tidegate_input::Problems;
use tidegate_input::object::{Object, shown};
use tidegate_policy::Algorithm;

use super::gateway::PROTECTED;
use super::{Scenario, Variant};

/// Something that must hold, and for which runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// What must hold.
    pub comparison: Comparison,
    /// Only for these algorithms.
    pub algorithms: Option<Vec<Algorithm>>,
    /// Only with adaptation, or only without.
    pub adaptation: Option<bool>,
    /// For the run without any limit, instead of all others.
    pub is_for_baseline: bool,
    /// Only live, or only in simulated time.
    pub is_live: Option<bool>,
    /// For the run with this configuration of the gateway; none: for the one as it is written.
    pub variant: Option<String>,
}

impl Expectation {
    /// Whether it applies to this run of the scenario.
    pub fn applies(&self, scenario: &Scenario, variant: Variant, is_live: bool) -> bool {
        let is_for_run = match variant.configuration(scenario) {
            Some(name) => self.variant.as_deref().unwrap_or(PROTECTED) == name,
            None => self.variant.is_none() && self.applies_to(variant.algorithm, variant.adaptation),
        };
        is_for_run && self.is_live.is_none_or(|it| it == is_live)
    }

    /// Whether it is for this algorithm; without one it is the baseline's.
    fn applies_to(&self, algorithm: Option<Algorithm>, adaptation: bool) -> bool {
        let is_for_algorithm = match (algorithm, &self.algorithms) {
            (None, _) => self.is_for_baseline,
            (Some(_), None) => !self.is_for_baseline,
            (Some(algorithm), Some(wanted)) => !self.is_for_baseline && wanted.contains(&algorithm),
        };
        is_for_algorithm && self.adaptation.is_none_or(|wanted| wanted == adaptation)
    }
}

/// A figure and its bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What is compared.
    pub figure: Figure,
    /// Only of this group of clients: `served{people}`.
    pub group: Option<String>,
    /// Whether it must be below the bound, or above.
    pub is_upper: bool,
    /// Whether it may be the bound itself.
    pub is_inclusive: bool,
    /// In the figure's own unit: shares from 0 to 1, seconds.
    pub bound: f64,
}

impl Comparison {
    /// Whether it holds for this value.
    pub fn holds(&self, value: f64) -> bool {
        match (self.is_upper, self.is_inclusive) {
            (true, true) => value <= self.bound,
            (true, false) => value < self.bound,
            (false, true) => value >= self.bound,
            (false, false) => value > self.bound,
        }
    }
}

macro_rules! figures {
    ($($variant:ident, $name:literal, $unit:ident, $doc:literal;)*) => {
        /// A figure of a run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Figure {
            $(#[doc = $doc] $variant,)*
        }

        impl Figure {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// As it is written.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            fn unit(self) -> Unit {
                match self { $(Self::$variant => Unit::$unit,)* }
            }
        }
    };
}

/// What a figure is counted in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Share,
    Time,
    Plain,
}

figures! {
    Refused, "refused", Share, "Rejected requests, of all that were offered.";
    RefusedHonest, "refused_honest", Share, "The same of honest clients alone.";
    RefusedAttackers, "refused_attackers", Share, "The same of attackers alone.";
    Goodput, "goodput", Share, "Good responses, of what was offered or the target's capacity, whichever is less.";
    WorstWindow, "worst_window", Plain, "The most that was admitted in any window, as a multiple of the limit.";
    OverAdmitted, "over_admitted", Share, "Admitted though the window was full, of all that were admitted.";
    UnderAdmitted, "under_admitted", Share, "Rejected though there was room in the window, of all that were offered.";
    TargetErrors, "target_errors", Share, "Responses of the target with a status of 5xx, of all it was sent.";
    Errors, "errors", Share, "Requests that failed in any other way, of all that were offered.";
    Fairness, "fairness", Share, "Jain's index of the shares of honest clients' requests that were admitted.";
    P50, "p50", Time, "The median latency of admitted requests.";
    P95, "p95", Time, "The 95th percentile of it.";
    P99, "p99", Time, "The 99th percentile of it.";
    Recovery, "recovery", Time, "From the end of a peak or fault to an ordinary second, the longest.";
    Protection, "protection", Plain, "The protection score, 0 to 100.";
    RefusedInOutage, "refused_in_outage", Share, "Requests rejected while Redis was away, of all offered then.";
    LimitingBack, "limiting_back", Time, "From Redis' return until the limit is in force again.";
    FailedAttempts, "failed_attempts", Share, "Attempts on targets that failed, of all; only with several targets.";
    Spread, "spread", Share, "Jain's index of the targets' requests by weight, before a fault of a target.";
    LoadBack, "load_back", Time, "From the end of a target's fault until it has half of its share of requests again.";
    Served, "served", Share, "Requests that got a good response in the end, of all, or of a group's.";
    Slowdown, "slowdown", Plain, "A group's p99 while faults last, as a multiple of that before the first.";
    Amplification, "amplification", Plain, "Requests that targets got, as a multiple of those that clients had.";
    FailedWait, "failed_wait", Time, "How long clients waited for what failed or was rejected, on average.";
    OpenAfter, "open_after", Time, "From the start of the first fault until a circuit breaker opens.";
}

impl Figure {
    /// Whether it may be that of one group of clients.
    fn may_have_group(self) -> bool {
        matches!(self, Self::Served | Self::Slowdown)
    }

    /// A value of it, for people.
    pub fn shown(self, value: f64) -> String {
        // As exactly as reports have it: rounding a report's value gives the same digits.
        let value = crate::rounding::rounded(value);
        match self.unit() {
            Unit::Share => shown_share(value),
            Unit::Time if value < 1.0 => format!("{} ms", rounded(value * 1e3)),
            Unit::Time => format!("{} s", rounded(value)),
            Unit::Plain => rounded(value),
        }
    }
}

/// A share, for people. What is nearly nothing does not become nothing.
pub fn shown_share(value: f64) -> String {
    let percent = rounded(value * 100.0);
    if percent == "0" && value != 0.0 { "<0.001 %".to_owned() } else { format!("{percent} %") }
}

/// Three digits, without trailing zeros; halves are rounded up, as the report's page does.
fn rounded(value: f64) -> String {
    let scale = match value.abs() {
        0.0..1.0 => 1e3,
        1.0..10.0 => 1e2,
        10.0..100.0 => 1e1,
        _ => 1.0,
    };
    ((value * scale).round() / scale).to_string()
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match (self.is_upper, self.is_inclusive) {
            (true, true) => "≤",
            (true, false) => "<",
            (false, true) => "≥",
            (false, false) => ">",
        };
        f.write_str(self.figure.name())?;
        if let Some(group) = &self.group {
            write!(f, "{{{group}}}")?;
        }
        write!(f, " {sign} {}", self.figure.shown(self.bound))
    }
}

impl FromStr for Comparison {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = text.find(['<', '>']).ok_or("must have a `<` or `>`, such as `refused < 1%`")?;
        let (name, rest) = text.split_at(at);
        let is_upper = rest.starts_with('<');
        let (is_inclusive, bound) = match rest[1..].strip_prefix('=') {
            Some(bound) => (true, bound),
            None => (false, &rest[1..]),
        };
        let (name, group) = match name.trim().split_once('{') {
            None => (name.trim(), None),
            Some((name, group)) => {
                let group = group.strip_suffix('}').ok_or("must have a `}` after the group's name")?;
                (name.trim(), Some(group.trim().to_owned()))
            }
        };
        let figure = Figure::ALL.iter().copied().find(|figure| figure.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Figure::ALL.iter().map(|figure| figure.name()).collect();
            format!("unknown figure {name:?}; known figures: {}", names.join(", "))
        })?;
        if group.is_some() && !figure.may_have_group() {
            return Err(format!("{name} is not known by group; served and slowdown are"));
        }
        if group.is_none() && figure == Figure::Slowdown {
            return Err(format!("{name} must name a group, such as {name}{{people}}"));
        }
        let bound = bound.trim();
        let bound = read_bound(bound, figure.unit()).ok_or_else(|| {
            let expected = match figure.unit() {
                Unit::Share => "a share such as 1% or 0.01",
                Unit::Time => "a time such as 20ms or 1.5s",
                Unit::Plain => "a number",
            };
            format!("the bound of {name} must be {expected}, got {bound:?}")
        })?;
        Ok(Self { figure, group, is_upper, is_inclusive, bound })
    }
}

fn read_bound(text: &str, unit: Unit) -> Option<f64> {
    let (number, scale) = match unit {
        Unit::Share => text.strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01)),
        Unit::Time => match (text.strip_suffix("ms"), text.strip_suffix('s')) {
            (Some(number), _) => (number, 1e-3),
            (None, Some(number)) => (number, 1.0),
            (None, None) => return None,
        },
        Unit::Plain => (text, 1.0),
    };
    number.trim().parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| number * scale)
}

/// The most expectations of a scenario.
const MOST: usize = 100;

pub(super) fn read(object: &mut Object<'_>, has_gateway: bool) -> Option<Vec<Expectation>> {
    let written = object.list("expect", MOST).unwrap_or_default();
    let count = written.len();
    let mut read = Vec::with_capacity(count);
    for (index, value) in written.into_iter().enumerate() {
        let path = format!("expect[{index}]");
        read.extend(one(object, &path, value, has_gateway));
    }
    (read.len() == count).then_some(read)
}

/// What matches no run would hold whatever happens.
pub(super) fn check(scenario: &Scenario, problems: &Problems) {
    let variants = Variant::all(scenario);
    for (index, expectation) in scenario.expectations.iter().enumerate() {
        let applies = |variant: &Variant, is_live| expectation.applies(scenario, *variant, is_live);
        if !variants.iter().any(|variant| applies(variant, false) || applies(variant, true)) {
            let runs: Vec<String> = variants.iter().map(|variant| variant.id(scenario)).collect();
            problems.add(format!("expect[{index}]"), format!("matches no run; runs are: {}", runs.join(", ")));
        }
        let groups = || scenario.plan.clients.iter().map(|group| group.name.as_str());
        if let Some(unknown) = expectation.comparison.group.as_deref().filter(|name| !groups().any(|it| it == *name)) {
            let known = groups().collect::<Vec<_>>().join(", ");
            problems.add(format!("expect[{index}]"), format!("unknown group {unknown:?}; known groups: {known}"));
        }
    }
}

/// A text alone is for all runs but the baseline.
fn one(object: &Object<'_>, path: &str, value: Value, has_gateway: bool) -> Option<Expectation> {
    let comparison = |text: &str, path: &str| text.parse().map_err(|reason: String| object.wrong(path, reason)).ok();
    if let Some(text) = value.as_str() {
        let comparison = comparison(text, path)?;
        return Some(Expectation {
            comparison,
            algorithms: None,
            adaptation: None,
            is_for_baseline: false,
            is_live: None,
            variant: None,
        });
    }
    if !value.is_object() {
        let found = shown(&value);
        object.wrong(path, format!("must be a text such as `refused < 1%` or an object with `that`, got {found}"));
        return None;
    }
    let mut expectation = Object::new(object.at(path), value, object.problems)?;
    let Some(that) = expectation.text("that") else {
        expectation.wrong("that", "is missing; must be a text such as `refused < 1%`");
        return None;
    };
    let comparison = comparison(&that, &format!("{path}.that"));
    if has_gateway {
        for field in ["algorithms", "adaptation", "baseline"] {
            if expectation.has(field) {
                expectation.wrong(field, "does not go with `gateway`; name a `variant`");
            }
        }
    }
    let algorithms = if expectation.has("algorithms") { Some(super::algorithms(&mut expectation)?) } else { None };
    let adaptation =
        if expectation.has("adaptation") { Some(expectation.switch_or("adaptation", false)?) } else { None };
    let is_for_baseline = expectation.switch_or("baseline", false);
    let is_live = if expectation.has("live") { Some(expectation.switch_or("live", false)?) } else { None };
    let variant = expectation.text("variant");
    expectation.end();
    let is_for_baseline = is_for_baseline?;
    Some(Expectation { comparison: comparison?, algorithms, adaptation, is_for_baseline, is_live, variant })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_read_and_shown_as_people_write_them() {
        for (text, shown, good, bad) in [
            ("refused < 1%", "refused < 1 %", 0.009, 0.01),
            ("refused<=0.25", "refused ≤ 25 %", 0.25, 0.26),
            ("p95 <= 20ms", "p95 ≤ 20 ms", 0.02, 0.021),
            ("recovery < 2s", "recovery < 2 s", 1.9, 2.0),
            ("worst_window >= 1.8", "worst_window ≥ 1.8", 1.8, 1.7),
            ("protection > 90", "protection > 90", 91.0, 90.0),
            ("served{people} >= 99%", "served{people} ≥ 99 %", 0.99, 0.989),
            ("slowdown{ my people } < 1.1", "slowdown{my people} < 1.1", 1.0, 1.1),
            ("amplification <= 1.2", "amplification ≤ 1.2", 1.2, 1.21),
        ] {
            let comparison: Comparison = text.parse().expect(text);
            assert_eq!(comparison.to_string(), shown);
            assert!(comparison.holds(good) && !comparison.holds(bad), "{text}");
        }
        for (text, reason) in [
            ("refused = 1%", "must have a `<` or `>`"),
            ("refusals < 1%", "refusals"),
            ("refused < many", "a share such as"),
            ("p95 < 20", "a time such as"),
            ("p95 < NaNs", "a time such as"),
            ("p95{people} < 1s", "not known by group"),
            ("served{people < 1%", "a `}`"),
            ("slowdown < 2", "must name a group"),
        ] {
            let error = text.parse::<Comparison>().expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn figures_have_three_digits_and_halves_are_rounded_up() {
        for (value, shown) in [
            (0.1915, "19.2 %"),
            (0.0705, "7.05 %"),
            (0.000_78, "0.078 %"),
            (1.0, "100 %"),
            (0.0, "0 %"),
            (0.000_004, "<0.001 %"),
        ] {
            assert_eq!(Figure::Refused.shown(value), shown);
        }
        assert_eq!([Figure::Protection.shown(80.85), Figure::WorstWindow.shown(1.999)], ["80.9", "2"]);
    }

    #[test]
    fn the_baseline_has_expectations_of_its_own() {
        let comparison: Comparison = "refused < 1%".parse().expect("one");
        let all = Expectation {
            comparison,
            algorithms: None,
            adaptation: None,
            is_for_baseline: false,
            is_live: None,
            variant: None,
        };
        let baseline = Expectation { is_for_baseline: true, ..all.clone() };
        let windows = Expectation { algorithms: Some(vec![Algorithm::FixedWindow]), ..all.clone() };
        let adapted = Expectation { adaptation: Some(true), is_live: Some(true), ..all.clone() };
        for (expectation, algorithm, adaptation, is_live, applies) in [
            (&all, Some(Algorithm::Gcra), false, false, true),
            (&all, None, false, false, false),
            (&baseline, None, false, true, true),
            (&baseline, Some(Algorithm::Gcra), false, true, false),
            (&windows, Some(Algorithm::FixedWindow), true, true, true),
            (&windows, Some(Algorithm::Gcra), true, true, false),
            (&adapted, Some(Algorithm::Gcra), true, true, true),
            (&adapted, Some(Algorithm::Gcra), true, false, false),
            (&adapted, Some(Algorithm::Gcra), false, true, false),
        ] {
            let is_applied =
                expectation.applies_to(algorithm, adaptation) && expectation.is_live.is_none_or(|it| it == is_live);
            assert_eq!(is_applied, applies, "{expectation:?}");
        }
    }
}

//! The runs of a scenario: one for each algorithm, without and with adaptation, and one without a limit.

use tidegate_policy::Algorithm;

use super::Scenario;

/// One run of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// None for the baseline, without any limit.
    pub algorithm: Option<Algorithm>,
    /// Whether limits follow a forecast.
    pub adaptation: bool,
}

impl Variant {
    /// All runs of a scenario: the baseline first, then every algorithm, without and with adaptation.
    pub fn all(scenario: &Scenario) -> Vec<Self> {
        let baseline = scenario.has_baseline.then_some(Self { algorithm: None, adaptation: false });
        let algorithms = scenario.algorithms.iter().flat_map(|algorithm| {
            let algorithm = Some(*algorithm);
            let adapted = scenario.adaptation.map(|_| Self { algorithm, adaptation: true });
            let is_alone = scenario.adaptation.is_some_and(|adaptation| adaptation.is_alone);
            let plain = (!is_alone).then_some(Self { algorithm, adaptation: false });
            plain.into_iter().chain(adapted)
        });
        baseline.into_iter().chain(algorithms).collect()
    }

    /// The algorithm's name.
    pub fn name(&self) -> &'static str {
        self.algorithm.map_or("no limit", Algorithm::name)
    }

    /// `spikes/fixed/on`
    pub fn id(&self, scenario: &str) -> String {
        match self.algorithm {
            None => format!("{scenario}/baseline"),
            Some(algorithm) => format!("{scenario}/{algorithm}/{}", if self.adaptation { "on" } else { "off" }),
        }
    }
}

//! The runs of a scenario: one for each algorithm, without and with adaptation, and one without a limit.

use tidegate_policy::Algorithm;

use super::Scenario;

/// One run of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// None for the baseline, without any limit, and where the scenario has the gateway's own configuration.
    pub algorithm: Option<Algorithm>,
    /// Whether limits follow a forecast.
    pub adaptation: bool,
    /// The index of the gateway's configuration, where the scenario has its own.
    pub gateway: Option<usize>,
}

impl Variant {
    /// All runs of a scenario: the baseline first, then every algorithm, without and with adaptation.
    pub fn all(scenario: &Scenario) -> Vec<Self> {
        if let Some(gateway) = &scenario.gateway {
            let run = |index| Self { algorithm: None, adaptation: false, gateway: Some(index) };
            return (0..gateway.names().count()).map(run).collect();
        }
        let baseline = scenario.has_baseline.then_some(Self { algorithm: None, adaptation: false, gateway: None });
        let algorithms = scenario.algorithms.iter().flat_map(|algorithm| {
            let algorithm = Some(*algorithm);
            let adapted = scenario.adaptation.map(|_| Self { algorithm, adaptation: true, gateway: None });
            let is_alone = scenario.adaptation.is_some_and(|adaptation| adaptation.is_alone);
            let plain = (!is_alone).then_some(Self { algorithm, adaptation: false, gateway: None });
            plain.into_iter().chain(adapted)
        });
        baseline.into_iter().chain(algorithms).collect()
    }

    /// The name of the gateway's configuration, or of the algorithm.
    pub fn name<'a>(&self, scenario: &'a Scenario) -> &'a str {
        self.configuration(scenario).unwrap_or_else(|| self.algorithm.map_or("no limit", Algorithm::name))
    }

    /// The name of the gateway's configuration, where the scenario has its own.
    pub fn configuration<'a>(&self, scenario: &'a Scenario) -> Option<&'a str> {
        scenario.gateway.as_ref()?.names().nth(self.gateway?)
    }

    /// `spikes/fixed/on`, `dead-provider/protected`
    pub fn id(&self, scenario: &Scenario) -> String {
        let name = &scenario.name;
        match (self.configuration(scenario), self.algorithm) {
            (Some(configuration), _) => format!("{name}/{configuration}"),
            (None, None) => format!("{name}/baseline"),
            (None, Some(algorithm)) => format!("{name}/{algorithm}/{}", if self.adaptation { "on" } else { "off" }),
        }
    }
}

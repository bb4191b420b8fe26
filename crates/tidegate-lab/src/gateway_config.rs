//! The gateway's configuration in a scenario, the same for live and for simulated runs.

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::{Value, json};
use tidegate_gateway::config::numbers::written;

use crate::scenario::{Scenario, TargetModel, Variant};

/// The name of the limit under test.
pub(crate) const LIMIT: &str = "default";

/// Where the gateway listens, and where it finds the others.
pub(crate) struct Addresses {
    pub(crate) gateway: SocketAddr,
    /// In the order of the scenario.
    pub(crate) targets: Vec<SocketAddr>,
    pub(crate) redis: Option<SocketAddr>,
    pub(crate) forecaster: Option<SocketAddr>,
}

/// Addresses for a configuration that is only read: nothing connects there.
pub(crate) fn nowhere(scenario: &Scenario) -> Addresses {
    let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let targets = (1..).map(address).take(scenario.targets.len()).collect();
    Addresses { gateway: address(1), targets, redis: None, forecaster: None }
}

/// The gateway's configuration for a variant of a scenario, as a file would have it.
pub(crate) fn config_text(scenario: &Scenario, variant: Variant, addresses: &Addresses) -> Result<String, String> {
    if let (Some(gateway), Some(run)) = (&scenario.gateway, variant.gateway) {
        let mut config = gateway.config(run, &scenario.target_names, &addresses.targets);
        config["listeners"] = json!([{ "address": addresses.gateway.to_string() }]);
        config["trusted_proxies"] = json!(["127.0.0.1"]);
        return Ok(config.to_string());
    }
    let mut limit = match variant.algorithm.zip(scenario.limit) {
        Some((algorithm, setting)) => {
            let numbers = setting.numbers(algorithm)?;
            serde_json::to_value(written(&numbers.relevant())).map_err(|error| error.to_string())?
        }
        // More than anybody sends.
        None => json!({ "algorithm": "token", "capacity": 1_000_000_000_u64, "fillRate": 1_000_000_000_u64 }),
    };
    limit["key"] = if scenario.is_limited_per_client() { "ip" } else { "global" }.into();
    let mut config = json!({
        "listeners": [{ "address": addresses.gateway.to_string() }],
        "upstreams": { "target": upstream(scenario, variant, &addresses.targets) },
        "limits": { LIMIT: limit },
        "trusted_proxies": ["127.0.0.1"],
    });
    if let Some(redis) = addresses.redis {
        let on_failure = scenario.on_failure.name();
        config["redis"] = json!({ "url": format!("redis://{redis}"), "on_failure": on_failure });
    }
    if let (Some(forecaster), Some(adaptation)) = (addresses.forecaster, scenario.adaptation) {
        config["adaptive"] = json!({
            "forecaster": format!("http://{forecaster}"),
            "interval": adaptation.interval.as_secs_f64(),
            "ceiling": adaptation.ceiling,
            "history": 10_000,
        });
    }
    Ok(config.to_string())
}

/// The only upstream: one target by its URL, several as endpoints with their weights.
fn upstream(scenario: &Scenario, variant: Variant, targets: &[SocketAddr]) -> Value {
    let urls = targets.iter().map(|target| format!("http://{target}"));
    match scenario.upstream(variant) {
        Some(upstream) => {
            let weighted = urls.zip(&scenario.targets);
            let endpoint = |(url, target): (String, &TargetModel)| json!({ "url": url, "weight": target.weight.get() });
            upstream.with_endpoints(weighted.map(endpoint).collect())
        }
        None => json!({ "url": urls.collect::<String>() }),
    }
}

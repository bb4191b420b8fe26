//! The load of a scenario, in words.

use serde_json::Value;
use tidegate_load::ProfileType;

use crate::scenario::Scenario;

/// Steps that are listed one by one.
const MOST_STEPS: usize = 12;

/// `bursts: 190/s, and 600/s in the last 2 s of every 8 s`; phases one after the other.
pub(super) fn in_words(scenario: &Scenario) -> String {
    match scenario.profile() {
        Value::Array(phases) => {
            let phase = |phase: &Value| format!("{} s of {}", phase["duration"], one(&phase["profile"]));
            phases.iter().map(phase).collect::<Vec<_>>().join("; then ")
        }
        profile => one(profile),
    }
}

fn one(profile: &Value) -> String {
    let params = &profile["params"];
    let [base, spike, least, most] = ["baseRps", "spikeRps", "minRps", "maxRps"].map(|name| &params[name]);
    // A plan that was read has no other types.
    let Some(kind) = profile["type"].as_str().and_then(ProfileType::named) else { return String::new() };
    match kind {
        ProfileType::Constant => format!("steady {}/s", params["rps"]),
        ProfileType::Poisson => format!("{}/s on average, at random times", params["averageRps"]),
        ProfileType::Burst => {
            let (lasts, period) = (&params["spikeDuration"], &params["spikePeriod"]);
            format!("bursts: {base}/s, and {spike}/s in the last {lasts} s of every {period} s")
        }
        ProfileType::Sinusoidal => format!("a wave between {least}/s and {most}/s, every {} s", params["period"]),
        ProfileType::Ddos => {
            let [longest, short, long] = ["maxSpikeDuration", "minIdleTime", "maxIdleTime"].map(|name| &params[name]);
            format!("random attacks: up to {most}/s for at most {longest} s, after {short} to {long} s at {least}/s")
        }
        ProfileType::Ramp => format!("a ramp from {}/s to {}/s", params["fromRps"], params["toRps"]),
        ProfileType::Steps => steps(params["steps"].as_array().map_or(&[], Vec::as_slice)),
        ProfileType::Trace => trace(params),
    }
}

/// The last of them may have no duration: it stays to the end.
fn steps(steps: &[Value]) -> String {
    let one = |step: &Value| match &step["duration"] {
        Value::Null => format!("then {}/s", step["rps"]),
        duration => format!("{duration} s at {}/s", step["rps"]),
    };
    let mut listed: Vec<String> = steps.iter().take(MOST_STEPS).map(one).collect();
    if steps.len() > MOST_STEPS {
        listed.push(format!("and {} more", steps.len() - MOST_STEPS));
    }
    format!("steps: {}", listed.join(", "))
}

fn trace(params: &Value) -> String {
    let number = |name: &str| Some(&params[name]).filter(|value| !value.is_null()).map(ToString::to_string);
    let count = |name: &str| params[name].as_array().map(Vec::len);
    match (count("rates"), count("timestamps"), number("scale")) {
        (Some(rates), _, scale) => {
            let step = number("step").unwrap_or_else(|| "1".to_owned());
            let times = scale.map_or_else(String::new, |scale| format!(", times {scale}"));
            format!("as recorded: {rates} rates of {step} s each{times}")
        }
        (None, Some(requests), Some(scale)) => format!("as recorded: {requests} requests, {scale} times as fast"),
        (None, Some(requests), None) => format!("as recorded: {requests} requests"),
        (None, None, _) => "as recorded".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_load_has_its_words() {
        let head = "limit: {rate: 10}\ntarget: {}\n";
        for (load, words) in [
            ("type: constant, params: {rps: 500}", "steady 500/s"),
            ("type: poisson, params: {averageRps: 50}", "50/s on average, at random times"),
            (
                "type: burst, params: {baseRps: 5, spikeRps: 700, spikeDuration: 0.8, spikePeriod: 4}",
                "bursts: 5/s, and 700/s in the last 0.8 s of every 4 s",
            ),
            (
                "type: sinusoidal, params: {minRps: 110, maxRps: 170, period: 6}",
                "a wave between 110/s and 170/s, every 6 s",
            ),
            (
                "type: ddos, params: {minRps: 5, maxRps: 900, maxSpikeDuration: 3, minIdleTime: 1, maxIdleTime: 4}",
                "random attacks: up to 900/s for at most 3 s, after 1 to 4 s at 5/s",
            ),
            ("type: ramp, params: {fromRps: 10, toRps: 90}", "a ramp from 10/s to 90/s"),
            (
                "type: steps, params: {steps: [{duration: 4, rps: 100}, {duration: 2, rps: 350}]}",
                "steps: 4 s at 100/s, 2 s at 350/s",
            ),
            (
                "type: trace, params: {rates: [1, 2, 3], step: 10, scale: 2}",
                "as recorded: 3 rates of 10 s each, times 2",
            ),
            ("type: trace, params: {timestamps: [0, 0.5]}", "as recorded: 2 requests"),
        ] {
            let text = format!("duration: 20\n{head}load: {{profile: {{{load}}}}}\n");
            let scenario = Scenario::read("x", &text).unwrap_or_else(|error| panic!("{load}: {error}"));
            assert_eq!(in_words(&scenario), words);
        }
        let phases = "{duration: 0.4, profile: {type: constant, params: {rps: 5}}}, \
            {duration: 20, profile: {type: ramp, params: {fromRps: 1, toRps: 9}}}";
        let scenario = Scenario::read("x", &format!("{head}load: {{phases: [{phases}]}}\n")).expect("a scenario");
        assert_eq!(in_words(&scenario), "0.4 s of steady 5/s; then 20 s of a ramp from 1/s to 9/s");
    }
}

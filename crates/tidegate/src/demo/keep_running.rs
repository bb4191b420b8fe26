//! Everything left running, to be tried by hand.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use tidegate_lab::live::{LoadService, Platform};
use tidegate_lab::scenario::LimitSetting;
use tidegate_lab::{DEMO, Scenario, Variant};
use tidegate_serve::{Log, LogFormat, LogLevel, Sink};

use super::ports::Ports;
use crate::print;

const PAUSE: Duration = Duration::from_millis(20);
/// Lines of the log that may wait to be written, and how long the end may wait for the last of them.
const LOG_LINES: usize = 4_096;
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// Serves on the demo's ports, with the limit and adaptation of its spikes, until it is stopped.
pub(super) fn keep(ports: &Ports, is_stopped: &AtomicBool) -> Result<()> {
    let (name, text) = DEMO.into_iter().find(|(name, _)| *name == "spikes").context("the demo has spikes")?;
    let scenario = Scenario::read(name, text)?;
    let variant = Variant::all(&scenario).into_iter().find(|variant| variant.adaptation).context("they adapt")?;
    let sink = Sink::stdout(LOG_LINES).context("standard output")?;
    // At lower levels the gateway would log so much that the printed commands would soon be out of sight.
    let log = Log::new(sink.clone(), LogFormat::Text, LogLevel::Warn);
    let start = || Platform::start(&scenario, variant, &ports.addresses, &log);
    let platform = start().map_err(|reason| anyhow!(reason))?;
    let load = LoadService::start(ports.load, &log).map_err(|reason| anyhow!(reason))?;
    sink.flush(LOG_PATIENCE);
    let limit = scenario.limit.context("they have a limit")?;
    print(invitation(ports, &limit).as_bytes())?;
    while !is_stopped.load(Relaxed) {
        std::thread::sleep(PAUSE);
    }
    drop((load, platform));
    sink.flush_and_close(LOG_PATIENCE);
    Ok(())
}

fn invitation(ports: &Ports, limit: &LimitSetting) -> String {
    let (load, addresses) = (ports.load, &ports.addresses);
    let (gateway, target, forecaster) = (addresses.gateway, addresses.target, addresses.forecaster);
    let (rate, burst) = (limit.rate, limit.burst);
    format!(
        "\nEverything is running, until Ctrl-C.\n  \
         gateway         {gateway}  lets {rate} requests a second through, {burst} at once\n  \
         target          {target}  behind it\n  \
         forecaster      {forecaster}  advises the gateway\n  \
         load generator  {load}  waits for a plan\n\n\
         # a request, and what its response reports about the limit\n\
         curl -i http://{gateway}/api/test\n\
         # spikes; the limit is up before the later ones come\n\
         curl -X POST http://{load}/test/start -d '{{\"limiterUrl\": \"http://{gateway}/api/test\", \"duration\": 60, \
         \"profile\": {{\"type\": \"burst\", \"params\": {{\"baseRps\": 100, \"spikeRps\": 350, \
         \"spikeDuration\": 2, \"spikePeriod\": 6}}}}}}'\n\
         curl http://{load}/test/status\n\
         # the limit in force, and why it is that\n\
         curl http://{gateway}/config/limits\n\
         curl http://{gateway}/config/history\n\
         # another limit, at once\n\
         curl -X POST http://{gateway}/config/limits -d '{{\"algorithm\": \"fixed\", \"limit\": 100, \"window\": 1}}'\n\
         # a target in trouble, for ten seconds\n\
         curl -X POST http://{target}/faults -d '{{\"slowness\": {{\"factor\": 10}}, \"for\": 10}}'\n\n"
    )
}

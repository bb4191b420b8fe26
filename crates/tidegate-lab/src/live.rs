//! A run with real sockets: load, gateway, target, and where the scenario asks for it Redis and a forecaster.

mod hosted;
mod http_client;
mod listen_addresses;
mod live_target;
mod load_service;
mod moment;
mod platform;
mod redis;
mod relay;
mod shared_store;
mod stand_in;
mod watch;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;
use tidegate_load::{End, Observed, Report};
use tidegate_policy::Algorithm;
use tidegate_serve::Log;

use crate::observation::Observation;
use crate::oracle::Oracle;
use crate::rounding::whole;
use crate::run::{Exempt, GatewayCost, Instead, Outcome};
use crate::scenario::burst_of;
use crate::scenario::{Scenario, Variant};
use watch::{Found, Watch};

pub use listen_addresses::ListenAddresses;
pub use load_service::LoadService;
pub use moment::Moment;
pub use platform::Platform;

/// From the start of a run to its first request: everything has started by then, and windows begin with it.
const LEAD: Duration = Duration::from_millis(300);

/// How long a run may wait for a window to begin, in seconds.
const LONGEST_WAIT: f64 = 60.0;

/// How exactly the time of a gateway's decision is known: a request is on its way, and on a busy machine it waits.
const TOLERANCE: Duration = Duration::from_millis(5);

/// The result of a live run.
pub struct Live {
    /// What was seen.
    pub outcome: Outcome,
    /// Why its figures prove nothing, if they don't.
    pub fault: Option<String>,
}

/// Runs a scenario live, with its services at these addresses. `is_stopped` ends it before its time; `progress` is
/// called again and again with the state of the run. An error says why it could not be run.
pub fn run(
    scenario: &Scenario,
    variant: Variant,
    addresses: &ListenAddresses,
    log: &Log,
    is_stopped: &AtomicBool,
    progress: &mut dyn FnMut(&Moment<'_>),
) -> Result<Live, String> {
    let mut platform = Platform::start(scenario, variant, addresses, log)?;
    let url = format!("http://{}/api/test", platform.entrance());
    let start = window_after(LEAD, scenario.window());
    let plan = scenario.plan_to(&url, &json!({ "startAt": start.as_secs_f64() }));
    let plan = plan.map_err(|error| format!("the load can't be sent: {error}"))?;
    let ended: Arc<Mutex<Vec<Observed>>> = Arc::default();
    let samples = Arc::clone(&ended);
    let observer = move |observed: &Observed| {
        samples.lock().unwrap_or_else(PoisonError::into_inner).push(*observed);
    };
    let started = tidegate_load::Run::start_observed(plan, None, log.clone(), Some(Arc::new(observer)));
    let (load, report) = started.map_err(|error| format!("the load can't be sent: {error}"))?;
    let mut watch = Watch::new(scenario, variant, start);
    let begin = Instant::now() + until(start);
    let mut seen = observation_of(scenario);
    let mut noted = 0;
    while !report.is_finished() {
        if is_stopped.load(Relaxed) {
            load.stop();
        }
        if let Err(reason) = watch.look(&mut platform, begin) {
            // Or it would go on sending, to the next process that has the port.
            load.stop();
            let _ended = report.join();
            return Err(reason);
        }
        let fresh = ended.lock().unwrap_or_else(PoisonError::into_inner)[noted..].to_vec();
        noted += fresh.len();
        for observed in fresh {
            seen.note(&observed);
        }
        progress(&watch.moment(begin, &seen));
        std::thread::sleep(watch::PAUSE);
    }
    let report = report.join().map_err(|_| "the load generator has died".to_owned())?;
    let report = report.map_err(|error| format!("the load generator failed: {error}"))?;
    let cpu_seconds = watch::gateway_cpu_seconds();
    watch.end(&platform);
    drop(platform);
    let ended = std::mem::take(&mut *ended.lock().unwrap_or_else(PoisonError::into_inner));
    let outcome = outcome(scenario, variant, ended, watch.finish(), cpu_seconds);
    Ok(Live {
        outcome,
        fault: is_invalid(&report).or_else(|| is_stopped.load(Relaxed).then(|| "stopped before its end".to_owned())),
    })
}

/// A moment at least so far ahead at which a second begins, and also a window if the wait for it is not too long. Runs
/// in simulated time begin so.
fn window_after(lead: Duration, window: f64) -> Duration {
    let ahead = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + lead;
    let seconds = if (1.0..=LONGEST_WAIT).contains(&window) && window.fract() == 0.0 { window as u64 } else { 1 };
    Duration::from_secs((ahead.as_secs() / seconds + 1) * seconds)
}

fn until(start: Duration) -> Duration {
    start.saturating_sub(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Why the load generator's own figures are invalid, if they are.
fn is_invalid(report: &Report) -> Option<String> {
    let verdict = report.verdict();
    (!verdict.is_valid()).then(|| format!("the load generator itself failed: {}", verdict.reasons.join("; ")))
}

fn outcome(
    scenario: &Scenario,
    variant: Variant,
    mut ended: Vec<Observed>,
    mut found: Found,
    cpu_seconds: Option<f64>,
) -> Outcome {
    let mut observation = observation_of(scenario);
    let mut rejections = hdrhistogram::Histogram::<u64>::new(3).expect("three digits are allowed");
    // In the order of the gateway's decisions, which is about that of sending.
    ended.sort_by_key(|observed| observed.sample.sent);
    let mut oracle = Oracle::new(scenario.window()).with_tolerance(TOLERANCE);
    // A shaper's requests are seen when they come, not when they leave.
    let burst = match variant.algorithm {
        Some(Algorithm::LeakyBucket) => crate::observation::count(scenario.burst()),
        Some(algorithm) => burst_of(algorithm, scenario.burst()),
        None => 0.0,
    };
    let instead = Instead::of(scenario.on_failure).filter(|_| variant.algorithm.is_some());
    let open = found.open.iter().filter_map(|span| Some(Exempt::new(span.start, span.end, instead?)));
    let mut exempt: Vec<Exempt> = open.collect();
    for observed in &mut ended {
        let sample = &mut observed.sample;
        let index = found.open.iter().position(|span| span.contains(&sample.sent));
        let exempt = index.and_then(|index| exempt.get_mut(index));
        if instead == Some(Instead::RejectsAll) && exempt.is_some() && sample.end == End::Responded(503) {
            // The gateway's own response while Redis is away.
            sample.end = End::Responded(429);
        }
        let (sample, client) = (*sample, observed.client);
        observation.note(observed);
        let is_rejected = observed.is_rejected || sample.end == End::Responded(429);
        if is_rejected {
            let micros = sample.finished.saturating_sub(sample.sent).as_micros() as u64;
            rejections.record(micros.max(1)).expect("histograms grow by themselves");
        }
        if let Some(outage) =
            found.outage.as_mut().filter(|_| found.spans.iter().any(|span| span.contains(&sample.intended)))
        {
            outage.note(is_rejected);
        }
        if let Some(exempt) = exempt {
            exempt.note(is_rejected);
        } else if variant.algorithm.is_some() {
            let (rate, changed) = found.allowed(sample.sent, scenario);
            let key = if scenario.is_limited_per_client() { (sample.group as u64) << 40 | client } else { 0 };
            let (came, quota) = (nanos(sample.sent), whole(rate * scenario.window()));
            if is_rejected {
                oracle.rejected(key, came, quota);
            } else {
                oracle.admitted(key, came, came, quota, burst.max(changed));
            }
        }
    }
    let (seconds, step) = (observation.seconds(), observation.step as usize);
    let rejection_p99 =
        (!rejections.is_empty()).then(|| crate::observation::seconds(rejections.value_at_quantile(0.99)));
    Outcome {
        observation,
        judged: variant.algorithm.map(|_| oracle.found),
        levels: found.levels.finished(seconds, step),
        events: found.events,
        outage: found.outage,
        exempt,
        predictions: found.predictions,
        targets: found.targets,
        policies: found.policies,
        gateway: cpu_seconds.map(|cpu_seconds| GatewayCost { cpu_seconds, rejection_p99 }),
    }
}

fn observation_of(scenario: &Scenario) -> Observation {
    let spans = scenario.faults.iter().map(|fault| fault.at..fault.until).collect();
    Observation::new(scenario.duration(), &scenario.plan.clients).with_objective(scenario.objective).with_faults(spans)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tidegate_load::Sample;

    use super::*;

    /// Three times the limit all the time, every request admitted. The gateway knows from second 2 to 3 that Redis is
    /// away.
    fn outcome_with(on_failure: &str) -> Outcome {
        let text = format!(
            "duration: 5\nstore: redis\non_failure: {on_failure}\n\
             limit: {{rate: 100, window: 1}}\ntarget: {{service_time: 1ms}}\n\
             load: {{profile: {{type: constant, params: {{rps: 300}}}}}}\n\
             faults: [{{at: 2, for: 1, what: redis_killed}}]\n"
        );
        let scenario = Scenario::read("away", &text).unwrap_or_else(|error| panic!("{error}"));
        let variant = Variant { algorithm: Some(Algorithm::FixedWindow), adaptation: false, gateway: None };
        let mut found = Watch::new(&scenario, variant, Duration::ZERO).finish();
        found.open = vec![Duration::from_secs(2)..Duration::from_secs(3)];
        let sample = |number: u32| {
            let at = Duration::from_secs(1) * number / 300;
            let finished = at + Duration::from_millis(1);
            let sample = Sample { group: 0, intended: at, sent: at, finished, end: End::Responded(200) };
            Observed { sample, client: 0, retries: 0, is_rejected: false }
        };
        outcome(&scenario, variant, (0..1_500).map(sample).collect(), found, None)
    }

    #[test]
    fn only_the_time_in_which_nothing_is_limited_is_exempt() {
        let open = outcome_with("open");
        let judged = open.judged.expect("a limit");
        assert_eq!(
            open.exempt,
            [Exempt { from: 2.0, until: 3.0, instead: Instead::AdmitsAll, admitted: 300, rejected: 0 }]
        );
        assert_eq!(judged.admitted, 1_200);
        // Of the six hundred before it and of those after it only the first hundred were not too many. The tolerance of
        // measured times forgives a few more.
        assert!((990..=1_000).contains(&judged.over), "{judged:?}");
    }

    /// What slips through while everything is rejected is not admitted for lack of a limit.
    #[test]
    fn nothing_is_unlimited_while_everything_is_rejected() {
        let (open, closed) = (outcome_with("open"), outcome_with("closed"));
        assert_eq!((open.admitted_unlimited(), closed.exempt[0].admitted, closed.admitted_unlimited()), (300, 300, 0));
    }

    /// Limits that are kept in memory while Redis is away are limits.
    #[test]
    fn limits_in_memory_are_scored_while_redis_is_away() {
        let local = outcome_with("local");
        let judged = local.judged.expect("a limit");
        assert_eq!((local.exempt.len(), judged.admitted), (0, 1_500));
        assert!((1_390..=1_400).contains(&judged.over), "{judged:?}");
    }
}

//! A run with real sockets: load, gateway, target, and where the scenario asks for it Redis and a forecaster.

mod asking;
mod hosted;
mod load_service;
mod moment;
mod places;
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
use tidegate_load::{End, Report, Sample};
use tidegate_policy::Algorithm;
use tidegate_serve::Log;

use crate::observation::Observation;
use crate::oracle::Oracle;
use crate::run::{GatewayCost, Outcome, Variant, burst_of, whole};
use crate::scenario::{OnFailure, Scenario};
use watch::Watch;

pub use load_service::LoadService;
pub use moment::Moment;
pub use places::Places;
pub use platform::Platform;

/// From the start of a run to its first request: everything has started by then, and windows begin with it.
const LEAD: Duration = Duration::from_millis(300);

/// How long a run may wait for a window to begin, in seconds.
const LONGEST_WAIT: f64 = 60.0;

/// When a gateway decides is known to about so much: a request is on its way, and on a busy machine it waits.
const TOLERANCE: Duration = Duration::from_millis(5);

/// What came of a live run.
pub struct Live {
    /// What was seen.
    pub outcome: Outcome,
    /// Why its figures prove nothing, if they don't.
    pub fault: Option<String>,
}

/// Runs a scenario live, its services at these places. `is_stopped` ends it before its time; `progress` hears again and again how things stand. An error says why it
/// could not be run.
pub fn run(
    scenario: &Scenario,
    variant: Variant,
    places: &Places,
    log: &Log,
    is_stopped: &AtomicBool,
    progress: &mut dyn FnMut(&Moment<'_>),
) -> Result<Live, String> {
    let mut platform = Platform::start(scenario, variant, places, log)?;
    let url = format!("http://{}/api/test", platform.entrance());
    let start = window_after(LEAD, scenario.limit.window);
    let plan = scenario.plan_to(&url, &json!({ "startAt": start.as_secs_f64() }));
    let plan = plan.map_err(|error| format!("the load can't be sent: {error}"))?;
    let ended: Arc<Mutex<Vec<(Sample, u64)>>> = Arc::default();
    let samples = Arc::clone(&ended);
    let observer = move |sample: &Sample, client: u64| {
        samples.lock().unwrap_or_else(PoisonError::into_inner).push((*sample, client));
    };
    let started = tidegate_load::Run::start_observed(plan, None, log.clone(), Some(Arc::new(observer)));
    let (load, report) = started.map_err(|error| format!("the load can't be sent: {error}"))?;
    let mut watch = Watch::new(scenario, variant, start);
    let begin = Instant::now() + until(start);
    let mut seen = Observation::new(scenario.duration(), &scenario.plan.clients);
    let mut noted = 0;
    while !report.is_finished() {
        if is_stopped.load(Relaxed) {
            load.stop();
        }
        if let Err(reason) = watch.look(&mut platform, begin) {
            // Or it would go on sending, to whoever has the port next.
            load.stop();
            let _ended = report.join();
            return Err(reason);
        }
        let fresh = ended.lock().unwrap_or_else(PoisonError::into_inner)[noted..].to_vec();
        noted += fresh.len();
        for (sample, client) in fresh {
            seen.note(&sample, client);
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
    let outcome = outcome(scenario, variant, ended, watch, cpu_seconds);
    Ok(Live {
        outcome,
        fault: is_invalid(&report).or_else(|| is_stopped.load(Relaxed).then(|| "stopped before its end".to_owned())),
    })
}

/// A moment on which a second begins, so long ahead at least, and a window too, if it does not have to be waited for too long: runs in simulated
/// time begin so.
fn window_after(lead: Duration, window: f64) -> Duration {
    let ahead = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + lead;
    let seconds = if (1.0..=LONGEST_WAIT).contains(&window) && window.fract() == 0.0 { window as u64 } else { 1 };
    Duration::from_secs((ahead.as_secs() / seconds + 1) * seconds)
}

fn until(start: Duration) -> Duration {
    start.saturating_sub(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// What the load generator says of itself.
fn is_invalid(report: &Report) -> Option<String> {
    let verdict = report.verdict();
    (!verdict.is_valid()).then(|| format!("the load generator itself failed: {}", verdict.reasons.join("; ")))
}

fn outcome(
    scenario: &Scenario,
    variant: Variant,
    mut ended: Vec<(Sample, u64)>,
    watch: Watch,
    cpu_seconds: Option<f64>,
) -> Outcome {
    let mut observation = Observation::new(scenario.duration(), &scenario.plan.clients);
    let mut refusals = hdrhistogram::Histogram::<u64>::new(3).expect("three digits are allowed");
    let mut found = watch.finish();
    // As the gateway has decided, which is about when they were sent.
    ended.sort_by_key(|(sample, _)| sample.sent);
    let mut oracle = Oracle::new(scenario.limit.window).with_tolerance(TOLERANCE);
    // A shaper's requests are seen when they come, not when they leave.
    let burst = match variant.algorithm {
        Some(Algorithm::LeakyBucket) => crate::observation::count(scenario.limit.burst),
        Some(algorithm) => burst_of(algorithm, scenario.limit.burst),
        None => 0.0,
    };
    for (sample, client) in &mut ended {
        let is_limited = !found.open.iter().any(|span| span.contains(&sample.sent));
        if scenario.on_failure == OnFailure::Closed && !is_limited && sample.end == End::Answered(503) {
            // The gateway's own word, for want of Redis.
            sample.end = End::Answered(429);
        }
        observation.note(sample, *client);
        let is_refused = sample.end == End::Answered(429);
        if is_refused {
            let micros = sample.finished.saturating_sub(sample.sent).as_micros() as u64;
            refusals.record(micros.max(1)).expect("histograms grow by themselves");
        }
        if let Some(outage) =
            found.outage.as_mut().filter(|_| found.spans.iter().any(|span| span.contains(&sample.intended)))
        {
            outage.note(is_refused);
        }
        if variant.algorithm.is_some() && is_limited {
            let (rate, changed) = found.allowed(sample.sent, scenario);
            let key = if scenario.limit.is_per_client { (sample.group as u64) << 40 | *client } else { 0 };
            let (came, quota) = (nanos(sample.sent), whole(rate * scenario.limit.window));
            if is_refused {
                oracle.refused(key, came, quota);
            } else {
                oracle.admitted(key, came, came, quota, burst.max(changed));
            }
        }
    }
    let (seconds, step) = (observation.seconds(), observation.step as usize);
    let refusal_p99 = (!refusals.is_empty()).then(|| crate::observation::seconds(refusals.value_at_quantile(0.99)));
    Outcome {
        observation,
        judged: variant.algorithm.map(|_| oracle.found),
        levels: found.levels.finished(seconds, step),
        events: found.events,
        outage: found.outage,
        predictions: found.predictions,
        gateway: cpu_seconds.map(|cpu_seconds| GatewayCost { cpu_seconds, refusal_p99 }),
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

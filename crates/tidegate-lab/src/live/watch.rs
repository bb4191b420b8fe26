//! What is done during a live run: look at limit and target each second, begin and end faults on time, see whether the
//! limit is in force.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_policy::Algorithm;

use super::http_client::{get, get_json, metric, total};
use super::moment::Moment;
use super::platform::Platform;
use crate::observation::Observation;
use crate::pool_record::{PoolRecord, Seen};
use crate::run::{Band, CHANGES, Event, EventKind, Levels, Outage, PolicyRecord, Prediction};
use crate::scenario::{Scenario, Variant, burst_of};

/// Requests that were not for the target's own pages, and those whose client left, on a target's page of metrics.
const WORK: &str = "uri=\"/api/test\"";
const ABANDONED: &str = "target_abandoned_requests_total";
/// Between two looks at breakers.
const BREAKERS: Duration = Duration::from_millis(200);
/// Between two looks.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

pub(super) struct Watch<'a> {
    scenario: &'a Scenario,
    is_shared: bool,
    /// When the load begins, since 1970.
    start: Duration,
    levels: Levels,
    next_second: u64,
    /// Which faults have begun, and which have ended, by their index.
    begun: Vec<bool>,
    ended: Vec<bool>,
    events: Vec<Event>,
    predictions: Vec<Prediction>,
    targets: Option<PoolRecord>,
    policies: Option<PolicyRecord>,
    /// The state of each breaker when it was last looked at.
    breakers: BTreeMap<String, String>,
    /// When breakers are looked at again.
    next_breakers: Duration,
    open_since: Option<Duration>,
    open: Vec<Range<Duration>>,
    /// In the order of their times.
    changes: Vec<Change>,
    /// The last entry of the gateway's history that has been read.
    read: Option<Value>,
    /// The second in whose middle the limit was last looked at.
    looked_in: Option<u64>,
}

/// What was found.
pub(super) struct Found {
    pub(super) levels: Levels,
    pub(super) events: Vec<Event>,
    pub(super) predictions: Vec<Prediction>,
    pub(super) targets: Option<PoolRecord>,
    pub(super) policies: Option<PolicyRecord>,
    pub(super) outage: Option<Outage>,
    /// When Redis was away or too slow.
    pub(super) spans: Vec<Range<Duration>>,
    /// When the gateway knew that it was.
    pub(super) open: Vec<Range<Duration>>,
    changes: Vec<Change>,
}

/// Numbers that adaptation put in force.
struct Change {
    at: Duration,
    rate: f64,
    /// What a bucket holds; nothing for windows.
    burst: f64,
}

impl Change {
    /// To numbers as the gateway reports them.
    fn to(numbers: &Value, at: Duration) -> Option<Self> {
        let algorithm: Option<Algorithm> = numbers["algorithm"].as_str().and_then(|name| name.parse().ok());
        let burst = algorithm.zip(numbers["capacity"].as_u64()).map_or(0.0, |(known, burst)| burst_of(known, burst));
        Some(Self { at, rate: rate_of(numbers)?, burst })
    }
}

impl Found {
    /// The rate that a window which ends at this moment may have had, and the burst on top: the highest that was in
    /// force in it. What was admitted before a limit was lowered was not too many.
    pub(super) fn allowed(&self, now: Duration, scenario: &Scenario) -> (f64, f64) {
        let begins = now.saturating_sub(Duration::from_secs_f64(scenario.window()));
        let until_now = self.changes.iter().take_while(|change| change.at <= now);
        let mut in_force = (scenario.rate(), 0.0);
        for change in until_now {
            // What it replaces counts for as long as a window reaches back to it.
            in_force = if change.at <= begins {
                (change.rate, change.burst)
            } else {
                (change.rate.max(in_force.0), change.burst.max(in_force.1))
            };
        }
        in_force
    }
}

impl<'a> Watch<'a> {
    pub(super) fn new(scenario: &'a Scenario, variant: Variant, start: Duration) -> Self {
        let faults = scenario.faults.len();
        Self {
            scenario,
            is_shared: scenario.store.is_shared() && variant.algorithm.is_some(),
            start,
            levels: Levels::new(variant.algorithm.and_then(|_| scenario.shared_rate())),
            next_second: 1,
            begun: vec![false; faults],
            ended: vec![false; faults],
            events: Vec::new(),
            predictions: Vec::new(),
            targets: targets(scenario, variant),
            policies: scenario.gateway.as_ref().map(|_| PolicyRecord::default()),
            breakers: BTreeMap::new(),
            next_breakers: Duration::ZERO,
            open_since: None,
            open: Vec::new(),
            changes: Vec::new(),
            read: None,
            looked_in: None,
        }
    }

    /// The state of the run, as far as it was seen.
    pub(super) fn moment<'b>(&'b self, begin: Instant, observation: &'b Observation) -> Moment<'b> {
        Moment {
            elapsed: begin.elapsed().min(self.scenario.duration()),
            duration: self.scenario.duration(),
            observation,
            levels: &self.levels,
            events: &self.events,
        }
    }

    /// Takes a look, and does what is due. An error names what could not be done.
    pub(super) fn look(&mut self, platform: &mut Platform, begin: Instant) -> Result<(), String> {
        let Some(now) = Instant::now().checked_duration_since(begin) else { return Ok(()) };
        for (index, fault) in self.scenario.faults.iter().enumerate() {
            for (begins, at, done) in [(true, fault.at, &mut self.begun), (false, fault.until, &mut self.ended)] {
                if now >= at && !std::mem::replace(&mut done[index], now >= at) {
                    platform.fault(fault.kind, begins)?;
                    let (at, text) = (now.as_secs_f64(), fault.kind.event(begins, &self.scenario.target_names));
                    self.events.push(Event { at, kind: EventKind::Fault, text });
                }
            }
        }
        if self.is_shared {
            self.look_at_store(platform, now);
        }
        if self.policies.is_some() && now >= self.next_breakers {
            self.next_breakers = now + BREAKERS;
            self.look_at_breakers(platform, now);
        }
        if platform.forecaster_address().is_some() && now.subsec_millis() >= 500 {
            self.look_at_limit(platform, now.as_secs());
        }
        if now.as_secs() >= self.next_second {
            self.read_history(platform);
        }
        // Of a second without a look little is known.
        while now.as_secs() > self.next_second {
            self.note_limit(self.next_second);
            self.levels.forecast(None);
            self.levels.seen(None, None);
            if let Some(targets) = &mut self.targets {
                targets.missed();
            }
            self.next_second += 1;
        }
        if now.as_secs() == self.next_second {
            self.note_limit(self.next_second);
            self.second(platform, self.start.as_secs() + self.next_second);
            self.next_second += 1;
        }
        Ok(())
    }

    /// A limit that adaptation lowers because of the target's latency and errors moves every second, but the history
    /// has only the first and the last step. It moves when seconds begin, so a look in the middle of each finds it.
    fn look_at_limit(&mut self, platform: &Platform, second: u64) {
        if self.looked_in.replace(second) == Some(second) {
            return;
        }
        self.read_history(platform);
        let limits = get_json(platform.gateway.address, "/config/limits").unwrap_or_default();
        let known = self.changes.last().map_or((Duration::ZERO, self.scenario.rate()), |last| (last.at, last.rate));
        let since = Duration::from_secs(second).max(known.0);
        let change = Change::to(&limits["limits"]["default"], since);
        self.changes.extend(change.filter(|change| (known.1 - change.rate).abs() > 1e-6));
    }

    /// The limit that was in force when so many seconds had passed. What adaptation does at that very moment belongs
    /// to the next one.
    fn note_limit(&mut self, seconds: u64) {
        let until = Duration::from_secs(seconds);
        let last = self.changes.iter().rfind(|change| change.at < until);
        if let Some(change) = last.filter(|_| self.levels.is_limited()) {
            self.levels.limit(change.rate);
        }
    }

    fn look_at_store(&mut self, platform: &Platform, now: Duration) {
        let page = get(platform.gateway.address, "/actuator/prometheus").unwrap_or_default();
        let Some(connected) = metric(&page, "ratelimiter_redis_connected") else { return };
        let is_open = connected < 0.5;
        let (text, since) = match (is_open, self.open_since) {
            (true, None) => ("Redis connection lost", Some(now)),
            (false, Some(since)) => {
                self.open.push(since..now);
                ("Redis reconnected", None)
            }
            _ => return,
        };
        self.open_since = since;
        self.events.push(Event { at: now.as_secs_f64(), kind: EventKind::FailOpen, text: text.to_owned() });
    }

    /// Which state breakers are in.
    fn look_at_breakers(&mut self, platform: &Platform, now: Duration) {
        let Some(policies) = &mut self.policies else { return };
        let Some(page) = get_json(platform.gateway.address, "/config/breakers") else { return };
        let at = now.as_secs_f64();
        for breaker in page["breakers"].as_array().into_iter().flatten() {
            let text = |field: &str| breaker[field].as_str().unwrap_or_default().to_owned();
            let name = format!("{} (policy {})", text("upstream"), text("policy"));
            let state = text("state");
            let before = self.breakers.insert(name.clone(), state.clone()).unwrap_or_else(|| "closed".to_owned());
            if before == state {
                continue;
            }
            if state == "open" {
                policies.opened_at.push(at);
            }
            let text = format!("breaker of {name} is {}", state.replace('_', "-"));
            self.events.push(Event { at, kind: EventKind::Breaker, text });
        }
    }

    /// Requests that targets got since their start.
    fn count_sent(&mut self, platform: &Platform) {
        let Some(policies) = &mut self.policies else { return };
        let sent = platform.targets.iter().map(|target| {
            let page = get(target.address(), "/actuator/prometheus")?;
            Some(total(&page, "http_server_requests_seconds_count", WORK) + total(&page, ABANDONED, ""))
        });
        // Without the page of one target the sum would be too low.
        policies.sent = sent.sum::<Option<f64>>().map(|sent| sent as u64);
    }

    /// A second is over, and the one of this number (since 1970) begins.
    fn second(&mut self, platform: &Platform, next: u64) {
        let pages: Vec<String> =
            platform.targets.iter().filter_map(|target| get(target.address(), "/actuator/prometheus")).collect();
        let level = |name: &str| {
            let levels: Option<Vec<f64>> = pages.iter().map(|page| metric(page, name)).collect();
            levels.filter(|levels| !levels.is_empty()).map(|levels| levels.iter().sum::<f64>() as u64)
        };
        let expected = platform.forecaster.as_ref().and_then(|it| get_json(it.address, "/v1/forecast"));
        self.levels.forecast(expected.and_then(|expected| band(&expected, next)));
        self.levels.seen(level("executor_active_threads"), level("executor_queued_tasks"));
        self.look_at_targets(platform);
    }

    /// What the gateway knows of several targets.
    fn look_at_targets(&mut self, platform: &Platform) {
        let Some(targets) = &mut self.targets else { return };
        let page = get_json(platform.gateway.address, "/config/upstreams").unwrap_or_default();
        let upstreams = page["upstreams"].as_object().into_iter().flatten();
        let endpoints: Vec<&Value> =
            upstreams.flat_map(|(_, upstream)| upstream["endpoints"].as_array().into_iter().flatten()).collect();
        if endpoints.is_empty() {
            return targets.missed();
        }
        let seen = platform.targets.iter().map(|target| {
            let url = format!("http://{}", target.entrance());
            endpoints.iter().find(|endpoint| endpoint["url"] == url).map_or_else(Seen::unused, |endpoint| {
                let number = |name: &str| endpoint[name].as_u64().unwrap_or(0);
                let state = endpoint["state"].as_str().unwrap_or_default().to_owned();
                Seen { state, successes: number("successes"), failures: number("failures") }
            })
        });
        let at = crate::observation::count(self.next_second);
        let changes = targets.seen(seen.collect());
        self.events.extend(changes.into_iter().map(|text| Event { at, kind: EventKind::Endpoint, text }));
    }

    /// The load is over: reads the rest of the gateway's history.
    pub(super) fn end(&mut self, platform: &Platform) {
        self.read_history(platform);
        self.note_limit(self.next_second);
        self.count_sent(platform);
        // The last second ends with the load, so no look has seen it.
        if self.next_second <= self.scenario.duration().as_secs() {
            self.look_at_targets(platform);
        }
    }

    /// What adaptation has done since the last look. The gateway keeps the latest entries, far more than a second's.
    fn read_history(&mut self, platform: &Platform) {
        if platform.forecaster_address().is_none() {
            return;
        }
        let history = get_json(platform.gateway.address, "/config/history").unwrap_or_default();
        let start = self.start.as_secs_f64();
        let entries = history["entries"].as_array().map_or(&[][..], Vec::as_slice);
        let last = self.read.as_ref().and_then(|last| entries.iter().rposition(|entry| entry == last));
        let fresh = &entries[last.map_or(0, |last| last + 1)..];
        self.read = fresh.last().cloned().or(self.read.take());
        for entry in fresh {
            let at = entry["timestamp"].as_f64().unwrap_or(start) - start;
            let reason = entry["reason"].as_str().unwrap_or_default();
            let recommended = &entry["recommendation"];
            if let (Some(highest), Some(valid_for)) =
                (recommended["predictedRps"].as_f64(), recommended["validFor"].as_f64())
            {
                self.predictions.push(Prediction { at, valid_for, highest });
            }
            if entry["verdict"].as_str().is_some_and(|verdict| CHANGES.contains(&verdict))
                && let Some(change) = Change::to(&entry["to"], Duration::from_secs_f64(at.max(0.0)))
            {
                self.changes.push(change);
            }
            let (kind, text) = match (entry["event"].as_str(), entry["verdict"].as_str()) {
                (_, Some("unchanged")) | (None, None) => continue,
                (_, Some(verdict)) => (EventKind::Adaptation, format!("{verdict}: {} ({reason})", change(entry))),
                (Some(event), _) if event.starts_with("attack") => {
                    (EventKind::Attack, format!("{} {reason}", event.replace('_', " ")))
                }
                (Some(event @ ("unreachable" | "timeout" | "bad_status" | "invalid")), _) => {
                    (EventKind::Adaptation, format!("forecaster, {}: {reason}", event.replace('_', " ")))
                }
                (Some(event), _) => (EventKind::Adaptation, format!("{event}: {reason}")),
            };
            self.events.push(Event { at, kind, text });
        }
    }

    pub(super) fn finish(mut self) -> Found {
        self.events.sort_by(|one, other| one.at.total_cmp(&other.at));
        let faults = self.scenario.faults.iter().filter(|fault| fault.kind.is_of_redis());
        let spans: Vec<Range<Duration>> = faults.map(|fault| fault.at..fault.until).collect();
        let mut outage = Outage::default();
        for span in &spans {
            // From the end of the fault to the moment at which the gateway limits again.
            let back = self
                .open
                .iter()
                .filter(|open| open.start < span.end && open.end >= span.end)
                .map(|open| open.end.saturating_sub(span.end));
            back.for_each(|after| outage.returned(after));
        }
        // Redis may still be away at the end.
        let end = self.scenario.duration();
        self.open.extend(self.open_since.map(|since| since..end));
        let open = within(self.open, end);
        let outage = (self.is_shared && !spans.is_empty()).then_some(outage);
        Found {
            levels: self.levels,
            changes: self.changes,
            events: self.events,
            predictions: self.predictions,
            targets: self.targets,
            policies: self.policies,
            outage,
            spans,
            open,
        }
    }
}

/// What is to be seen of several targets.
fn targets(scenario: &Scenario, variant: Variant) -> Option<PoolRecord> {
    match (&scenario.gateway, variant.gateway) {
        (Some(gateway), Some(run)) => {
            let names = &scenario.target_names;
            Some(PoolRecord::of(scenario, gateway.upstreams_of(run, names), gateway.weights_of(run, names)))
        }
        _ => scenario.upstream.as_ref().map(|_| PoolRecord::new(scenario)),
    }
}

/// The parts of these spans before the end.
fn within(spans: Vec<Range<Duration>>, end: Duration) -> Vec<Range<Duration>> {
    let spans = spans.into_iter().map(|span| span.start..span.end.min(end));
    spans.filter(|span| !span.is_empty()).collect()
}

/// What the only series' forecast says of a second.
fn band(expected: &Value, second: u64) -> Option<Band> {
    let forecast = &expected["forecasts"][0];
    let ahead = second.checked_sub(forecast["start"].as_u64()?)?;
    let index = usize::try_from(ahead.checked_div(forecast["step"].as_u64()?)?).ok()?;
    let of = |level: &str| forecast[level][index].as_f64();
    Some(Band { low: of("low")?, middle: of("middle")?, high: of("high")? })
}

/// `limit from 100 to 250`
fn change(entry: &Value) -> String {
    let (from, to) = (rate_of(&entry["from"]), rate_of(&entry["to"]));
    match (from, to) {
        (Some(from), Some(to)) => format!("from {} to {} req/s", tenths(from), tenths(to)),
        _ => String::new(),
    }
}

/// As exactly as people want it.
fn tenths(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

/// Requests a second, of numbers as the gateway reports them.
fn rate_of(numbers: &Value) -> Option<f64> {
    let window = || Some(numbers["limit"].as_f64()? / numbers["window"].as_f64()?);
    numbers["fillRate"].as_f64().or_else(window)
}

/// User and system time of the threads that serve the gateway's clients. They end with it, so it is that of one run.
pub(super) fn gateway_cpu_seconds() -> Option<f64> {
    let mut ticks = None;
    for task in fs::read_dir("/proc/self/task").ok()?.flatten() {
        let Ok(stat) = fs::read_to_string(task.path().join("stat")) else { continue };
        let Some((before, after)) = stat.rsplit_once(')') else { continue };
        let is_gateway =
            before.split_once('(').is_some_and(|(_, name)| name == "gateway" || name.starts_with("worker-"));
        if is_gateway {
            let fields: Vec<&str> = after.split_whitespace().collect();
            let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
            *ticks.get_or_insert(0) += number(11) + number(12);
        }
    }
    // Linux counts a hundred of them in a second.
    ticks.map(|ticks| crate::observation::count(ticks) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report had "Not scored: 20.4 s to 20.0 s" where Redis was lost after the load's end.
    #[test]
    fn what_begins_after_the_load_s_end_is_left_out() {
        let span = |from: u64, until: u64| Duration::from_millis(from)..Duration::from_millis(until);
        let spans = vec![span(5_000, 6_000), span(19_500, 20_300), span(20_400, 20_900), span(20_950, 20_000)];
        assert_eq!(within(spans, Duration::from_secs(20)), [span(5_000, 6_000), span(19_500, 20_000)]);
    }
}

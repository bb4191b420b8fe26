//! Recorded traffic through a policy, in simulated time: which requests would have been rejected, when, and by which
//! limit. The gateway's own [`Replayer`] judges them.

mod clients;
mod combined;
mod comparison;
mod csv;
mod fields;
mod json;
mod limits_yaml;
mod line;
mod line_fields;
mod log;
mod order;
mod pipe;
mod report;
mod rows;
mod suggestion;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tidegate_gateway::config::model::Config;
use tidegate_gateway::settings::Settings;
use tidegate_gateway::{Judgement, LimitFacts, PastRequest, Replayer, Verdict};
use tidegate_policy::Timestamp;
use tidegate_policy::numbers::LimitNumbers;

pub use clients::{Client, ClientRejections, Clients, MOST_POLICIES};
pub use comparison::Differences;
pub use fields::Names;
pub use line::{BadLine, Line};
pub use log::{Bad, Format, Log, ReadSoFar};
pub use order::Request;
pub use rows::Rows;
pub use suggestion::{Suggested, Suggestion, printable, suggest};

use comparison::Comparison;
use order::Order;

/// A policy to be tried: a gateway's configuration, and what it is called.
#[derive(Clone)]
pub struct Policy {
    /// Its name, such as its file's.
    pub name: String,
    /// The configuration.
    pub config: Config,
}

/// How recorded traffic is read.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Where from.
    pub log: Log,
    /// The host to assume for requests without one.
    pub host: Option<String>,
    /// Clients and users, as they are written, whose requests are left out.
    pub without: Vec<String>,
}

impl Recording {
    /// The index of the name by which it is left out.
    fn left_out(&self, line: &Line<'_>) -> Option<usize> {
        self.without.iter().position(|name| name == line.client || Some(name.as_str()) == line.user)
    }
}

/// What policies would have done.
pub struct Replay {
    /// What was read.
    pub read: ReadSoFar,
    /// Requests that were judged.
    pub requests: u64,
    /// How many of them came too late to be put in order.
    pub late: u64,
    /// Requests left out because their times fit none around them.
    pub odd: u64,
    /// Requests left out on demand: whose, and how many.
    pub without: Vec<(String, u64)>,
    /// When the first and the last of them came, in nanoseconds since 1970.
    pub span: Option<(u64, u64)>,
    /// Whether their times were whole seconds, over which they were spread.
    pub is_spread: bool,
    /// What no request recorded.
    pub lacks: Vec<&'static str>,
    /// Counts over time: offered, then of each policy rejected and rejected by each limit.
    pub rows: Rows,
    /// The clients that sent them.
    pub clients: Clients,
    /// By policy.
    pub policies: Vec<Replayed>,
    /// Of two policies, how often they agree.
    pub differences: Option<Differences>,
}

/// What one policy would have done.
pub struct Replayed {
    /// Its name.
    pub name: String,
    /// Its limits.
    pub limits: Vec<LimitFacts>,
    /// How often each limit was asked.
    pub asked: Vec<u64>,
    /// How often each rejected, or would have without its dry run.
    pub rejected_by: Vec<u64>,
    /// Names of routes, requests that took them, and those rejected.
    pub routes: Vec<(String, u64, u64)>,
    /// All together.
    pub totals: Totals,
    /// What must be known to read it.
    pub notes: Vec<String>,
    /// The first of its columns in [`Replay::rows`].
    pub column: usize,
}

/// What became of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sent on.
    pub admitted: u64,
    /// By a limit.
    pub rejected: u64,
    /// Rejected by limits in a dry run, and so admitted.
    pub would_be_rejected: u64,
    /// No route is for them.
    pub no_route: u64,
    /// Rejected because a limit's key could not be built.
    pub lacking: u64,
    /// For the gateway itself.
    pub local: u64,
    /// Kept waiting by a shaper.
    pub delayed: u64,
    /// The longest of these waits.
    pub longest_wait: Duration,
}

/// Replays what was recorded through these policies. `is_stopped` ends it before its time, with what was read by then.
pub fn replay(recording: &Recording, policies: &[Policy], is_stopped: &AtomicBool) -> Result<Replay, String> {
    replay_with(recording, policies, &BTreeMap::new(), is_stopped)
}

/// The same with other numbers for some limits.
fn replay_with(
    recording: &Recording,
    policies: &[Policy],
    numbers: &BTreeMap<String, LimitNumbers>,
    is_stopped: &AtomicBool,
) -> Result<Replay, String> {
    let mut judges = Judges::new(policies, numbers)?;
    let mut reading = Reading::default();
    let read = reading.all(recording, is_stopped, &mut |request, past| judges.judge(request, past))?;
    judges.finish();
    let lacks = reading.recorded.lacks(recording.host.is_some());
    let mut replay = Replay {
        read,
        requests: reading.requests,
        late: reading.order.late,
        odd: reading.order.odd,
        without: recording.without.iter().cloned().zip(reading.left_out).collect(),
        span: reading.span,
        is_spread: reading.requests > 0 && reading.order.is_of_whole_seconds(),
        lacks,
        rows: judges.counts.rows,
        clients: judges.counts.clients,
        policies: judges.trials.into_iter().map(Trial::end).collect(),
        differences: judges.counts.comparison.map(|comparison| comparison.found),
    };
    let headers: Vec<String> = recording.log.names.headers().map(|name| format!("header:{name}")).collect();
    for policy in &mut replay.policies {
        policy.note(reading.recorded, recording.host.is_some(), &headers);
    }
    Ok(replay)
}

impl Replay {
    /// All that are left out on demand.
    pub fn left_out(&self) -> u64 {
        self.without.iter().map(|(_, count)| count).sum()
    }
}

/// Requests on their way from a log to the judges.
#[derive(Default)]
struct Reading {
    order: Order,
    requests: u64,
    /// By the index of the name.
    left_out: Vec<u64>,
    span: Option<(u64, u64)>,
    recorded: Recorded,
}

/// What at least one request recorded.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
struct Recorded {
    client: bool,
    host: bool,
    path: bool,
    user: bool,
    took: bool,
}

impl Recorded {
    fn note(&mut self, line: &Line<'_>) {
        self.client |= !line.client.is_empty();
        self.host |= !line.host().is_empty();
        self.path |= !line.target.is_empty();
        self.user |= line.user.is_some();
        self.took |= line.took.is_some();
    }

    /// Whether a part of a limit's key is recorded; if not, what the log lacks and what follows.
    fn of_part<'a>(self, part: &'a str, has_host: bool, headers: &[String]) -> (bool, &'a str, &'static str) {
        const BY_MISSING: &str = "limits that count by them follow their `missing` setting";
        match part {
            "ip" => (self.client, "addresses", "all its requests count as one client's"),
            "user" => (self.user, "users", BY_MISSING),
            "apiKey" | "clientId" => (self.user, "users, from which API keys and programs are derived", BY_MISSING),
            "host" => (self.host || has_host, "hosts", "`--host` sets the one to assume"),
            "resource" => (self.path, "paths", "all its requests count as for `/`"),
            _ => {
                let is_recorded = !part.starts_with("header:") || headers.iter().any(|it| it == part);
                (is_recorded, part, "`--field` declares the field that holds it")
            }
        }
    }

    fn lacks(self, has_host: bool) -> Vec<&'static str> {
        let all = [
            (self.client, "client"),
            (self.host || has_host, "host"),
            (self.path, "path"),
            (self.user, "user"),
            (self.took, "duration"),
        ];
        all.into_iter().filter(|(is_recorded, _)| !is_recorded).map(|(_, what)| what).collect()
    }
}

impl Reading {
    fn all(
        &mut self,
        recording: &Recording,
        is_stopped: &AtomicBool,
        judge: &mut impl FnMut(&Request<'_>, &PastRequest<'_>),
    ) -> Result<ReadSoFar, String> {
        let names: Vec<&str> = recording.log.names.headers().collect();
        let (mut requests, mut span) = (0, None);
        let mut each = |request: &Request<'_>| {
            requests += 1;
            span = Some((span.map_or(request.at, |(from, _)| from), request.at));
            let mut headers = [("", ""); fields::MOST_HEADERS];
            let mut count = 0;
            for (name, value) in names.iter().zip(request.headers) {
                if let Some(value) = value {
                    headers[count] = (name, value);
                    count += 1;
                }
            }
            let host = if request.host.is_empty() { recording.host.as_deref().unwrap_or("") } else { request.host };
            judge(
                request,
                &PastRequest {
                    at: Timestamp::from_nanos(request.at),
                    ip: request.ip,
                    method: request.method,
                    host,
                    path: request.path,
                    user: request.user,
                    tier: request.tier,
                    headers: &headers[..count],
                    took: request.took,
                },
            );
        };
        let (order, recorded, left_out) = (&mut self.order, &mut self.recorded, &mut self.left_out);
        *left_out = vec![0; recording.without.len()];
        let read = recording.log.read(is_stopped, |line| {
            if let Some(index) = recording.left_out(line) {
                left_out[index] += 1;
                return;
            }
            recorded.note(line);
            order.push(line, &mut each);
        })?;
        order.finish(&mut each);
        (self.requests, self.span) = (requests, span);
        Ok(read)
    }
}

/// All policies, and what they decide.
struct Judges {
    trials: Vec<Trial>,
    counts: Counts,
    number: u64,
}

/// What all policies have in common.
struct Counts {
    rows: Rows,
    clients: Clients,
    comparison: Option<Comparison>,
}

/// A policy on trial.
struct Trial {
    replayer: Replayer<u64>,
    found: Replayed,
    /// Requests that a shaper delays, by their numbers: when they came, and from which client.
    waiting: HashMap<u64, (u64, Box<str>)>,
}

impl Judges {
    fn new(policies: &[Policy], numbers: &BTreeMap<String, LimitNumbers>) -> Result<Self, String> {
        let (mut trials, mut width) = (Vec::new(), 1);
        for policy in policies {
            let trial = Trial::new(policy, numbers, width)?;
            width += 1 + trial.found.limits.len();
            trials.push(trial);
        }
        let comparison = (trials.len() == 2).then(Comparison::default);
        let counts = Counts { rows: Rows::new(width), clients: Clients::default(), comparison };
        Ok(Self { trials, counts, number: 0 })
    }

    fn judge(&mut self, request: &Request<'_>, past: &PastRequest<'_>) {
        let (number, client) = (self.number, request.user.unwrap_or(request.client));
        self.number += 1;
        let Self { trials, counts, .. } = self;
        counts.rows.add(request.at / 1_000_000_000, 0);
        counts.clients.record_request(client);
        for (index, Trial { replayer, found, waiting }) in trials.iter_mut().enumerate() {
            let mut is_judged = false;
            replayer.judge(past, number, |which, judgement| {
                if which == number {
                    is_judged = true;
                    counts.record(found, index, which, &judgement, (request.at, client));
                } else if let Some((at, client)) = waiting.remove(&which) {
                    counts.record(found, index, which, &judgement, (at, &client));
                }
            });
            if !is_judged {
                waiting.insert(number, (request.at, client.into()));
            }
        }
    }

    fn finish(&mut self) {
        let Self { trials, counts, .. } = self;
        for (index, Trial { replayer, found, waiting }) in trials.iter_mut().enumerate() {
            replayer.finish(|which, judgement| {
                if let Some((at, client)) = waiting.remove(&which) {
                    counts.record(found, index, which, &judgement, (at, &client));
                }
            });
        }
    }
}

impl Counts {
    /// Records a policy's judgement of a request, by its number.
    fn record(&mut self, found: &mut Replayed, policy: usize, which: u64, judgement: &Judgement, origin: (u64, &str)) {
        let is_rejected = found.record(judgement, policy, origin, &mut self.rows, &mut self.clients);
        if let Some(comparison) = &mut self.comparison {
            comparison.note(which, policy, is_rejected);
        }
    }
}

impl Trial {
    fn new(policy: &Policy, numbers: &BTreeMap<String, LimitNumbers>, column: usize) -> Result<Self, String> {
        let named = |error: String| format!("{}: {error}", policy.name);
        let settings = Settings::check(&policy.config).map_err(|error| named(error.to_string()))?;
        let replayer = Replayer::new(settings, numbers).map_err(named)?;
        let (limits, routes) = (replayer.limits(), replayer.routes());
        let found = Replayed {
            name: policy.name.clone(),
            asked: vec![0; limits.len()],
            rejected_by: vec![0; limits.len()],
            limits,
            routes: routes.into_iter().map(|name| (name, 0, 0)).collect(),
            totals: Totals::default(),
            notes: Vec::new(),
            column,
        };
        Ok(Self { replayer, found, waiting: HashMap::new() })
    }

    fn end(mut self) -> Replayed {
        for (limit, asked) in self.found.asked.iter_mut().enumerate() {
            *asked = self.replayer.checked(limit);
        }
        if self.replayer.adapts() {
            self.found.notes.push("Adaptation is not replayed: limits keep the operator's numbers.".to_owned());
        }
        self.found
    }
}

impl Replayed {
    /// Counts a judgement. Whether the request is rejected.
    fn record(
        &mut self,
        judgement: &Judgement,
        policy: usize,
        (at, client): (u64, &str),
        rows: &mut Rows,
        clients: &mut Clients,
    ) -> bool {
        let second = at / 1_000_000_000;
        for limit in &judgement.would_reject {
            self.rejected_by[*limit] += 1;
            rows.add(second, self.column + 1 + limit);
        }
        let rejected_by = match judgement.verdict {
            Verdict::Admitted { wait } => {
                self.totals.admitted += 1;
                self.totals.would_be_rejected += u64::from(!judgement.would_reject.is_empty());
                self.totals.delayed += u64::from(!wait.is_zero());
                self.totals.longest_wait = self.totals.longest_wait.max(wait);
                None
            }
            Verdict::Rejected { limit, .. } => {
                self.totals.rejected += 1;
                Some(limit)
            }
            Verdict::NoKey { limit } => {
                self.totals.lacking += 1;
                Some(limit)
            }
            Verdict::NoRoute => {
                self.totals.no_route += 1;
                None
            }
            Verdict::Local => {
                self.totals.local += 1;
                None
            }
        };
        if let Some((_, requests, rejections)) = judgement.route.and_then(|route| self.routes.get_mut(route)) {
            *requests += 1;
            *rejections += u64::from(rejected_by.is_some());
        }
        if let Some(limit) = rejected_by {
            self.rejected_by[limit] += 1;
            rows.add(second, self.column);
            rows.add(second, self.column + 1 + limit);
            clients.record_rejection(client, policy, limit, at);
        }
        rejected_by.is_some()
    }

    /// Notes what a limit needs and the log does not record.
    fn note(&mut self, recorded: Recorded, has_host: bool, headers: &[String]) {
        let mut lacking: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for limit in &self.limits {
            for part in limit.key.split('+') {
                let (is_recorded, what, then) = recorded.of_part(part, has_host, headers);
                if !is_recorded {
                    lacking.entry(format!("The log has no {what}: {then}")).or_default().push(&limit.name);
                }
            }
        }
        self.notes.extend(lacking.into_iter().map(|(what, limits)| format!("{what} ({}).", limits.join(", "))));
        let in_flight = |limit: &&LimitFacts| limit.numbers.shape().is_none();
        let names: Vec<&str> = self.limits.iter().filter(in_flight).map(|limit| limit.name.as_str()).collect();
        if !recorded.took && !names.is_empty() {
            self.notes.push(format!(
                "The log does not record how long requests took: limits of requests in flight reject none ({}).",
                names.join(", ")
            ));
        }
        if self.totals.no_route > 0 && !recorded.host && !has_host {
            self.notes.push(
                "Some requests have no route. The log has no hosts; if routes need one, `--host` sets it.".to_owned(),
            );
        }
    }
}

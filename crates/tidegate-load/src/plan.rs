//! A plan: the target, the duration, the rate, the clients. It is read and checked once; everything that is wrong is
//! reported with its path.

mod about;
mod clients;
mod comeback;
mod overrides;
mod part;
mod profiles;
mod request;
mod shown;
mod thresholds;
mod timing;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tidegate_input::object::{Allowed, Object, shown};
use tidegate_input::{HttpUrl, Problem, Problems, json, table};

pub use clients::{Class, Group};
pub(crate) use clients::{MOST_GROUPS, is_name};
pub use comeback::{After, Comeback};
pub use overrides::Overrides;
pub use part::{InvalidPart, Part};
pub use profiles::ProfileType;
pub use request::Request;
pub use thresholds::{Figure, InvalidThreshold, Outcome, Statistic, Threshold};

use crate::profile::Profile;
use crate::schedule::{Arrivals, Schedule};
use crate::trace;
pub(crate) use profiles::SOME_RATE;
pub(crate) use shown::differences;

/// A plan that has been checked.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where requests go.
    pub target: HttpUrl,
    /// What is sent.
    pub request: Request,
    /// The type of its profile, as it is written; `phases` for several.
    pub kind: &'static str,
    /// How long it lasts.
    pub duration: Duration,
    /// When requests are due.
    pub times: Times,
    /// Who they come from.
    pub clients: Vec<Group>,
    /// Everything random comes from this.
    pub seed: u64,
    /// How many requests may be in flight at once.
    pub concurrency: usize,
    /// How late a request may still be sent.
    pub max_lag: Duration,
    /// What the 99th percentile of its lag may be, for the result to be valid.
    pub lag_budget: Duration,
    /// When it starts, if that was agreed on.
    pub start_at: Option<SystemTime>,
    /// What it must keep to.
    pub thresholds: Vec<Threshold>,
    /// Which of its requests are sent here, if not all of them.
    pub part: Option<Part>,
    shown: Value,
    digest: u64,
}

/// When requests are due.
#[derive(Clone, Debug)]
pub enum Times {
    /// By a rate.
    Rate(Profile, Arrivals),
    /// As they were recorded.
    Recorded(Arc<[Duration]>),
}

impl Times {
    /// All of them, in their order.
    pub fn all(&self) -> Box<dyn Iterator<Item = Duration> + Send + '_> {
        match self {
            Self::Rate(profile, arrivals) => Box::new(Schedule::new(profile.clone(), arrivals)),
            Self::Recorded(times) => Box::new(times.iter().copied()),
        }
    }
}

/// A plan that can't be used: everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPlan(pub Vec<Problem>);

impl fmt::Display for InvalidPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut problems = self.0.iter();
        problems.next().map_or(Ok(()), |first| write!(f, "{first}"))?;
        problems.try_for_each(|problem| write!(f, "\n{problem}"))
    }
}

impl std::error::Error for InvalidPlan {}

const LAG: Allowed = Allowed::new(0.0..=60.0, "seconds");

/// What the format of a result begins with.
const RESULT: &str = "tidegate-load-result/";

/// The most bytes of a plan's file.
const MOST_BYTES: u64 = 64 << 20;

impl Plan {
    /// Reads a plan that came from anywhere: it can't make us read files.
    pub fn read(text: &[u8]) -> Result<Self, InvalidPlan> {
        Self::read_with(text, &Overrides::default())
    }

    /// The same, with overrides.
    pub fn read_with(text: &[u8], overrides: &Overrides) -> Result<Self, InvalidPlan> {
        checked(|problems| Self::interpret(text, overrides, None, problems))
    }

    /// Reads the plan in a file. The files of its traces are looked for beside it.
    pub fn open(path: &Path, overrides: &Overrides) -> Result<Self, InvalidPlan> {
        checked(|problems| {
            let text = table::bytes(path, MOST_BYTES).map_err(|reason| problems.add("", reason)).ok()?;
            let directory = path.parent().unwrap_or(Path::new(""));
            Self::interpret(&text, overrides, Some(directory), problems)
        })
    }

    fn interpret(text: &[u8], overrides: &Overrides, directory: Option<&Path>, problems: &Problems) -> Option<Self> {
        let report = |error| problems.add("", format!("must be JSON: {error}"));
        let mut value = json::read(text).map_err(report).ok()?;
        // Nearly every field of one would be reported as unknown.
        if value["format"].as_str().is_some_and(|format| format.starts_with(RESULT)) {
            problems.add("", "must be a plan, got a result of `load run`");
            return None;
        }
        overrides.apply(&mut value, problems);
        let shown = shown::shown(&value);
        if let Some(directory) = directory {
            trace::resolve(&mut value, directory, |path, reason| problems.add(path, reason));
        }
        let digest = shown::digest(&value);
        let plan = Object::new("", value, problems).and_then(Self::build)?;
        Some(Self { shown, digest, ..plan })
    }

    /// The plan as it was given, without its secrets; long lists are shown by their length.
    pub fn shown(&self) -> &Value {
        &self.shown
    }

    /// The same number for plans that ask for the same load: but for their part, start, thresholds and secrets.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    fn build(mut plan: Object<'_>) -> Option<Self> {
        plan.alias("limiterUrl", "url");
        plan.alias("concurrency", "requestsPerThread");
        let target = request::target(&mut plan);
        let seed = plan.whole_or("seed", 0..=u64::MAX, 1);
        let timing = timing::read(&mut plan, seed.unwrap_or_default());
        let request = request::read(&mut plan);
        let concurrency = plan.whole_or("concurrency", 1..=100_000, 1_024);
        let (max_lag, lag_budget) = (plan.number_or("maxLag", &LAG, 1.0), plan.number_or("lagBudget", &LAG, 0.01));
        let start_at = start_at(&mut plan);
        let clients = clients(&mut plan);
        let thresholds = thresholds(&mut plan);
        let part = part(&mut plan);
        plan.end();
        let (kind, duration, times) = timing?;
        let target = target?;
        Some(Self {
            request: request?.to(&target.path_and_query),
            target,
            kind,
            duration,
            times,
            clients: clients?,
            seed: seed?,
            concurrency: usize::try_from(concurrency?).ok()?,
            max_lag: Duration::from_secs_f64(max_lag?),
            lag_budget: Duration::from_secs_f64(lag_budget?),
            start_at: start_at?,
            thresholds: thresholds?,
            part: part?,
            shown: Value::Null,
            digest: 0,
        })
    }
}

/// What was read, if nothing was wrong with it.
fn checked(read: impl FnOnce(&Problems) -> Option<Plan>) -> Result<Plan, InvalidPlan> {
    let problems = Problems::default();
    let plan = read(&problems);
    let problems = problems.all();
    plan.filter(|_| problems.is_empty()).ok_or(InvalidPlan(problems))
}

/// The outer `None` is a problem.
#[expect(clippy::option_option, reason = "a problem is not the absence of a time")]
fn start_at(plan: &mut Object<'_>) -> Option<Option<SystemTime>> {
    let Some(value) = plan.take("startAt") else { return Some(None) };
    let seconds = value.as_f64().filter(|seconds| (0.0..=1e11).contains(seconds));
    if seconds.is_none() {
        plan.wrong("startAt", format!("must be seconds since 1970, got {}", shown(&value)));
    }
    Some(Some(SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds?)))
}

/// The outer `None` is a problem.
#[expect(clippy::option_option, reason = "a problem is not the whole plan")]
fn part(plan: &mut Object<'_>) -> Option<Option<Part>> {
    let Some(value) = plan.take("part") else { return Some(None) };
    let text = value.as_str().map_or_else(|| shown(&value), str::to_owned);
    text.parse().map(Some).map_err(|error: InvalidPart| plan.wrong("part", error.to_string())).ok()
}

fn clients(plan: &mut Object<'_>) -> Option<Vec<Group>> {
    let Some(groups) = plan.list("clients", MOST_GROUPS) else { return Some(vec![Group::default()]) };
    if groups.is_empty() {
        plan.wrong("clients", "must not be empty; leave it out for one client");
    }
    // Whatever else is wrong with them.
    clients::report_duplicate_names(&groups, |index, reason| plan.wrong(&format!("clients[{index}].name"), reason));
    let read = |(index, group): (usize, Value)| {
        Object::new(format!("clients[{index}]"), group, plan.problems).and_then(clients::read)
    };
    let read: Vec<Option<Group>> = groups.into_iter().enumerate().map(read).collect();
    let mut groups = read.into_iter().collect::<Option<Vec<Group>>>()?;
    clients::name(&mut groups);
    Some(groups)
}

fn thresholds(plan: &mut Object<'_>) -> Option<Vec<Threshold>> {
    let texts = plan.list("thresholds", 100).unwrap_or_default();
    let read = |(index, text): (usize, &Value)| {
        let threshold = text.as_str().ok_or_else(|| format!("must be text, got {}", shown(text)));
        let threshold = threshold.and_then(|text| text.parse().map_err(|error: InvalidThreshold| error.to_string()));
        threshold.map_err(|reason| plan.wrong(&format!("thresholds[{index}]"), reason)).ok()
    };
    let read: Vec<Option<Threshold>> = texts.iter().enumerate().map(read).collect();
    read.into_iter().collect()
}

//! A scenario: which load comes, what it meets, what goes wrong on the way, and what is expected of it. Each is a file
//! in YAML or JSON, which is run live and in simulated time.

mod expectation;
mod fault;
mod gateway;
mod limit;
mod load;
mod target;
mod upstream;
mod variant;

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_forecast::Policy;
use tidegate_input::object::{Allowed, Object, shown};
use tidegate_input::{Problem, Problems};
use tidegate_load::Plan;
use tidegate_policy::Algorithm;
use tidegate_store::FailureMode;

pub use expectation::{Comparison, Expectation, Figure, shown_share};
pub(crate) use fault::target_name;
pub use fault::{Fault, FaultKind};
pub use gateway::{Gateway, PROTECTED};
pub(crate) use limit::burst_of;
pub use limit::{LimitSetting, RATE_ALGORITHMS};
pub use target::TargetModel;
pub use upstream::Upstream;
pub use variant::Variant;

use fault::Choice;
use load::{NOWHERE, with_addresses};
use target::Targets;

/// A scenario that has been checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name, as files and reports have it.
    pub name: String,
    /// In a few words.
    pub title: String,
    /// In a few sentences.
    pub about: String,
    /// Everything random comes from this.
    pub seed: u64,
    /// The limit that every algorithm enforces, each in its own numbers. None with the gateway's own configuration.
    pub limit: Option<LimitSetting>,
    /// The gateway's own configuration, and variants of it.
    pub gateway: Option<Gateway>,
    /// What is protected: one target, or several.
    pub targets: Vec<TargetModel>,
    /// The names of targets, with the gateway's own configuration.
    pub target_names: Vec<String>,
    /// How the gateway uses several targets; none where there is only `target`.
    pub upstream: Option<Upstream>,
    /// The load, as in a plan, but without a URL.
    load: Value,
    /// The same, read; its URL leads nowhere.
    pub plan: Plan,
    /// Where counts are kept.
    pub store: StoreKind,
    /// What happens to limits when Redis is away.
    pub on_failure: FailureMode,
    /// Algorithms that are compared.
    pub algorithms: Vec<Algorithm>,
    /// How limits adapt, where they do; without it they never do.
    pub adaptation: Option<Adaptation>,
    /// Whether there is also a run without any limit.
    pub has_baseline: bool,
    /// How the gateway uses several targets in that run, if not as in all others.
    pub baseline_upstream: Option<Upstream>,
    /// What goes wrong, and when.
    pub faults: Vec<Fault>,
    /// A response that takes longer is of no use.
    pub objective: Duration,
    /// What must hold of its figures.
    pub expectations: Vec<Expectation>,
}

/// Where counts are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// In the gateway's memory.
    Memory,
    /// In Redis.
    Redis,
    /// In a stand-in for Redis within the lab's own process, for machines without it.
    StandIn,
}

impl StoreKind {
    /// As files and reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis => "redis",
            Self::StandIn => "stand_in",
        }
    }

    /// Whether limits are kept outside of the gateway, in Redis or its stand-in.
    pub fn is_shared(self) -> bool {
        self != Self::Memory
    }
}

/// How limits adapt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptation {
    /// How often the forecaster is asked.
    pub interval: Duration,
    /// Requests a second that the limit is never raised above.
    pub ceiling: f64,
    /// How far ahead the forecaster looks, in seconds, and how long its advice holds after it is gone.
    pub horizon: usize,
    /// Whether the runs without adaptation are left out.
    pub is_alone: bool,
}

/// A scenario that can't be used: which one, and everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidScenario {
    /// Its name or file.
    pub name: String,
    /// What is wrong: with a line where it can't be read, with a path where it makes no sense.
    pub problems: Vec<String>,
}

impl fmt::Display for InvalidScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut problems = self.problems.iter();
        problems.next().map_or(Ok(()), |first| write!(f, "{}: {first}", self.name))?;
        problems.try_for_each(|problem| write!(f, "\n{}: {problem}", self.name))
    }
}

impl std::error::Error for InvalidScenario {}

const SECONDS: Allowed = Allowed::new(1.0..=86_400.0, "seconds");
const OBJECTIVE: Allowed = Allowed::new(0.001..=60.0, "seconds");
const INTERVAL: Allowed = Allowed::new(1.0..=3_600.0, "seconds");
const CEILING: Allowed = Allowed::new(0.001..=1e9, "requests a second");
/// The largest file.
const MOST_BYTES: u64 = 1 << 20;
const NEEDS_TARGETS: &str = "needs `targets`";

impl Scenario {
    /// Reads the scenario in a file, which is named after it.
    pub fn open(path: &Path) -> Result<Self, InvalidScenario> {
        let name = path.display().to_string();
        let wrong = |problem: String| InvalidScenario { name: name.clone(), problems: vec![problem] };
        let length = fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if length > MOST_BYTES {
            return Err(wrong(format!("must have at most {MOST_BYTES} bytes, got {length}")));
        }
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Self::read(&stem, &text).map_err(|invalid| InvalidScenario { name, ..invalid })
    }

    /// Reads a scenario of this name.
    pub fn read(name: &str, text: &str) -> Result<Self, InvalidScenario> {
        let wrong = |problems| InvalidScenario { name: name.to_owned(), problems };
        let value: Value = tidegate_gateway::config::parse_any(text).map_err(|error| wrong(vec![error]))?;
        if value.is_null() {
            return Err(wrong(vec!["is empty; must have `limit`, `target` and `load`".to_owned()]));
        }
        let problems = Problems::default();
        let read = Object::new("", value, &problems).and_then(|object| build(name, object));
        if let Some(scenario) = &read {
            expectation::check(scenario, &problems);
        }
        let problems = problems.all();
        read.filter(|_| problems.is_empty()).ok_or_else(|| wrong(problems.iter().map(Problem::to_string).collect()))
    }

    /// How the forecaster advises, if there is one: it knows the target's capacity.
    pub fn policy(&self) -> Option<Policy> {
        let capacity = Some(self.capacity());
        self.adaptation.map(|adaptation| Policy { capacity, horizon: adaptation.horizon, ..Policy::default() })
    }

    /// Requests a second that all targets together can serve.
    pub fn capacity(&self) -> f64 {
        self.targets.iter().map(TargetModel::capacity).sum()
    }

    /// Workers of all targets together.
    pub fn workers(&self) -> usize {
        self.targets.iter().map(|target| target.workers).sum()
    }

    /// How the gateway uses several targets in a run; none where there is only `target`.
    pub fn upstream(&self, variant: Variant) -> Option<&Upstream> {
        let baseline = self.baseline_upstream.as_ref().filter(|_| variant.algorithm.is_none());
        baseline.or(self.upstream.as_ref())
    }

    /// How long a window of the limit is, in seconds.
    pub fn window(&self) -> f64 {
        self.limit.map_or(1.0, |limit| limit.window)
    }

    /// The rate that all clients share, if there is such a limit.
    pub fn shared_rate(&self) -> Option<f64> {
        self.limit.and_then(|limit| limit.shared_rate())
    }

    /// The limit's rate; without a limit there is no bound.
    pub(crate) fn rate(&self) -> f64 {
        self.limit.map_or(f64::INFINITY, |limit| limit.rate)
    }

    /// Whether each client has a limit of its own.
    pub(crate) fn is_limited_per_client(&self) -> bool {
        self.limit.is_some_and(|limit| limit.is_per_client)
    }

    /// What buckets admit at once.
    pub(crate) fn burst(&self) -> u64 {
        self.limit.map_or(0, |limit| limit.burst)
    }

    /// The name of a target, for people.
    pub fn target_name(&self, index: usize) -> String {
        target_name(&self.target_names, index)
    }

    /// How long the load lasts.
    pub fn duration(&self) -> Duration {
        self.plan.duration
    }

    /// The plan that sends this load to a URL: the same requests at the same times in every run.
    pub fn plan_to(&self, url: &str, more: &Value) -> Result<Plan, tidegate_load::InvalidPlan> {
        let mut plan = with_addresses(self.load.clone());
        plan["limiterUrl"] = url.into();
        if let (Some(plan), Some(more)) = (plan.as_object_mut(), more.as_object()) {
            plan.extend(more.clone());
        }
        Plan::read(plan.to_string().as_bytes())
    }

    /// The same from another seed.
    pub fn with_seed(mut self, seed: u64) -> Result<Self, InvalidScenario> {
        (self.seed, self.load["seed"]) = (seed, seed.into());
        let wrong = |invalid: tidegate_load::InvalidPlan| InvalidScenario {
            name: self.name.clone(),
            problems: invalid.0.iter().map(ToString::to_string).collect(),
        };
        self.plan = self.plan_to(NOWHERE, &json!({})).map_err(wrong)?;
        Ok(self)
    }

    /// Only with these of its algorithms.
    pub fn with_algorithms(mut self, names: &[String]) -> Result<Self, String> {
        if let Some(unknown) = names.iter().find(|name| !RATE_ALGORITHMS.iter().any(|known| known.name() == *name)) {
            return Err(format!(
                "unknown algorithm {unknown:?}; known algorithms: {}",
                RATE_ALGORITHMS.map(Algorithm::name).join(", ")
            ));
        }
        self.algorithms.retain(|algorithm| names.iter().any(|name| name == algorithm.name()));
        Ok(self)
    }

    /// The profile as it is written, for people.
    pub fn profile(&self) -> &Value {
        if self.load["profile"].is_null() { &self.load["phases"] } else { &self.load["profile"] }
    }
}

fn build(name: &str, mut object: Object<'_>) -> Option<Scenario> {
    let title = object.text("title").unwrap_or_else(|| name.to_owned());
    let about = object.text("about").unwrap_or_default();
    let seed = object.whole_or("seed", 0..=u64::MAX >> 11, 1);
    let has_phases = object.peek("load").is_some_and(|load| load.get("phases").is_some());
    let duration = if has_phases { None } else { object.number("duration", &SECONDS) };
    if has_phases && object.take("duration").is_some() {
        object.wrong("duration", "can't be set together with `load.phases`: each phase has its own");
    }
    let Guarded { limit, targets, gateway, is_own } = guarded(&mut object);
    let is_pool = !is_own && targets.as_ref().is_none_or(|targets| targets.is_pool);
    let upstream = upstream(&mut object, is_pool);
    let load = load::read(&mut object, duration, seed, is_own);
    let stores = [StoreKind::Memory, StoreKind::Redis, StoreKind::StandIn].map(|kind| (kind.name(), kind));
    let store = word(&mut object, "store", &stores);
    let modes = FailureMode::ALL.map(|mode| (mode.name(), mode));
    let on_failure = word(&mut object, "on_failure", &modes);
    let algorithms = if is_own { Some(Vec::new()) } else { algorithms(&mut object) };
    let adaptation = adaptation(&mut object);
    let baseline = baseline(&mut object, is_pool);
    let duration = load.as_ref().map(|(_, plan)| plan.duration);
    let faults = fault::read(&mut object, duration, targets.as_ref().map_or(Choice::None, Targets::choice));
    let objective = object.number_or("objective", &OBJECTIVE, 0.1);
    let expectations = expectation::read(&mut object, is_own);
    let store = store?;
    if !store.is_shared() && faults.iter().flatten().any(|fault| fault.kind.is_of_redis()) {
        object.wrong("faults", "faults of Redis need `store: redis` or `store: stand_in`");
    }
    let setting = limit.flatten();
    check_numbers(&object, setting, algorithms.as_deref().unwrap_or_default());
    if setting.is_some_and(|limit| limit.is_per_client) && adaptation.is_some_and(|adaptation| adaptation.is_some()) {
        object.wrong("adaptation", "needs a limit that all clients share (`limit.key: global`)");
    }
    object.end();
    let (load, plan) = load?;
    let (has_baseline, baseline_upstream) = baseline?;
    let targets = targets?;
    Some(Scenario {
        name: name.to_owned(),
        title,
        about,
        seed: seed?,
        limit: limit?,
        gateway: gateway?,
        targets: targets.models,
        target_names: targets.names,
        upstream: upstream?,
        load,
        plan,
        store,
        on_failure: on_failure?,
        algorithms: algorithms?,
        adaptation: adaptation?,
        has_baseline,
        baseline_upstream,
        faults: faults?,
        objective: Duration::from_secs_f64(objective?),
        expectations: expectations?,
    })
}

/// What is protected, and by what. A `None` outside is a problem.
#[expect(clippy::option_option, reason = "a problem is not the absence of a limit")]
struct Guarded {
    limit: Option<Option<LimitSetting>>,
    targets: Option<Targets>,
    gateway: Option<Option<Gateway>>,
    /// Whether the gateway has its own configuration.
    is_own: bool,
}

fn guarded(object: &mut Object<'_>) -> Guarded {
    let is_own = object.has("gateway");
    if !is_own {
        if object.take("variants").is_some() {
            object.wrong("variants", "needs `gateway`");
        }
        let (limit, targets) = (limit::read(object).map(Some), target::read(object));
        return Guarded { limit, targets, gateway: Some(None), is_own };
    }
    reject_beside_gateway(object);
    let targets = target::read_named(object);
    let names = targets.as_ref().map(|targets| &targets.names);
    let gateway = names.and_then(|names| gateway::read(object, names));
    // They are no unknown fields, even if nothing can be made of them.
    object.take("gateway");
    object.take("variants");
    Guarded { limit: Some(None), targets, gateway: gateway.map(Some), is_own }
}

/// What an algorithm can't have is reported now, not in the middle of a run.
fn check_numbers(object: &Object<'_>, limit: Option<LimitSetting>, algorithms: &[Algorithm]) {
    for (algorithm, setting) in algorithms.iter().zip(limit.iter().cycle()) {
        if let Err(error) = setting.numbers(*algorithm) {
            object.wrong("limit", format!("can't be enforced by `{algorithm}`: {error}"));
        }
    }
}

/// With the gateway's own configuration there is nothing else that configures it.
fn reject_beside_gateway(object: &mut Object<'_>) {
    for field in ["limit", "target", "upstream", "algorithms", "adaptation", "baseline", "store", "on_failure"] {
        if object.take(field).is_some() {
            object.wrong(field, "can't be set together with `gateway`");
        }
    }
}

/// How the gateway uses several targets. The outer `None` is a problem.
#[expect(clippy::option_option, reason = "a problem is not the absence of a pool")]
fn upstream(object: &mut Object<'_>, is_pool: bool) -> Option<Option<Upstream>> {
    match object.take("upstream") {
        None => Some(is_pool.then(Upstream::default)),
        Some(written) if is_pool => upstream::read(object, "upstream", written).map(Some),
        Some(_) => {
            object.wrong("upstream", NEEDS_TARGETS);
            None
        }
    }
}

/// Whether there is a run without any limit, and how the gateway uses several targets in it.
fn baseline(object: &mut Object<'_>, is_pool: bool) -> Option<(bool, Option<Upstream>)> {
    if !object.peek("baseline").is_some_and(Value::is_object) {
        return Some((object.switch_or("baseline", true)?, None));
    }
    let mut baseline = object.object("baseline")?;
    let written = baseline.take("upstream");
    let read = match written {
        None => Some(None),
        Some(written) if is_pool => upstream::read(&baseline, "upstream", written).map(Some),
        Some(_) => {
            baseline.wrong("upstream", NEEDS_TARGETS);
            None
        }
    };
    baseline.end();
    Some((true, read?))
}

/// One of some words, the first of them if it is left out.
fn word<T: Copy>(object: &mut Object<'_>, field: &'static str, words: &[(&str, T)]) -> Option<T> {
    let Some(text) = object.text(field) else { return words.first().map(|(_, usual)| *usual) };
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, found)| *found);
    if found.is_none() {
        let allowed: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        object.wrong(field, format!("must be one of {}, got {text:?}", allowed.join(", ")));
    }
    found
}

/// Algorithms by their names.
fn algorithms(object: &mut Object<'_>) -> Option<Vec<Algorithm>> {
    let Some(names) = object.list("algorithms", RATE_ALGORITHMS.len()) else { return Some(RATE_ALGORITHMS.to_vec()) };
    let mut found = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let known = name.as_str().and_then(|name| RATE_ALGORITHMS.into_iter().find(|known| known.name() == name));
        if known.is_none() {
            let allowed = RATE_ALGORITHMS.map(Algorithm::name).join(", ");
            object.wrong(&format!("algorithms[{index}]"), format!("must be one of {allowed}, got {}", shown(name)));
        }
        found.extend(known);
    }
    (found.len() == names.len()).then_some(found)
}

/// The outer `None` is a problem.
#[expect(clippy::option_option, reason = "a problem is not the absence of adaptation")]
fn adaptation(object: &mut Object<'_>) -> Option<Option<Adaptation>> {
    if !object.has("adaptation") {
        return Some(None);
    }
    let mut adaptation = object.object("adaptation")?;
    let interval = adaptation.number_or("interval", &INTERVAL, 5.0);
    let ceiling = adaptation.number("ceiling", &CEILING);
    let horizon = adaptation.whole_or("horizon", 5..=3_600, Policy::default().horizon as u64);
    let is_alone = adaptation.switch_or("alone", false);
    adaptation.end();
    let interval = Duration::from_secs_f64(interval?);
    Some(Some(Adaptation { interval, ceiling: ceiling?, horizon: horizon? as usize, is_alone: is_alone? }))
}

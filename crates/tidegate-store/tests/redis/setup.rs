//! What the tests of the store have in common: rules, limits, and a clock.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tidegate_policy::{
    Concurrency, Cost, FixedWindow, Gcra, LeakyBucket, Rate, Rule, SlidingCounter, SlidingLog, Timestamp, TokenBucket,
};
use tidegate_store::{
    FailureMode, Key, Name, SharedLevel, SharedLimit, Sharing, Store, StoreConfig, StoreEvent, Topology, Verdict,
};

/// Eleven days: no window ends during a test, but for one second in a million.
const LONG: Duration = Duration::from_secs(1_000_003);

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    Timestamp::from_nanos(since.as_nanos() as u64)
}

/// `limit` at once and next to nothing after, by every algorithm.
pub(crate) fn all_rules(limit: u64) -> Vec<Rule> {
    let slow = Rate::new(1, Duration::from_secs(3_600)).expect("a rate");
    vec![
        FixedWindow::new(limit, LONG).expect("a limit").into(),
        SlidingCounter::new(limit, LONG).expect("a limit").into(),
        SlidingLog::new(limit, LONG).expect("a limit").into(),
        TokenBucket::new(slow, limit).expect("a limit").into(),
        LeakyBucket::new(slow, limit - 1).expect("a limit").into(),
        Gcra::new(slow, limit).expect("a limit").into(),
        Concurrency::new(limit, LONG).expect("a limit").into(),
    ]
}

/// Those that can be leased.
pub(crate) fn leasable_rules(limit: u64) -> Vec<Rule> {
    let leasable = |rule: &Rule| !matches!(rule, Rule::LeakyBucket(_) | Rule::Concurrency(_));
    all_rules(limit).into_iter().filter(leasable).collect()
}

pub(crate) fn name(name: &str) -> Name {
    Name::new(name).expect("a plain name")
}

/// A patient configuration: on a busy machine a reply may take longer than the usual 20 ms, and most tests are not
/// about that.
pub(crate) fn patient(url: &str) -> StoreConfig {
    let topology: Topology = url.parse().expect("an address");
    let (observer, _) = recorder();
    StoreConfig { budget: Duration::from_secs(5), observer, ..StoreConfig::new(topology, name("test")) }
}

pub(crate) fn limit(store: &Store, called: &str, rule: impl Into<Rule>, sharing: Sharing) -> SharedLimit {
    store.limit(name(called), rule, sharing, NonZeroUsize::new(10_000).expect("not zero")).expect("a shareable rule")
}

pub(crate) fn level<'a>(limit: &'a SharedLimit, key: &str, cost: u32) -> SharedLevel<'a> {
    SharedLevel { limit, key: Key::of(&[key]), cost: Cost::new(cost).expect("a cost") }
}

pub(crate) async fn ask(store: &Store, limit: &SharedLimit, key: &str, cost: u32) -> Verdict {
    store.check(&[level(limit, key, cost)], now()).await
}

/// How many of `times` requests are admitted, one after the other.
pub(crate) async fn admitted(store: &Store, limit: &SharedLimit, key: &str, times: usize) -> usize {
    let mut admitted = 0;
    for _ in 0..times {
        admitted += usize::from(ask(store, limit, key, 1).await.admitted);
    }
    admitted
}

/// Events as they happened, calls by whether they failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Replied,
    Failed,
    Unreached,
    Reached,
    Down,
    Up,
}

pub(crate) fn recorder() -> (tidegate_store::Observer, Arc<Mutex<Vec<Seen>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let observer = move |event: StoreEvent<'_>| {
        let seen = match event {
            StoreEvent::Call { error: None, .. } => Seen::Replied,
            StoreEvent::Call { error: Some(error), .. } => {
                eprintln!("call failed: {error}");
                Seen::Failed
            }
            StoreEvent::Unreached { error } => {
                eprintln!("unreached: {error}");
                Seen::Unreached
            }
            StoreEvent::Reached { .. } => Seen::Reached,
            StoreEvent::Down { error } => {
                eprintln!("down: {error}");
                Seen::Down
            }
            // How often it tries is a matter of chance.
            StoreEvent::StillDown { .. } | StoreEvent::SlotsLost { .. } => return,
            StoreEvent::Up { .. } => Seen::Up,
        };
        record.lock().expect("nobody panicked here").push(seen);
    };
    (Arc::new(observer), seen)
}

pub(crate) const MODES: [FailureMode; 3] = [FailureMode::Open, FailureMode::Closed, FailureMode::Local];

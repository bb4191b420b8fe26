//! About the least numbers that would have rejected no more than a share. Each limit keeps its form (algorithm, window,
//! burst in proportion to the rate) and is scaled. Several scales are tried in one reading, and the log is read a few
//! times.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde_json::{Value, json};
use tidegate_gateway::config::default_limit;
use tidegate_gateway::config::model::{Config, Limit, Numbers, TierNumbers};
use tidegate_gateway::config::numbers::written;
use tidegate_gateway::config::span::Span;
use tidegate_gateway::settings::Settings;
use tidegate_gateway::{LimitFacts, Replayer};
use tidegate_input::grouped;
use tidegate_policy::numbers::{InvalidNumbers, LimitNumbers};
use tidegate_policy::shape::Shape;
use tidegate_policy::{Keyed, Rule, Ticket, Timestamp};
use tidegate_store::Key;

use super::{Policy, Reading, Recording, Replay, limits_yaml, replay_with};
use crate::observation::ratio;
use crate::scenario::shown_share;

/// How many scales are tried in one reading.
const TRIED: u32 = 8;
/// Scales that are closer than this are the same.
const CLOSE: f64 = 1.004;
/// The most readings that look for numbers, and the most that see what they do together.
const READINGS: usize = 7;
const ROUNDS: usize = 5;
/// How much more is given, in such a round, to limits that reject too many together with others.
const MORE: f64 = 1.03;
/// Slots in flight that are kept; beyond that the next one comes back early.
const MOST_ENDS: usize = 1 << 17;

/// What is proposed.
pub struct Suggestion {
    /// The share that may be rejected.
    pub share: f64,
    /// The share that all limits together would have rejected, with the numbers proposed.
    pub rejected_share: f64,
    /// By limit; those that were never asked are left out.
    pub limits: Vec<Suggested>,
    /// Rejected besides, whatever the numbers: limits' keys could not be built.
    pub lacking: u64,
    /// Limits of requests in flight, about which a log without durations has nothing.
    pub without_durations: Vec<String>,
    /// All limits of the configuration, as they would be written, also those without a proposal.
    section: BTreeMap<String, Limit>,
}

/// What is proposed for a limit.
pub struct Suggested {
    /// The limit as it is.
    pub limit: LimitFacts,
    /// Its numbers, as they would be.
    pub numbers: LimitNumbers,
    /// How often it would have been asked, together with all others.
    pub asked: u64,
    /// How often it would have rejected, together with all others.
    pub rejected: u64,
}

/// Proposes numbers for a policy. `None` if it was stopped. The log is read several times, so it can't be standard
/// input.
pub fn suggest(
    recording: &Recording,
    policy: &Policy,
    share: f64,
    is_stopped: &AtomicBool,
) -> Result<Option<Suggestion>, String> {
    let (mut wanted, mut more) = (share, BTreeMap::new());
    let Some(mut found) = search(recording, policy, wanted, is_stopped)? else { return Ok(None) };
    for round in 1.. {
        let numbers = found.iter().map(|it| (it.limit.name.clone(), it.numbers.clone())).collect();
        let replay = replay_with(recording, std::slice::from_ref(policy), &numbers, is_stopped)?;
        if is_stopped.load(Relaxed) {
            return Ok(None);
        }
        let suggestion = Suggestion::of(share, &policy.config, &found, &replay);
        if suggestion.rejected_share <= share || round == ROUNDS {
            return Ok(Some(suggestion));
        }
        // What each rejects alone adds up. Together with others, which delay requests, one may reject more than alone.
        if share > 0.0 {
            wanted *= 0.95 * share / suggestion.rejected_share;
            let Some(again) = search(recording, policy, wanted, is_stopped)? else { return Ok(None) };
            found = again;
        }
        for rejecting in suggestion.limits.iter().filter(|it| it.rejected > 0) {
            *more.entry(rejecting.limit.name.clone()).or_insert(1.0) *= MORE;
        }
        for it in &mut found {
            let scale = it.scale * more.get(&it.limit.name).copied().unwrap_or(1.0);
            if let Some((numbers, _)) = scaled(&it.limit, scale) {
                it.numbers = at_least_more(&it.limit, &it.numbers, numbers, scale > it.scale);
            }
        }
    }
    Ok(None)
}

/// A window's limit that is raised is raised by one at least.
fn at_least_more(limit: &LimitFacts, before: &LimitNumbers, raised: LimitNumbers, is_raised: bool) -> LimitNumbers {
    if !is_raised || raised.relevant() != before.relevant() {
        return raised;
    }
    let mut values = *raised.relevant().values();
    values.limit = values.limit.map(|count| count + 1);
    values.capacity = values.capacity.map(|count| count + 1);
    LimitNumbers::new(raised.algorithm(), values, limit.soft).unwrap_or(raised)
}

/// Numbers that were found for a limit, alone.
struct FoundAlone {
    limit: LimitFacts,
    scale: f64,
    numbers: LimitNumbers,
}

impl Suggestion {
    fn of(share: f64, config: &Config, found: &[FoundAlone], replay: &Replay) -> Self {
        let replayed = &replay.policies[0];
        let limits = found.iter().filter_map(|FoundAlone { limit, numbers, .. }| {
            let index = replayed.limits.iter().position(|known| known.name == limit.name)?;
            let (asked, rejected) = (replayed.asked[index], replayed.rejected_by[index]);
            Some(Suggested { limit: limit.clone(), numbers: numbers.clone(), asked, rejected })
        });
        let needs_durations = |limit: &&LimitFacts| limit.numbers.shape().is_none();
        let has_none = replay.lacks.contains(&"duration");
        let without_durations = replayed.limits.iter().filter(|_| has_none).filter(needs_durations);
        let without_durations = without_durations.map(|limit| limit.name.clone()).collect();
        // Limits in a dry run are to reject no more than others.
        let rejected = replayed.totals.rejected + replayed.totals.would_be_rejected;
        let rejected_share = ratio(rejected, replay.requests);
        let (lacking, limits): (_, Vec<Suggested>) = (replayed.totals.lacking, limits.collect());
        let section = changed(config, &limits);
        Self { share, rejected_share, limits, lacking, without_durations, section }
    }

    /// The `limits` section of the configuration with the numbers proposed and every other setting as it is, to replace
    /// the old one. Empty if nothing is proposed.
    pub fn yaml(&self) -> String {
        if self.limits.is_empty() {
            return String::new();
        }
        let is_of =
            |limit: &LimitFacts, name: &str| limit.tier_of.as_ref().map_or(&limit.name, |(base, _)| base) == name;
        let is_other = |suggested: &&Suggested| suggested.numbers.relevant() != suggested.limit.numbers.relevant();
        limits_yaml::section(&self.section, |name| {
            self.limits.iter().filter(is_other).any(|suggested| is_of(&suggested.limit, name))
        })
    }

    /// What to bear in mind before the numbers are put in force, a sentence each.
    pub fn notes(&self, found: &Replay) -> Vec<String> {
        let mut notes = Vec::new();
        if self.rejected_share > self.share {
            notes.push("That is more than the share wanted; no better numbers were found.".to_owned());
        }
        if self.lacking > 0 {
            let count = grouped(self.lacking);
            notes.push(format!(
                "Besides, {count} would be rejected whatever the numbers: a limit's key can't be built."
            ));
        }
        if !self.without_durations.is_empty() {
            let names = self.without_durations.join(", ");
            notes.push(format!("Left out, because the log does not record how long requests took: {names}."));
        }
        notes.extend(single_client(found));
        notes
    }
}

/// Numbers that fit one client alone are mostly not what is wanted.
fn single_client(found: &Replay) -> Option<String> {
    let policy = found.policies.first()?;
    let rejected = policy.totals.rejected + policy.totals.lacking;
    let (client, counts) = found.clients.most_rejected(0, 1).into_iter().next()?;
    let count = counts.rejections(0).count;
    if count <= rejected / 2 || found.lacks.contains(&"client") {
        return None;
    }
    let (part, shown, name) = (shown_share(ratio(count, rejected)), printable(client), &policy.name);
    let mut text =
        format!("{shown} sent {part} of the requests that {name} rejects; the proposed numbers admit them too");
    // A name with other characters is not for copying into a shell.
    if client.len() <= 40 && client.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:@-".contains(&byte)) {
        let _infallible = write!(text, " (--without {client} leaves them out)");
    }
    text.push('.');
    Some(text)
}

/// A text from a log without control characters, which could move the cursor, and short enough for a line.
pub fn printable(text: &str) -> String {
    let short = text.chars().take(40);
    short.map(|character| if character.is_control() { '?' } else { character }).collect()
}

/// All limits as they are written, with other numbers for some.
fn changed(config: &Config, suggested: &[Suggested]) -> BTreeMap<String, Limit> {
    let usual = || BTreeMap::from([("default".to_owned(), default_limit())]);
    let mut limits = config.limits.clone().unwrap_or_else(usual);
    for Suggested { limit, numbers, .. } in suggested {
        let (from, to) = (written(&limit.numbers.relevant()), written(&numbers.relevant()));
        match &limit.tier_of {
            None => {
                if let Some(Limit { limit, window, capacity, fill_rate, hold, .. }) = limits.get_mut(&limit.name) {
                    change([limit, capacity], [window, hold], fill_rate, &from, &to);
                }
            }
            Some((base, tier)) => {
                let tier = limits.get_mut(base).and_then(|limit| limit.tiers.get_mut(tier));
                if let Some(TierNumbers::Numbers(Numbers { limit, window, capacity, fill_rate, hold, .. })) = tier {
                    change([limit, capacity], [window, hold], fill_rate, &from, &to);
                }
            }
        }
    }
    limits
}

/// Sets the numbers that change; the rest stays as it is written.
fn change(
    [limit, capacity]: [&mut Option<u64>; 2],
    [window, hold]: [&mut Option<Span>; 2],
    fill_rate: &mut Option<f64>,
    from: &Numbers,
    to: &Numbers,
) {
    fn set<T: Copy + PartialEq>(written: &mut Option<T>, from: Option<T>, to: Option<T>) {
        if from != to {
            *written = to;
        }
    }
    set(limit, from.limit, to.limit);
    set(capacity, from.capacity, to.capacity);
    set(window, from.window, to.window);
    set(hold, from.hold, to.hold);
    set(fill_rate, from.fill_rate, to.fill_rate);
}

/// Numbers as JSON.
pub(super) fn numbers_json(numbers: &LimitNumbers) -> Value {
    let mut value = serde_json::to_value(written(&numbers.relevant())).unwrap_or_else(|_| json!({}));
    if let Some(fields) = value.as_object_mut() {
        fields.remove("algorithm");
    }
    value
}

/// For each limit that is asked at all the least numbers that, without other limits, reject no more than this share.
fn search(
    recording: &Recording,
    policy: &Policy,
    share: f64,
    is_stopped: &AtomicBool,
) -> Result<Option<Vec<FoundAlone>>, String> {
    let settings = Settings::check(&policy.config).map_err(|error| format!("{}: {error}", policy.name))?;
    let replayer: Replayer<()> = Replayer::new(settings, &BTreeMap::new())?;
    let mut brackets: Vec<Bracket> = replayer.limits().into_iter().map(Bracket::new).collect();
    let mut has_spans = false;
    for _ in 0..READINGS {
        brackets.iter_mut().for_each(Bracket::try_between);
        if brackets.iter().all(|bracket| bracket.tries.is_empty()) {
            break;
        }
        let (mut reading, mut accounts) = (Reading::default(), Vec::new());
        reading.all(recording, is_stopped, &mut |request, past| {
            replayer.keys(past, &mut accounts);
            let took = request.took.map_or(0, |took| u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
            for (limit, key) in &accounts {
                brackets[*limit].ask(*key, request.at, took);
            }
        })?;
        has_spans |= reading.recorded.took;
        if is_stopped.load(Relaxed) {
            return Ok(None);
        }
        for bracket in &mut brackets {
            bracket.narrow(share);
        }
    }
    // Nothing is known of requests in flight without their durations.
    let is_known = |bracket: &Bracket| bracket.asked > 0 && (has_spans || bracket.limit.numbers.shape().is_some());
    let found = brackets
        .into_iter()
        .filter(is_known)
        .filter_map(|bracket| Some(FoundAlone { limit: bracket.limit, scale: bracket.high, numbers: bracket.enough? }));
    Ok(Some(found.collect()))
}

/// Between which scales a limit's numbers are to be found.
struct Bracket {
    limit: LimitFacts,
    /// Rejects too many, or is the least there is.
    low: f64,
    /// Rejects few enough.
    high: f64,
    enough: Option<LimitNumbers>,
    tries: Vec<Try>,
    /// About how many requests, in the last reading in which something was tried.
    asked: u64,
}

/// Numbers that are tried.
struct Try {
    scale: f64,
    numbers: LimitNumbers,
    keys: Keyed<Key, Rule>,
    rejected: u64,
    /// Slots in flight that come back.
    ends: BinaryHeap<Reverse<Ending>>,
}

/// When a slot comes back, and which key has it.
struct Ending {
    at: u64,
    key: Key,
    ticket: Ticket,
}

impl PartialEq for Ending {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Ending {}

impl PartialOrd for Ending {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ending {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl Bracket {
    fn new(limit: LimitFacts) -> Self {
        // From less than one request in a thousand windows up to more than any log has.
        let quota = crate::observation::count(limit.numbers.quota().max(1));
        Self { limit, low: 1e-3 / quota, high: 1e9 / quota, enough: None, tries: Vec::new(), asked: 0 }
    }

    /// Tries numbers between both ends, as far apart as can be; none if both ends are the same.
    fn try_between(&mut self) {
        let ratio = self.high / self.low;
        let mut before = self.enough.as_ref().map(LimitNumbers::relevant);
        self.tries.clear();
        if ratio < CLOSE {
            return;
        }
        // From the largest, so that the same numbers are tried once, at their largest scale.
        for index in (0..TRIED).rev() {
            let scale = self.low * ratio.powf(f64::from(index + 1) / f64::from(TRIED + 1));
            let Some((numbers, rule)) = scaled(&self.limit, scale) else { continue };
            if before.replace(numbers.relevant()) != Some(numbers.relevant()) {
                let keys = Keyed::with_seed(rule, self.limit.max_keys, 1);
                self.tries.push(Try { scale, numbers, keys, rejected: 0, ends: BinaryHeap::new() });
            }
        }
        if !self.tries.is_empty() {
            self.asked = 0;
        }
    }

    fn ask(&mut self, key: Key, at: u64, took: u64) {
        if self.tries.is_empty() {
            return;
        }
        self.asked += 1;
        let now = Timestamp::from_nanos(at);
        for tried in &mut self.tries {
            while tried.ends.peek().is_some_and(|Reverse(ending)| ending.at <= at) || tried.ends.len() >= MOST_ENDS {
                if let Some(Reverse(Ending { key, ticket, .. })) = tried.ends.pop() {
                    tried.keys.give_back(&key, ticket, now);
                }
            }
            let (decision, ticket) = tried.keys.take(&key, self.limit.cost, now);
            tried.rejected += u64::from(!decision.is_admitted());
            if let Some(ticket) = ticket.filter(Ticket::is_slot) {
                tried.ends.push(Reverse(Ending { at: at.saturating_add(took), key, ticket }));
            }
        }
    }

    /// Moves both ends by the results of the tries.
    fn narrow(&mut self, share: f64) {
        let allowed = (share * crate::observation::count(self.asked)).floor();
        // Largest first: the last of those that reject few enough is the least.
        let few = self.tries.iter().take_while(|tried| crate::observation::count(tried.rejected) <= allowed).count();
        if let Some(tried) = self.tries.get(few) {
            self.low = tried.scale;
        }
        if let Some(tried) = few.checked_sub(1).map(|index| &self.tries[index]) {
            (self.high, self.enough) = (tried.scale, Some(tried.numbers.clone()));
        }
        self.tries.clear();
    }
}

/// A limit's numbers at this scale, if it can have them.
fn scaled(limit: &LimitFacts, scale: f64) -> Option<(LimitNumbers, Rule)> {
    let accepts = |numbers: &LimitNumbers| limit.accepts(numbers);
    let bucket = limit.numbers.fill_rate().and_then(|_| limit.numbers.shape());
    let numbers = if let Some(shape) = bucket {
        let shape = Shape { rate_per_second: shape.rate_per_second * scale, ..shape };
        shape.numbers::<Rejected>(limit.soft, |numbers| accepts(numbers).map(drop).map_err(|_| Rejected)).ok()?
    } else {
        let mut values = *limit.numbers.relevant().values();
        let count = crate::observation::count(values.limit?) * scale;
        values.limit = Some((count.round() as u64).max(1));
        LimitNumbers::new(limit.numbers.algorithm(), values, limit.soft).ok()?
    };
    let rule = accepts(&numbers).ok()?;
    Some((numbers, rule))
}

/// Numbers that a limit can't have: others are tried.
struct Rejected;

impl From<InvalidNumbers> for Rejected {
    fn from(_: InvalidNumbers) -> Self {
        Self
    }
}

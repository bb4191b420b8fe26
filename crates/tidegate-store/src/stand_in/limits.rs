//! Limits as `exact.lua` and `give_back.lua` keep them, decided by the algorithms in Rust.
//!
//! A tick is a microsecond here and a nanosecond to the algorithms; to them it makes no difference.

use std::collections::HashMap;
use std::time::Duration;

use tidegate_policy::state::{Marks, Receipt, RuleState};
use tidegate_policy::{
    Algorithm, Concurrency, Cost, Decision, FixedWindow, Gcra, InvalidLimit, LeakyBucket, Limiter as _, Rate, Rule,
    SlidingCounter, SlidingLog, Timestamp, TokenBucket,
};

use super::resp::number;
use crate::numbers::Numbers;

/// The most keys.
const MOST: usize = 10_000;
const FULL: &str = "OOM the stand-in is full";
const ODD: &str = "ERR the stand-in does not understand these limits";

/// All keys.
#[derive(Default)]
pub(super) struct Limits {
    all: HashMap<Vec<u8>, Entry>,
}

/// A key.
struct Entry {
    numbers: Numbers,
    rule: Rule,
    state: RuleState,
    /// Counts changes of numbers, which make receipts void.
    generation: u32,
    /// Slots by the names that callers gave them, and when they were taken.
    slots: HashMap<u64, Timestamp>,
}

/// One of the limits of a request.
struct Level<'a> {
    key: &'a [u8],
    numbers: Numbers,
    rule: Rule,
    cost: u32,
    /// The name of a slot; 0 if it has none.
    name: u64,
}

impl Limits {
    /// Asks every level, then charges all or none. The figures of each are those of `exact.lua`.
    pub(super) fn check(
        &mut self,
        keys: &[&[u8]],
        commit: bool,
        args: &[&[u8]],
        now: u64,
    ) -> Result<Vec<i64>, &'static str> {
        let now = Timestamp::from_nanos(now);
        let levels = levels(keys, args).ok_or(ODD)?;
        self.make_room(&levels, now)?;
        let mut reply = Vec::with_capacity(levels.len() * 9);
        let mut charge = commit;
        for (index, level) in levels.iter().enumerate() {
            // The same key named twice pays the sum.
            let earlier = levels[..index].iter().filter(|earlier| earlier.key == level.key);
            let asked = earlier.map(|earlier| earlier.cost).try_fold(level.cost, u32::checked_add);
            let cost = asked.and_then(Cost::new).ok_or(ODD)?;
            let decision = match self.all.get_mut(level.key) {
                Some(entry) => entry.follow(level, now).decide(&entry.state, cost, now),
                None => level.rule.decide(&RuleState::default(), cost, now),
            };
            charge &= decision.is_admitted();
            reply.extend(figures(decision));
            reply.extend([0; 4]);
        }
        if charge {
            for (level, reply) in levels.iter().zip(reply.chunks_exact_mut(9)) {
                let new = || Entry::new(level);
                let entry = self.all.entry(level.key.to_vec()).or_insert_with(new);
                reply[5..].copy_from_slice(&entry.take(level, now)?);
            }
        }
        Ok(reply)
    }

    /// Returns what an admitted request took, as `give_back.lua` does.
    pub(super) fn give_back(&mut self, keys: &[&[u8]], args: &[&[u8]], now: u64) -> Result<(), &'static str> {
        let now = Timestamp::from_nanos(now);
        let mut keys = keys.iter();
        for level in args.chunks(9) {
            let [algorithm, a, b, c, cost, at, owed, returned, run] = level else { return Err(ODD) };
            let numbers = read_numbers(algorithm, [a, b, c]).ok_or(ODD)?;
            let key = key_of(&numbers, &mut keys).ok_or(ODD)?;
            let cost = number(cost).and_then(|cost| Cost::new(u32::try_from(cost).ok()?)).ok_or(ODD)?;
            let mark = |mark: &[u8]| str::from_utf8(mark).ok()?.parse::<i64>().ok();
            let marks = [mark(at), mark(owed), mark(returned), mark(run)];
            let [Some(at), Some(owed), Some(returned), Some(run)] = marks else { return Err(ODD) };
            if let Some(entry) = self.all.get_mut(key) {
                entry.give_back(&numbers, cost, [at, owed, returned, run], now);
            }
        }
        Ok(())
    }

    /// Keys that are as good as unused make room for new ones.
    fn make_room(&mut self, levels: &[Level<'_>], now: Timestamp) -> Result<(), &'static str> {
        if self.all.len() + levels.len() <= MOST || levels.iter().all(|level| self.all.contains_key(level.key)) {
            return Ok(());
        }
        self.all.retain(|_, entry| entry.rule.spent(&entry.state, now) > 0);
        if self.all.len() + levels.len() <= MOST { Ok(()) } else { Err(FULL) }
    }
}

impl Entry {
    fn new(level: &Level<'_>) -> Self {
        let (numbers, rule) = (level.numbers, level.rule);
        Self { numbers, rule, state: RuleState::default(), generation: 0, slots: HashMap::new() }
    }

    /// Takes over the numbers that it is asked with.
    fn follow(&mut self, level: &Level<'_>, now: Timestamp) -> Rule {
        if level.numbers != self.numbers {
            level.rule.adopt(&mut self.state, &self.rule, now);
            (self.numbers, self.rule) = (level.numbers, level.rule);
            self.generation = self.generation.wrapping_add(1) & GENERATIONS;
        }
        self.rule
    }

    /// Takes what was just admitted; the marks by which it is given back.
    fn take(&mut self, level: &Level<'_>, now: Timestamp) -> Result<[i64; 4], &'static str> {
        let receipt = self.rule.take(&mut self.state, Cost::new(level.cost).ok_or(ODD)?, now);
        let (at, marks) = (receipt.at().as_nanos() as i64, receipt.marks());
        if let Rule::Concurrency(rule) = &self.rule
            && level.name > 0
        {
            self.slots.retain(|_, taken| now.since(*taken) < rule.hold());
            self.slots.insert(level.name, receipt.at());
            return Ok([at, 0, 0, -(level.name as i64)]);
        }
        let run = i64::from(self.generation) << 32 | i64::from(marks.run);
        Ok([at, marks.owed as i64, i64::from(marks.returned), run])
    }

    fn give_back(&mut self, then: &Numbers, cost: Cost, [at, owed, returned, run]: [i64; 4], now: Timestamp) {
        let generation = (run >> 32) as u32;
        let is_good = match self.numbers.algorithm {
            Algorithm::SlidingLog | Algorithm::Concurrency => true,
            Algorithm::FixedWindow | Algorithm::SlidingCounter => then.args[1] == self.numbers.args[1],
            Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra => {
                then == &self.numbers && generation == self.generation
            }
        };
        let at = match run {
            // By its name, once, also if the caller does not know when it was taken.
            ..0 => self.slots.remove(&run.unsigned_abs()),
            0.. => Some(Timestamp::from_nanos(at as u64)),
        };
        if let Some(at) = at.filter(|_| is_good && then.algorithm == self.numbers.algorithm) {
            let marks = Marks { owed: owed as u64, returned: returned as u32, run: run as u32 };
            self.rule.give_back(&mut self.state, &Receipt::new(at, cost, marks), now);
        }
    }
}

/// A mark is never below zero: that is where names are.
const GENERATIONS: u32 = u32::MAX >> 1;

/// Admitted, remaining, reset, retry (-1: never), wait.
fn figures(decision: Decision) -> [i64; 5] {
    let ticks = |span: Duration| span.as_nanos() as i64;
    let (remaining, reset) = (decision.remaining() as i64, ticks(decision.reset_after()));
    match decision {
        Decision::Admit { wait, .. } => [1, remaining, reset, 0, ticks(wait)],
        Decision::Reject { retry_after, .. } => [0, remaining, reset, retry_after.map_or(-1, ticks), 0],
    }
}

/// Algorithm, cost and three numbers of each level, with their keys.
fn levels<'a>(keys: &[&'a [u8]], args: &[&[u8]]) -> Option<Vec<Level<'a>>> {
    let mut keys = keys.iter();
    let mut levels = Vec::with_capacity(args.len() / 5);
    for level in args.chunks(5) {
        let [algorithm, cost, a, b, c] = level else { return None };
        let mut numbers = read_numbers(algorithm, [a, b, c])?;
        let key = key_of(&numbers, &mut keys)?;
        let mut name = 0;
        if numbers.algorithm == Algorithm::Concurrency {
            // The last of its numbers is this request's alone.
            name = std::mem::take(&mut numbers.args[2]) & (u64::MAX >> 1);
        }
        let cost = u32::try_from(number(cost)?).ok()?;
        levels.push(Level { key, numbers, rule: rule(&numbers).ok()?, cost, name });
    }
    Some(levels)
}

/// The first of a limit's keys; a log's second one is needed by Redis alone.
fn key_of<'a>(numbers: &Numbers, keys: &mut std::slice::Iter<'_, &'a [u8]>) -> Option<&'a [u8]> {
    let (own, rest) = keys.as_slice().split_at_checked(numbers.key_count())?;
    *keys = rest.iter();
    own.first().copied()
}

fn read_numbers(algorithm: &[u8], args: [&[u8]; 3]) -> Option<Numbers> {
    let algorithm = str::from_utf8(algorithm).ok()?.parse().ok()?;
    let [Some(a), Some(b), Some(c)] = args.map(number) else { return None };
    Some(Numbers { algorithm, args: [a, b, c] })
}

/// What [`Numbers::of`] came from, in ticks.
fn rule(numbers: &Numbers) -> Result<Rule, InvalidLimit> {
    let [a, b, c] = numbers.args;
    let span = Duration::from_nanos(b);
    let capacity = a.checked_div(b).unwrap_or(0);
    Ok(match numbers.algorithm {
        Algorithm::FixedWindow => FixedWindow::new(a, span)?.into(),
        Algorithm::SlidingCounter => SlidingCounter::new(a, span)?.into(),
        Algorithm::SlidingLog => SlidingLog::new(a, span)?.into(),
        Algorithm::Concurrency => Concurrency::new(a, span)?.into(),
        Algorithm::TokenBucket => TokenBucket::new(Rate::new(c, span)?, capacity)?.into(),
        Algorithm::Gcra => Gcra::new(Rate::new(c, span)?, capacity)?.into(),
        Algorithm::LeakyBucket => LeakyBucket::new(Rate::new(c, span)?, capacity.saturating_sub(1))?.into(),
    })
}

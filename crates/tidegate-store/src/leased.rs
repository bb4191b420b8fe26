//! Tokens taken in advance: requests are decided from what is in hand, and Redis is asked when that runs out.

use std::sync::Arc;
use std::time::Duration;

use tidegate_policy::{Decision, Level, Timestamp, check_all};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::charge::{Charged, LocalTicket};
use crate::exact;
use crate::key::Key;
use crate::lease::{Ask, Grant, Lease, LeaseTerms};
use crate::limit::{SharedLevel, SharedLimit, Sharing};
use crate::link::{Unavailable, micros};
use crate::local::{FromLeases, tickets};
use crate::owed::Owed;
use crate::script::Task;
use crate::session::Session;
use crate::verdict::{Source, Verdict};

/// Where requests wait while another one asks for the same key.
#[derive(Default)]
struct Turns([Notify; 32]);

impl Turns {
    fn of(&self, key: Key) -> &Notify {
        &self.0[key.spread() % self.0.len()]
    }
}

/// A key to be asked about, and the question.
struct Question {
    limit: SharedLimit,
    key: Key,
    ask: Ask,
}

/// Integers a level takes in the reply of `lease.lua`.
const REPLY: usize = 6;

/// Decides from leases, and asks Redis for more.
pub(crate) struct Leases {
    owed: Arc<Owed>,
    turns: Turns,
    terms: LeaseTerms,
    budget: Duration,
}

impl Leases {
    pub(crate) fn new(owed: Arc<Owed>, terms: LeaseTerms, budget: Duration) -> Self {
        Self { owed, turns: Turns::default(), terms, budget }
    }

    fn session(&self) -> &Session {
        self.owed.session()
    }

    /// The common case, without a wait and without a timer: all levels are leased, and what is in hand is enough, or is
    /// known not to be.
    pub(crate) fn check_in_hand(self: &Arc<Self>, levels: &[SharedLevel<'_>], now: Timestamp) -> Option<Verdict> {
        if levels.iter().any(|level| level.limit.sharing() == Sharing::Exact) {
            return None;
        }
        let levels: Vec<&SharedLevel<'_>> = levels.iter().collect();
        let mut taken = FromLeases::new(&levels, now);
        let admitted = check_all(&mut taken.levels, now).is_ok();
        if !admitted {
            // While Redis is away the failure mode decides. That is seen first: a connection made since has another
            // epoch.
            let is_lacking = !lacking(&levels, &taken.levels).is_empty();
            if is_lacking || self.session().link.is_down() || self.drop_stale_rejections(&levels) {
                return None;
            }
            self.session().link.probe_if_silent();
        }
        let local = if admitted { tickets(levels.iter().copied(), &mut taken.levels, true) } else { Vec::new() };
        self.stock_up(&local, now);
        let decisions = taken.levels.iter().filter_map(|level| level.decision).collect();
        Some(Verdict::new(Source::Shared, decisions, Charged { local, exact: Vec::new() }))
    }

    /// Drops what these levels remember over an earlier connection: a Redis that was away may have come back empty.
    /// Returns whether there was anything.
    fn drop_stale_rejections(&self, levels: &[&SharedLevel<'_>]) -> bool {
        let epoch = self.session().link.epoch();
        let drop_stale = |level: &&&SharedLevel<'_>| {
            level.limit.leases().update_known(&level.key, |state| state.drop_stale_rejection(epoch)) == Some(true)
        };
        levels.iter().filter(drop_stale).count() > 0
    }

    /// Levels that are leased are decided from what is in hand; exact ones go with them, in one call. All or nothing:
    /// what was taken from leases is put back if an exact level rejects.
    pub(crate) async fn check(
        self: &Arc<Self>,
        levels: &[SharedLevel<'_>],
        now: Timestamp,
    ) -> Result<Verdict, Unavailable> {
        let of = |sharing| levels.iter().filter(move |level| level.limit.sharing() == sharing).collect::<Vec<_>>();
        let (leased, exact) = (of(Sharing::Leased), of(Sharing::Exact));
        let mut taken = FromLeases::new(&leased, now);
        let in_hand = self.take_from_leases(&leased, &mut taken.levels, now).await?;
        let (decided, charges) =
            if exact.is_empty() { (Vec::new(), Vec::new()) } else { exact::ask(&self.owed, &exact, in_hand).await? };
        let admitted = in_hand && decided.iter().all(Decision::is_admitted);
        let local = if admitted { tickets(leased.iter().copied(), &mut taken.levels, true) } else { Vec::new() };
        self.stock_up(&local, now);
        let (mut leases, mut exact) = (taken.levels.iter().filter_map(|level| level.decision), decided.into_iter());
        let decisions = levels.iter().filter_map(|level| match level.limit.sharing() {
            Sharing::Leased => leases.next(),
            Sharing::Exact => exact.next(),
        });
        Ok(Verdict::new(Source::Shared, decisions.collect(), Charged { local, exact: charges }))
    }

    /// Takes from all leases, or from none; asks Redis for those that lack something, or waits for the request that is
    /// asking already.
    async fn take_from_leases(
        self: &Arc<Self>,
        levels: &[&SharedLevel<'_>],
        asked: &mut [Level<'_, Key, Lease>],
        now: Timestamp,
    ) -> Result<bool, Unavailable> {
        let started = Instant::now();
        let asked_at = now;
        loop {
            let now = asked_at + started.elapsed(); // a lease may have ended while we waited
            if check_all(asked, now).is_ok() {
                return Ok(true);
            }
            if self.session().link.is_down() {
                return Err(Unavailable);
            }
            let lacking = lacking(levels, asked);
            let Some(first) = lacking.first() else {
                if self.drop_stale_rejections(levels) {
                    continue; // they are questions now
                }
                return Ok(false);
            };
            let turn = self.turns.of(levels[*first].key).notified();
            tokio::pin!(turn);
            turn.as_mut().enable(); // before we look who is asking, or we might miss it
            let question = |index: &usize| {
                let level = levels[*index];
                self.question(level.limit, level.key, cost_of_key(levels, *index), now)
            };
            let questions: Vec<Question> = lacking.iter().filter_map(question).collect();
            if questions.is_empty() {
                turn.await;
            } else {
                // In a task of its own: those who wait for us must get their reply even if our client goes away.
                let asking = tokio::spawn(Arc::clone(self).put(questions, now));
                asking.await.map_err(|_| Unavailable)??;
            }
        }
    }

    /// A question about this key, unless one is under way already.
    fn question(&self, limit: &SharedLimit, key: Key, cost: u32, now: Timestamp) -> Option<Question> {
        let (id, timeout) = (self.session().next_id(), self.budget * 2);
        let ask = limit.leases().update(&key, now, |state| state.ask(cost, now, &self.terms, id, timeout))?;
        Some(Question { limit: limit.clone(), key, ask })
    }

    /// Fetches more for leases that run low, before they run out. Nobody waits for it. While Redis is away what is in
    /// hand is all there is.
    fn stock_up(self: &Arc<Self>, taken: &[LocalTicket], now: Timestamp) {
        if self.session().link.is_down() {
            return;
        }
        let low = taken.iter().filter_map(LocalTicket::low_lease);
        let questions: Vec<Question> = low.filter_map(|(limit, key)| self.question(limit, key, 0, now)).collect();
        if !questions.is_empty() {
            tokio::spawn(Arc::clone(self).put(questions, now));
        }
    }

    /// Puts the questions to Redis in one call, hands out the replies, and wakes those who wait for them.
    async fn put(self: Arc<Self>, questions: Vec<Question>, asked_at: Timestamp) -> Result<(), Unavailable> {
        let reply = self.ask_leases(&questions).await;
        for (index, Question { limit, key, ask }) in questions.iter().enumerate() {
            limit.leases().update(key, asked_at, |state| match &reply {
                Ok(grants) => state.receive(ask, &grants[index], asked_at, &self.terms),
                Err(Unavailable) => state.no_reply(ask),
            });
            self.turns.of(*key).notify_waiters();
        }
        reply.map(drop)
    }

    async fn ask_leases(&self, questions: &[Question]) -> Result<Vec<Grant>, Unavailable> {
        let mut keys = Vec::with_capacity(questions.len());
        let mut args = vec![String::new()];
        let mut algorithms = Vec::with_capacity(questions.len());
        for Question { limit, key, ask } in questions {
            let numbers = limit.numbers();
            keys.extend(limit.redis_keys(&numbers, *key));
            args.push(numbers.algorithm.name().to_owned());
            let lease = [ask.id, ask.new_id, ask.held.into(), ask.spent.into(), ask.granted_at, ask.keep.into()];
            let wish = [ask.want.into(), ask.cost.into(), self.terms.span.as_micros() as u64];
            args.extend(numbers.args.iter().chain(&lease).chain(&wish).map(u64::to_string));
            algorithms.push(numbers.algorithm);
        }
        let script = self.session().scripts.get(Task::Lease, &algorithms);
        let link = &self.session().link;
        let epoch = link.epoch(); // before the question: a connection made since then is another
        let reply = link.run(&script, &keys, &args, 1 + questions.len() * REPLY).await?;
        let at = u64::try_from(reply[0]).unwrap_or(0);
        Ok(reply[1..].chunks_exact(REPLY).map(|reply| grant(reply, at, epoch)).collect())
    }
}

/// The levels about which Redis must be asked. Of a key that is named twice the last level asks, for the sum.
fn lacking(levels: &[&SharedLevel<'_>], asked: &[Level<'_, Key, Lease>]) -> Vec<usize> {
    let is_last = |index: usize| !levels[index + 1..].iter().any(|later| is_same_key(later, levels[index]));
    let lacks = |index: &usize| asked[*index].decision.as_ref().is_some_and(is_question) && is_last(*index);
    (0..levels.len()).filter(lacks).collect()
}

/// Whether both are the same key of the same limit.
fn is_same_key(a: &SharedLevel<'_>, b: &SharedLevel<'_>) -> bool {
    a.key == b.key && a.limit.is(b.limit)
}

/// What all levels of this one's key cost together.
fn cost_of_key(levels: &[&SharedLevel<'_>], of: usize) -> u32 {
    let same = levels.iter().filter(|level| is_same_key(level, levels[of]));
    same.fold(0, |sum: u32, level| sum.saturating_add(level.cost.get()))
}

/// Whether a lease's rejection means that Redis must be asked.
fn is_question(decision: &Decision) -> bool {
    matches!(decision, Decision::Reject { retry_after: Some(Duration::ZERO), .. })
}

fn grant(reply: &[i64], at: u64, epoch: u32) -> Grant {
    Grant {
        granted: u32::try_from(reply[0]).unwrap_or(0),
        kept: reply[1] == 1,
        span: micros(reply[2]),
        left: u64::try_from(reply[3]).unwrap_or(0),
        reset_after: micros(reply[4]),
        retry_after: (reply[5] >= 0).then(|| micros(reply[5])),
        at,
        epoch,
    }
}

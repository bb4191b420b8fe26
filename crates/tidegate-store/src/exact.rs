//! One script call for all limits of a request.

use std::sync::Arc;

use tidegate_policy::{Algorithm, Decision};
use tokio::sync::oneshot;

use crate::charge::{Charge, Charged};
use crate::limit::SharedLevel;
use crate::link::{Unavailable, micros};
use crate::numbers::Numbers;
use crate::owed::{Owed, Taken};
use crate::script::Task;
use crate::session::Session;
use crate::verdict::{Source, Verdict};

/// Integers a level takes in the reply of `exact.lua`.
const REPLY: usize = 9;

/// What Redis decided at each level, and what it charged.
type Reply = Result<(Vec<Decision>, Vec<Charge>), Unavailable>;

/// A question to Redis that owns all it needs: it is put even if the caller goes away.
struct Question {
    keys: Vec<String>,
    args: Vec<String>,
    levels: Vec<(Numbers, u32)>,
    commit: bool,
}

impl Question {
    fn new(session: &Session, levels: &[&SharedLevel<'_>], commit: bool) -> Self {
        let mut keys = Vec::with_capacity(levels.len());
        let mut args = vec![String::new(), u8::from(commit).to_string()];
        let numbered = |level: &&SharedLevel<'_>| {
            let mut numbers = level.limit.numbers();
            if numbers.algorithm == Algorithm::Concurrency {
                // We name the slot ourselves: it can be given back even if we never hear that we have it.
                numbers.args[2] = session.next_id();
            }
            (numbers, level.cost.get())
        };
        let numbers: Vec<(Numbers, u32)> = levels.iter().map(numbered).collect();
        for (level, (numbers, cost)) in levels.iter().zip(&numbers) {
            keys.extend(level.limit.redis_keys(numbers, level.key));
            args.push(numbers.algorithm.name().to_owned());
            args.push(cost.to_string());
            args.extend(numbers.args.map(|number| number.to_string()));
        }
        Self { keys, args, levels: numbers, commit }
    }

    async fn put(&self, owed: &Arc<Owed>) -> Reply {
        let algorithms: Vec<_> = self.levels.iter().map(|(numbers, _)| numbers.algorithm).collect();
        let session = owed.session();
        let script = session.scripts.get(Task::Check, &algorithms);
        let mut without_response = WithoutResponse { owed, slots: self.slots(session) };
        let reply = session.link.run(&script, &self.keys, &self.args, 1 + self.levels.len() * REPLY).await;
        // A script that ends with an error has read, and taken nothing: only without a reply nobody knows.
        if reply.as_ref().err().is_none_or(|error| !error.may_be_done()) {
            without_response.slots.clear();
        }
        let reply = reply?;
        let replies = reply[1..].chunks_exact(REPLY);
        let decisions: Vec<Decision> = replies.clone().map(decision).collect();
        if !self.commit || decisions.iter().any(|decision| !decision.is_admitted()) {
            return Ok((decisions, Vec::new()));
        }
        let mut keys = self.keys.iter();
        let charges = self.levels.iter().zip(replies).map(|((numbers, cost), reply)| Charge {
            keys: keys.by_ref().take(numbers.key_count()).cloned().collect(),
            numbers: *numbers,
            cost: *cost,
            receipt: [reply[5], reply[6], reply[7], reply[8]],
        });
        Ok((decisions, charges.collect()))
    }

    /// The slots that Redis may take for it, by the names it was given for them.
    fn slots(&self, session: &Session) -> Vec<Charge> {
        if !self.commit || session.link.is_down() {
            return Vec::new();
        }
        let (mut keys, mut slots) = (self.keys.iter(), Vec::new());
        for (numbers, cost) in &self.levels {
            let keys = keys.by_ref().take(numbers.key_count());
            if numbers.algorithm == Algorithm::Concurrency {
                let name = -i64::try_from(numbers.args[2]).unwrap_or(0);
                slots.push(Charge {
                    keys: keys.cloned().collect(),
                    numbers: *numbers,
                    cost: *cost,
                    receipt: [0, 0, 0, name],
                });
            } else {
                keys.for_each(drop);
            }
        }
        slots
    }
}

/// Slots that Redis may have taken for a question whose reply never came: too late, or nobody was left to hear it.
struct WithoutResponse<'a> {
    owed: &'a Arc<Owed>,
    slots: Vec<Charge>,
}

impl Drop for WithoutResponse<'_> {
    fn drop(&mut self) {
        self.owed.owe(std::mem::take(&mut self.slots), Taken::Perhaps);
    }
}

/// Charges on their way to the caller. If it is gone when they arrive, they are given back.
struct OnTheWay {
    owed: Arc<Owed>,
    charges: Vec<Charge>,
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        let charges = std::mem::take(&mut self.charges);
        if !charges.is_empty() {
            let owed = Arc::clone(&self.owed);
            // Not on the runtime of the caller: it may be about to end.
            self.owed.session().runtime.spawn(async move { owed.give_back(charges).await });
        }
    }
}

/// Asks Redis about all levels; charges all or none.
pub(crate) async fn check(owed: &Arc<Owed>, levels: &[SharedLevel<'_>]) -> Result<Verdict, Unavailable> {
    let levels: Vec<&SharedLevel<'_>> = levels.iter().collect();
    let (decisions, charges) = ask(owed, &levels, true).await?;
    Ok(Verdict::new(Source::Shared, decisions, Charged { exact: charges, local: Vec::new() }))
}

/// Asks Redis; charges all levels if all admit and `commit` is set. If the caller is gone by the time of the reply,
/// what was charged is given back: a slot that nobody will ever leave must not stay taken.
pub(crate) async fn ask(owed: &Arc<Owed>, levels: &[&SharedLevel<'_>], commit: bool) -> Reply {
    let question = Question::new(owed.session(), levels, commit);
    let (reply, replied) = oneshot::channel();
    let owed = Arc::clone(owed);
    tokio::spawn(async move {
        let put = question.put(&owed).await;
        let _gone = reply.send(put.map(|(decisions, charges)| (decisions, OnTheWay { owed, charges })));
    });
    let (decisions, mut on_the_way) = replied.await.unwrap_or(Err(Unavailable))?;
    Ok((decisions, std::mem::take(&mut on_the_way.charges)))
}

fn decision(reply: &[i64]) -> Decision {
    let (remaining, reset_after) = (u64::try_from(reply[1]).unwrap_or(0), micros(reply[2]));
    if reply[0] == 1 {
        Decision::Admit { wait: micros(reply[4]), remaining, reset_after }
    } else {
        let retry_after = (reply[3] >= 0).then(|| micros(reply[3]));
        Decision::Reject { retry_after, remaining, reset_after }
    }
}

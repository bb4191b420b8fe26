//! One script call for all limits of a request.

use std::sync::Arc;
use std::time::Duration;

use tidegate_policy::{Algorithm, Decision};
use tokio::sync::oneshot;

use crate::limit::SharedLevel;
use crate::link::{NoAnswer, Unavailable};
use crate::numbers::Numbers;
use crate::owed::Taken;
use crate::script::Task;
use crate::store::{Charged, Inner, Source, Verdict};

/// What Redis charged one level, with all that is needed to return it.
#[derive(Debug)]
pub(crate) struct Charge {
    keys: Vec<String>,
    numbers: Numbers,
    cost: u32,
    /// When, owed, returned, run: the script's own marks.
    receipt: [i64; 4],
}

impl Charge {
    pub(crate) fn is_place(&self) -> bool {
        self.numbers.algorithm == Algorithm::Concurrency
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        let numbers = Numbers { algorithm: Algorithm::Concurrency, args: [1, 1, 0] };
        Self { keys: Vec::new(), numbers, cost: 1, receipt: [0; 4] }
    }
}

/// Integers a level takes in the reply of `exact.lua`.
const REPLY: usize = 9;

/// A question to Redis that owns all it needs: it is put even if whoever asked goes away.
struct Question {
    keys: Vec<String>,
    args: Vec<String>,
    levels: Vec<(Numbers, u32)>,
    commit: bool,
}

impl Question {
    fn new(inner: &Inner, levels: &[&SharedLevel<'_>], commit: bool) -> Self {
        let mut keys = Vec::with_capacity(levels.len());
        let mut args = vec![String::new(), u8::from(commit).to_string()];
        let numbered = |level: &&SharedLevel<'_>| {
            let mut numbers = level.limit.numbers();
            if numbers.algorithm == Algorithm::Concurrency {
                // We name the place ourselves: it can be given back even if we never hear that we have it.
                numbers.args[2] = inner.next_id();
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

    async fn put(&self, inner: &Arc<Inner>) -> Answer {
        let algorithms: Vec<_> = self.levels.iter().map(|(numbers, _)| numbers.algorithm).collect();
        let script = inner.scripts.get(Task::Check, &algorithms);
        let mut unanswered = Unanswered { inner, places: self.places(inner) };
        let reply = inner.link.run(&script, &self.keys, &self.args, 1 + self.levels.len() * REPLY).await;
        // A script that ends with an error has read, and taken nothing: only without an answer nobody knows.
        if reply.as_ref().err().is_none_or(|no_answer| !no_answer.may_be_done()) {
            unanswered.places.clear();
        }
        let reply = reply?;
        let answers = reply[1..].chunks_exact(REPLY);
        let decisions: Vec<Decision> = answers.clone().map(decision).collect();
        if !self.commit || decisions.iter().any(|decision| !decision.is_admitted()) {
            return Ok((decisions, Vec::new()));
        }
        let mut keys = self.keys.iter();
        let charges = self.levels.iter().zip(answers).map(|((numbers, cost), answer)| Charge {
            keys: keys.by_ref().take(numbers.key_count()).cloned().collect(),
            numbers: *numbers,
            cost: *cost,
            receipt: [answer[5], answer[6], answer[7], answer[8]],
        });
        Ok((decisions, charges.collect()))
    }

    /// The places that Redis may take for it, by the names it was given for them.
    fn places(&self, inner: &Inner) -> Vec<Charge> {
        if !self.commit || inner.link.is_down() {
            return Vec::new();
        }
        let (mut keys, mut places) = (self.keys.iter(), Vec::new());
        for (numbers, cost) in &self.levels {
            let keys = keys.by_ref().take(numbers.key_count());
            if numbers.algorithm == Algorithm::Concurrency {
                let name = -i64::try_from(numbers.args[2]).unwrap_or(0);
                places.push(Charge {
                    keys: keys.cloned().collect(),
                    numbers: *numbers,
                    cost: *cost,
                    receipt: [0, 0, 0, name],
                });
            } else {
                keys.for_each(drop);
            }
        }
        places
    }
}

/// Places that Redis may have taken for a question whose answer never came: too late, or nobody was left to hear it.
struct Unanswered<'a> {
    inner: &'a Arc<Inner>,
    places: Vec<Charge>,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.inner.owe(std::mem::take(&mut self.places), Taken::Perhaps);
    }
}

type Answer = Result<(Vec<Decision>, Vec<Charge>), Unavailable>;

/// Charges on their way to whoever asked. If he is gone when they arrive, they are given back.
struct OnTheWay {
    inner: Arc<Inner>,
    charges: Vec<Charge>,
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        let charges = std::mem::take(&mut self.charges);
        if !charges.is_empty() {
            let inner = Arc::clone(&self.inner);
            // Not on the runtime of whoever asked: it may be about to end.
            self.inner.runtime.spawn(async move { inner.give_back_exact(charges).await });
        }
    }
}

impl Inner {
    pub(crate) async fn check_exact(self: &Arc<Self>, levels: &[SharedLevel<'_>]) -> Result<Verdict, Unavailable> {
        let levels: Vec<&SharedLevel<'_>> = levels.iter().collect();
        let (decisions, charges) = self.ask_exact(&levels, true).await?;
        Ok(Verdict::new(Source::Shared, decisions, Charged { exact: charges, local: Vec::new() }))
    }

    /// Asks Redis; charges all levels if all admit and `commit` is set. If the caller is gone by the time of the answer, what was charged
    /// is given back: a place in flight that nobody will ever leave must not stay taken.
    pub(crate) async fn ask_exact(self: &Arc<Self>, levels: &[&SharedLevel<'_>], commit: bool) -> Answer {
        let question = Question::new(self, levels, commit);
        let (answer, answered) = oneshot::channel();
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let put = question.put(&inner).await;
            let _gone = answer.send(put.map(|(decisions, charges)| (decisions, OnTheWay { inner, charges })));
        });
        let (decisions, mut on_the_way) = answered.await.unwrap_or(Err(Unavailable))?;
        Ok((decisions, std::mem::take(&mut on_the_way.charges)))
    }

    /// Gives back. If Redis is away the places are owed to it, and the rest stays charged: what was late may have been carried out, and only
    /// a place can be given back twice without harm, for it has a name.
    pub(crate) async fn give_back_exact(self: &Arc<Self>, mut charges: Vec<Charge>) {
        if self.return_to_redis(charges.iter()).await.is_err() {
            charges.retain(Charge::is_place);
            self.owe(charges, Taken::Surely);
        }
    }

    pub(crate) async fn return_to_redis(
        &self,
        charges: impl ExactSizeIterator<Item = &Charge>,
    ) -> Result<(), NoAnswer> {
        let (mut keys, mut algorithms) = (Vec::with_capacity(charges.len()), Vec::with_capacity(charges.len()));
        let mut args = vec![String::new()];
        for charge in charges {
            algorithms.push(charge.numbers.algorithm);
            keys.extend(charge.keys.iter().cloned());
            args.push(charge.numbers.algorithm.name().to_owned());
            args.extend(charge.numbers.args.map(|number| number.to_string()));
            args.push(charge.cost.to_string());
            args.extend(charge.receipt.map(|number| number.to_string()));
        }
        let script = self.scripts.get(Task::GiveBack, &algorithms);
        self.link.run(&script, &keys, &args, 1).await.map(drop)
    }
}

pub(crate) fn micros(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

fn decision(answer: &[i64]) -> Decision {
    let (remaining, reset_after) = (u64::try_from(answer[1]).unwrap_or(0), micros(answer[2]));
    if answer[0] == 1 {
        Decision::Admit { wait: micros(answer[4]), remaining, reset_after }
    } else {
        let retry_after = (answer[3] >= 0).then(|| micros(answer[3]));
        Decision::Refuse { retry_after, remaining, reset_after }
    }
}

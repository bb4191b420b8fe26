//! One script call for all limits of a request.

use std::sync::Arc;
use std::time::Duration;

use tidegate_policy::{Algorithm, Decision};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::limit::SharedLevel;
use crate::link::Unavailable;
use crate::numbers::Numbers;
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
    fn new(levels: &[&SharedLevel<'_>], commit: bool) -> Self {
        let mut keys = Vec::with_capacity(levels.len());
        let mut args = vec![String::new(), u8::from(commit).to_string()];
        let numbered = |level: &&SharedLevel<'_>| (level.limit.numbers(), level.cost.get());
        let numbers: Vec<(Numbers, u32)> = levels.iter().map(numbered).collect();
        for (level, (numbers, cost)) in levels.iter().zip(&numbers) {
            keys.extend(level.limit.redis_keys(numbers, level.key));
            args.push(numbers.algorithm.name().to_owned());
            args.push(cost.to_string());
            args.extend(numbers.args.map(|number| number.to_string()));
        }
        Self { keys, args, levels: numbers, commit }
    }

    async fn put(&self, inner: &Inner) -> Answer {
        let algorithms: Vec<_> = self.levels.iter().map(|(numbers, _)| numbers.algorithm).collect();
        let script = inner.scripts.get(Task::Check, &algorithms);
        let reply = inner.link.run(&script, &self.keys, &self.args, 1 + self.levels.len() * REPLY).await?;
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
        // Without a runtime there is nobody left to tell Redis: it is shutting down.
        if let (false, Ok(runtime)) = (charges.is_empty(), Handle::try_current()) {
            let inner = Arc::clone(&self.inner);
            runtime.spawn(async move { inner.give_back_exact(&charges).await });
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
        let question = Question::new(levels, commit);
        let (answer, answered) = oneshot::channel();
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let put = question.put(&inner).await;
            let _gone = answer.send(put.map(|(decisions, charges)| (decisions, OnTheWay { inner, charges })));
        });
        let (decisions, mut on_the_way) = answered.await.unwrap_or(Err(Unavailable))?;
        Ok((decisions, std::mem::take(&mut on_the_way.charges)))
    }

    pub(crate) async fn give_back_exact(&self, charges: &[Charge]) {
        let mut keys = Vec::with_capacity(charges.len());
        let mut args = vec![String::new()];
        for charge in charges {
            keys.extend(charge.keys.iter().cloned());
            args.push(charge.numbers.algorithm.name().to_owned());
            args.extend(charge.numbers.args.map(|number| number.to_string()));
            args.push(charge.cost.to_string());
            args.extend(charge.receipt.map(|number| number.to_string()));
        }
        let algorithms: Vec<_> = charges.iter().map(|charge| charge.numbers.algorithm).collect();
        let script = self.scripts.get(Task::GiveBack, &algorithms);
        // If Redis is away the charge stays: the link has told its observer.
        let _unavailable = self.link.run(&script, &keys, &args, 1).await;
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

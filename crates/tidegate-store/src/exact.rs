//! One script call for all limits of a request.

use std::time::Duration;

use redis::Value;
use tidegate_policy::Decision;

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

/// Integers a level takes in the reply of `exact.lua`.
const REPLY: usize = 9;

impl Inner {
    pub(crate) async fn check_exact(&self, levels: &[SharedLevel<'_>]) -> Result<Verdict, Unavailable> {
        let levels: Vec<&SharedLevel<'_>> = levels.iter().collect();
        let (decisions, charges) = self.ask_exact(&levels, true).await?;
        Ok(Verdict::new(Source::Shared, decisions, Charged { exact: charges, local: Vec::new() }))
    }

    /// Asks Redis; charges all levels if all admit and `commit` is set.
    pub(crate) async fn ask_exact(
        &self,
        levels: &[&SharedLevel<'_>],
        commit: bool,
    ) -> Result<(Vec<Decision>, Vec<Charge>), Unavailable> {
        let mut keys = Vec::with_capacity(levels.len());
        let mut args = vec![String::new(), u8::from(commit).to_string()];
        let numbers: Vec<Numbers> = levels.iter().map(|level| level.limit.numbers()).collect();
        for (level, numbers) in levels.iter().zip(&numbers) {
            keys.extend(level.limit.redis_keys(numbers, level.key));
            args.push(numbers.algorithm.name().to_owned());
            args.push(level.cost.get().to_string());
            args.extend(numbers.args.map(|number| number.to_string()));
        }
        let algorithms: Vec<_> = numbers.iter().map(|numbers| numbers.algorithm).collect();
        let script = self.scripts.get(Task::Check, &algorithms);
        let reply = integers(self.link.run(&script, &keys, &args).await?, 1 + levels.len() * REPLY)?;
        let answers = reply[1..].chunks_exact(REPLY);
        let decisions: Vec<Decision> = answers.clone().map(decision).collect();
        if !commit || decisions.iter().any(|decision| !decision.is_admitted()) {
            return Ok((decisions, Vec::new()));
        }
        let charges = levels.iter().zip(numbers).zip(answers).map(|((level, numbers), answer)| Charge {
            keys: level.limit.redis_keys(&numbers, level.key).collect(),
            numbers,
            cost: level.cost.get(),
            receipt: [answer[5], answer[6], answer[7], answer[8]],
        });
        Ok((decisions, charges.collect()))
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
        let _unavailable = self.link.run(&script, &keys, &args).await;
    }
}

/// The reply as `count` integers. Anything else can't come from our scripts; it is treated like no answer.
pub(crate) fn integers(reply: Value, count: usize) -> Result<Vec<i64>, Unavailable> {
    match redis::from_redis_value::<Vec<i64>>(reply) {
        Ok(integers) if integers.len() == count => Ok(integers),
        _ => Err(Unavailable),
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

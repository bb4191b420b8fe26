//! Rust, Lua in Redis and Redis' stand-in are fed the same steps and must give the same replies: costs above one, idle
//! gaps, clock jumps, changes of numbers, give-backs. A tick is a nanosecond to the one and a microsecond to the
//! others; none can tell.

use std::fmt::Debug;
use std::time::Duration;

use tidegate_policy::state::Receipt;
use tidegate_policy::{
    Algorithm, Concurrency, Cost, Decision, FixedWindow, Gcra, LeakyBucket, Limiter, Rate, SlidingCounter, SlidingLog,
    Timestamp, TokenBucket,
};
use tidegate_store::internals::{Script, Task};

use crate::stand_in::Hosted;
use tidegate_testkit::redis_server::Server;
use tidegate_testkit::walk::{Numbers, Step, Walk};

/// 20,000 steps an algorithm; `make soak` sets `TIDEGATE_STEPS` to a million.
fn steps() -> u64 {
    std::env::var("TIDEGATE_STEPS").map_or(20_000, |steps| steps.parse().expect("TIDEGATE_STEPS is a number"))
}

/// Keys must not run out by the real clock while the test's own stands still.
pub(crate) const NO_TTL: &str = "local real = redis; local redis = { call = function(command, ...)
  local args = { ... }
  if command == 'PEXPIRE' then return 1 end
  if command == 'SET' then return real.call('SET', args[1], args[2]) end
  return real.call(command, ...)
end }\n";

/// Redis with its scripts, or its stand-in.
struct Lua {
    connection: redis::Connection,
    check: Script,
    give_back: Script,
    keys: [String; 2],
}

impl Lua {
    fn new(mut connection: redis::Connection, algorithm: Algorithm, name: &str) -> Self {
        let script = |task| {
            let Script { text, .. } = Script::new(task, &[algorithm]);
            let text = format!("{NO_TTL}{text}");
            let sha = redis::Script::new(&text).get_hash().to_owned();
            Script { text, sha }
        };
        let keys = [format!("{{test}}:{name}"), format!("{{test}}:{name}:log")];
        let (check, give_back) = (script(Task::Check), script(Task::GiveBack));
        for script in [&check, &give_back] {
            redis::cmd("SCRIPT").arg("LOAD").arg(&script.text).exec(&mut connection).expect("a script");
        }
        Self { connection, check, give_back, keys }
    }

    fn call(&mut self, sha: &str, args: &[String]) -> redis::Value {
        redis::cmd("EVALSHA").arg(sha).arg(2).arg(&self.keys).arg(args).query(&mut self.connection).expect("a reply")
    }

    /// The decision, and the receipt if it was charged.
    fn check(&mut self, algorithm: Algorithm, numbers: [u64; 3], cost: Cost, now: u64) -> (Decision, Vec<i64>) {
        let mut args = vec![now.to_string(), "1".to_owned(), algorithm.name().to_owned(), cost.get().to_string()];
        args.extend(numbers.map(|number| number.to_string()));
        let sha = self.check.sha.clone();
        let reply: Vec<i64> = redis::from_redis_value(self.call(&sha, &args)).expect("integers");
        assert_eq!(reply[0], now as i64);
        let ticks = |ticks: i64| Duration::from_nanos(ticks as u64);
        let (remaining, reset_after) = (reply[2] as u64, ticks(reply[3]));
        let decision = if reply[1] == 1 {
            Decision::Admit { wait: ticks(reply[5]), remaining, reset_after }
        } else {
            Decision::Reject { retry_after: (reply[4] >= 0).then(|| ticks(reply[4])), remaining, reset_after }
        };
        (decision, reply[6..].to_vec())
    }

    fn give_back(&mut self, algorithm: Algorithm, numbers: [u64; 3], cost: Cost, receipt: &[i64], now: u64) {
        let mut args = vec![now.to_string(), algorithm.name().to_owned()];
        args.extend(numbers.map(|number| number.to_string()));
        args.push(cost.get().to_string());
        args.extend(receipt.iter().map(i64::to_string));
        let sha = self.give_back.sha.clone();
        self.call(&sha, &args);
    }
}

/// What all sides gave for an admission, with the numbers of then.
struct Taken {
    receipt: Receipt,
    marks: [Vec<i64>; 2],
    numbers: [u64; 3],
    generation: u32,
}

/// The Rust side, with what was changed since it last decided anything: a key follows a change of numbers at its next
/// request.
struct Key<L: Limiter> {
    limiter: L,
    numbers: [u64; 3],
    generation: u32,
    next: Option<(L, [u64; 3])>,
    /// Numbers it was asked with before.
    left_behind: Vec<[u64; 3]>,
    state: L::State,
}

impl<L: Limiter> Key<L> {
    fn follow_change(&mut self, now: Timestamp) {
        if let Some((next, numbers)) = self.next.take() {
            next.adopt(&mut self.state, &self.limiter, now);
            self.left_behind.push(self.numbers);
            (self.limiter, self.numbers) = (next, numbers);
            self.generation += 1;
        }
    }

    /// Whether Lua may know more of these numbers than Rust does: a bucket in Redis remembers what was owed under
    /// numbers that others may still ask with, which a single process has no use for.
    fn is_remembered(&self, algorithm: Algorithm, numbers: [u64; 3]) -> bool {
        let is_bucket = matches!(algorithm, Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket);
        is_bucket && numbers != self.numbers && self.left_behind.contains(&numbers)
    }

    /// The Lua side judges for itself whether a receipt is still good; this is how.
    fn give_back(&mut self, algorithm: Algorithm, taken: &Taken, now: Timestamp) {
        let good = match algorithm {
            Algorithm::SlidingLog | Algorithm::Concurrency => true,
            Algorithm::FixedWindow | Algorithm::SlidingCounter => taken.numbers[1] == self.numbers[1],
            Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra => taken.generation == self.generation,
        };
        if good {
            self.limiter.give_back(&mut self.state, &taken.receipt, now);
        }
    }
}

fn run<L>(algorithm: Algorithm, build: fn(Numbers) -> L, lua_numbers: fn(Numbers) -> [u64; 3])
where
    L: Limiter + Debug + PartialEq,
    L::State: Debug,
{
    const STEPS_A_WALK: u64 = 500;
    let (server, stand_in) = (Server::start(), Hosted::start());
    for seed in 0..steps() / STEPS_A_WALK {
        let mut walk = Walk::new(seed, &[0, 1_000_000_007, 1_790_000_000_000_000]);
        let mut numbers = walk.numbers();
        let mut key = Key {
            limiter: build(numbers),
            numbers: lua_numbers(numbers),
            generation: 0,
            next: None,
            left_behind: Vec::new(),
            state: L::State::default(),
        };
        let name = format!("{algorithm}-{seed}");
        let mut sides =
            [server.connection(), stand_in.connection()].map(|connection| Lua::new(connection, algorithm, &name));
        let mut receipts: Vec<Taken> = Vec::new();
        for step in 0..STEPS_A_WALK {
            let action = walk.step(numbers);
            let now = Timestamp::from_nanos(walk.now);
            match action {
                Step::Change(new) if key.is_remembered(algorithm, lua_numbers(new)) => {}
                Step::Change(new) => {
                    numbers = new;
                    let (new, new_numbers) = (build(new), lua_numbers(new));
                    key.next = (new != key.limiter).then_some((new, new_numbers));
                }
                Step::GiveBack if !receipts.is_empty() => {
                    let taken = receipts.swap_remove(walk.rng().usize(0..receipts.len()));
                    key.give_back(algorithm, &taken, now);
                    for (side, marks) in sides.iter_mut().zip(&taken.marks) {
                        side.give_back(algorithm, taken.numbers, taken.receipt.cost(), marks, walk.now);
                    }
                }
                Step::GiveBack => {}
                Step::Ask { cost } => {
                    key.follow_change(now);
                    let cost = Cost::new(cost).expect("a cost");
                    let decision = key.limiter.decide(&key.state, cost, now);
                    let replies = sides.each_mut().map(|side| side.check(algorithm, key.numbers, cost, walk.now));
                    for ((reply, _), side) in replies.iter().zip(["Lua", "the stand-in"]) {
                        assert_eq!(
                            &decision, reply,
                            "Rust and {side} differ: seed {seed} step {step} {:?} {:?} cost {cost:?} at {}",
                            key.limiter, key.state, walk.now
                        );
                    }
                    let marks = replies.map(|(_, marks)| marks);
                    if decision.is_admitted() {
                        let receipt = key.limiter.take(&mut key.state, cost, now);
                        receipts.push(Taken { receipt, marks, numbers: key.numbers, generation: key.generation });
                    }
                    walk.retry_at = decision.retry_after().map(|after| walk.now + after.as_nanos() as u64);
                }
            }
            receipts.truncate(32);
        }
    }
}

/// A request that took longer than a slot may be held gives its slot back when the key has long ended and begun anew:
/// once, both had the same number, and it gave back another's.
#[test]
fn a_late_give_back_removes_nobody_elses_entry() {
    let server = Server::start();
    for algorithm in [Algorithm::Concurrency, Algorithm::SlidingLog] {
        let mut lua = Lua::new(server.connection(), algorithm, "late");
        let (numbers, start) = ([1, 1_000, 0], 1_790_000_000_000_000);
        let (_, late) = lua.check(algorithm, numbers, Cost::ONE, start);
        server.flush(); // as the key's TTL does
        let scripts = Lua::new(server.connection(), algorithm, "late"); // and loads the scripts again
        drop(scripts);
        assert!(lua.check(algorithm, numbers, Cost::ONE, start + 5_000).0.is_admitted());
        lua.give_back(algorithm, numbers, Cost::ONE, &late, start + 5_001);
        assert!(!lua.check(algorithm, numbers, Cost::ONE, start + 5_002).0.is_admitted(), "the other is still there");
    }
}

fn span(numbers: Numbers) -> Duration {
    Duration::from_nanos(numbers.span)
}

fn rate(numbers: Numbers) -> Rate {
    Rate::new(numbers.tokens, span(numbers)).expect("a small rate")
}

fn windows(numbers: Numbers) -> [u64; 3] {
    [numbers.limit, numbers.span, 0]
}

fn bucket(numbers: Numbers) -> [u64; 3] {
    let rate = rate(numbers);
    let token = rate.span().as_nanos() as u64;
    [numbers.limit * token, token, rate.tokens()]
}

#[test]
fn fixed_window_is_the_same_in_lua() {
    run(Algorithm::FixedWindow, |n| FixedWindow::new(n.limit, span(n)).expect("small"), windows);
}

#[test]
fn sliding_counter_is_the_same_in_lua() {
    run(Algorithm::SlidingCounter, |n| SlidingCounter::new(n.limit, span(n)).expect("small"), windows);
}

#[test]
fn sliding_log_is_the_same_in_lua() {
    run(Algorithm::SlidingLog, |n| SlidingLog::new(n.limit, span(n)).expect("small"), windows);
}

#[test]
fn concurrency_is_the_same_in_lua() {
    run(Algorithm::Concurrency, |n| Concurrency::new(n.limit, span(n)).expect("small"), windows);
}

#[test]
fn token_bucket_is_the_same_in_lua() {
    run(Algorithm::TokenBucket, |n| TokenBucket::new(rate(n), n.limit).expect("small"), bucket);
}

#[test]
fn gcra_is_the_same_in_lua() {
    run(Algorithm::Gcra, |n| Gcra::new(rate(n), n.limit).expect("small"), bucket);
}

#[test]
fn leaky_bucket_is_the_same_in_lua() {
    run(Algorithm::LeakyBucket, |n| LeakyBucket::new(rate(n), n.limit - 1).expect("small"), bucket);
}

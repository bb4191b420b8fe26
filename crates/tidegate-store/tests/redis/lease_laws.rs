//! The laws of leases. Several processes with clocks of their own take tokens in advance over a slow line, spend them
//! when they like, sit on them, die with them; others ask exactly. Whatever they do, those who really went stay within
//! the definition of the algorithm. Time is simulated on both sides, Redis is real.

use std::time::Duration;

use fastrand::Rng;
use tidegate_policy::state::Receipt;
use tidegate_policy::{Algorithm, Cost, Limiter, Timestamp};
use tidegate_store::LeaseTerms;
use tidegate_store::internals::{Ask, Grant, Lease, LeaseState, Script, Task};

use tidegate_testkit::oracle::{BucketOracle, FixedWindowOracle, LogOracle, Oracle, SlidingCounterOracle};
use tidegate_testkit::redis_server::Server;
use tidegate_testkit::walk::Numbers;

/// Redis with the scripts of one algorithm, and a clock that the test sets: microseconds.
struct Ledger {
    connection: redis::Connection,
    algorithm: Algorithm,
    numbers: [u64; 3],
    terms: LeaseTerms,
    check: Script,
    give_back: Script,
    lease: Script,
    keys: [String; 2],
}

impl Ledger {
    fn new(server: &Server, algorithm: Algorithm, numbers: Numbers, terms: LeaseTerms, name: &str) -> Self {
        Self::with_prelude(crate::differential::NO_TTL, server, algorithm, numbers, terms, name)
    }

    fn with_prelude(
        prelude: &str,
        server: &Server,
        algorithm: Algorithm,
        numbers: Numbers,
        terms: LeaseTerms,
        name: &str,
    ) -> Self {
        let Numbers { limit, tokens, span } = numbers;
        let is_bucket = matches!(algorithm, Algorithm::TokenBucket | Algorithm::Gcra);
        let numbers = if is_bucket { [limit * span, span, tokens] } else { [limit, span, 0] };
        let script = |task| {
            let text = format!("{prelude}{}", Script::new(task, &[algorithm]).text);
            let sha = redis::Script::new(&text).get_hash().to_owned();
            Script { text, sha }
        };
        let keys = [format!("{{law}}:{name}"), format!("{{law}}:{name}:log")];
        let (check, give_back, lease) = (script(Task::Check), script(Task::GiveBack), script(Task::Lease));
        let mut connection = server.connection();
        for script in [&check, &give_back, &lease] {
            redis::cmd("SCRIPT").arg("LOAD").arg(&script.text).exec(&mut connection).expect("a script");
        }
        Self { connection, algorithm, numbers, terms, check, give_back, lease, keys }
    }

    fn call(&mut self, task: Task, args: &[String]) -> Vec<i64> {
        let sha = match task {
            Task::Check => &self.check.sha,
            Task::GiveBack => &self.give_back.sha,
            Task::Lease => &self.lease.sha,
        };
        redis::cmd("EVALSHA").arg(sha).arg(2).arg(&self.keys).arg(args).query(&mut self.connection).expect("a reply")
    }

    /// Whether an exact request is admitted, and if not, when it would be.
    fn check(&mut self, cost: u32, now: u64) -> Result<(), Option<u64>> {
        self.charge(cost, now).map(drop)
    }

    fn give_back(&mut self, cost: u32, receipt: &[i64], now: u64) {
        let mut args = vec![now.to_string(), self.algorithm.name().to_owned()];
        args.extend(self.numbers.map(|number| number.to_string()));
        args.push(cost.to_string());
        args.extend(receipt.iter().map(i64::to_string));
        self.call(Task::GiveBack, &args);
    }

    /// The same, with the receipt.
    fn charge(&mut self, cost: u32, now: u64) -> Result<Vec<i64>, Option<u64>> {
        let mut args = vec![now.to_string(), "1".to_owned(), self.algorithm.name().to_owned(), cost.to_string()];
        args.extend(self.numbers.map(|number| number.to_string()));
        let reply = self.call(Task::Check, &args);
        if reply[1] == 1 { Ok(reply[6..].to_vec()) } else { Err(u64::try_from(reply[4]).ok()) }
    }

    fn lease(&mut self, ask: &Ask, now: u64) -> Grant {
        let mut args = vec![now.to_string(), self.algorithm.name().to_owned()];
        let lease = [ask.id, ask.new_id, ask.held.into(), ask.spent.into(), ask.granted_at, ask.keep.into()];
        let wish = [ask.want.into(), ask.cost.into(), self.terms.span.as_micros() as u64];
        args.extend(self.numbers.iter().chain(&lease).chain(&wish).map(u64::to_string));
        let reply = self.call(Task::Lease, &args);
        Grant {
            granted: reply[1] as u32,
            kept: reply[2] == 1,
            span: Duration::from_micros(reply[3] as u64),
            left: reply[4] as u64,
            reset_after: Duration::from_micros(reply[5] as u64),
            retry_after: u64::try_from(reply[6]).ok().map(Duration::from_micros),
            at: reply[0] as u64,
            epoch: 0,
        }
    }
}

/// A process with a clock of its own, and what it holds.
struct Process {
    ahead: u64,
    state: LeaseState,
    /// A question under way: when it was put (own clock), when it reaches Redis, when the reply is here.
    asking: Option<(Ask, Timestamp, u64, u64, Option<Grant>)>,
    idle_until: u64,
    receipts: Vec<(Receipt, u64)>,
}

impl Process {
    fn new(rng: &mut Rng) -> Self {
        Self {
            ahead: rng.u64(0..10_000_000_000),
            state: LeaseState::default(),
            asking: None,
            idle_until: 0,
            receipts: Vec::new(),
        }
    }

    fn clock(&self, now: u64) -> Timestamp {
        Timestamp::from_nanos(now * 1_000 + self.ahead)
    }
}

struct World<O> {
    ledger: Ledger,
    went: O,
    rng: Rng,
    now: u64,
    next_id: u64,
    spent_from_leases: u64,
}

impl<O: Oracle> World<O> {
    fn goes(&mut self, cost: u32, how: &str) {
        let numbers = self.ledger.numbers;
        assert!(self.went.admits(cost.into(), self.now), "{how}: more went than {numbers:?} allows, at {}", self.now);
        self.went.admit(cost.into(), self.now);
    }

    /// Delivers questions and replies whose time has come.
    fn deliver(&mut self, process: &mut Process) {
        let Some((ask, asked_at, reaches, replied, grant)) = &mut process.asking else { return };
        if grant.is_none() && *reaches <= self.now {
            if self.rng.u32(0..20) == 0 {
                process.state.no_reply(ask); // lost on the way there
                process.asking = None;
                return;
            }
            *grant = Some(self.ledger.lease(ask, self.now));
        }
        if let (Some(grant), true) = (grant.as_ref(), *replied <= self.now) {
            if self.rng.u32(0..20) == 0 {
                process.state.no_reply(ask); // lost on the way back
            } else {
                process.state.receive(ask, grant, *asked_at, &self.ledger.terms);
            }
            process.asking = None;
        }
    }

    fn request(&mut self, process: &mut Process) {
        let clock = process.clock(self.now);
        let tokens = if self.rng.u32(0..4) == 0 { self.rng.u32(1..4) } else { 1 };
        let cost = Cost::new(tokens).expect("a cost");
        let lease = Lease { capacity: self.went.numbers().limit };
        let decision = lease.decide(&process.state, cost, clock);
        if decision.is_admitted() {
            self.goes(tokens, "from a lease");
            self.spent_from_leases += u64::from(tokens);
            process.receipts.push((lease.take(&mut process.state, cost, clock), self.now));
            if self.rng.u32(0..20) == 0 {
                // Some time later somebody did not go after all.
                let (receipt, at) = process.receipts.swap_remove(self.rng.usize(0..process.receipts.len()));
                lease.give_back(&mut process.state, &receipt, clock);
                self.went.undo(receipt.cost().get().into(), at, self.now);
            }
            process.receipts.truncate(8);
        }
        let lacks = decision.retry_after() == Some(Duration::ZERO) && !decision.is_admitted();
        if process.asking.is_none() && (lacks || process.state.is_low(clock)) {
            self.next_id += 1;
            let cost = if lacks { tokens } else { 0 };
            let ask = process.state.ask(cost, clock, &self.ledger.terms, self.next_id, Duration::from_secs(3_600));
            if let Some(ask) = ask {
                let reaches = self.now + self.rng.u64(0..20_000);
                let replied = reaches + self.rng.u64(0..20_000);
                process.asking = Some((ask, clock, reaches, replied, None));
            }
        }
    }
}

fn laws<O: Oracle>(algorithm: Algorithm) {
    const STEPS: u32 = 1_500;
    let server = Server::start();
    let mut spent_from_leases = 0;
    for seed in 0..20 {
        let mut rng = Rng::with_seed(seed);
        let numbers = Numbers {
            limit: [3, 10, 50, 200][rng.usize(0..4)],
            tokens: [1, 7, 40][rng.usize(0..3)],
            span: [20_011, 100_000, 1_000_003][rng.usize(0..3)],
        };
        let terms = LeaseTerms {
            tokens: [2, 10, 50][rng.usize(0..3)],
            span: Duration::from_millis([50, 100, 1_000][rng.usize(0..3)]),
        };
        let ledger = Ledger::new(&server, algorithm, numbers, terms, &format!("{algorithm}-{seed}"));
        let mut processes = [(); 3].map(|()| Process::new(&mut rng));
        let went = O::new(numbers);
        let mut world = World { ledger, went, rng, now: 1_790_000_000_000_000, next_id: 0, spent_from_leases: 0 };
        let mut charges: Vec<(u32, Vec<i64>, u64)> = Vec::new();
        for _ in 0..STEPS {
            world.now += match world.rng.u32(0..100) {
                0..60 => world.rng.u64(0..500),
                60..95 => world.rng.u64(0..20_000),
                _ => world.rng.u64(0..2_000_000),
            };
            for process in &mut processes {
                world.deliver(process);
            }
            match world.rng.u32(0..100) {
                0..10 => {
                    let cost = world.rng.u32(1..=numbers.limit as u32);
                    if let Ok(receipt) = world.ledger.charge(cost, world.now) {
                        world.goes(cost, "exactly");
                        charges.push((cost, receipt, world.now));
                    }
                    if world.rng.bool() && !charges.is_empty() {
                        let (cost, receipt, at) = charges.swap_remove(world.rng.usize(0..charges.len()));
                        world.ledger.give_back(cost, &receipt, world.now);
                        world.went.undo(cost.into(), at, world.now);
                    }
                    charges.truncate(8);
                }
                10..12 => processes[world.rng.usize(0..3)] = Process::new(&mut world.rng), // killed, with all it held
                15..17 => {
                    // Its entry is pushed out, or the numbers change, while it may be asking: the reply finds a state
                    // that did not ask.
                    let process = &mut processes[world.rng.usize(0..3)];
                    process.state = LeaseState::default();
                }
                12..15 => processes[world.rng.usize(0..3)].idle_until = world.now + 500_000,
                _ => {
                    let process = &mut processes[world.rng.usize(0..3)];
                    if process.idle_until <= world.now {
                        world.request(process);
                    }
                }
            }
        }
        spent_from_leases += world.spent_from_leases;
    }
    assert!(spent_from_leases > 1_000, "leases were hardly used: {spent_from_leases}");
}

#[test]
fn leases_of_a_fixed_window_keep_its_law() {
    laws::<FixedWindowOracle>(Algorithm::FixedWindow);
}

#[test]
fn leases_of_a_sliding_counter_keep_its_law() {
    laws::<SlidingCounterOracle>(Algorithm::SlidingCounter);
}

#[test]
fn leases_of_a_log_keep_its_law() {
    laws::<LogOracle>(Algorithm::SlidingLog);
}

#[test]
fn leases_of_a_token_bucket_keep_its_law() {
    laws::<BucketOracle>(Algorithm::TokenBucket);
}

#[test]
fn leases_of_gcra_keep_its_law() {
    laws::<BucketOracle>(Algorithm::Gcra);
}

const SECOND: u64 = 1_000_000;

fn first_ask(id: u64, want: u32) -> Ask {
    Ask { id: 0, new_id: id, held: 0, spent: 0, granted_at: 0, keep: false, want, cost: 1 }
}

/// A hundred tokens, ten a second. A process takes forty and sits on them until the bucket has long refilled: all
/// others together get sixty at once, not a hundred, or with the forty there would be a hundred and forty.
#[test]
fn a_bucket_refills_only_up_to_what_leases_leave() {
    let server = Server::start();
    for algorithm in [Algorithm::TokenBucket, Algorithm::Gcra] {
        let terms = LeaseTerms { tokens: 40, span: Duration::from_secs(60) };
        let numbers = Numbers { limit: 100, tokens: 10, span: SECOND };
        let mut ledger = Ledger::new(&server, algorithm, numbers, terms, algorithm.name());
        let start = 1_790_000_000 * SECOND;
        assert_eq!(ledger.lease(&first_ask(1, 40), start).granted, 40);
        assert_eq!(
            ledger.check(61, start + 30 * SECOND),
            Err(Some(30 * SECOND + SECOND / 10)),
            "when the lease is over"
        );
        assert_eq!(ledger.check(60, start + 30 * SECOND), Ok(()));
    }
}

/// The same process dies. It costs what it held until its lease ends; then the bucket fills up as if nothing had been.
#[test]
fn a_killed_process_costs_what_it_held_until_its_lease_ends() {
    let server = Server::start();
    for algorithm in [Algorithm::TokenBucket, Algorithm::Gcra, Algorithm::SlidingLog, Algorithm::FixedWindow] {
        let is_bucket = matches!(algorithm, Algorithm::TokenBucket | Algorithm::Gcra);
        let terms = LeaseTerms { tokens: 40, span: Duration::from_secs(10) };
        let numbers = Numbers { limit: 100, tokens: 100, span: if is_bucket { 10 * SECOND } else { 20 * SECOND } };
        let mut ledger = Ledger::new(&server, algorithm, numbers, terms, &format!("dead-{algorithm}"));
        let start = 1_790_000_000 * SECOND; // a window begins here
        assert_eq!(ledger.lease(&first_ask(1, 40), start).granted, 40);
        assert_eq!(ledger.check(60, start), Ok(()), "all but the forty");
        let all_there = match algorithm {
            Algorithm::SlidingLog => start + 30 * SECOND, // the lease ends after 10 s, and leaves the window 20 s later
            Algorithm::FixedWindow => start + 20 * SECOND,
            // Sixty flow in while it is held, forty after.
            Algorithm::TokenBucket | Algorithm::Gcra => start + 14 * SECOND,
            Algorithm::SlidingCounter | Algorithm::LeakyBucket | Algorithm::Concurrency => {
                unreachable!("not in the list above")
            }
        };
        assert_eq!(ledger.check(100, all_there - 1), Err(Some(1)), "{algorithm}");
        assert_eq!(ledger.check(100, all_there), Ok(()), "{algorithm}");
    }
}

/// A lease that is offered back in time is back at once, as if it had never been taken.
#[test]
fn what_is_returned_unspent_is_there_for_others_at_once() {
    let server = Server::start();
    let leasable = [
        Algorithm::TokenBucket,
        Algorithm::Gcra,
        Algorithm::SlidingLog,
        Algorithm::FixedWindow,
        Algorithm::SlidingCounter,
    ];
    for algorithm in leasable {
        let terms = LeaseTerms { tokens: 40, span: Duration::from_secs(10) };
        let numbers = Numbers { limit: 100, tokens: 1, span: 1_000_000 * SECOND };
        let mut ledger = Ledger::new(&server, algorithm, numbers, terms, &format!("back-{algorithm}"));
        let start = 1_790_000_000 * SECOND;
        assert_eq!(ledger.lease(&first_ask(1, 40), start).granted, 40);
        let back = Ask { id: 1, new_id: 2, held: 40, spent: 15, granted_at: start, keep: false, want: 0, cost: 0 };
        assert_eq!(ledger.lease(&back, start + SECOND).granted, 0);
        assert!(ledger.check(86, start + SECOND).is_err(), "fifteen are spent: {algorithm}");
        assert_eq!(ledger.check(85, start + SECOND), Ok(()), "{algorithm}");
    }
}

/// Of what is free a lease gets at most half, unless one request needs more: others find some too.
#[test]
fn the_first_to_ask_does_not_get_everything() {
    let server = Server::start();
    let terms = LeaseTerms { tokens: 1_000, span: Duration::from_secs(10) };
    let numbers = Numbers { limit: 100, tokens: 1, span: 1_000_000 * SECOND };
    let mut ledger = Ledger::new(&server, Algorithm::Gcra, numbers, terms, "half");
    let start = 1_790_000_000 * SECOND;
    assert_eq!(ledger.lease(&first_ask(1, 1_000), start).granted, 50);
    assert_eq!(ledger.lease(&first_ask(2, 1_000), start).granted, 25);
    assert_eq!(ledger.lease(&Ask { cost: 20, ..first_ask(3, 1_000) }, start).granted, 20);
    let rejected = ledger.lease(&Ask { cost: 6, ..first_ask(4, 1_000) }, start);
    assert_eq!(rejected.granted, 0);
    assert!(rejected.retry_after > Some(Duration::ZERO));
    assert_eq!(ledger.lease(&Ask { cost: 101, ..first_ask(5, 1_000) }, start).retry_after, None, "never");
}

/// Two processes of fifty each, a token a second: after their leases end the bucket owes a hundred, and must be
/// remembered until that is paid.
#[test]
fn a_key_is_remembered_until_all_its_leases_are_over_and_paid() {
    let server = Server::start();
    for algorithm in [Algorithm::TokenBucket, Algorithm::Gcra] {
        let terms = LeaseTerms { tokens: 50, span: Duration::from_secs(60) };
        let numbers = Numbers { limit: 100, tokens: 1, span: SECOND };
        let mut ledger = Ledger::with_prelude("", &server, algorithm, numbers, terms, &format!("ttl-{algorithm}"));
        let start = 1_790_000_000 * SECOND;
        assert_eq!(ledger.lease(&first_ask(1, 50), start).granted, 50);
        assert_eq!(ledger.lease(&Ask { cost: 50, ..first_ask(2, 50) }, start).granted, 50);
        let left: u64 = redis::cmd("PTTL").arg(&ledger.keys[0]).query(&mut ledger.connection).expect("a ttl");
        assert!((155_000..=160_001).contains(&left), "{left} ms: sixty seconds, and a hundred to pay");
    }
}

/// A lease from larger numbers does not make a key owe more than all there is now.
#[test]
fn a_lease_from_larger_numbers_weighs_no_more_than_the_new_capacity() {
    let server = Server::start();
    for algorithm in [Algorithm::TokenBucket, Algorithm::Gcra] {
        let terms = LeaseTerms { tokens: 500, span: Duration::from_secs(1) };
        let start = 1_790_000_000 * SECOND;
        let numbers = |limit, tokens| Numbers { limit, tokens, span: SECOND };
        let name = format!("less-{algorithm}");
        let mut before = Ledger::new(&server, algorithm, numbers(1_000, 1_000), terms, &name);
        assert_eq!(before.lease(&first_ask(1, 500), start).granted, 500);
        let mut after = Ledger::new(&server, algorithm, numbers(10, 1), terms, &name);
        assert!(after.check(1, start + 1).is_err());
        assert_eq!(
            after.check(10, start + 2 * SECOND),
            Err(Some(9 * SECOND)),
            "ten from when the lease ended: {algorithm}"
        );
    }
}

/// Ten tokens, one a second. While a lease of five keeps the bucket from filling up, what flows in is lost, as with a
/// full one: an exact request that is given back afterwards returns nothing, or thirteen would go at once.
#[test]
fn giving_back_returns_nothing_that_a_lease_has_kept_out() {
    let server = Server::start();
    for algorithm in [Algorithm::TokenBucket, Algorithm::Gcra] {
        let terms = LeaseTerms { tokens: 5, span: Duration::from_secs(60) };
        let numbers = Numbers { limit: 10, tokens: 1, span: SECOND };
        let mut ledger = Ledger::new(&server, algorithm, numbers, terms, &format!("floor-{algorithm}"));
        let start = 1_790_000_000 * SECOND;
        assert_eq!(ledger.lease(&first_ask(1, 5), start).granted, 5);
        let receipt = ledger.charge(5, start).expect("five are left");
        let later = start + 7 * SECOND;
        let spent = Ask { id: 1, new_id: 2, held: 5, spent: 5, granted_at: start, keep: false, want: 0, cost: 0 };
        ledger.lease(&spent, later);
        ledger.give_back(5, &receipt, later);
        assert!(ledger.check(6, later).is_err(), "five went from the lease just now: {algorithm}");
        assert_eq!(ledger.check(5, later), Ok(()), "{algorithm}");
    }
}

/// A busy, exhausted key: leases of which nothing is left are not kept.
#[test]
fn spent_leases_leave_nothing_behind() {
    let server = Server::start();
    for algorithm in [Algorithm::TokenBucket, Algorithm::Gcra] {
        let terms = LeaseTerms { tokens: 10, span: Duration::from_secs(3_600) };
        let numbers = Numbers { limit: 10, tokens: 10, span: SECOND };
        let mut ledger = Ledger::new(&server, algorithm, numbers, terms, &format!("spent-{algorithm}"));
        let start = 1_790_000_000 * SECOND;
        for id in (10..2_000).step_by(10) {
            let now = start + id * SECOND / 100;
            let granted = ledger.lease(&first_ask(id, 10), now).granted;
            let spent = Ask {
                id,
                new_id: id + 1,
                held: granted,
                spent: granted,
                granted_at: now,
                keep: true,
                want: 10,
                cost: 1,
            };
            ledger.lease(&spent, now);
        }
        let length: usize = redis::cmd("STRLEN").arg(&ledger.keys[0]).query(&mut ledger.connection).expect("a length");
        assert!(length <= 56 + 24 * 10, "{length} bytes: {algorithm}");
    }
}

/// A question that counted on keeping what it had, but crossed the border of its window, still gets what its request
/// needs.
#[test]
fn what_can_not_be_kept_is_granted_anew_if_it_is_needed() {
    let server = Server::start();
    let terms = LeaseTerms { tokens: 10, span: Duration::from_secs(60) };
    let numbers = Numbers { limit: 10, tokens: 1, span: SECOND };
    let mut ledger = Ledger::new(&server, Algorithm::FixedWindow, numbers, terms, "border");
    let start = 1_790_000_000 * SECOND;
    let ask = Ask { id: 1, new_id: 2, held: 5, spent: 0, granted_at: start - 1, keep: true, want: 3, cost: 8 };
    let grant = ledger.lease(&ask, start);
    assert_eq!((grant.granted, grant.kept, grant.retry_after), (8, false, Some(Duration::ZERO)));
}

/// Redis' clock goes back, by more than a window and a lease: what is leased does not count as long over.
#[test]
fn a_log_counts_its_leases_when_the_clock_goes_back() {
    let server = Server::start();
    let terms = LeaseTerms { tokens: 4, span: Duration::from_secs(1) };
    let numbers = Numbers { limit: 5, tokens: 1, span: SECOND };
    let mut ledger = Ledger::new(&server, Algorithm::SlidingLog, numbers, terms, "back");
    let start = 1_790_000_000 * SECOND;
    assert_eq!(ledger.check(1, start), Ok(()));
    let granted = (1..20).map(|id| ledger.lease(&first_ask(id, 4), start - 60 * SECOND).granted);
    assert_eq!(granted.sum::<u32>(), 4, "one was used, four are left");
}

//! The stand-in for Redis: a store that asks it sees no difference, until it hangs. That it decides as Redis does is in
//! `differential.rs` and `election.rs`.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate_policy::{Concurrency, FixedWindow};
use tidegate_store::election::{ElectionFault, Lifetimes};
use tidegate_store::{Document, FailureMode, Sharing, Source, StandIn, Store, StoreConfig};
use tokio::sync::oneshot;

use crate::failure::until;
use crate::setup::{Seen, admitted, all_rules, ask, level, limit, name, now, patient, recorder};

/// A stand-in on a thread of its own, ended with its drop.
pub(crate) struct Hosted {
    address: SocketAddr,
    pub(crate) stand_in: StandIn,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Hosted {
    pub(crate) fn start() -> Self {
        let (stand_in, (stop, stopped), (ready, is_ready)) = (StandIn::new(), oneshot::channel(), mpsc::channel());
        let served = stand_in.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                ready.send(listener.local_addr().expect("an address")).expect("somebody waits");
                served.run(listener, async { drop(stopped.await) }).await;
            });
        });
        let address = is_ready.recv_timeout(Duration::from_secs(30)).expect("it listens");
        Self { address, stand_in, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub(crate) fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url()).and_then(|client| client.get_connection()).expect("a connection")
    }

    /// The reply to these bytes until the connection ends.
    fn reply_to(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out");
        stream.write_all(bytes).expect("sent");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("it ends the connection");
        reply
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join);
    }
}

#[tokio::test]
async fn every_algorithm_limits_and_what_is_given_back_was_never_taken() {
    let hosted = Hosted::start();
    let store = Store::connect(patient(&hosted.url())).await.expect("sensible settings");
    for rule in all_rules(5) {
        let limit = limit(&store, "any", rule, Sharing::Exact);
        for _ in 0..10 {
            let verdict = ask(&store, &limit, "ann", 3).await;
            assert!(verdict.admitted && verdict.source == Source::Shared, "{rule:?}");
            store.give_back(verdict.charged, now()).await;
        }
        assert_eq!(admitted(&store, &limit, "ann", 10).await, 5, "{rule:?}");
        let twice = [level(&limit, "bob", 3), level(&limit, "bob", 3)];
        assert!(!store.check(&twice, now()).await.admitted, "the same key pays the sum: {rule:?}");
        assert!(ask(&store, &limit, "bob", 5).await.admitted, "and nothing when it is rejected: {rule:?}");
    }
}

#[tokio::test]
async fn while_it_hangs_the_failure_mode_decides_and_afterwards_it_counts_on() {
    let hosted = Hosted::start();
    let (observer, seen) = recorder();
    let topology = hosted.url().parse().expect("an address");
    // A budget that a busy machine keeps, but for when it hangs.
    let config = StoreConfig { observer, budget: Duration::from_millis(300), ..StoreConfig::new(topology, name("t")) };
    let store = Store::connect(StoreConfig { on_failure: FailureMode::Open, ..config }).await.expect("settings");
    let limit = limit(&store, "any", all_rules(5)[0], Sharing::Exact);
    assert_eq!(admitted(&store, &limit, "ann", 10).await, 5);
    hosted.stand_in.hang();
    until("the store has noticed", async || {
        assert!(ask(&store, &limit, "ann", 1).await.admitted, "nobody is rejected meanwhile");
        store.is_down()
    })
    .await;
    let mut late = TcpStream::connect(hosted.address).expect("connections are still taken");
    late.write_all(b"*1\r\n$4\r\nPING\r\n").expect("sent");
    late.set_read_timeout(Some(Duration::from_millis(100))).expect("a time-out");
    assert!(late.read(&mut [0; 7]).is_err(), "and without a reply");
    hosted.stand_in.go_on();
    late.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out");
    let mut reply = [0; 7];
    late.read_exact(&mut reply).expect("who has waited gets its reply at last");
    assert_eq!(&reply, b"+PONG\r\n");
    until("the store is back", async || !store.is_down()).await;
    assert!(!ask(&store, &limit, "ann", 1).await.admitted, "what was used is still used");
    hosted.stand_in.forget();
    assert!(ask(&store, &limit, "ann", 1).await.admitted, "until it forgets");
    let seen = seen.lock().expect("nobody panicked here").clone();
    let turns: Vec<_> = seen.into_iter().filter(|seen| matches!(seen, Seen::Down | Seen::Up)).collect();
    assert_eq!(turns, [Seen::Down, Seen::Up]);
}

/// A process never heard of its slot, and knows it by the name that it had chosen: Redis' script is the same here.
#[tokio::test]
async fn a_slot_is_given_back_by_its_name_once() {
    let hosted = Hosted::start();
    let store = Store::connect(patient(&hosted.url())).await.expect("sensible settings");
    let slots = limit(&store, "slots", Concurrency::new(2, Duration::from_secs(60)).expect("two"), Sharing::Exact);
    let (first, second) = (ask(&store, &slots, "ann", 1).await, ask(&store, &slots, "ann", 1).await);
    assert!(first.admitted && second.admitted && !ask(&store, &slots, "ann", 1).await.admitted);
    store.give_back(first.charged, now()).await;
    assert_eq!(admitted(&store, &slots, "ann", 3).await, 1);
    store.give_back(second.charged, now()).await;
    assert_eq!(admitted(&store, &slots, "ann", 3).await, 1);
}

#[tokio::test]
async fn documents_and_elections_work_and_are_forgotten_with_the_rest() {
    let hosted = Hosted::start();
    let store = Store::connect(patient(&hosted.url())).await.expect("sensible settings");
    let document = store.document(&name("config"));
    let longest = vec![b'x'; Document::LONGEST];
    assert_eq!(document.read().await, Ok(Vec::new()));
    assert_eq!(document.replace(b"other", b"mine").await, Ok(false));
    assert_eq!(document.replace(b"", &longest).await, Ok(true));
    assert_eq!(document.replace(&longest, b"mine").await, Ok(true));
    assert_eq!(document.read().await, Ok(b"mine".to_vec()));
    let (before, clock) = (now().as_nanos() / 1_000_000, document.clock_millis().await.expect("a time"));
    assert!((before..=now().as_nanos() / 1_000_000).contains(&clock), "{clock}: it runs on this machine's");
    let mut ann = store.election(&name("limits"), Lifetimes::default()).expect("sensible lifetimes");
    let mut bob = store.election(&name("limits"), Lifetimes::default()).expect("sensible lifetimes");
    let first = ann.heartbeat(b"a", None).await.expect("a heartbeat");
    assert!(first.is_leader() && !bob.heartbeat(b"b", None).await.expect("a heartbeat").is_leader());
    ann.leave().await.expect("it leaves");
    hosted.stand_in.forget();
    assert_eq!(document.read().await, Ok(Vec::new()));
    let taken = bob.heartbeat(b"b", None).await.expect("a heartbeat");
    assert!(taken.is_leader() && taken.term > first.term, "terms grow over what was forgotten");
}

#[tokio::test]
async fn what_it_does_not_know_is_reported() {
    let hosted = Hosted::start();
    for command in [&["GET", "x"][..], &["FLUSHALL"], &["EVAL", "return 1", "0"], &["EVAL"], &["HELLO", "3"]] {
        let asked = redis::cmd(command[0]).arg(&command[1..]).exec(&mut hosted.connection());
        let error = asked.expect_err("it is not Redis").to_string();
        assert!(error.contains("the stand-in"), "{command:?}: {error}");
    }
    let (observer, seen) = recorder();
    let store = Store::connect(StoreConfig { observer, ..patient(&hosted.url()) }).await.expect("sensible settings");
    let rule = FixedWindow::new(5, Duration::from_secs(60)).expect("a limit");
    let leased = limit(&store, "leased", rule, Sharing::Leased);
    let _ = ask(&store, &leased, "ann", 1).await;
    assert!(seen.lock().expect("nobody panicked here").contains(&Seen::Failed), "leases are Redis' alone");
}

#[test]
fn garbage_ends_its_connection_with_a_reason_and_harms_nobody_else() {
    let hosted = Hosted::start();
    let mut random = fastrand::Rng::with_seed(3);
    assert_eq!(hosted.reply_to(b"GET / HTTP/1.1\r\n\r\n"), "-ERR Protocol error: expected a list of words\r\n");
    let good_then_bad = hosted.reply_to(b"*1\r\n$4\r\nping\r\n*1\r\n$x\r\n");
    assert_eq!(good_then_bad, "+PONG\r\n-ERR Protocol error: invalid length\r\n");
    // An argument that is no number, a missing one, a script with too few keys: all are reported, none is fatal.
    let exact = include_str!("../../lua/exact.lua");
    // One connection for all of them: a panic behind it would end it.
    let mut connection = hosted.connection();
    for _ in 0..500 {
        let mut command = redis::cmd("EVAL");
        command.arg(exact).arg(random.u32(..4));
        for _ in 0..random.usize(..12) {
            let word = random.choice(["", "1", "fixed", "token", "-5", "18446744073709551615", "x", "concurrency"]);
            command.arg(word.expect("some"));
        }
        gets_reply(&command, &mut connection);
    }
    assert_eq!(redis::cmd("PING").query::<String>(&mut connection).expect("a reply"), "PONG");
}

/// One who never heard that a slot was taken gives it back by the name that was meant for it, and perhaps twice.
#[test]
fn a_slot_that_nobody_heard_of_comes_back_once() {
    let hosted = Hosted::start();
    let mut connection = hosted.connection();
    let is_admitted = |name: u64, connection: &mut redis::Connection| {
        let mut command = redis::cmd("EVAL");
        command.arg(include_str!("../../lua/exact.lua")).arg(2).arg(&["slots", "slots:log"]).arg(1_000_000).arg(1);
        command.arg("concurrency").arg(1).arg(&[1, 1_000_000_000, name]);
        command.query::<Vec<i64>>(connection).expect("a reply")[1] == 1
    };
    assert!(is_admitted(7, &mut connection) && !is_admitted(8, &mut connection));
    for _ in 0..2 {
        let mut command = redis::cmd("EVAL");
        command.arg(include_str!("../../lua/give_back.lua")).arg(2).arg(&["slots", "slots:log"]).arg(1_000_001);
        command.arg("concurrency").arg(&[1, 1_000_000_000, 7]).arg(1).arg(&[0, 0, 0, -7]);
        command.exec(&mut connection).expect("it is taken back");
    }
    assert!(is_admitted(9, &mut connection) && !is_admitted(10, &mut connection), "one slot, and one only");
}

/// A reply, or the stand-in's own word; anything else is an end of the connection.
fn gets_reply(command: &redis::Cmd, connection: &mut redis::Connection) {
    if let Err(error) = command.query::<redis::Value>(connection) {
        assert!(error.code().is_some(), "{error}");
    }
}

/// Whole levels with the largest numbers, the same key named twice, and marks that nobody gave: replies, all of them.
#[test]
fn extreme_limits_are_decided_or_rejected() {
    let hosted = Hosted::start();
    let (mut connection, mut random) = (hosted.connection(), fastrand::Rng::with_seed(11));
    let numbers = ["0", "1", "10", "1000000", "4294967295", "9007199254740992", "18446744073709551615"];
    let algorithms = ["fixed", "sliding", "sliding_log", "token", "gcra", "leaky", "concurrency"];
    for script in [include_str!("../../lua/exact.lua"), include_str!("../../lua/give_back.lua")] {
        for round in 0..3_000_u32 {
            let is_check = script.contains("commit");
            let levels = 1 + random.usize(..3);
            let algorithm = random.choice(algorithms).expect("some");
            let keys_each = if algorithm == "sliding_log" || algorithm == "concurrency" { 2 } else { 1 };
            let mut command = redis::cmd("EVAL");
            command.arg(script).arg(levels * keys_each);
            for index in 0..levels * keys_each {
                command.arg(format!("{algorithm}-{}", index % 2));
            }
            command.arg(round * 1_000);
            if is_check {
                command.arg(1);
            }
            for _ in 0..levels {
                let mut number = || random.choice(numbers).expect("some");
                let cost = ["1", "2147483648", "3000000000", "4294967295"][number().len() % 4];
                let (a, b, c) = (number(), number(), number());
                if is_check {
                    command.arg(algorithm).arg(cost).arg(&[a, b, c]);
                } else {
                    let marks = [number(), number(), number(), number()];
                    command.arg(algorithm).arg(&[a, b, c]).arg(cost).arg(&marks);
                }
            }
            gets_reply(&command, &mut connection);
        }
    }
    // Cost by cost each may be had, together they are more than can be counted.
    let mut twice = redis::cmd("EVAL");
    twice.arg(include_str!("../../lua/exact.lua")).arg(2).arg(&["same", "same"]).arg(1_000_000).arg(1);
    for _ in 0..2 {
        twice.arg("sliding").arg(3_000_000_000_u32).arg(&[4_294_967_295_u64, 1_000_000, 0]);
    }
    gets_reply(&twice, &mut connection);
}

/// Key by key until it is full; those that are as good as unused make room.
#[test]
fn keys_are_bounded() {
    let hosted = Hosted::start();
    let mut connection = hosted.connection();
    let exact = include_str!("../../lua/exact.lua");
    let mut ask = |key: usize, now: u64| {
        let mut command = redis::cmd("EVAL");
        command.arg(exact).arg(1).arg(key).arg(now).arg(1).arg("fixed").arg(1).arg(&[10, 1_000_000, 0]);
        command.query::<Vec<i64>>(&mut connection)
    };
    for key in 0..10_000 {
        assert_eq!(ask(key, 1_000_000).expect("a reply")[1], 1);
    }
    let full = ask(10_000, 1_500_000).expect_err("there is no room");
    assert_eq!(full.code(), Some("OOM"));
    assert_eq!(ask(7, 1_500_000).expect("those who are in are served")[2], 8);
    assert_eq!(ask(10_000, 2_000_000).expect("the window is over: the others are unused")[1], 1);
}

#[tokio::test]
async fn a_heartbeat_while_it_hangs_is_reported_as_unknown() {
    let hosted = Hosted::start();
    let store = Store::connect(patient(&hosted.url())).await.expect("sensible settings");
    let mut ann = store.election(&name("limits"), Lifetimes::default()).expect("sensible lifetimes");
    hosted.stand_in.hang();
    assert_eq!(ann.heartbeat(b"a", None).await, Err(ElectionFault::Unknown));
    hosted.stand_in.go_on();
    assert!(ann.heartbeat(b"a", None).await.expect("a heartbeat").is_leader());
}

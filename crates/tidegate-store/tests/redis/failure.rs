//! Redis is killed, frozen, slow, absent or confused: each mode decides as stated, and recovers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_policy::{RejectedBy, Rule};
use tidegate_store::{FailureMode, Sharing, Source, Store, StoreConfig, StoreEvent};

use crate::setup::{MODES, Seen, admitted, all_rules, ask, leasable_rules, level, limit, now, patient, recorder};
use tidegate_testkit::pause_async;
use tidegate_testkit::redis_server::{Server, free_port};

pub(crate) async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !done().await {
            pause_async(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting)
        .await
        .unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

/// How many of 20 requests pass on a limit of 5 that this process has not yet used, while Redis is away.
pub(crate) fn expected(mode: FailureMode) -> usize {
    match mode {
        FailureMode::Open => 20,
        FailureMode::Closed => 0,
        FailureMode::Local => 5,
    }
}

async fn survives_a_kill(mode: FailureMode, sharing: Sharing, rule: Rule) {
    let mut server = Server::start();
    let (observer, seen) = recorder();
    let config = StoreConfig { on_failure: mode, observer, ..patient(&server.url()) };
    let store = Store::connect(config).await.expect("sensible settings");
    let limit = limit(&store, "any", rule, sharing);
    assert_eq!(admitted(&store, &limit, "before", 7).await, 5);

    server.kill();
    assert_eq!(admitted(&store, &limit, "meanwhile", 20).await, expected(mode), "{mode:?} {rule:?}");
    assert!(store.is_down());
    let verdict = ask(&store, &limit, "other", 1).await;
    assert_eq!(verdict.source, Source::Failure(mode));
    if mode == FailureMode::Closed {
        assert_eq!(verdict.rejected_by, Some(RejectedBy { level: 0, retry_after: Some(Duration::from_secs(1)) }));
    }

    server.restart();
    until("Redis is back", async || !store.is_down()).await;
    assert_eq!(admitted(&store, &limit, "after", 7).await, 5, "{mode:?} {rule:?}");
    assert_eq!(ask(&store, &limit, "after", 1).await.source, Source::Shared);
    let seen = seen.lock().expect("events");
    let changes: Vec<_> = seen.iter().filter(|seen| matches!(seen, Seen::Down | Seen::Up)).collect();
    assert_eq!(changes, [&Seen::Down, &Seen::Up], "{mode:?} {rule:?}");
    let failed = seen.iter().filter(|seen| **seen == Seen::Failed).count();
    assert_eq!(failed, 1, "the first error sets the flag: {mode:?} {rule:?}");
}

#[tokio::test]
async fn every_mode_survives_a_kill_with_exact_limits() {
    for mode in MODES {
        for rule in [all_rules(5)[0], all_rules(5)[5]] {
            survives_a_kill(mode, Sharing::Exact, rule).await;
        }
    }
}

#[tokio::test]
async fn every_mode_survives_a_kill_with_leases() {
    for mode in MODES {
        for rule in [leasable_rules(5)[0], leasable_rules(5)[4]] {
            survives_a_kill(mode, Sharing::Leased, rule).await;
        }
    }
}

/// A frozen server keeps its connections: the first three requests wait out their budget, then the flag is set and
/// nobody waits.
#[tokio::test]
async fn a_frozen_redis_is_given_up_after_three_late_replies_and_taken_back() {
    for sharing in [Sharing::Exact, Sharing::Leased] {
        let server = Server::start();
        let (observer, seen) = recorder();
        let budget = Duration::from_millis(100);
        let config = StoreConfig { observer, budget, on_failure: FailureMode::Local, ..patient(&server.url()) };
        let store = Store::connect(config).await.expect("sensible settings");
        let limit = limit(&store, "any", leasable_rules(5)[0], sharing);
        until("it replies in time", async || ask(&store, &limit, "before", 1).await.source == Source::Shared).await;

        server.freeze(true);
        seen.lock().expect("events").clear();
        assert_eq!(admitted(&store, &limit, "meanwhile", 20).await, 5);
        let events = seen.lock().expect("events").clone();
        assert_eq!(events[..3], [Seen::Failed, Seen::Failed, Seen::Failed], "{sharing:?}");
        // One may have asked between the end of its predecessor's budget and the flag.
        assert!(
            events.contains(&Seen::Down) && events.len() <= 5,
            "nobody asks while it is down: {sharing:?} {events:?}"
        );

        server.freeze(false);
        until("it is back", async || ask(&store, &limit, "after", 1).await.source == Source::Shared).await;
    }
}

/// A single late reply follows the mode; the next in time clears the count.
#[tokio::test]
async fn one_slow_reply_is_not_an_outage() {
    let server = Server::start();
    let budget = Duration::from_millis(500);
    let store = Store::connect(StoreConfig { budget, ..patient(&server.url()) }).await.expect("sensible settings");
    let limit = limit(&store, "any", all_rules(100)[0], Sharing::Exact);
    for _ in 0..4 {
        let mut connection = server.connection();
        let slow = redis::cmd("DEBUG").arg("SLEEP").arg("0.8").get_packed_command();
        connection.send_packed_command(&slow).expect("sent");
        // It may take a moment until the server goes to sleep; sooner or later a request finds it sleeping.
        until("a request was late", async || ask(&store, &limit, "ann", 1).await.source != Source::Shared).await;
        connection.recv_response().expect("it has slept");
        until("the next is in time", async || ask(&store, &limit, "ann", 1).await.source == Source::Shared).await;
        assert!(!store.is_down());
    }
}

#[tokio::test]
async fn a_store_that_starts_without_redis_follows_its_mode_and_joins_later() {
    for mode in MODES {
        let port = free_port();
        let store = Store::connect(StoreConfig { on_failure: mode, ..patient(&format!("redis://127.0.0.1:{port}")) })
            .await
            .expect("sensible settings");
        let limit = limit(&store, "any", all_rules(5)[0], Sharing::Exact);
        assert_eq!(admitted(&store, &limit, "ann", 20).await, expected(mode));
        let server = Server::start_at(port);
        until("Redis is there", async || !store.is_down()).await;
        assert_eq!(ask(&store, &limit, "ann", 1).await.source, Source::Shared);
        drop(server);
    }
}

/// A connection that was never there was reported as lost, and as back when it was first made.
#[tokio::test]
async fn a_redis_that_was_never_reached_is_not_reported_as_lost() {
    let port = free_port();
    let (observer, seen) = recorder();
    let config = StoreConfig { observer, ..patient(&format!("redis://127.0.0.1:{port}")) };
    let store = Store::connect(config).await.expect("sensible settings");
    let turns = || {
        let seen = seen.lock().expect("events").clone();
        seen.into_iter().filter(|seen| !matches!(seen, Seen::Replied | Seen::Failed)).collect::<Vec<_>>()
    };
    assert_eq!((turns(), store.is_down()), (vec![Seen::Unreached], true));
    let mut server = Server::start_at(port);
    until("it is reached", async || !store.is_down()).await;
    until("that is reported", async || turns() == [Seen::Unreached, Seen::Reached]).await;

    server.kill();
    given_up(&store).await;
    server.restart();
    until("it is back", async || !store.is_down()).await;
    until("that is reported", async || turns() == [Seen::Unreached, Seen::Reached, Seen::Down, Seen::Up]).await;
}

/// What is counted in memory during one outage is not forgotten by the next: flapping gives nobody a new budget each
/// time.
#[tokio::test]
async fn local_counts_last_from_one_outage_to_the_next() {
    let mut server = Server::start();
    let store = Store::connect(StoreConfig { on_failure: FailureMode::Local, ..patient(&server.url()) })
        .await
        .expect("sensible settings");
    let limit = limit(&store, "any", all_rules(5)[0], Sharing::Exact);
    let _ = ask(&store, &limit, "ann", 1).await;
    server.kill();
    assert_eq!(admitted(&store, &limit, "ann", 20).await, 5);
    server.restart();
    until("Redis is back", async || !store.is_down()).await;
    server.kill();
    until("it is noticed", async || {
        let _ = ask(&store, &limit, "bob", 1).await;
        store.is_down()
    })
    .await;
    assert_eq!(admitted(&store, &limit, "ann", 20).await, 0);
}

/// Somebody else's data under one of our keys: that request follows the mode, the others go on.
#[tokio::test]
async fn a_key_of_the_wrong_type_hurts_only_its_own_requests() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    let limit = limit(&store, "any", all_rules(5)[0], Sharing::Exact);
    let _ = ask(&store, &limit, "ann", 1).await;
    let mut connection = server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*fixed*").query(&mut connection).expect("keys");
    for key in keys {
        redis::cmd("DEL").arg(&key).exec(&mut connection).expect("deleted");
        redis::cmd("LPUSH").arg(&key).arg("x").exec(&mut connection).expect("pushed");
    }
    for _ in 0..10 {
        assert_eq!(ask(&store, &limit, "ann", 1).await.source, Source::Failure(FailureMode::Open));
    }
    assert!(!store.is_down(), "ten errors in a row, and all are that key's own");
    assert_eq!(ask(&store, &limit, "bob", 1).await.source, Source::Shared);
}

/// Clients that go away while their request waits for Redis: what is charged for nobody is given back, at every level,
/// of either kind.
#[tokio::test]
async fn a_request_dropped_at_its_await_is_charged_nothing() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    for leased in leasable_rules(50) {
        let slots = limit(&store, "slots", all_rules(50)[6], Sharing::Exact);
        let leased = limit(&store, "leased", leased, Sharing::Leased);
        let mut dropped = 0;
        for round in 0..300 {
            let (asking, slots, leased) = (store.clone(), slots.clone(), leased.clone());
            let request = tokio::spawn(async move {
                let levels = [level(&slots, "ann", 1), level(&leased, "ann", 1)];
                asking.check(&levels, now()).await.charged
            });
            for _ in 0..round % 7 {
                tokio::task::yield_now().await;
            }
            request.abort();
            match request.await {
                Ok(charged) => store.give_back(charged, now()).await, // it had its reply already
                Err(_) => dropped += 1,
            }
        }
        assert!(dropped > 100, "hardly any was dropped at its await: {dropped}");
        let all = [level(&slots, "ann", 50), level(&leased, "ann", 1)];
        until("every slot is free", async || store.check(&all, now()).await.admitted).await;
        assert!(!store.is_down());
        server.flush();
    }
}

/// A store whose observer counts attempts to come back, and keeps what it hears of the outage.
#[derive(Default)]
struct Recorded {
    down: Mutex<Vec<String>>,
    still_down: AtomicUsize,
    up: AtomicUsize,
}

fn recording(recorded: &Arc<Recorded>) -> tidegate_store::Observer {
    let recorded = Arc::clone(recorded);
    Arc::new(move |event| match event {
        StoreEvent::Down { error } => recorded.down.lock().expect("no panic").push(error.to_owned()),
        StoreEvent::StillDown { .. } => _ = recorded.still_down.fetch_add(1, Ordering::Relaxed),
        StoreEvent::Up { .. } => _ = recorded.up.fetch_add(1, Ordering::Relaxed),
        StoreEvent::Unreached { .. }
        | StoreEvent::Reached { .. }
        | StoreEvent::Call { .. }
        | StoreEvent::SlotsLost { .. } => {}
    })
}

/// Redis replies, but rejects: full, or without a permission. Requests used to pass unlimited without a word.
#[tokio::test]
async fn a_redis_that_rejects_everything_is_away_until_it_takes_writes_again() {
    let rejections: [(&str, &[&str], &[&str]); 2] = [
        ("OOM", &["CONFIG", "SET", "maxmemory", "1"], &["CONFIG", "SET", "maxmemory", "0"]),
        ("NOPERM", &["ACL", "SETUSER", "gw", "-evalsha", "-eval"], &["ACL", "SETUSER", "gw", "+@all"]),
    ];
    for (word, reject, relent) in rejections {
        for sharing in [Sharing::Exact, Sharing::Leased] {
            let server = Server::start();
            let mut operator = server.connection();
            let mut order =
                |words: &[&str]| redis::cmd(words[0]).arg(&words[1..]).exec(&mut operator).expect("it obeys");
            order(&["ACL", "SETUSER", "gw", "on", ">secret", "~*", "+@all"]);
            let recorded = Arc::new(Recorded::default());
            let url = format!("redis://gw:secret@127.0.0.1:{}", server.port);
            let observer = recording(&recorded);
            let config = StoreConfig { observer, on_failure: FailureMode::Closed, ..patient(&url) };
            let store = Store::connect(config).await.expect("sensible settings");
            let limit = limit(&store, "any", leasable_rules(5)[0], sharing);
            assert_eq!(ask(&store, &limit, "before", 1).await.source, Source::Shared);

            order(reject);
            let mut users = 0..;
            until("it counts as away", async || {
                let user = format!("meanwhile {}", users.next().expect("no end"));
                assert!(!ask(&store, &limit, &user, 1).await.admitted, "{word} {sharing:?}");
                store.is_down()
            })
            .await;
            until("it was tried again", async || recorded.still_down.load(Ordering::Relaxed) >= 3).await;
            assert_eq!(recorded.up.load(Ordering::Relaxed), 0, "{word} {sharing:?}: it goes to and fro");
            order(relent);
            until("it is back", async || ask(&store, &limit, "after", 1).await.source == Source::Shared).await;
            let down = recorded.down.lock().expect("no panic");
            assert!(
                matches!(&down[..], [error] if error.to_uppercase().contains(word)),
                "{word} {sharing:?}: {down:?}"
            );
        }
    }
}

#[tokio::test]
async fn the_same_numbers_again_drop_no_lease() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    for rule in leasable_rules(100) {
        let limit = limit(&store, rule.algorithm().name(), rule, Sharing::Leased);
        let mut sum = 0;
        for _ in 0..200 {
            sum += admitted(&store, &limit, "ann", 1).await;
            limit.change(&rule, now()).expect("the same numbers");
        }
        assert_eq!(sum, 100, "{rule:?}");
    }
}

/// Lets requests wait in vain until Redis counts as away.
async fn given_up(store: &Store) {
    let other = limit(store, "other", all_rules(1_000)[0], Sharing::Exact);
    until("it is given up", async || {
        let _ = ask(store, &other, "anyone", 1).await;
        store.is_down()
    })
    .await;
}

/// Two slots, held by nobody for longer than any test: one that is not given back is missed.
async fn with_two_slots(server: &Server) -> (Store, tidegate_store::SharedLimit) {
    let config = StoreConfig { budget: Duration::from_millis(100), ..patient(&server.url()) };
    let store = Store::connect(config).await.expect("sensible settings");
    let slots = limit(&store, "slots", all_rules(2)[6], Sharing::Exact);
    (store, slots)
}

/// Waits until Redis has all of Ann's slots back.
async fn both_are_free(store: &Store, slots: &tidegate_store::SharedLimit) {
    until("nothing is owed", async || store.owed() == 0).await;
    until("both are free", async || {
        let verdict = ask(store, slots, "ann", 2).await;
        verdict.source == Source::Shared && verdict.admitted
    })
    .await;
}

/// A client was locked out for an hour, as long as a request may hold its slot, because Redis had stood still for three
/// seconds.
#[tokio::test]
async fn slots_that_come_back_while_redis_is_away_are_free_when_it_is_back() {
    let server = Server::start();
    let (store, slots) = with_two_slots(&server).await;
    let mut held = Vec::new();
    until("both are taken", async || {
        let verdict = ask(&store, &slots, "ann", 1).await;
        if verdict.source == Source::Shared && verdict.admitted {
            held.push(verdict.charged);
        }
        held.len() == 2
    })
    .await;
    server.freeze(true);
    given_up(&store).await;
    for charged in held {
        store.give_back(charged, now()).await;
    }
    assert_eq!(store.owed(), 2);
    server.freeze(false);
    both_are_free(&store, &slots).await;
}

/// Redis takes a slot for a question whose reply nobody waits for any more: it went on with what it had received.
#[tokio::test]
async fn slots_taken_by_replies_that_came_too_late_are_given_back() {
    let server = Server::start();
    let (store, slots) = with_two_slots(&server).await;
    until("it replies in time", async || ask(&store, &slots, "bob", 1).await.source == Source::Shared).await;
    server.freeze(true);
    for _ in 0..2 {
        assert_eq!(ask(&store, &slots, "ann", 1).await.source, Source::Failure(FailureMode::Open));
    }
    server.freeze(false);
    both_are_free(&store, &slots).await;
}

/// A give-back whose reply was late has been carried out and is sent again: the slot may be another's by then.
#[tokio::test]
async fn a_slot_given_back_twice_frees_nobody_elses() {
    let server = Server::start();
    let (store, slots) = with_two_slots(&server).await;
    until("it replies in time", async || ask(&store, &slots, "bob", 1).await.source == Source::Shared).await;
    let mut held = Vec::new();
    until("one is taken", async || {
        let verdict = ask(&store, &slots, "ann", 1).await;
        held = vec![verdict.charged];
        verdict.source == Source::Shared && verdict.admitted
    })
    .await;
    server.freeze(true);
    // Sent, and too late; kept, and sent again.
    store.give_back(held.remove(0), now()).await;
    assert_eq!(store.owed(), 1);
    server.freeze(false);
    until("nothing is owed", async || store.owed() == 0).await;
    let mut taken = 0;
    until("no more are free", async || {
        let verdict = ask(&store, &slots, "ann", 1).await;
        taken += usize::from(verdict.source == Source::Shared && verdict.admitted);
        verdict.source == Source::Shared && !verdict.admitted
    })
    .await;
    assert_eq!(taken, 2);
}

/// A script that fails has taken nothing. Yet each such slot was tried eight times, said to be lost, and held up those
/// that were owed.
#[tokio::test]
async fn of_a_reply_that_is_an_error_no_slot_is_owed() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    let slots = limit(&store, "slots", all_rules(5)[6], Sharing::Exact);
    let verdict = ask(&store, &slots, "ann", 1).await;
    store.give_back(verdict.charged, now()).await;
    let mut connection = server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*:concurrency:*").query(&mut connection).expect("keys");
    assert!(!keys.is_empty());
    for key in keys {
        redis::cmd("DEL").arg(&key).exec(&mut connection).expect("deleted");
        redis::cmd("LPUSH").arg(&key).arg("x").exec(&mut connection).expect("pushed");
    }
    for _ in 0..10 {
        assert_eq!(ask(&store, &slots, "ann", 1).await.source, Source::Failure(FailureMode::Open));
        assert_eq!(store.owed(), 0);
    }
    assert!(!store.is_down());
}

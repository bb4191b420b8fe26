//! Tokens taken in advance, with the whole store.

use std::sync::Arc;
use std::time::Duration;

use tidegate_policy::{FixedWindow, Gcra, Rate, RejectedBy, Timestamp};
use tidegate_store::{FailureMode, LeaseTerms, Sharing, Source, Store, StoreConfig};

use crate::failure::{expected, until};
use crate::setup::{MODES, Seen, admitted, all_rules, ask, leasable_rules, level, limit, now, patient, recorder};
use tidegate_testkit::redis_server::Server;

fn terms(tokens: u32, millis: u64) -> LeaseTerms {
    LeaseTerms { tokens, span: Duration::from_millis(millis) }
}

/// One process alone gets everything, in far fewer calls than requests.
#[tokio::test]
async fn a_single_process_gets_exactly_the_limit_in_few_calls() {
    let server = Server::start();
    for rule in leasable_rules(2_000) {
        let (observer, seen) = recorder();
        let store = Store::connect(StoreConfig { lease: terms(100, 60_000), observer, ..patient(&server.url()) })
            .await
            .expect("sensible settings");
        let limit = limit(&store, "any", rule, Sharing::Leased);
        assert_eq!(admitted(&store, &limit, "ann", 3_000).await, 2_000, "{rule:?}");
        let calls = seen.lock().expect("events").iter().filter(|seen| **seen == Seen::Replied).count();
        assert!(calls < 150, "{calls} calls for 3,000 requests: {rule:?}");
    }
}

#[tokio::test]
async fn an_empty_limit_is_remembered_and_redis_is_left_alone() {
    let server = Server::start();
    for rule in leasable_rules(5) {
        let (observer, seen) = recorder();
        let store =
            Store::connect(StoreConfig { observer, ..patient(&server.url()) }).await.expect("sensible settings");
        let limit = limit(&store, "any", rule, Sharing::Leased);
        admitted(&store, &limit, "ann", 6).await;
        let calls = seen.lock().expect("events").len();
        for _ in 0..100 {
            let verdict = ask(&store, &limit, "ann", 1).await;
            let retry_after = verdict.rejected_by.expect("it is used up").retry_after;
            assert!(retry_after > Some(Duration::from_secs(60)), "{rule:?}: {retry_after:?}");
        }
        assert_eq!(seen.lock().expect("events").len(), calls, "a rejected request asked Redis: {rule:?}");
        assert_eq!(
            ask(&store, &limit, "ann", 6).await.rejected_by,
            Some(RejectedBy { level: 0, retry_after: None }),
            "never: {rule:?}"
        );
    }
}

#[tokio::test]
async fn processes_together_never_exceed_the_limit_and_miss_at_most_what_they_hold() {
    let server = Server::start();
    for rule in leasable_rules(1_000) {
        let mut stores = Vec::new();
        for _ in 0..4 {
            let store = Store::connect(StoreConfig { lease: terms(50, 60_000), ..patient(&server.url()) })
                .await
                .expect("sensible settings");
            let limit = limit(&store, "any", rule, Sharing::Leased);
            stores.push((store, limit));
        }
        let mut total = 0;
        for round in 0..4_000 {
            let (store, limit) = &stores[round % 4];
            total += usize::from(ask(store, limit, "ann", 1).await.admitted);
        }
        assert!((1_000 - 4 * 50..=1_000).contains(&total), "{total}: {rule:?}");
    }
}

/// Exact requests see what is leased as gone.
#[tokio::test]
async fn exact_and_leased_share_one_budget() {
    let server = Server::start();
    for rule in leasable_rules(100) {
        let store = Store::connect(StoreConfig { lease: terms(10, 60_000), ..patient(&server.url()) })
            .await
            .expect("sensible settings");
        let (leased, exact) = (limit(&store, "any", rule, Sharing::Leased), limit(&store, "any", rule, Sharing::Exact));
        let mut total = 0;
        for _ in 0..150 {
            total += usize::from(ask(&store, &leased, "ann", 1).await.admitted);
            total += usize::from(ask(&store, &exact, "ann", 1).await.admitted);
        }
        assert!((90..=100).contains(&total), "{total}: {rule:?}");
    }
}

#[tokio::test]
async fn levels_of_both_kinds_are_charged_all_or_none() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    for rule in leasable_rules(10) {
        let (leased, exact) = (limit(&store, "l", rule, Sharing::Leased), limit(&store, "e", rule, Sharing::Exact));
        let both = |l: u32, e: u32| [level(&leased, "ann", l), level(&exact, "ann", e)];
        assert!(store.check(&both(1, 8), now()).await.admitted, "{rule:?}");
        for _ in 0..20 {
            let verdict = store.check(&both(1, 3), now()).await;
            assert_eq!(verdict.rejected_by.map(|by| by.level), Some(1), "{rule:?}");
            let verdict = store.check(&both(11, 1), now()).await;
            assert_eq!(verdict.rejected_by, Some(RejectedBy { level: 0, retry_after: None }), "{rule:?}");
        }
        assert_eq!(admitted(&store, &exact, "ann", 10).await, 2, "{rule:?}");
        assert_eq!(admitted(&store, &leased, "ann", 20).await, 9, "{rule:?}");
    }
}

#[tokio::test]
async fn what_is_given_back_can_be_spent_again() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    for rule in leasable_rules(5) {
        let limit = limit(&store, "any", rule, Sharing::Leased);
        for _ in 0..50 {
            let verdict = ask(&store, &limit, "ann", 1).await;
            assert!(verdict.admitted, "{rule:?}");
            store.give_back(verdict.charged, now()).await;
        }
    }
}

/// Many requests at once for a key without a lease: one of them asks, the others wait for its reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_come_together_ask_together() {
    let server = Server::start();
    for rule in leasable_rules(500) {
        let (observer, seen) = recorder();
        let store =
            Store::connect(StoreConfig { observer, ..patient(&server.url()) }).await.expect("sensible settings");
        let limit = limit(&store, "any", rule, Sharing::Leased);
        let requests: Vec<_> = (0..1_000)
            .map(|_| {
                let (store, limit) = (store.clone(), limit.clone());
                tokio::spawn(async move { ask(&store, &limit, "ann", 1).await.admitted })
            })
            .collect();
        let mut total = 0;
        for request in requests {
            total += usize::from(request.await.expect("no panic"));
        }
        assert_eq!(total, 500, "{rule:?}");
        assert!(seen.lock().expect("events").len() < 100, "{rule:?}");
    }
}

/// A client that goes away while its request waits for a refill takes nobody's reply with it.
#[tokio::test]
async fn a_refill_outlives_the_request_that_asked_for_it() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    let limit = Arc::new(limit(&store, "any", leasable_rules(5)[0], Sharing::Leased));
    for _ in 0..20 {
        let (store, limit) = (store.clone(), Arc::clone(&limit));
        let request = tokio::spawn(async move { ask(&store, &limit, "ann", 1).await.admitted });
        tokio::task::yield_now().await; // it has put its question by now
        request.abort();
    }
    assert!(ask(&store, &limit, "ann", 1).await.admitted);
}

/// The window ends, and so does what was leased in it. Requests that began in one window and ended in the next are left
/// out: which of the two they belong to only Redis knows.
#[tokio::test]
async fn leases_die_with_their_window() {
    let server = Server::start();
    let store = Store::connect(StoreConfig { lease: terms(100, 60_000), ..patient(&server.url()) })
        .await
        .expect("sensible settings");
    let window = Duration::from_millis(200);
    let limit = limit(&store, "any", FixedWindow::new(1_000, window).expect("a limit"), Sharing::Leased);
    let mut counts = std::collections::HashMap::<u128, u32>::new();
    let end = now() + Duration::from_secs(2);
    while now() < end {
        let window_of = |at: Timestamp| u128::from(at.as_nanos()) / window.as_nanos();
        let began = now();
        let admitted = store.check(&[level(&limit, "ann", 1)], began).await.admitted;
        if admitted && window_of(began) == window_of(now()) {
            *counts.entry(window_of(began)).or_default() += 1;
        }
    }
    assert!(counts.len() > 5, "{counts:?}");
    assert!(counts.values().all(|count| *count <= 1_000), "{counts:?}");
}

#[tokio::test]
async fn a_change_of_numbers_drops_the_leases_of_the_old_ones() {
    let server = Server::start();
    let store = Store::connect(StoreConfig { lease: terms(1_000, 60_000), ..patient(&server.url()) })
        .await
        .expect("sensible settings");
    let rate = |tokens| Rate::new(tokens, Duration::from_secs(3_600)).expect("a rate");
    let limit = limit(&store, "any", Gcra::new(rate(1), 10_000).expect("a limit"), Sharing::Leased);
    assert_eq!(admitted(&store, &limit, "ann", 1_000).await, 1_000);
    limit.change(&Gcra::new(rate(1), 100).expect("a limit").into(), now()).expect("leasable");
    assert_eq!(admitted(&store, &limit, "ann", 1_000).await, 0, "what was used is more than all there is now");
}

/// A lease granted at the end of time can be spent there: once, the store asked for another for ever.
#[tokio::test]
async fn a_clock_at_the_end_of_time_limits_like_any_other() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    for rule in leasable_rules(5) {
        let limit = limit(&store, "any", rule, Sharing::Leased);
        let mut admitted = 0;
        for now in [0, 1, u64::MAX].into_iter().cycle().take(30).map(Timestamp::from_nanos) {
            let verdict = store.check(&[level(&limit, "ann", 1)], now).await;
            assert_eq!(verdict.source, Source::Shared);
            admitted += u32::from(verdict.admitted);
        }
        assert!(admitted <= 5, "{admitted}: {rule:?}");
    }
}

/// The question for a key that is named twice is for the sum: once, the store asked for one and never had enough.
#[tokio::test]
async fn a_leased_key_named_twice_pays_twice_or_not_at_all() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    for rule in leasable_rules(3) {
        let limit = limit(&store, "any", rule, Sharing::Leased);
        let twice = [level(&limit, "ann", 1), level(&limit, "ann", 1)];
        assert!(store.check(&twice, now()).await.admitted, "{rule:?}");
        let verdict = store.check(&twice, now()).await;
        assert!(!verdict.admitted && verdict.source == Source::Shared, "one is left: {rule:?}");
        assert_eq!(admitted(&store, &limit, "ann", 3).await, 1, "{rule:?}");
    }
}

/// A lease that runs low while Redis is away: there is nobody to ask, and what is in hand is still good.
#[tokio::test]
async fn what_is_in_hand_is_spent_to_the_end_while_redis_is_away() {
    let mut server = Server::start();
    let config = StoreConfig { lease: terms(64, 60_000), on_failure: FailureMode::Closed, ..patient(&server.url()) };
    let store = Store::connect(config).await.expect("sensible settings");
    let (hot, other) = (
        limit(&store, "hot", leasable_rules(10_000)[0], Sharing::Leased),
        limit(&store, "other", leasable_rules(10_000)[0], Sharing::Leased),
    );
    admitted(&store, &hot, "ann", 200).await;
    // Replies come in the order of the questions: with this one, whatever was asked for the other is here too.
    let _ = ask(&store, &other, "carl", 1).await;
    server.kill();
    assert!(!ask(&store, &other, "bob", 1).await.admitted, "and now it is known");
    assert!(store.is_down());
    let in_hand = admitted(&store, &hot, "ann", 200).await;
    assert!((1..=64).contains(&in_hand), "{in_hand} from what was leased before");
    assert_eq!(admitted(&store, &hot, "ann", 10).await, 0);
}

/// Makes the store notice that Redis is away: what is decided from memory needs no call.
async fn noticed(store: &Store) {
    let other = limit(store, "other", all_rules(1_000)[0], Sharing::Exact);
    until("it is noticed", async || {
        let _ = ask(store, &other, "anyone", 1).await;
        store.is_down()
    })
    .await;
}

/// A limit that was used up when Redis died rejected for as long as its window lasts: in every mode, and also after
/// Redis was back, empty.
#[tokio::test]
async fn a_limit_that_is_used_up_when_redis_dies_follows_the_mode_and_works_anew_when_it_is_back() {
    for mode in MODES {
        for rule in leasable_rules(5) {
            let mut server = Server::start();
            let config = StoreConfig { on_failure: mode, ..patient(&server.url()) };
            let store = Store::connect(config).await.expect("sensible settings");
            let limit = limit(&store, "any", rule, Sharing::Leased);
            assert_eq!(admitted(&store, &limit, "ann", 7).await, 5, "{mode:?} {rule:?}");
            server.kill();
            noticed(&store).await;
            assert_eq!(admitted(&store, &limit, "ann", 20).await, expected(mode), "{mode:?} {rule:?}");
            let verdict = ask(&store, &limit, "ann", 6).await;
            assert_eq!(verdict.source, Source::Failure(mode), "more than it can ever hold: {mode:?} {rule:?}");
            server.restart();
            until("Redis is back", async || !store.is_down()).await;
            assert_eq!(admitted(&store, &limit, "ann", 7).await, 5, "{mode:?} {rule:?}");
            assert_eq!(ask(&store, &limit, "ann", 1).await.source, Source::Shared, "{mode:?} {rule:?}");
        }
    }
}

/// A frozen Redis keeps its connections, and a rejection from memory asks nobody: nobody noticed, and a used-up limit
/// rejected for a minute.
#[tokio::test]
async fn a_limit_that_is_used_up_when_redis_freezes_follows_the_mode_and_rejects_when_it_goes_on() {
    let server = Server::start();
    let mut used_up = Vec::new();
    for mode in MODES {
        for rule in leasable_rules(5) {
            let budget = Duration::from_secs(2);
            let config = StoreConfig { on_failure: mode, budget, ..patient(&server.url()) };
            let store = Store::connect(config).await.expect("sensible settings");
            let limit = limit(&store, &format!("{mode:?}"), rule, Sharing::Leased);
            assert_eq!(admitted(&store, &limit, "ann", 7).await, 5, "{mode:?} {rule:?}");
            used_up.push((mode, rule, store, limit));
        }
    }
    server.freeze(true);
    until("all have given it up", async || {
        for (_, _, store, limit) in used_up.iter().filter(|(_, _, store, _)| !store.is_down()) {
            let _ = ask(store, limit, "ann", 1).await;
        }
        used_up.iter().all(|(_, _, store, _)| store.is_down())
    })
    .await;
    for (mode, rule, store, limit) in &used_up {
        assert_eq!(admitted(store, limit, "ann", 20).await, expected(*mode), "{mode:?} {rule:?}");
    }
    server.freeze(false);
    for (mode, rule, store, limit) in &used_up {
        until("Redis is back", async || !store.is_down()).await;
        let verdict = ask(store, limit, "ann", 1).await;
        assert!(!verdict.admitted && verdict.source == Source::Shared, "it knows what was used: {mode:?} {rule:?}");
    }
}

/// A limit that is used up is all that is asked for: the link probes now and then, and a Redis that replies stays up.
#[tokio::test]
async fn a_redis_that_replies_to_its_probe_stays_up() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    let limit = limit(&store, "any", leasable_rules(5)[0], Sharing::Leased);
    assert_eq!(admitted(&store, &limit, "ann", 7).await, 5);
    let mut operator = server.connection();
    let mut scripts = || {
        let info: String = redis::cmd("INFO").arg("commandstats").query(&mut operator).expect("statistics");
        let calls = |line: &str| line.split_once("calls=")?.1.split_once(',')?.0.parse::<u64>().ok();
        info.lines().filter(|line| line.contains("cmdstat_eval")).filter_map(calls).sum::<u64>()
    };
    let before = scripts();
    until("it was probed twice", async || {
        let verdict = ask(&store, &limit, "ann", 1).await;
        assert!(!verdict.admitted && verdict.source == Source::Shared);
        scripts() >= before + 2
    })
    .await;
    assert!(!store.is_down());
}

/// The other order: leases are in hand when Redis dies. They are spent, then the mode decides, then the limit works
/// anew.
#[tokio::test]
async fn what_is_in_hand_when_redis_dies_is_spent_before_the_mode_decides() {
    for mode in MODES {
        for rule in leasable_rules(100) {
            let mut server = Server::start();
            let config = StoreConfig { lease: terms(8, 60_000), on_failure: mode, ..patient(&server.url()) };
            let store = Store::connect(config).await.expect("sensible settings");
            let limit = limit(&store, "any", rule, Sharing::Leased);
            assert_eq!(admitted(&store, &limit, "ann", 8).await, 8, "{mode:?} {rule:?}");
            server.kill();
            noticed(&store).await;
            let mut from_hand = 0;
            until("the mode decides", async || {
                let verdict = ask(&store, &limit, "ann", 1).await;
                from_hand += u32::from(verdict.source == Source::Shared);
                verdict.source == Source::Failure(mode)
            })
            .await;
            assert!((1..=8).contains(&from_hand), "{from_hand} from what was leased: {mode:?} {rule:?}");
            server.restart();
            until("Redis is back", async || !store.is_down()).await;
            assert_eq!(admitted(&store, &limit, "ann", 200).await, 100, "{mode:?} {rule:?}");
        }
    }
}

/// A Redis that kept its counts is believed again: nobody gets a second budget by cutting the connection.
#[tokio::test]
async fn after_a_cut_that_redis_survived_a_used_up_limit_rejects_as_before() {
    let server = Server::start();
    for rule in leasable_rules(5) {
        server.flush();
        let config = StoreConfig { on_failure: FailureMode::Closed, ..patient(&server.url()) };
        let store = Store::connect(config).await.expect("sensible settings");
        let limit = limit(&store, "any", rule, Sharing::Leased);
        assert_eq!(admitted(&store, &limit, "ann", 7).await, 5, "{rule:?}");
        for _ in 0..3 {
            let mut operator = server.connection();
            redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"]).exec(&mut operator).expect("cut");
            noticed(&store).await;
            until("it is back", async || !store.is_down()).await;
            let verdict = ask(&store, &limit, "ann", 1).await;
            assert!(!verdict.admitted && verdict.source == Source::Shared, "{rule:?}: {verdict:?}");
            assert!(verdict.rejected_by.is_some_and(|by| by.retry_after > Some(Duration::from_secs(60))), "{rule:?}");
        }
    }
}

//! One call a request: every algorithm, several levels, keys, changes of numbers.

use std::time::Duration;

use tidegate_policy::{
    Algorithm, Concurrency, FixedWindow, Gcra, LeakyBucket, Rate, RejectedBy, Rule, SlidingCounter, SlidingLog,
    TokenBucket,
};
use tidegate_store::{Key, LeaseTerms, Name, Sharing, Source, Store, StoreConfig, Topology, Unshareable};

use crate::setup::{admitted, all_rules, ask, level, limit, name, now, patient};
use tidegate_testkit::redis_server::Server;

#[tokio::test]
async fn every_algorithm_limits_and_tells_what_is_left() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    for rule in all_rules(5) {
        let limit = limit(&store, "any", rule, Sharing::Exact);
        for left in (0..5).rev() {
            let verdict = ask(&store, &limit, "ann", 1).await;
            assert!(verdict.admitted, "{rule:?}");
            assert_eq!(verdict.decisions[0].remaining(), left, "{rule:?}");
        }
        let verdict = ask(&store, &limit, "ann", 1).await;
        let RejectedBy { level, retry_after } = verdict.rejected_by.expect("it is used up");
        assert_eq!(level, 0);
        assert!(retry_after.is_some_and(|after| after > Duration::from_secs(1)), "{rule:?} {retry_after:?}");
        assert_eq!(
            ask(&store, &limit, "ann", 6).await.rejected_by,
            Some(RejectedBy { level: 0, retry_after: None }),
            "never: {rule:?}"
        );
        assert!(ask(&store, &limit, "bob", 5).await.admitted, "another key: {rule:?}");
    }
}

#[tokio::test]
async fn what_is_given_back_was_never_taken() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    for rule in all_rules(5) {
        let limit = limit(&store, "any", rule, Sharing::Exact);
        for _ in 0..10 {
            let verdict = ask(&store, &limit, "ann", 3).await;
            assert!(verdict.admitted, "{rule:?}");
            store.give_back(verdict.charged, now()).await;
        }
        assert_eq!(admitted(&store, &limit, "ann", 10).await, 5, "{rule:?}");
    }
}

#[tokio::test]
async fn several_levels_are_charged_all_or_none_and_the_longest_wait_is_named() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    let rules = all_rules(100);
    let mut limits: Vec<_> = rules.iter().map(|rule| limit(&store, "many", *rule, Sharing::Exact)).collect();
    let hour = Gcra::new(Rate::new(1, Duration::from_secs(3_600)).expect("a rate"), 2).expect("a limit");
    limits.push(limit(&store, "hour", hour, Sharing::Exact));
    let second = TokenBucket::new(Rate::new(1, Duration::from_secs(1_000)).expect("a rate"), 1).expect("a limit");
    limits.push(limit(&store, "short", second, Sharing::Exact));
    let everything = || limits.iter().map(|limit| level(limit, "ann", 1)).collect::<Vec<_>>();
    assert!(store.check(&everything(), now()).await.admitted);
    let _ = store.check(&[level(&limits[7], "ann", 1)], now()).await;
    for _ in 0..5 {
        let verdict = store.check(&everything(), now()).await;
        assert_eq!(verdict.decisions.len(), limits.len(), "every level is asked");
        let rejected = verdict.rejected_by.expect("two levels are used up");
        assert_eq!(limits[rejected.level].name(), "hour", "the longer of two waits");
    }
    for limit in &limits[..7] {
        let verdict = ask(&store, limit, "ann", 1).await;
        assert_eq!(verdict.decisions[0].remaining(), 98, "the rejected ones cost nothing");
    }
}

#[tokio::test]
async fn the_same_key_named_twice_pays_twice_or_not_at_all() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    for rule in all_rules(3) {
        let limit = limit(&store, "any", rule, Sharing::Exact);
        let twice = [level(&limit, "ann", 1), level(&limit, "ann", 1)];
        assert!(store.check(&twice, now()).await.admitted, "{rule:?}");
        assert!(!store.check(&twice, now()).await.admitted, "one is left: {rule:?}");
        assert_eq!(admitted(&store, &limit, "ann", 3).await, 1, "{rule:?}");
    }
}

/// Names that look like hash tags, separators, or other limits' keys are just names; every key ends in time, and all
/// share a slot.
#[tokio::test]
async fn users_choose_neither_the_slot_nor_another_limits_key() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    let users =
        ["{x}", "}{", "a:b", "a", "", "tidegate:{test}:any:fixed:0", "\r\nSET x 1\r\n", "ü\0", &"x".repeat(100_000)];
    for rule in all_rules(2) {
        for called in ["any", "any.a", "any-a"] {
            let limit = limit(&store, called, rule, Sharing::Exact);
            for user in users {
                assert_eq!(admitted(&store, &limit, user, 4).await, 2, "{user:.20}: {rule:?}");
            }
        }
    }
    let mut connection = server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).expect("keys");
    assert!(keys.len() > 100);
    for key in keys {
        let slot = |key: &str, c: &mut redis::Connection| redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query::<u32>(c);
        let plain = key.bytes().all(|b| b.is_ascii_alphanumeric() || b":{}._-".contains(&b));
        assert!(plain && key.starts_with("tidegate:{test}:") && key.matches('{').count() == 1, "{key}");
        assert_eq!(slot(&key, &mut connection).ok(), slot("{test}", &mut connection).ok());
        let ttl: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).expect("a ttl");
        assert!(ttl > 0 || key.ends_with("::probe"), "{key} would stay for ever");
    }
    assert_ne!(Key::of(&["a", "b"]), Key::of(&["ab"]));
    for bad in ["", "a b", "a:b", "{a}", "ä", &"x".repeat(65)] {
        assert!(Name::new(bad).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn a_change_of_numbers_keeps_what_was_used_and_another_algorithm_starts_anew() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    for rule in all_rules(10) {
        let limit = limit(&store, "any", rule, Sharing::Exact);
        admitted(&store, &limit, "ann", 6).await;
        let same =
            |limit| all_rules(limit).into_iter().find(|other| other.algorithm() == rule.algorithm()).expect("there");
        for (to, left) in [(20, 14), (8, 2), (3, 0)] {
            limit.change(&same(to), now()).expect("shareable");
            let verdict = ask(&store, &limit, "ann", u32::MAX).await;
            assert_eq!(verdict.decisions[0].remaining(), left, "{rule:?} → {to}");
        }
        for other in all_rules(10).into_iter().filter(|other| other.algorithm() != rule.algorithm()) {
            limit.change(&other, now()).expect("shareable");
            let left = ask(&store, &limit, "ann", 1).await.decisions[0].remaining();
            assert_eq!(left, 9, "{rule:?} → {other:?}");
            server.flush();
            limit.change(&rule, now()).expect("shareable");
        }
    }
}

/// A roll-out: some processes have the new numbers, some still the old ones. What the smaller ones cut off a bucket
/// used to be there again for the larger ones, each time.
#[tokio::test]
async fn processes_that_disagree_about_a_bucket_give_nobody_more_than_the_largest_has() {
    let server = Server::start();
    let slow = |rate: u64| Rate::new(rate, Duration::from_secs(86_400)).expect("a rate");
    let buckets: [fn(Rate, u64) -> Rule; 3] = [
        |rate, size| TokenBucket::new(rate, size).expect("a limit").into(),
        |rate, size| Gcra::new(rate, size).expect("a limit").into(),
        |rate, size| LeakyBucket::new(rate, size - 1).expect("a limit").into(),
    ];
    for bucket in buckets {
        let (large, small) = (bucket(slow(7), 100), bucket(slow(3), 5));
        let sharings = if large.algorithm() == Algorithm::LeakyBucket { &[Sharing::Exact][..] } else { &BOTH };
        for &sharing in sharings {
            let (old, new) = (
                Store::connect(patient(&server.url())).await.expect("sensible settings"),
                Store::connect(patient(&server.url())).await.expect("sensible settings"),
            );
            let (large, small) = (limit(&old, "any", large, sharing), limit(&new, "any", small, sharing));
            let mut sum = 0;
            for _ in 0..40 {
                sum += admitted(&old, &large, "ann", 7).await;
                sum += admitted(&new, &small, "ann", 3).await;
            }
            assert!(sum <= 100, "{sum} of 100: {sharing:?} {:?}", large.name());
            if sharing == Sharing::Exact {
                assert!(sum > 90, "{sum} of 100: the larger ones are served");
            }
            server.flush();
        }
    }
}

const BOTH: [Sharing; 2] = [Sharing::Exact, Sharing::Leased];

#[tokio::test]
async fn scripts_that_redis_has_forgotten_are_sent_again() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    let limit = limit(&store, "any", all_rules(3)[0], Sharing::Exact);
    assert!(ask(&store, &limit, "ann", 1).await.admitted);
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection()).expect("flushed");
    assert_eq!(admitted(&store, &limit, "ann", 5).await, 2);
    assert!(!store.is_down());
}

/// A million a day by the sliding counter: products beyond 2^53, which the script divides in steps.
#[tokio::test]
async fn counts_times_windows_beyond_what_a_double_holds_are_still_exact() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    let rule = SlidingCounter::new(4_000_000_000, Duration::from_secs(86_400)).expect("a limit");
    let limit = limit(&store, "day", rule, Sharing::Exact);
    assert_eq!(ask(&store, &limit, "a", 3_999_999_999).await.decisions[0].remaining(), 1);
    assert!(ask(&store, &limit, "a", 1).await.admitted);
    assert!(!ask(&store, &limit, "a", 1).await.admitted);
}

#[tokio::test]
async fn rules_that_redis_can_not_count_exactly_are_rejected_with_the_reason() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    let build = |rule: Rule, sharing| {
        let keys = std::num::NonZeroUsize::new(10).expect("not zero");
        store.limit(name("any"), rule, sharing, keys).err().map(|error| error.to_string())
    };
    let odd = FixedWindow::new(1, Duration::from_nanos(1_500)).expect("fine in memory");
    assert!(build(odd.into(), Sharing::Exact).is_some_and(|error| error.contains("whole number of microseconds")));
    let fine = Rate::new(999_983, Duration::from_secs(86_400)).expect("a rate");
    let fine = Gcra::new(fine, 90_000).expect("fine in memory");
    assert!(build(fine.into(), Sharing::Exact).is_some_and(|error| error.contains("2^53")));
    let long = SlidingCounter::new(u32::MAX.into(), Duration::from_secs(3_600 * 24 * 365)).expect("fine in memory");
    assert!(build(long.into(), Sharing::Exact).is_some_and(|error| error.contains("2^53")));
    let long = SlidingLog::new(10_001, Duration::from_secs(1)).expect("fine in memory");
    assert!(build(long.into(), Sharing::Exact).is_some_and(|error| error.contains("at most 10000")));
    for rule in [all_rules(5)[4], all_rules(5)[6]] {
        let error = build(rule, Sharing::Leased);
        assert!(error.is_some_and(|error| error.contains("can't be leased")), "{rule:?}");
        assert_eq!(build(rule, Sharing::Exact), None);
    }
    let limit = limit(&store, "any", all_rules(5)[0], Sharing::Leased);
    assert!(matches!(limit.change(&all_rules(5)[4], now()), Err(Unshareable::NotLeasable { .. })));
}

#[test]
fn addresses_say_what_redis_is_made_of() {
    for (text, shown) in [
        ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379"),
        ("redis://u:secret@127.0.0.1:6379/2", "redis://***@127.0.0.1:6379/2"),
        ("redis+sentinel://:secret@h1:1,h2:2/main/3", "main by redis://h1:1,redis://h2:2"),
        ("redis+cluster://u:secret@h1:1,h2:2", "cluster redis://h1:1,redis://h2:2"),
        ("rediss://127.0.0.1:6379", "rediss://127.0.0.1:6379"),
        ("rediss://u:secret@127.0.0.1:6379/2", "rediss://***@127.0.0.1:6379/2"),
        ("rediss+sentinel://:secret@h1:1,h2:2/main/3", "main by rediss://h1:1,rediss://h2:2"),
        ("rediss+cluster://u:secret@h1:1,h2:2", "cluster rediss://h1:1,rediss://h2:2"),
    ] {
        assert_eq!(format!("{:?}", text.parse::<Topology>().expect("an address")), shown);
    }
    for (text, reason) in [
        ("127.0.0.1:6379", "no `scheme://`"),
        ("http://h:1", "`http` is not a scheme"),
        ("redis://h:99999", "malformed"),
        ("redis+tls://h:1", "`redis+tls` is not a scheme"),
        ("rediss://h:1#insecure", "`#insecure` would trust any server"),
        ("rediss://h:1/0#insecure", "`#insecure`"),
        ("rediss+sentinel://h:1/main#insecure", "`#insecure`"),
        ("rediss+sentinel://h:1#insecure/main", "unexpected `#`"),
        ("rediss+cluster://h:1,h:2#insecure", "`#insecure`"),
        ("redis://:pass#word@h:1", "in a password write %23"),
        ("redis+sentinel://h:1", "master's name is missing"),
        ("redis+sentinel://h:1/m/x", "`x` is not a database number"),
        ("redis+cluster://h:1/2", "a cluster has no database"),
        ("redis+cluster://h:notaport", "`redis://h:notaport` is malformed"),
    ] {
        let error = text.parse::<Topology>().expect_err(text).to_string();
        assert!(error.contains(reason) && error.contains("allowed:") && error.contains("rediss"), "{text}: {error}");
    }
}

/// A change of numbers while requests are under way: what they give back belongs to the old numbers, and brings none of
/// them back.
#[tokio::test]
async fn giving_back_after_a_change_leaves_the_new_numbers_alone() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    let rate = Rate::new(1, Duration::from_secs(3_600)).expect("a rate");
    let burst = |burst| Rule::from(Gcra::new(rate, burst).expect("a limit"));
    let bucket = limit(&store, "bucket", burst(10), Sharing::Exact);
    let before = ask(&store, &bucket, "ann", 1).await;
    bucket.change(&burst(1_000), now()).expect("shareable");
    assert!(ask(&store, &bucket, "ann", 900).await.admitted);
    store.give_back(before.charged, now()).await;
    assert_eq!(ask(&store, &bucket, "ann", 1).await.decisions[0].remaining(), 98, "901 are used, and this one");

    let hold = |seconds| Rule::from(Concurrency::new(2, Duration::from_secs(seconds)).expect("a limit"));
    let slots = limit(&store, "slots", hold(1_000), Sharing::Exact);
    let first = ask(&store, &slots, "ann", 1).await;
    slots.change(&hold(2_000), now()).expect("shareable");
    assert!(ask(&store, &slots, "ann", 1).await.admitted);
    store.give_back(first.charged, now()).await;
    assert_eq!(admitted(&store, &slots, "ann", 3).await, 1, "one slot came free");
}

#[tokio::test]
async fn a_request_without_limits_passes_and_hurts_nobody() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    for _ in 0..10 {
        let verdict = store.check(&[], now()).await;
        assert!(verdict.admitted && verdict.source == Source::Shared);
    }
    assert!(!store.is_down());
}

#[tokio::test]
async fn settings_that_make_no_sense_are_named() {
    let config = || patient("redis://127.0.0.1:1");
    let lease = |tokens, seconds| LeaseTerms { tokens, span: Duration::from_secs(seconds) };
    for (config, field) in [
        (StoreConfig { budget: Duration::ZERO, ..config() }, "`budget` must be from 1 ms to 60 s"),
        (StoreConfig { budget: Duration::MAX, ..config() }, "`budget`"),
        (StoreConfig { lease: lease(10, 0), ..config() }, "`lease.span`"),
        (StoreConfig { lease: lease(10, u64::MAX), ..config() }, "`lease.span`"),
        (StoreConfig { lease: lease(0, 1), ..config() }, "`lease.tokens`"),
        (StoreConfig { lease: lease(u32::MAX, 1), ..config() }, "`lease.tokens`"),
    ] {
        let error = Store::connect(config).await.err().expect(field).to_string();
        assert!(error.starts_with(field), "{error}");
    }
}

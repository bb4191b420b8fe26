//! Several limits at once: all or nothing, the longest wait wins.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_policy::{
    Cost, FixedWindow, Gcra, Keyed, LeakyBucket, Level, MAX_LEVELS, NotAdmitted, Rate, RejectedBy, Rule, SlidingLog,
    Timestamp, TokenBucket, check_all, give_back_all,
};

const MINUTE: Duration = Duration::from_secs(60);

fn store(rule: impl Into<Rule>) -> Keyed<String, Rule> {
    Keyed::new(rule.into(), NonZeroUsize::new(10_000).expect("not zero"))
}

fn window(limit: u64, seconds: u64) -> Keyed<String, Rule> {
    store(FixedWindow::new(limit, Duration::from_secs(seconds)).expect("a limit"))
}

fn cost(tokens: u32) -> Cost {
    Cost::new(tokens).expect("a cost")
}

const NOW: Timestamp = Timestamp::from_nanos(0);

/// Which level rejects.
fn rejected(levels: &mut [Level<'_, String, Rule, str>]) -> RejectedBy {
    match check_all(levels, NOW) {
        Err(NotAdmitted::Rejected(by)) => by,
        other => panic!("not rejected: {other:?}"),
    }
}

#[test]
fn limits_of_all_levels_hold_together() {
    let (global, ip, user) = (window(1_000_000, 60), window(100, 60), window(1_000, 60));
    let (search, export) = (window(20, 60), window(5, 300));
    let ask = |client: &str, name: &str, endpoint: &Keyed<String, Rule>, path: &str| {
        let key = format!("{client}{path}");
        let mut levels = [
            Level::new("global", &global, "", Cost::ONE),
            Level::new("user", &user, name, Cost::ONE),
            Level::new("ip", &ip, client, Cost::ONE),
            Level::new("endpoint", endpoint, key.as_str(), Cost::ONE),
        ];
        check_all(&mut levels, NOW).map_err(|not_admitted| match not_admitted {
            NotAdmitted::Rejected(by) => (levels[by.level].name.to_owned(), by.retry_after),
            NotAdmitted::TooManyLevels { count } => panic!("{count} levels"),
        })
    };
    let admitted = (0..40).filter(|_| ask("10.0.0.1", "ann", &search, "/api/search").is_ok()).count();
    assert_eq!(admitted, 20);
    assert_eq!(ask("10.0.0.1", "ann", &search, "/api/search"), Err(("endpoint".to_owned(), Some(MINUTE))));
    let admitted = (0..40).filter(|_| ask("10.0.0.1", "ann", &export, "/api/export").is_ok()).count();
    assert_eq!(admitted, 5);
    assert_eq!(ask("10.0.0.1", "ann", &export, "/api/export"), Err(("endpoint".to_owned(), Some(5 * MINUTE))));
    // 25 in all went through: the 55 rejected ones cost nobody anything.
    assert_eq!(ip.check("10.0.0.1", cost(75), NOW).remaining(), 0);
    assert_eq!(user.check("ann", cost(975), NOW).remaining(), 0);
    assert_eq!(global.check("", cost(999_975), NOW).remaining(), 0);
}

#[test]
fn every_level_is_asked_and_the_longest_wait_is_named() {
    let (short, long, open) = (window(1, 10), window(1, 300), window(100, 60));
    let mut levels = [
        Level::new("short", &short, "a", Cost::ONE),
        Level::new("open", &open, "a", Cost::ONE),
        Level::new("long", &long, "a", Cost::ONE),
    ];
    assert!(check_all(&mut levels, NOW).is_ok());
    let by = rejected(&mut levels);
    assert_eq!((levels[by.level].name, by.retry_after), ("long", Some(5 * MINUTE)));
    let remaining: Vec<_> =
        levels.iter().filter_map(|level| level.decision).map(|decision| decision.remaining()).collect();
    assert_eq!(remaining, [0, 98, 0], "what is left, and what would be left");
    assert_eq!(levels[0].decision.and_then(|decision| decision.retry_after()), Some(Duration::from_secs(10)));
}

#[test]
fn never_is_longer_than_any_wait() {
    let (spent, small) = (window(1, 300), window(3, 60));
    let _ = spent.check("a", Cost::ONE, NOW);
    let mut levels = [Level::new("spent", &spent, "a", Cost::ONE), Level::new("small", &small, "a", cost(4))];
    let by = rejected(&mut levels);
    assert_eq!((levels[by.level].name, by.retry_after), ("small", None), "the second can never admit");
}

#[test]
fn what_was_given_back_was_never_taken_at_any_level() {
    let rate = Rate::new(1, MINUTE).expect("a rate");
    let stores = [
        window(3, 60),
        store(SlidingLog::new(3, MINUTE).expect("a limit")),
        store(TokenBucket::new(rate, 3).expect("a limit")),
        store(LeakyBucket::new(rate, 2).expect("a limit")),
        store(Gcra::new(rate, 3).expect("a limit")),
    ];
    for _ in 0..10 {
        let mut levels = stores.each_ref().map(|store| Level::new("any", store, "a", cost(2)));
        assert!(check_all(&mut levels, NOW).is_ok());
        give_back_all(&mut levels, NOW);
        give_back_all(&mut levels, NOW); // the second time there is nothing to give
    }
    for store in &stores {
        assert_eq!(store.check("a", cost(3), NOW).remaining(), 0);
    }
}

#[test]
fn the_same_key_named_twice_pays_twice_or_not_at_all() {
    let limit = window(3, 60);
    let ask = || {
        let mut levels = [Level::new("first", &limit, "a", Cost::ONE), Level::new("again", &limit, "a", Cost::ONE)];
        check_all(&mut levels, NOW).is_ok()
    };
    assert!(ask());
    assert!(!ask(), "one is left, and it would take two");
    assert_eq!(limit.check("a", Cost::ONE, NOW).remaining(), 0);
}

/// It used to panic, in the middle of a program that had one limit more than this crate.
#[test]
fn too_many_levels_are_an_error_and_take_nothing() {
    let limit = window(100, 60);
    let mut levels: Vec<_> = (0..=MAX_LEVELS).map(|_| Level::new("any", &limit, "a", Cost::ONE)).collect();
    let error = check_all(&mut levels, NOW).expect_err("one too many");
    assert_eq!(error, NotAdmitted::TooManyLevels { count: MAX_LEVELS + 1 });
    assert_eq!(error.to_string(), "too many levels to check together: must be at most 16, got 17");
    assert!(levels.iter().all(|level| level.decision.is_none()));
    assert_eq!(limit.check("a", Cost::ONE, NOW).remaining(), 99);
    assert!(check_all(&mut levels[..MAX_LEVELS], NOW).is_ok());
}

/// Levels in every order from several threads: no deadlock, and what is gone from each store is what admitted requests
/// took.
#[test]
fn threads_that_name_levels_in_different_orders_agree_on_every_count() {
    let stores = [window(1_000, 3_600), window(2_000, 3_600), window(100_000, 3_600)];
    let keys = ["a", "b", "a"];
    let taken = [const { AtomicU64::new(0) }; 3];
    std::thread::scope(|scope| {
        for thread in 0..8_usize {
            let (stores, taken) = (&stores, &taken);
            scope.spawn(move || {
                for round in 0..1_000 {
                    let chosen = [0, 1, 2].map(|i| (thread + round * i + i) % 3);
                    let mut levels = chosen.map(|store| Level::new("any", &stores[store], keys[store], Cost::ONE));
                    if check_all(&mut levels, NOW).is_ok() {
                        for store in chosen {
                            taken[store].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    for (store, (limit, key)) in [1_000, 2_000, 100_000].into_iter().zip(keys).enumerate() {
        let left = stores[store].check(key, cost(u32::MAX), NOW).remaining();
        assert_eq!(taken[store].load(Ordering::Relaxed), limit - left);
    }
    assert!(taken.iter().any(|taken| taken.load(Ordering::Relaxed) > 100));
}

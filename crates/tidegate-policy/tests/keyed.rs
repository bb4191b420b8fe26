//! The memory store: exact under threads, bounded under spraying, faithful under change.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_policy::{
    Concurrency, Cost, FixedWindow, Gcra, Keyed, LeakyBucket, Limiter, Rate, Rule, SlidingCounter, SlidingLog,
    Timestamp, TokenBucket,
};

const HOUR: Duration = Duration::from_secs(3_600);

fn keys(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).expect("not zero")
}

fn start() -> Timestamp {
    Timestamp::from_nanos(1_790_000_000_000_000_000)
}

/// `limit` at once and next to nothing after, by every algorithm.
fn all_rules(limit: u64) -> Vec<Rule> {
    let slow = Rate::new(1, HOUR).expect("a rate");
    vec![
        FixedWindow::new(limit, HOUR).expect("a limit").into(),
        SlidingCounter::new(limit, HOUR).expect("a limit").into(),
        SlidingLog::new(limit, HOUR).expect("a limit").into(),
        TokenBucket::new(slow, limit).expect("a limit").into(),
        LeakyBucket::new(slow, limit - 1).expect("a limit").into(),
        Gcra::new(slow, limit).expect("a limit").into(),
        Concurrency::new(limit, HOUR).expect("a limit").into(),
    ]
}

#[test]
fn eight_threads_racing_for_n_tokens_get_exactly_n() {
    for rule in all_rules(10_000) {
        let store = Keyed::<u64, Rule>::new(rule, keys(100));
        let admitted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        if store.check(&7, Cost::ONE, start()).is_admitted() {
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 10_000, "{rule:?}");
    }
}

/// Ten million keys, one request each, against a store of one million; a hundred clients at their limit ask all the
/// while.
#[test]
fn spraying_ten_million_keys_stays_under_the_cap_and_frees_no_heavy_client() {
    let limit = Gcra::new(Rate::new(1, HOUR).expect("a rate"), 100).expect("a limit");
    let store = Keyed::<u64, _>::with_seed(limit, keys(1_000_000), 42);
    let mut admitted = [0_u32; 100];
    let mut largest = (0, 0);
    for sprayed in 0..10_000_000_u64 {
        let now = Timestamp::from_nanos(start().as_nanos() + sprayed);
        assert!(store.check(&(1_000 + sprayed), Cost::ONE, now).is_admitted());
        if sprayed % 100 == 0 {
            let client = sprayed / 100 % 100;
            admitted[client as usize] += u32::from(store.check(&client, Cost::ONE, now).is_admitted());
        }
        if sprayed % 100_000 == 0 {
            largest = largest.max((store.len(), store.table_bytes()));
        }
    }
    assert_eq!(admitted, [100; 100]);
    assert!((990_000..=1_000_000).contains(&largest.0), "{} keys", largest.0);
    assert!(largest.1 <= 1_000_000 * (64 + size_of::<u64>()), "{} bytes", largest.1);
}

#[test]
fn keys_that_are_as_good_as_unused_make_room_before_the_table_grows() {
    let limit = FixedWindow::new(10, Duration::from_secs(1)).expect("a limit");
    let store = Keyed::<u64, _>::new(limit, keys(1_000_000));
    let mut now = start();
    for key in 0..2_000_000 {
        let _ = store.check(&key, Cost::ONE, now);
        now = now + Duration::from_micros(100); // 10,000 keys live in a window
    }
    assert!(store.len() < 60_000, "{} keys for 10,000 live ones", store.len());
    store.forget_unused(now + Duration::from_secs(1));
    assert_eq!(store.len(), 0);
    assert!(store.table_bytes() < 64 * 256, "{} bytes for nothing", store.table_bytes());
}

#[test]
fn a_key_that_is_not_there_is_not_made_by_an_update_of_known_ones() {
    let store = Keyed::<String, _>::new(FixedWindow::new(1, HOUR).expect("a limit"), keys(10));
    assert!(store.update_known("a", |_| ()).is_none() && store.is_empty());
    assert!(store.check("a", Cost::ONE, start()).is_admitted());
    assert!(store.update_known("a", |state| *state = Default::default()).is_some());
    assert!(store.check("a", Cost::ONE, start()).is_admitted(), "it is unused again");
}

#[test]
fn a_store_of_one_key_still_limits_that_key() {
    let limit = FixedWindow::new(1, HOUR).expect("a limit");
    let store = Keyed::<String, _>::new(limit, keys(1));
    assert!(store.check("a", Cost::ONE, start()).is_admitted());
    assert!(!store.check("a", Cost::ONE, start()).is_admitted());
    assert!(store.check("b", Cost::ONE, start()).is_admitted(), "it pushes the other out");
    assert_eq!(store.len(), 1);
}

#[test]
fn a_change_of_numbers_keeps_what_was_used() {
    for rule in all_rules(10) {
        let store = Keyed::<u64, Rule>::new(rule, keys(100));
        for _ in 0..6 {
            let _ = store.check(&1, Cost::ONE, start());
        }
        let at = |limit| {
            all_rules(limit).into_iter().find(|other| other.algorithm() == rule.algorithm()).expect("it is there")
        };
        let left = || store.check(&1, Cost::new(u32::MAX).expect("a cost"), start()).remaining();
        assert_eq!(left(), 4, "{rule:?}");
        store.change(&at(20), start());
        assert_eq!(left(), 14, "raised: {rule:?}");
        store.change(&at(8), start());
        assert_eq!(left(), 2, "lowered: {rule:?}");
        store.change(&at(3), start());
        assert_eq!(left(), 0, "lowered below what was used: {rule:?}");
    }
}

#[test]
fn a_change_of_algorithm_starts_anew() {
    for before in all_rules(10) {
        for after in all_rules(10) {
            let store = Keyed::<u64, Rule>::new(before, keys(100));
            let _ = store.check(&1, Cost::ONE, start());
            store.change(&after, start());
            let used = u64::from(before.algorithm() == after.algorithm());
            let left = store.check(&1, Cost::ONE, start()).remaining();
            assert_eq!(left, 10 - used - 1, "{before:?} → {after:?}");
        }
    }
}

#[test]
fn a_ticket_from_before_a_change_frees_a_slot_but_refills_no_bucket() {
    for rule in all_rules(10) {
        let store = Keyed::<u64, Rule>::new(rule, keys(100));
        let (_, ticket) = store.take(&1, Cost::new(5).expect("a cost"), start());
        store.change(&rule, start());
        store.give_back(&1, ticket.expect("admitted"), start());
        let left = store.check(&1, Cost::ONE, start()).remaining();
        let returned = rule.receipts_survive_a_change();
        assert_eq!(left, if returned { 9 } else { 4 }, "{rule:?}");
    }
}

#[test]
fn a_change_under_load_admits_no_more_than_the_larger_limit() {
    let rule = |limit| Rule::from(FixedWindow::new(limit, HOUR).expect("a limit"));
    let store = Keyed::<u64, Rule>::new(rule(1_000), keys(100));
    let admitted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    admitted.fetch_add(store.check(&1, Cost::ONE, start()).is_admitted().into(), Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            for limit in (1_000..2_000).chain((500..=2_000).rev()).chain([2_000]) {
                store.change(&rule(limit), start());
            }
        });
    });
    assert!(admitted.into_inner() <= 2_000);
}

#[test]
fn a_key_takes_no_more_than_64_bytes_beyond_the_key() {
    assert_eq!(size_of::<tidegate_policy::state::RuleState>(), 24);
    for rule in all_rules(10) {
        let store = Keyed::<u64, Rule>::new(rule, keys(1_000_000));
        for key in 0..1_000_000 {
            let _ = store.check(&key, Cost::ONE, start());
        }
        let bytes = store.table_bytes() / store.len();
        assert!(bytes <= 64 + size_of::<u64>(), "{bytes} bytes a key: {rule:?}");
    }
}

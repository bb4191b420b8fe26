//! Bulkheads in tasks and in threads: slots come back whatever becomes of those that have them or wait for them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate_wait::policy::bulkhead::BulkheadSettings;
use tidegate_wait::{Bulkhead, NotEntered};
use tokio::task::yield_now;
use tokio::time::Instant;

const LONG: Duration = Duration::from_secs(3_600);

fn bulkhead(limit: u32, queue: u32) -> Bulkhead {
    Bulkhead::new(BulkheadSettings { limit, queue }).expect("valid")
}

#[tokio::test(start_paused = true)]
async fn those_that_wait_enter_in_their_order_as_soon_as_a_slot_is_free() {
    let bulkhead = bulkhead(1, 3);
    let mut held = Some(bulkhead.enter(Duration::ZERO).await.expect("free"));
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let bulkhead = bulkhead.clone();
        waiting.push(tokio::spawn(async move { bulkhead.enter(LONG).await }));
        yield_now().await;
    }
    assert_eq!(bulkhead.enter(LONG).await.err(), Some(NotEntered::Full));
    let start = Instant::now();
    for number in 0..3 {
        drop(held.take());
        yield_now().await;
        let finished: Vec<bool> = waiting.iter().map(tokio::task::JoinHandle::is_finished).collect();
        assert_eq!(finished.iter().position(|finished| !finished), (number < 2).then_some(1), "{number}: {finished:?}");
        held = Some(waiting.remove(0).await.expect("no panic").expect("its turn"));
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    drop(held);
    assert_eq!(bulkhead.snapshot().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_in_time_and_leaves_the_queue() {
    let bulkhead = bulkhead(1, 1);
    let slot = bulkhead.enter(Duration::ZERO).await.expect("free");
    let start = Instant::now();
    assert_eq!(bulkhead.enter(Duration::from_millis(200)).await.err(), Some(NotEntered::Timeout));
    assert_eq!(start.elapsed(), Duration::from_millis(200));
    assert_eq!((bulkhead.snapshot().waiting, bulkhead.snapshot().cancelled), (0, 1));
    assert_eq!(bulkhead.enter(Duration::ZERO).await.err(), Some(NotEntered::Full), "without time it does not queue");
    drop(slot);
    assert!(bulkhead.try_enter().is_some());
}

/// Dropped while it waits, and dropped when it has a slot that it does not know of yet.
#[tokio::test(start_paused = true)]
async fn one_that_leaves_gives_on_what_it_has() {
    let bulkhead = bulkhead(1, 2);
    for is_admitted in [false, true] {
        let slot = bulkhead.enter(Duration::ZERO).await.expect("free");
        let mut leaves = Box::pin(bulkhead.enter(LONG));
        let mut stays = Box::pin(bulkhead.enter(LONG));
        for waiting in [&mut leaves, &mut stays] {
            assert!(tokio::time::timeout(Duration::ZERO, waiting.as_mut()).await.is_err());
        }
        if is_admitted {
            drop(slot);
            drop(leaves);
        } else {
            drop(leaves);
            drop(slot);
        }
        drop(stays.await.expect("its turn"));
        assert_eq!((bulkhead.snapshot().in_flight, bulkhead.snapshot().waiting), (0, 0));
    }
}

#[test]
fn threads_never_have_more_slots_than_there_are() {
    let bulkhead = bulkhead(2, 3);
    let (in_flight, most, entered) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for turn in 0..2_000_u64 {
                    let Ok(_slot) = bulkhead.enter_blocking(Duration::from_micros(turn % 50)) else { continue };
                    most.fetch_max(in_flight.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    entered.fetch_add(1, Ordering::Relaxed);
                    in_flight.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    let snapshot = bulkhead.snapshot();
    assert!(most.load(Ordering::SeqCst) <= 2);
    assert_eq!((snapshot.in_flight, snapshot.waiting), (0, 0));
    assert_eq!(snapshot.entered, u64::from(entered.load(Ordering::Relaxed)));
    assert!(entered.load(Ordering::Relaxed) > 2_000);
}

#[tokio::test(start_paused = true)]
async fn more_slots_admit_those_that_wait() {
    let bulkhead = bulkhead(1, 2);
    let _held = bulkhead.enter(Duration::ZERO).await.expect("free");
    let (one, other) = (bulkhead.clone(), bulkhead.clone());
    let waiting =
        [tokio::spawn(async move { one.enter(LONG).await }), tokio::spawn(async move { other.enter(LONG).await })];
    yield_now().await;
    bulkhead.change(BulkheadSettings { limit: 3, queue: 2 }).expect("valid");
    for waiting in waiting {
        assert!(waiting.await.expect("no panic").is_ok());
    }
}

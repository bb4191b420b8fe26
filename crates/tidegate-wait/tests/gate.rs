//! Waiting for limits. Async tests run on Tokio's paused clock, which jumps to the next timer: nothing here sleeps for
//! real. Tests with threads wait for real, and assert only what no delay can break.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_policy::{Concurrency, Cost, FixedWindow, Gcra, Keyed, LeakyBucket, Rate, Rule};
use tidegate_wait::{Clock, Gate, NotAcquired};
use tokio::time::Instant;

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn gate(rule: impl Into<Rule>, max_waiting: usize) -> Gate<String, Rule> {
    let limit = Keyed::<String, Rule>::new(rule.into(), NonZeroUsize::new(1_000).expect("not zero"));
    Gate::new(limit, max_waiting)
}

fn per_second(tokens: u64) -> Rate {
    Rate::per_second(tokens).expect("a rate")
}

fn ten_a_second() -> Gcra {
    Gcra::new(per_second(10), 1).expect("a limit")
}

fn cost(tokens: u32) -> Cost {
    Cost::new(tokens).expect("a cost")
}

#[tokio::test(start_paused = true)]
async fn it_waits_as_long_as_it_takes_and_no_longer() {
    let gate = gate(ten_a_second(), 10);
    let start = Instant::now();
    for _ in 0..5 {
        let _permit = gate.acquire("ann", Cost::ONE, SECOND).await.expect("within a second");
    }
    let took = start.elapsed();
    assert!((400 * MILLI..405 * MILLI).contains(&took), "{took:?}: four waits of 100 ms, to the timer's millisecond");
    let _permit = gate.acquire("bob", Cost::ONE, Duration::ZERO).await.expect("another key need not wait");
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_had_in_time_fails_at_once_and_is_charged_nothing() {
    let gate = gate(ten_a_second(), 10);
    let _permit = gate.acquire("ann", Cost::ONE, Duration::ZERO).await.expect("the first");
    let start = Instant::now();
    for _ in 0..10 {
        let error = gate.acquire("ann", Cost::ONE, 99 * MILLI).await.expect_err("1 ms too impatient");
        assert_eq!(error, NotAcquired::Timeout { retry_after: Some(100 * MILLI) });
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    let _permit = gate.acquire("ann", Cost::ONE, 100 * MILLI).await.expect("just patient enough");
    let error = gate.acquire("ann", cost(2), Duration::MAX).await.expect_err("above the burst");
    assert_eq!(error, NotAcquired::Never);
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_are_served_in_the_order_of_arrival() {
    let gate = gate(ten_a_second(), 10);
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for arrival in 0..8 {
        let (waiting, order) = (gate.clone(), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let _permit = waiting.acquire("ann", Cost::ONE, 10 * SECOND).await.expect("within ten seconds");
            order.lock().expect("nobody panicked").push(arrival);
        }));
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!(*order.lock().expect("nobody panicked"), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test(start_paused = true)]
async fn only_so_many_may_wait() {
    let gate = gate(ten_a_second(), 2);
    let _permit = gate.acquire("ann", Cost::ONE, Duration::ZERO).await.expect("the first");
    let waiting = ["ann", "ann"].map(|key| {
        let gate = gate.clone();
        tokio::spawn(async move { gate.acquire(key, Cost::ONE, SECOND).await })
    });
    tokio::task::yield_now().await;
    assert_eq!(gate.acquire("ann", Cost::ONE, SECOND).await.expect_err("full"), NotAcquired::TooManyWaiting);
    let _permit = gate.acquire("bob", Cost::ONE, SECOND).await.expect("who need not wait is welcome");
    for task in waiting {
        drop(task.await.expect("no panic").expect("served"));
    }
    let _permit = gate.acquire("ann", Cost::ONE, SECOND).await.expect("there is room again");
}

#[tokio::test(start_paused = true)]
async fn one_who_waits_behind_others_gives_up_at_its_timeout() {
    let gate = gate(ten_a_second(), 10);
    let _permit = gate.acquire("ann", Cost::ONE, Duration::ZERO).await.expect("the first");
    let before = gate.clone();
    let before = tokio::spawn(async move { before.acquire("ann", Cost::ONE, 10 * SECOND).await });
    tokio::task::yield_now().await;
    let error = gate.acquire("ann", Cost::ONE, 50 * MILLI).await.expect_err("there is one before");
    assert_eq!(error, NotAcquired::Timeout { retry_after: None });
    drop(before.await.expect("no panic").expect("served"));
}

/// One who goes away while waiting, wherever in the queue, holds nobody up.
#[tokio::test(start_paused = true)]
async fn a_waiting_future_that_is_dropped_lets_the_next_one_forward() {
    for leaves in 0..3 {
        let gate = gate(ten_a_second(), 10);
        let _permit = gate.acquire("ann", Cost::ONE, Duration::ZERO).await.expect("the first");
        let start = Instant::now();
        let mut tasks = Vec::new();
        for _ in 0..3 {
            let gate = gate.clone();
            tasks.push(tokio::spawn(async move { gate.acquire("ann", Cost::ONE, 10 * SECOND).await }));
            tokio::task::yield_now().await;
        }
        tasks.remove(leaves).abort();
        for task in tasks {
            drop(task.await.expect("no panic").expect("served"));
        }
        assert!(start.elapsed() < 205 * MILLI, "two waits, not three");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shaper_spaces_its_requests_and_a_dropped_one_gives_its_departure_back() {
    let gate = gate(LeakyBucket::new(per_second(10), 3).expect("a limit"), 10);
    let start = Instant::now();
    let _permit = gate.acquire("ann", Cost::ONE, SECOND).await.expect("at once");
    let leaving = gate.clone();
    let leaving = tokio::spawn(async move { leaving.acquire("ann", Cost::ONE, SECOND).await });
    tokio::task::yield_now().await;
    leaving.abort();
    assert!(leaving.await.is_err());
    let _permit = gate.acquire("ann", Cost::ONE, SECOND).await.expect("at the moment that came free");
    let took = start.elapsed();
    assert!((100 * MILLI..105 * MILLI).contains(&took), "{took:?}");
    let _permit = gate.acquire("ann", Cost::ONE, SECOND).await.expect("the next departure");
    let error = gate.acquire("ann", Cost::ONE, 50 * MILLI).await.expect_err("it would have to wait 100 ms");
    assert_eq!(error, NotAcquired::Timeout { retry_after: Some(100 * MILLI) });
}

#[tokio::test(start_paused = true)]
async fn a_slot_goes_to_the_next_waiter_when_its_permit_is_dropped() {
    let gate = gate(Concurrency::new(1, 3_600 * SECOND).expect("a limit"), 10);
    let mut holder = gate.acquire("ann", Cost::ONE, Duration::ZERO).await.expect("the first");
    for _ in 0..10 {
        let next = gate.clone();
        let next = tokio::spawn(async move { next.acquire("ann", Cost::ONE, 60 * SECOND).await });
        tokio::task::yield_now().await;
        assert!(!next.is_finished());
        drop(holder);
        holder = next.await.expect("no panic").expect("it came free long before its hold was over");
    }
    let error = gate.acquire("ann", Cost::ONE, SECOND).await.expect_err("nobody leaves");
    assert!(matches!(error, NotAcquired::Timeout { .. }));
}

#[tokio::test(start_paused = true)]
async fn windows_admit_their_limit_each() {
    let gate = gate(FixedWindow::new(2, SECOND).expect("a limit"), 10);
    let start = Instant::now();
    for _ in 0..7 {
        let _permit = gate.acquire("ann", Cost::ONE, 2 * SECOND).await.expect("in the next window");
    }
    assert!((2 * SECOND..4 * SECOND).contains(&start.elapsed()), "three windows end between the seven");
}

#[test]
fn threads_wait_too_and_get_exactly_what_the_limit_allows() {
    let gate = gate(Gcra::new(per_second(1_000), 1).expect("a limit"), 100);
    let start = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let _permit = gate.acquire_blocking("ann", Cost::ONE, 60 * SECOND).expect("within a minute");
                }
            });
        }
    });
    assert!(start.elapsed() >= 99 * MILLI, "a hundred, one a millisecond");
    let error = gate.acquire_blocking("ann", cost(2), SECOND).expect_err("above the burst");
    assert_eq!(error, NotAcquired::Never);
}

#[test]
fn a_thread_is_woken_when_a_slot_comes_free() {
    let gate = gate(Concurrency::new(1, 3_600 * SECOND).expect("a limit"), 10);
    let holder = gate.acquire_blocking("ann", Cost::ONE, Duration::ZERO).expect("the first");
    std::thread::scope(|scope| {
        let next = scope.spawn(|| gate.acquire_blocking("ann", Cost::ONE, 60 * SECOND).is_ok());
        drop(holder);
        assert!(next.join().expect("no panic"));
    });
}

/// Many tasks for few slots, each held over an await: never more than the limit inside, and everybody gets in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_passes_through_a_narrow_gate() {
    let gate = gate(Concurrency::new(3, 3_600 * SECOND).expect("a limit"), 1_000);
    let inside = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let (gate, inside) = (gate.clone(), Arc::clone(&inside));
            tokio::spawn(async move {
                let permit = gate.acquire("all", Cost::ONE, 60 * SECOND).await.expect("within a minute");
                let others = inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                drop(permit);
                others
            })
        })
        .collect();
    for task in tasks {
        assert!(task.await.expect("no panic") < 3);
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_are_spent_when_a_permit_is_dropped_and_come_back_when_it_is_given_back() {
    let gate = gate(Gcra::new(per_second(1), 2).expect("a limit"), 10);
    let permit = gate.acquire("ann", cost(2), Duration::ZERO).await.expect("the burst");
    assert_eq!(permit.decision().remaining(), 0);
    permit.give_back();
    drop(gate.acquire("ann", cost(2), Duration::ZERO).await.expect("as if it had never been taken"));
    let error = gate.acquire("ann", Cost::ONE, Duration::ZERO).await.expect_err("dropping returned nothing");
    assert_eq!(error, NotAcquired::Timeout { retry_after: Some(SECOND) });
}

#[tokio::test(start_paused = true)]
async fn one_who_waits_for_tokens_is_woken_when_a_permit_is_given_back() {
    let gate = gate(Gcra::new(Rate::per_hour(1).expect("a rate"), 1).expect("a limit"), 10);
    let permit = gate.acquire("ann", Cost::ONE, Duration::ZERO).await.expect("the first");
    let next = gate.clone();
    let next = tokio::spawn(async move { next.acquire("ann", Cost::ONE, 2 * 3_600 * SECOND).await });
    tokio::task::yield_now().await;
    let start = Instant::now();
    permit.give_back();
    let _permit = next.await.expect("no panic").expect("what came back");
    assert!(start.elapsed() < SECOND, "an hour, had nobody woken it");
}

/// A permit outlives the gate it came from: its slot still comes back to the limit that others use.
#[tokio::test(start_paused = true)]
async fn a_permit_that_outlives_its_gate_gives_its_slot_back() {
    let rule = Concurrency::new(1, 3_600 * SECOND).expect("a limit");
    let limit = Arc::new(Keyed::<String, Concurrency>::new(rule, NonZeroUsize::MIN));
    let clock = Clock::start();
    let gate = Gate::with_clock(Arc::clone(&limit), 10, clock);
    let permit = gate.acquire("ann", Cost::ONE, Duration::ZERO).await.expect("the first");
    drop(gate);
    assert!(!limit.check("ann", Cost::ONE, clock.now()).is_admitted());
    drop(permit);
    assert!(limit.check("ann", Cost::ONE, clock.now()).is_admitted());
}

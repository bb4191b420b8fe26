use super::*;
use crate::target::{Contention, Faults, ServiceTime};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(20);

fn desk(workers: usize, queue: usize, time: Duration) -> Arc<Desk> {
    let station = Station::new(workers, queue, ServiceTime::Fixed(time), Contention::default(), 1);
    Desk::new(station, Work::Sleep).expect("a timer")
}

fn polled<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn occupancy(desk: &Desk) -> (usize, usize) {
    let occupancy = desk.occupancy();
    (occupancy.busy, occupancy.waiting)
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_worker_or_its_slot_in_the_queue() {
    let desk = desk(1, 1, LONG);
    let mut first = Box::pin(desk.serve());
    let mut second = Box::pin(desk.serve());
    assert!(polled(first.as_mut()).is_pending() && polled(second.as_mut()).is_pending());
    assert!(matches!(polled(pin!(desk.serve())), Poll::Ready(None)), "the queue is full");
    assert_eq!(occupancy(&desk), (1, 1));
    drop(first);
    assert_eq!(occupancy(&desk), (1, 0), "the second is served");
    let mut third = Box::pin(desk.serve());
    assert!(polled(third.as_mut()).is_pending());
    assert_eq!(occupancy(&desk), (1, 1));
    drop(third);
    assert_eq!(occupancy(&desk), (1, 0));
    drop(second);
    assert_eq!(occupancy(&desk), (0, 0));
}

#[tokio::test]
async fn a_worker_goes_on_with_the_next_before_anybody_is_polled() {
    let time = Duration::from_millis(2);
    let (desk, began) = (desk(1, 100, time), Instant::now());
    let mut visits: Vec<_> = (0..100).map(|_| Box::pin(desk.serve())).collect();
    assert!(visits.iter_mut().all(|visit| polled(visit.as_mut()).is_pending()));
    let all_served = async {
        while occupancy(&desk) != (0, 0) {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        error = desk.run() => panic!("{error}"),
        served = timeout(LONG, all_served) => assert!(served.is_ok(), "without polling anybody"),
    }
    assert!(began.elapsed() >= time * 100);
    assert!(visits.iter_mut().all(|visit| matches!(polled(visit.as_mut()), Poll::Ready(Some(None)))));
}

#[tokio::test]
async fn what_hangs_keeps_its_worker_and_a_long_queue_is_no_deep_stack() {
    let desk = desk(1, 100_000, Duration::ZERO);
    desk.faults.set(Faults { hang: true, ..Faults::default() }, None);
    let Poll::Ready(Some(Some(held))) = polled(pin!(desk.serve())) else { panic!("with its worker") };
    let mut visits: Vec<_> = (0..100_000).map(|_| Box::pin(desk.serve())).collect();
    assert!(visits.iter_mut().all(|visit| polled(visit.as_mut()).is_pending()));
    desk.faults.set(Faults::default(), None);
    drop(held);
    let all_served = async {
        while occupancy(&desk) != (0, 0) {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        error = desk.run() => panic!("{error}"),
        served = timeout(LONG, all_served) => assert!(served.is_ok()),
    }
}

use super::*;
use crate::target::{Contention, Faults, ServiceTime};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(20);

fn station(workers: usize, queue: usize, time: Duration) -> Arc<LiveStation> {
    let station = Station::new(workers, queue, ServiceTime::Fixed(time), Contention::default(), 1);
    LiveStation::new(station, Work::Sleep).expect("a timer")
}

fn polled<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn occupancy(station: &LiveStation) -> (usize, usize) {
    let occupancy = station.occupancy();
    (occupancy.busy, occupancy.waiting)
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_worker_or_its_slot_in_the_queue() {
    let station = station(1, 1, LONG);
    let mut first = Box::pin(station.serve());
    let mut second = Box::pin(station.serve());
    assert!(polled(first.as_mut()).is_pending() && polled(second.as_mut()).is_pending());
    assert!(matches!(polled(pin!(station.serve())), Poll::Ready(None)), "the queue is full");
    assert_eq!(occupancy(&station), (1, 1));
    drop(first);
    assert_eq!(occupancy(&station), (1, 0), "the second is served");
    let mut third = Box::pin(station.serve());
    assert!(polled(third.as_mut()).is_pending());
    assert_eq!(occupancy(&station), (1, 1));
    drop(third);
    assert_eq!(occupancy(&station), (1, 0));
    drop(second);
    assert_eq!(occupancy(&station), (0, 0));
}

#[tokio::test]
async fn a_worker_goes_on_with_the_next_before_anybody_is_polled() {
    let time = Duration::from_millis(2);
    let (station, began) = (station(1, 100, time), Instant::now());
    let mut requests: Vec<_> = (0..100).map(|_| Box::pin(station.serve())).collect();
    assert!(requests.iter_mut().all(|request| polled(request.as_mut()).is_pending()));
    let all_served = async {
        while occupancy(&station) != (0, 0) {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        error = station.run() => panic!("{error}"),
        served = timeout(LONG, all_served) => assert!(served.is_ok(), "without polling anybody"),
    }
    assert!(began.elapsed() >= time * 100);
    assert!(requests.iter_mut().all(|request| matches!(polled(request.as_mut()), Poll::Ready(Some(None)))));
}

#[tokio::test]
async fn what_hangs_keeps_its_worker_and_a_long_queue_is_no_deep_stack() {
    let station = station(1, 100_000, Duration::ZERO);
    station.faults.set(Faults { hang: true, ..Faults::default() }, None);
    let Poll::Ready(Some(Some(held))) = polled(pin!(station.serve())) else { panic!("with its worker") };
    let mut requests: Vec<_> = (0..100_000).map(|_| Box::pin(station.serve())).collect();
    assert!(requests.iter_mut().all(|request| polled(request.as_mut()).is_pending()));
    station.faults.set(Faults::default(), None);
    drop(held);
    let all_served = async {
        while occupancy(&station) != (0, 0) {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        error = station.run() => panic!("{error}"),
        served = timeout(LONG, all_served) => assert!(served.is_ok()),
    }
}

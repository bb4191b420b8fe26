use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::Station;
use super::station::Ticket;

/// A [`Station`] that requests wait at. Whoever waits is told when it is their turn and how long the service takes.
pub(super) struct Desk(Mutex<Station<oneshot::Sender<Duration>>>);

/// How a desk stands.
pub(super) struct Standing {
    pub(super) busy: usize,
    pub(super) waiting: usize,
    pub(super) workers: usize,
    pub(super) most_waiting: usize,
}

impl Desk {
    pub(super) fn new(station: Station<oneshot::Sender<Duration>>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(station)))
    }

    /// Waits for a worker: the place, and how long the service takes. None at once if the queue is full.
    pub(super) async fn place(self: &Arc<Self>) -> Option<(Place, Duration)> {
        let waiting = {
            let mut station = self.station();
            if let Some(time) = station.begin() {
                return Some((Place(Arc::clone(self)), time));
            }
            let (told, turn) = oneshot::channel();
            Waiting { desk: self, ticket: station.wait(told)?, turn, is_over: false }
        };
        let time = waiting.turn().await?;
        Some((Place(Arc::clone(self)), time))
    }

    pub(super) fn standing(&self) -> Standing {
        let station = self.station();
        Standing {
            busy: station.busy(),
            waiting: station.waiting(),
            workers: station.workers(),
            most_waiting: station.most_waiting(),
        }
    }

    /// A worker is free: it is the turn of the next who is still there.
    fn release(&self) {
        loop {
            let Some((told, time)) = self.station().finish() else { return };
            if told.send(time).is_ok() {
                return;
            }
        }
    }

    fn station(&self) -> MutexGuard<'_, Station<oneshot::Sender<Duration>>> {
        // Nothing panics half-way through a change of a station.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker, until it is dropped.
pub(super) struct Place(Arc<Desk>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Somebody in the queue, who may leave.
struct Waiting<'a> {
    desk: &'a Desk,
    ticket: Ticket,
    turn: oneshot::Receiver<Duration>,
    is_over: bool,
}

impl Waiting<'_> {
    async fn turn(mut self) -> Option<Duration> {
        let time = (&mut self.turn).await.ok()?;
        self.is_over = true;
        Some(time)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.turn.close();
        // Their turn may have come at the moment they left.
        if self.turn.try_recv().is_ok() {
            self.desk.release();
        } else {
            self.desk.station().leave(self.ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Contention, ServiceTime};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn desk(workers: usize, queue: usize) -> Arc<Desk> {
        let time = ServiceTime::Fixed(Duration::from_millis(5));
        Desk::new(Station::new(workers, queue, time, Contention::default(), 1))
    }

    fn polled<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn standing(desk: &Desk) -> (usize, usize) {
        let standing = desk.standing();
        (standing.busy, standing.waiting)
    }

    #[test]
    fn who_waits_gets_the_place_of_who_ends() {
        let desk = desk(1, 1);
        let Poll::Ready(Some((place, _))) = polled(pin!(desk.place())) else { panic!("a free worker") };
        let mut second = pin!(desk.place());
        assert!(polled(second.as_mut()).is_pending());
        assert!(matches!(polled(pin!(desk.place())), Poll::Ready(None)), "the queue is full");
        drop(place);
        assert_eq!(standing(&desk), (1, 0));
        assert!(matches!(polled(second.as_mut()), Poll::Ready(Some(_))));
        assert_eq!(standing(&desk), (0, 0));
    }

    #[test]
    fn who_leaves_frees_the_place_in_the_queue() {
        let desk = desk(1, 1);
        let held = polled(pin!(desk.place()));
        {
            let mut second = pin!(desk.place());
            assert!(polled(second.as_mut()).is_pending());
            assert_eq!(standing(&desk), (1, 1));
        }
        assert_eq!(standing(&desk), (1, 0));
        drop(held);
        assert_eq!(standing(&desk), (0, 0));
    }

    #[test]
    fn who_leaves_when_the_turn_has_come_hands_it_on() {
        let desk = desk(1, 2);
        let held = polled(pin!(desk.place()));
        let mut third = pin!(desk.place());
        {
            let mut second = pin!(desk.place());
            assert!(polled(second.as_mut()).is_pending());
            assert!(polled(third.as_mut()).is_pending());
            drop(held);
            assert_eq!(standing(&desk), (1, 1), "the second has been told, and does not know it yet");
        }
        assert_eq!(standing(&desk), (1, 0));
        assert!(matches!(polled(third.as_mut()), Poll::Ready(Some(_))));
        assert_eq!(standing(&desk), (0, 0));
    }
}

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;

use super::{Contention, ServiceTime};

/// So many workers, and a bounded queue before them: first come, first served.
///
/// It knows no time. Its caller, with a clock or in a simulation, learns how long each service takes, and reports when
/// it is over. `T` is what shall be woken when a worker is free for it.
#[derive(Debug)]
pub struct Station<T> {
    workers: usize,
    most_waiting: usize,
    service_time: ServiceTime,
    contention: Contention,
    random: Rng,
    busy: usize,
    /// By ticket, so in the order they came. A request that leaves leaves no gap behind.
    waiting: BTreeMap<Ticket, T>,
    tickets: u64,
}

/// A slot in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// How busy a station is, and how busy it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occupancy {
    pub(super) busy: usize,
    pub(super) waiting: usize,
    pub(super) workers: usize,
    pub(super) most_waiting: usize,
}

impl<T> Station<T> {
    /// All workers free, nobody waiting. There is at least one worker.
    pub fn new(
        workers: usize,
        most_waiting: usize,
        service_time: ServiceTime,
        contention: Contention,
        seed: u64,
    ) -> Self {
        Self {
            workers: workers.max(1),
            most_waiting,
            service_time,
            contention,
            random: Rng::with_seed(seed),
            busy: 0,
            waiting: BTreeMap::new(),
            tickets: 0,
        }
    }

    /// How many are being served.
    pub fn busy(&self) -> usize {
        self.busy
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many can be served at once.
    pub fn workers(&self) -> usize {
        self.workers
    }

    pub(super) fn occupancy(&self) -> Occupancy {
        let Self { busy, workers, most_waiting, .. } = *self;
        Occupancy { busy, waiting: self.waiting.len(), workers, most_waiting }
    }

    /// Takes a free worker, and returns how long the service takes; none without a free worker.
    /// ([`finish`](Self::finish) hands a worker to the next request, so none is free while one waits.)
    pub fn begin(&mut self) -> Option<Duration> {
        if self.busy == self.workers {
            return None;
        }
        self.busy += 1;
        let time = self.service_time.draw(&mut self.random);
        Some(self.contention.slowed(time, self.busy, self.workers))
    }

    /// Takes a slot at the end of the queue; none if it is full.
    pub fn wait(&mut self, who: T) -> Option<Ticket> {
        if self.waiting.len() >= self.most_waiting {
            return None;
        }
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        self.waiting.insert(ticket, who);
        Some(ticket)
    }

    /// Gives up waiting. None if it is over already.
    pub fn leave(&mut self, ticket: Ticket) -> Option<T> {
        self.waiting.remove(&ticket)
    }

    /// A service is over. The worker takes the next request: which one, and how long that service takes.
    pub fn finish(&mut self) -> Option<(T, Duration)> {
        self.busy = self.busy.saturating_sub(1);
        let (_, next) = self.waiting.pop_first()?;
        let time = self.begin()?;
        Some((next, time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_millis(5);

    fn station(workers: usize, most_waiting: usize) -> Station<u32> {
        Station::new(workers, most_waiting, ServiceTime::Fixed(TIME), Contention::default(), 1)
    }

    #[test]
    fn workers_then_the_queue_then_nothing() {
        let mut station = station(2, 2);
        assert_eq!([station.begin(), station.begin(), station.begin()], [Some(TIME), Some(TIME), None]);
        assert!(station.wait(1).is_some() && station.wait(2).is_some());
        assert_eq!(station.wait(3), None);
        assert_eq!((station.busy(), station.waiting()), (2, 2));
    }

    #[test]
    fn first_come_first_served() {
        let mut station = station(1, 10);
        station.begin();
        let tickets: Vec<_> = (1..=4).filter_map(|who| station.wait(who)).collect();
        assert_eq!(station.leave(tickets[1]), Some(2));
        assert_eq!(station.leave(tickets[1]), None, "once");
        let served: Vec<_> = std::iter::from_fn(|| station.finish()).collect();
        assert_eq!(served, [(1, TIME), (3, TIME), (4, TIME)]);
        assert_eq!((station.busy(), station.waiting()), (0, 0));
        assert_eq!(station.leave(tickets[0]), None, "it was served");
    }

    #[test]
    fn requests_that_leave_leave_nothing_behind() {
        let mut station = station(1, 2);
        station.begin();
        station.wait(0);
        for who in 1..10_000 {
            let ticket = station.wait(who).expect("a slot is free");
            station.leave(ticket);
        }
        assert_eq!(station.waiting(), 1);
    }

    #[test]
    fn contention_counts_those_who_are_served_then() {
        let mut station: Station<()> = Station::new(2, 1, ServiceTime::Fixed(TIME), Contention { factor: 4.0 }, 1);
        assert_eq!([station.begin(), station.begin()], [Some(TIME * 2), Some(TIME * 5)]);
        station.finish();
        assert_eq!(station.begin(), Some(TIME * 5));
    }

    #[test]
    fn finishing_what_never_began_is_no_panic() {
        let mut station = station(0, 1);
        assert_eq!(station.finish(), None);
        assert_eq!(station.workers(), 1);
        assert!(station.begin().is_some());
    }

    #[test]
    fn the_same_seed_serves_for_the_same_times() {
        let times = |seed| -> Vec<_> {
            let mut station: Station<()> =
                Station::new(100, 0, ServiceTime::Exponential { mean: TIME }, Contention::default(), seed);
            std::iter::from_fn(|| station.begin()).collect()
        };
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
    }
}

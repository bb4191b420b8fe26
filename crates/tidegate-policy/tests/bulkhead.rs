//! Bulkheads: never more in flight than may be, nothing leaks, and those that wait come in the order of their arrival.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use tidegate_policy::bulkhead::{Bulkhead, BulkheadSettings, Entry, Ticket};

const EVENTS: u64 = 1_000_000;
const EVENTS_A_WALK: u64 = 1_000;

/// The same in its plainest form: two lists of names.
#[derive(Default)]
struct Model {
    in_flight: Vec<u64>,
    waiting: VecDeque<u64>,
}

impl Model {
    /// Admits those that may come in now.
    fn admit(&mut self, limit: u32) -> Vec<u64> {
        let mut admitted = Vec::new();
        while self.in_flight.len() < limit as usize
            && let Some(name) = self.waiting.pop_front()
        {
            self.in_flight.push(name);
            admitted.push(name);
        }
        admitted
    }
}

struct Walk {
    rng: Rng,
    settings: BulkheadSettings,
    bulkhead: Bulkhead<u64>,
    model: Model,
    tickets: Vec<(u64, Ticket)>,
    next: u64,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let settings = BulkheadSettings { limit: rng.u32(1..8), queue: rng.u32(0..8) };
        let bulkhead = Bulkhead::new(settings).expect("valid");
        Self { rng, settings, bulkhead, model: Model::default(), tickets: Vec::new(), next: 0 }
    }

    fn step(&mut self) {
        match self.rng.u32(0..20) {
            0..8 => self.enter(),
            8 => self.enter_if_free(),
            9..16 => self.leave(),
            16..19 => self.cancel(),
            _ => self.change(),
        }
        let snapshot = self.bulkhead.snapshot();
        assert_eq!(snapshot.in_flight as usize, self.model.in_flight.len());
        assert_eq!(snapshot.waiting as usize, self.model.waiting.len());
        assert_eq!(snapshot.entered + snapshot.rejected + snapshot.cancelled + u64::from(snapshot.waiting), self.next);
    }

    fn enter(&mut self) {
        let (name, may_wait) = (self.next, self.rng.u32(0..4) > 0);
        self.next += 1;
        let entry = self.bulkhead.enter(may_wait, || name);
        if self.model.in_flight.len() < self.settings.limit as usize {
            assert_eq!(entry, Entry::Entered);
            self.model.in_flight.push(name);
        } else if may_wait && self.model.waiting.len() < self.settings.queue as usize {
            let Entry::Queued(ticket) = entry else { panic!("{entry:?}") };
            self.tickets.push((name, ticket));
            self.model.waiting.push_back(name);
        } else {
            assert_eq!(entry, Entry::Full);
        }
    }

    fn enter_if_free(&mut self) {
        let is_free = self.model.in_flight.len() < self.settings.limit as usize;
        assert_eq!(self.bulkhead.enter_if_free(), is_free);
        if is_free {
            self.model.in_flight.push(self.next);
            self.next += 1;
        }
    }

    fn leave(&mut self) {
        if self.model.in_flight.is_empty() {
            return;
        }
        let index = self.rng.usize(0..self.model.in_flight.len());
        self.model.in_flight.swap_remove(index);
        let admitted = self.model.admit(self.settings.limit);
        assert_eq!(self.bulkhead.leave(), admitted.first().copied());
        assert!(admitted.len() <= 1);
    }

    fn cancel(&mut self) {
        if self.tickets.is_empty() {
            return;
        }
        let (name, ticket) = self.tickets.swap_remove(self.rng.usize(0..self.tickets.len()));
        let waits = self.model.waiting.contains(&name);
        self.model.waiting.retain(|other| *other != name);
        assert_eq!(self.bulkhead.cancel(ticket), waits);
    }

    fn change(&mut self) {
        self.settings = BulkheadSettings { limit: self.rng.u32(1..8), queue: self.rng.u32(0..8) };
        let woken = self.bulkhead.change(self.settings).expect("valid");
        assert_eq!(woken, self.model.admit(self.settings.limit));
    }
}

#[test]
fn a_bulkhead_does_what_the_model_does() {
    for seed in 0..EVENTS / EVENTS_A_WALK {
        let mut walk = Walk::new(seed);
        for _ in 0..EVENTS_A_WALK {
            walk.step();
        }
        while !walk.model.in_flight.is_empty() {
            walk.leave();
        }
        let snapshot = walk.bulkhead.snapshot();
        assert_eq!((snapshot.in_flight, snapshot.waiting), (0, 0), "nothing is left");
    }
}

#[test]
fn no_more_are_in_flight_than_may_be_whatever_the_threads_do() {
    let bulkhead = Bulkhead::new(BulkheadSettings { limit: 3, queue: 2 }).expect("valid");
    let (in_flight, most, entered) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU64::new(0));
    let handed_over = Mutex::new(0_u64);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (bulkhead, in_flight, most, entered, handed_over) =
                (&bulkhead, &in_flight, &most, &entered, &handed_over);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed);
                for _ in 0..50_000 {
                    let woken = Arc::new(AtomicU32::new(0));
                    match bulkhead.enter(rng.bool(), || Arc::clone(&woken)) {
                        Entry::Full => continue,
                        // It leaves at once, or has had a slot in the meantime.
                        Entry::Queued(ticket) if bulkhead.cancel(ticket) => continue,
                        Entry::Entered | Entry::Queued(_) => {}
                    }
                    most.fetch_max(in_flight.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    entered.fetch_add(1, Ordering::Relaxed);
                    in_flight.fetch_sub(1, Ordering::SeqCst);
                    if let Some(next) = bulkhead.leave() {
                        next.store(1, Ordering::SeqCst);
                        *handed_over.lock().expect("no panic") += 1;
                    }
                }
            });
        }
    });
    let snapshot = bulkhead.snapshot();
    assert!(most.load(Ordering::SeqCst) <= 3);
    assert_eq!((snapshot.in_flight, snapshot.waiting), (0, 0));
    assert_eq!(snapshot.entered, entered.load(Ordering::Relaxed));
}

#[test]
fn what_makes_no_sense_is_rejected_by_name() {
    let new =
        |limit, queue| Bulkhead::<()>::new(BulkheadSettings { limit, queue }).err().map(|error| error.to_string());
    assert_eq!(new(0, 0).as_deref(), Some("`limit` must be between 1 and 1000000, got 0"));
    assert_eq!(new(1, 100_001).as_deref(), Some("`queue` must be at most 100000, got 100001"));
    assert_eq!(new(1, 0), None);
}

//! Places in flight that Redis has not yet been told are free. A place that nobody gives back stays taken for as long as a request may hold
//! one, so what can't be delivered now is kept, and delivered when Redis is back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::sleep;

use crate::exact::Charge;
use crate::link::StoreEvent;
use crate::store::Inner;

/// The most places that are kept; beyond it the oldest are forgotten, for they end by themselves first.
const MOST_OWED: usize = 10_000;
/// How many places one call gives back.
const AT_ONCE: usize = 64;
/// How often a place is tried that Redis, which is there, does not take: its key may hold something else by now.
const MOST_TRIES: u32 = 8;
/// How often it is looked whether Redis is back.
const PAUSE: Duration = Duration::from_millis(50);

/// Places that are to be given back.
#[derive(Default)]
pub(crate) struct Owed(Mutex<Debts>);

#[derive(Default)]
struct Debts {
    waiting: VecDeque<Debt>,
    /// Handed to Redis, which has not answered yet.
    under_way: usize,
    /// Forgotten, and not yet told of.
    lost: usize,
    /// Somebody delivers.
    is_delivered: bool,
}

struct Debt {
    place: Charge,
    tries: u32,
}

impl Debts {
    fn add(&mut self, places: Vec<Charge>) {
        self.waiting.extend(places.into_iter().map(|place| Debt { place, tries: 0 }));
        while self.waiting.len() > MOST_OWED {
            self.waiting.pop_front();
            self.lost += 1;
        }
    }

    /// What one call gives back. What has failed before goes alone: it must not hold up the others.
    fn next(&mut self) -> Vec<Debt> {
        let alone = self.waiting.front().is_some_and(|debt| debt.tries > 0);
        let count = if alone { 1 } else { AT_ONCE.min(self.waiting.len()) };
        self.under_way = count;
        self.waiting.drain(..count).collect()
    }

    /// Redis did not take them. `is_there`: though it could be asked.
    fn refused(&mut self, debts: Vec<Debt>, is_there: bool) {
        for Debt { place, tries } in debts {
            let tries = tries + u32::from(is_there);
            if tries < MOST_TRIES {
                self.waiting.push_back(Debt { place, tries });
            } else {
                self.lost += 1;
            }
        }
    }
}

impl Owed {
    fn with<T>(&self, change: impl FnOnce(&mut Debts) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many places Redis does not know to be free.
    pub(crate) fn count(&self) -> usize {
        self.with(|debts| debts.waiting.len() + debts.under_way)
    }
}

impl Inner {
    /// Gives these places back as soon as that can be done. Those that Redis knows to be free already it takes no notice of.
    pub(crate) fn owe(self: &Arc<Self>, places: Vec<Charge>) {
        if places.is_empty() {
            return;
        }
        let is_delivered = self.owed.with(|debts| {
            debts.add(places);
            std::mem::replace(&mut debts.is_delivered, true)
        });
        if !is_delivered {
            self.runtime.spawn(deliver(Arc::downgrade(self)));
        }
    }
}

/// Delivers until nothing is owed any more, or nobody uses the store.
async fn deliver(store: Weak<Inner>) {
    while let Some(inner) = store.upgrade() {
        if inner.link.is_down() {
            drop(inner);
            sleep(PAUSE).await;
            continue;
        }
        let debts = inner.owed.with(Debts::next);
        let answer = inner.return_to_redis(debts.iter().map(|debt| &debt.place)).await;
        let is_there = !inner.link.is_down();
        let (is_done, lost) = inner.owed.with(|owed| {
            owed.under_way = 0;
            if answer.is_err() {
                owed.refused(debts, is_there);
            }
            owed.is_delivered = !owed.waiting.is_empty();
            (!owed.is_delivered, std::mem::take(&mut owed.lost))
        });
        if lost > 0 {
            inner.link.tell(StoreEvent::PlacesLost { places: lost });
        }
        if is_done {
            return;
        }
        drop(inner);
        if answer.is_err() {
            sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(count: usize) -> Vec<Charge> {
        (0..count).map(|_| Charge::for_tests()).collect()
    }

    #[test]
    fn the_oldest_are_forgotten_when_there_are_too_many() {
        let mut debts = Debts::default();
        debts.add(places(MOST_OWED));
        assert_eq!((debts.waiting.len(), debts.lost), (MOST_OWED, 0));
        debts.add(places(3));
        assert_eq!((debts.waiting.len(), debts.lost), (MOST_OWED, 3));
    }

    #[test]
    fn what_redis_never_takes_is_forgotten_and_holds_nobody_up() {
        let mut debts = Debts::default();
        debts.add(places(2));
        let both = debts.next();
        assert_eq!(both.len(), 2);
        debts.refused(both, true);
        for _ in 1..MOST_TRIES {
            for _ in 0..2 {
                let one = debts.next();
                assert_eq!(one.len(), 1, "alone");
                debts.refused(one, true);
            }
        }
        assert_eq!((debts.waiting.len(), debts.lost), (0, 2));
    }

    #[test]
    fn while_redis_is_away_nothing_counts_as_a_try() {
        let mut debts = Debts::default();
        debts.add(places(1));
        for _ in 0..100 {
            let one = debts.next();
            debts.refused(one, false);
        }
        assert_eq!((debts.waiting.len(), debts.lost), (1, 0));
    }
}

//! Places in flight that Redis has not yet been told are free. A place that nobody gives back stays taken for as long as a request may hold
//! one, so what can't be delivered now is kept, and delivered when Redis is back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::exact::Charge;
use crate::link::{NoAnswer, StoreEvent};
use crate::store::Inner;

/// The most places that are kept; beyond it the oldest are forgotten, for they end by themselves first.
const MOST_OWED: usize = 10_000;
/// How many places one call gives back.
const AT_ONCE: usize = 64;
/// How often a place is tried that Redis, which is there, does not take: its key may hold something else by now.
const MOST_TRIES: u32 = 8;
/// How often it is looked whether Redis is back, and how long a place that it did not take is left alone.
const PAUSE: Duration = Duration::from_millis(50);
/// After so long a place is given back once more of which nobody knows whether it was taken: a question that was lost with its connection
/// may still be on its way then, and arrive behind what was said on the next one.
const ONCE_MORE: Duration = Duration::from_secs(5);

/// Whether Redis is known to have taken a place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Surely,
    /// It was asked to, and has not answered.
    Perhaps,
    /// It has been told that it is free, and is told once more.
    Freed,
}

/// Places that are to be given back.
#[derive(Default)]
pub(crate) struct Owed(Mutex<Debts>);

#[derive(Default)]
struct Debts {
    waiting: VecDeque<Debt>,
    /// Those that Redis did not take: tried alone, and when nothing else waits, so that they hold up nobody.
    refused: VecDeque<(Instant, Debt)>,
    /// Those that are free as far as anyone knows, to be given back once more.
    once_more: VecDeque<(Instant, Debt)>,
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
    taken: Taken,
}

/// What there is to do.
enum Step {
    /// These are to be given back.
    GiveBack(Vec<Debt>),
    /// Nothing before then.
    WaitUntil(Instant),
    /// Nothing is owed.
    Rest,
}

impl Debts {
    fn add(&mut self, places: Vec<Charge>, taken: Taken) {
        self.waiting.extend(places.into_iter().map(|place| Debt { place, tries: 0, taken }));
        while self.waiting.len() + self.refused.len() > MOST_OWED {
            // Those that Redis does not take have the least prospect.
            if self.refused.pop_front().is_none() {
                self.waiting.pop_front();
            }
            self.lost += 1;
        }
    }

    fn next(&mut self, now: Instant) -> Step {
        let mut debts: Vec<Debt> = self.waiting.drain(..AT_ONCE.min(self.waiting.len())).collect();
        if debts.is_empty() {
            debts.extend(pop_due(&mut self.refused, now));
        }
        self.under_way = debts.len();
        if debts.is_empty() {
            debts.extend(std::iter::from_fn(|| pop_due(&mut self.once_more, now)).take(AT_ONCE));
        }
        if !debts.is_empty() {
            return Step::GiveBack(debts);
        }
        let fronts = [&self.refused, &self.once_more].map(|queue| queue.front().map(|(due, _)| *due));
        fronts.into_iter().flatten().min().map_or(Step::Rest, Step::WaitUntil)
    }

    /// Redis has been told. What may not have been taken by then is given back once more.
    fn delivered(&mut self, debts: Vec<Debt>, now: Instant) {
        let again = debts.into_iter().filter(|debt| debt.taken == Taken::Perhaps);
        self.once_more.extend(again.map(|debt| (now + ONCE_MORE, Debt { taken: Taken::Freed, ..debt })));
        while self.once_more.len() > MOST_OWED {
            self.once_more.pop_front();
        }
    }

    /// Redis did not take them. `is_there`: though it could be asked.
    fn failed(&mut self, mut debts: Vec<Debt>, why: &NoAnswer, is_there: bool, now: Instant) {
        debts.retain(|debt| debt.taken != Taken::Freed);
        if let (NoAnswer::Refused(_), true, 2..) = (why, is_there, debts.len()) {
            // One of them is enough for all to fail: each alone shows which.
            self.refused.extend(debts.into_iter().map(|debt| (now, debt)));
            return;
        }
        for debt in &mut debts {
            debt.tries += u32::from(is_there);
        }
        for debt in debts {
            match why {
                _ if debt.tries >= MOST_TRIES => self.lost += 1,
                NoAnswer::Refused(_) if is_there => self.refused.push_back((now + PAUSE, debt)),
                _ => self.waiting.push_back(debt),
            }
        }
    }
}

/// The first, if its time has come.
fn pop_due(queue: &mut VecDeque<(Instant, Debt)>, now: Instant) -> Option<Debt> {
    queue.pop_front_if(|(due, _)| *due <= now).map(|(_, debt)| debt)
}

impl Owed {
    fn with<T>(&self, change: impl FnOnce(&mut Debts) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many places Redis does not know to be free.
    pub(crate) fn count(&self) -> usize {
        self.with(|debts| debts.waiting.len() + debts.refused.len() + debts.under_way)
    }
}

impl Inner {
    /// Gives these places back as soon as that can be done. Those that Redis knows to be free already it takes no notice of.
    pub(crate) fn owe(self: &Arc<Self>, places: Vec<Charge>, taken: Taken) {
        if places.is_empty() {
            return;
        }
        let is_delivered = self.owed.with(|debts| {
            debts.add(places, taken);
            std::mem::replace(&mut debts.is_delivered, true)
        });
        if !is_delivered {
            self.runtime.spawn(deliver(Arc::downgrade(self)));
        }
    }

    /// Takes one step. How long to wait before the next; none if nothing is owed any more.
    async fn deliver_some(self: &Arc<Self>) -> Option<Instant> {
        let now = Instant::now();
        if self.link.is_down() {
            return Some(now + PAUSE);
        }
        let debts = match self.owed.with(|owed| {
            let step = owed.next(now);
            owed.is_delivered = !matches!(step, Step::Rest);
            step
        }) {
            Step::GiveBack(debts) => debts,
            // Others may come meanwhile, and those don't wait.
            Step::WaitUntil(due) => return Some(due.min(now + PAUSE)),
            Step::Rest => return None,
        };
        let answer = self.return_to_redis(debts.iter().map(|debt| &debt.place)).await;
        let (now, is_there) = (Instant::now(), !self.link.is_down());
        let (next, lost) = self.owed.with(|owed| {
            owed.under_way = 0;
            let next = match answer {
                Ok(()) => {
                    owed.delivered(debts, now);
                    now
                }
                Err(why) => {
                    owed.failed(debts, &why, is_there, now);
                    if matches!(why, NoAnswer::Refused(_)) { now } else { now + PAUSE }
                }
            };
            (next, std::mem::take(&mut owed.lost))
        });
        if lost > 0 {
            self.link.tell(StoreEvent::PlacesLost { places: lost });
        }
        Some(next)
    }
}

/// Delivers until nothing is owed any more, or nobody uses the store.
async fn deliver(store: Weak<Inner>) {
    while let Some(inner) = store.upgrade() {
        let Some(next) = inner.deliver_some().await else { return };
        drop(inner);
        sleep_until(next).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(count: usize) -> Vec<Charge> {
        (0..count).map(|_| Charge::for_tests()).collect()
    }

    fn refusal() -> NoAnswer {
        NoAnswer::Refused("WRONGTYPE".to_owned())
    }

    /// How many are to be given back now.
    fn given_back(debts: &mut Debts, now: Instant) -> Vec<Debt> {
        match debts.next(now) {
            Step::GiveBack(debts) => debts,
            Step::WaitUntil(_) | Step::Rest => Vec::new(),
        }
    }

    #[test]
    fn the_oldest_are_forgotten_when_there_are_too_many() {
        let mut debts = Debts::default();
        debts.add(places(MOST_OWED), Taken::Surely);
        assert_eq!((debts.waiting.len(), debts.lost), (MOST_OWED, 0));
        debts.add(places(3), Taken::Surely);
        assert_eq!((debts.waiting.len(), debts.lost), (MOST_OWED, 3));
    }

    #[test]
    fn what_redis_never_takes_is_forgotten() {
        let (mut debts, mut now) = (Debts::default(), Instant::now());
        debts.add(places(2), Taken::Surely);
        let both = given_back(&mut debts, now);
        assert_eq!(both.len(), 2);
        debts.failed(both, &refusal(), true, now);
        for _ in 0..MOST_TRIES {
            for _ in 0..2 {
                let one = given_back(&mut debts, now);
                assert_eq!(one.len(), 1, "alone");
                debts.failed(one, &refusal(), true, now);
            }
            assert!(given_back(&mut debts, now).is_empty(), "each in its time");
            now += PAUSE;
        }
        assert_eq!((debts.refused.len(), debts.lost), (0, 2));
        assert!(matches!(debts.next(now), Step::Rest));
    }

    /// A place waited half a minute for four hundred that could never be given back.
    #[test]
    fn what_redis_does_not_take_holds_nobody_up() {
        let (mut debts, now) = (Debts::default(), Instant::now());
        debts.add(places(400), Taken::Surely);
        while !debts.waiting.is_empty() {
            let some = given_back(&mut debts, now);
            debts.failed(some, &refusal(), true, now);
        }
        debts.add(places(1), Taken::Perhaps);
        let next = given_back(&mut debts, now);
        assert!(next.len() == 1 && next[0].taken == Taken::Perhaps, "the one that has not been tried yet");
        debts.add(places(MOST_OWED), Taken::Perhaps);
        assert_eq!((debts.refused.len(), debts.waiting.len(), debts.lost), (0, MOST_OWED, 400), "nor pushes it out");
    }

    #[test]
    fn while_redis_is_away_nothing_counts_as_a_try() {
        let (mut debts, now) = (Debts::default(), Instant::now());
        debts.add(places(1), Taken::Surely);
        for why in [NoAnswer::Away, NoAnswer::Lost, NoAnswer::Late, refusal()] {
            for _ in 0..100 {
                let one = given_back(&mut debts, now);
                debts.failed(one, &why, false, now);
            }
        }
        assert_eq!((debts.waiting.len(), debts.lost), (1, 0));
    }

    /// The question may have been on its way on an old connection while its place was given back on a new one.
    #[test]
    fn a_place_that_nobody_knows_to_be_taken_is_given_back_once_more() {
        let (mut debts, now) = (Debts::default(), Instant::now());
        debts.add(places(1), Taken::Surely);
        debts.add(places(2), Taken::Perhaps);
        let all = given_back(&mut debts, now);
        assert_eq!(all.len(), 3);
        debts.delivered(all, now);
        assert!(matches!(debts.next(now), Step::WaitUntil(due) if due == now + ONCE_MORE));
        let later = now + ONCE_MORE;
        let again = given_back(&mut debts, later);
        assert_eq!((again.len(), debts.under_way), (2, 0), "and nobody is owed anything by then");
        debts.failed(again, &refusal(), true, later);
        assert!(matches!(debts.next(later), Step::Rest), "once is enough, however it ends");
        assert_eq!(debts.lost, 0);
    }
}

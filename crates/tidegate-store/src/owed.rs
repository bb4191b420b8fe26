//! Slots that Redis does not yet know to be free. A slot that nobody gives back stays taken for as long as a request
//! may hold one, so what can't be delivered now is kept, and delivered when Redis is back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::charge::Charge;
use crate::link::{CallError, StoreEvent};
use crate::session::Session;

/// The most slots that are kept; beyond it the oldest are forgotten, for they end by themselves first.
const MOST_OWED: usize = 10_000;
/// How many slots one call gives back.
const AT_ONCE: usize = 64;
/// How often a slot is tried that Redis, which is there, does not take back: its key may hold something else by now.
const MOST_ATTEMPTS: u32 = 8;
/// How often it is looked whether Redis is back, and how long a slot that it did not take back is left alone.
const PAUSE: Duration = Duration::from_millis(50);
/// After so long a slot that may or may not have been taken is given back once more: a question that was lost with its
/// connection may still be on its way then, and arrive behind what was sent on the next one.
const ONCE_MORE: Duration = Duration::from_secs(5);

/// Whether Redis is known to have taken a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Surely,
    /// It was asked to, and has not replied.
    Perhaps,
    /// It was given back, and is given back once more.
    Freed,
}

/// Gives back what Redis has charged: at once, or, for slots, as soon as Redis is there.
pub(crate) struct Owed {
    session: Arc<Session>,
    debts: Mutex<Debts>,
}

/// Slots that are to be given back.

#[derive(Default)]
struct Debts {
    waiting: VecDeque<Debt>,
    /// Those that Redis did not take back: tried alone, and when nothing else waits, so that they hold up nobody.
    rejected: VecDeque<(Instant, Debt)>,
    /// Those that are free as far as anyone knows, to be given back once more.
    once_more: VecDeque<(Instant, Debt)>,
    /// Handed to Redis, which has not replied yet.
    under_way: usize,
    /// Forgotten, and not yet reported.
    lost: usize,
    /// A task delivers.
    is_delivered: bool,
}

struct Debt {
    slot: Charge,
    attempts: u32,
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
    fn add(&mut self, slots: Vec<Charge>, taken: Taken) {
        self.waiting.extend(slots.into_iter().map(|slot| Debt { slot, attempts: 0, taken }));
        while self.waiting.len() + self.rejected.len() > MOST_OWED {
            // Those that Redis does not take back have the least prospect.
            if self.rejected.pop_front().is_none() {
                self.waiting.pop_front();
            }
            self.lost += 1;
        }
    }

    fn next(&mut self, now: Instant) -> Step {
        let mut debts: Vec<Debt> = self.waiting.drain(..AT_ONCE.min(self.waiting.len())).collect();
        if debts.is_empty() {
            debts.extend(pop_due(&mut self.rejected, now));
        }
        self.under_way = debts.len();
        if debts.is_empty() {
            debts.extend(std::iter::from_fn(|| pop_due(&mut self.once_more, now)).take(AT_ONCE));
        }
        if !debts.is_empty() {
            return Step::GiveBack(debts);
        }
        let fronts = [&self.rejected, &self.once_more].map(|queue| queue.front().map(|(due, _)| *due));
        fronts.into_iter().flatten().min().map_or(Step::Rest, Step::WaitUntil)
    }

    /// Redis knows. What may not have been taken by then is given back once more.
    fn delivered(&mut self, debts: Vec<Debt>, now: Instant) {
        let again = debts.into_iter().filter(|debt| debt.taken == Taken::Perhaps);
        self.once_more.extend(again.map(|debt| (now + ONCE_MORE, Debt { taken: Taken::Freed, ..debt })));
        while self.once_more.len() > MOST_OWED {
            self.once_more.pop_front();
        }
    }

    /// Redis did not take them back. `is_there`: though it could be asked.
    fn failed(&mut self, mut debts: Vec<Debt>, error: &CallError, is_there: bool, now: Instant) {
        debts.retain(|debt| debt.taken != Taken::Freed);
        let is_rejected = is_there && matches!(error, CallError::Rejected(_));
        if is_rejected && debts.len() > 1 {
            // One of them is enough for all to fail: each alone shows which.
            self.rejected.extend(debts.into_iter().map(|debt| (now, debt)));
            return;
        }
        for mut debt in debts {
            debt.attempts += u32::from(is_there);
            if debt.attempts >= MOST_ATTEMPTS {
                self.lost += 1;
            } else if is_rejected {
                self.rejected.push_back((now + PAUSE, debt));
            } else {
                self.waiting.push_back(debt);
            }
        }
    }
}

/// The first, if its time has come.
fn pop_due(queue: &mut VecDeque<(Instant, Debt)>, now: Instant) -> Option<Debt> {
    queue.pop_front_if(|(due, _)| *due <= now).map(|(_, debt)| debt)
}

impl Owed {
    pub(crate) fn new(session: Arc<Session>) -> Self {
        Self { session, debts: Mutex::default() }
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    fn with<T>(&self, change: impl FnOnce(&mut Debts) -> T) -> T {
        change(&mut self.debts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many slots Redis does not know to be free.
    pub(crate) fn count(&self) -> usize {
        self.with(|debts| debts.waiting.len() + debts.rejected.len() + debts.under_way)
    }

    /// Gives back. If Redis is away the slots are owed to it, and the rest stays charged: what was late may have been
    /// carried out, and only a slot can be given back twice without harm, for it has a name.
    pub(crate) async fn give_back(self: &Arc<Self>, mut charges: Vec<Charge>) {
        if self.session.give_back(charges.iter()).await.is_err() {
            charges.retain(Charge::is_slot);
            self.owe(charges, Taken::Surely);
        }
    }

    /// Gives these slots back as soon as that can be done. Redis ignores those that it knows to be free already.
    pub(crate) fn owe(self: &Arc<Self>, slots: Vec<Charge>, taken: Taken) {
        if slots.is_empty() {
            return;
        }
        let is_delivered = self.with(|debts| {
            debts.add(slots, taken);
            std::mem::replace(&mut debts.is_delivered, true)
        });
        if !is_delivered {
            self.session.runtime.spawn(deliver(Arc::downgrade(self)));
        }
    }

    /// Takes one step. How long to wait before the next; none if nothing is owed any more.
    async fn deliver_some(&self) -> Option<Instant> {
        let (link, now) = (&self.session.link, Instant::now());
        if link.is_down() {
            return Some(now + PAUSE);
        }
        let debts = match self.with(|owed| {
            let step = owed.next(now);
            owed.is_delivered = !matches!(step, Step::Rest);
            step
        }) {
            Step::GiveBack(debts) => debts,
            // Others may come in the meantime, and those don't wait.
            Step::WaitUntil(due) => return Some(due.min(now + PAUSE)),
            Step::Rest => return None,
        };
        let returned = self.session.give_back(debts.iter().map(|debt| &debt.slot)).await;
        let (now, is_there) = (Instant::now(), !link.is_down());
        let (next, lost) = self.with(|owed| {
            owed.under_way = 0;
            let next = match returned {
                Ok(()) => {
                    owed.delivered(debts, now);
                    now
                }
                Err(error) => {
                    owed.failed(debts, &error, is_there, now);
                    if matches!(error, CallError::Rejected(_)) { now } else { now + PAUSE }
                }
            };
            (next, std::mem::take(&mut owed.lost))
        });
        if lost > 0 {
            link.report(StoreEvent::SlotsLost { slots: lost });
        }
        Some(next)
    }
}

/// Delivers until nothing is owed any more, or nobody uses the store.
async fn deliver(owed: Weak<Owed>) {
    while let Some(strong) = owed.upgrade() {
        let Some(next) = strong.deliver_some().await else { return };
        drop(strong);
        sleep_until(next).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(count: usize) -> Vec<Charge> {
        (0..count).map(|_| Charge::for_tests()).collect()
    }

    fn rejection() -> CallError {
        CallError::Rejected("WRONGTYPE".to_owned())
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
        debts.add(slots(MOST_OWED), Taken::Surely);
        assert_eq!((debts.waiting.len(), debts.lost), (MOST_OWED, 0));
        debts.add(slots(3), Taken::Surely);
        assert_eq!((debts.waiting.len(), debts.lost), (MOST_OWED, 3));
    }

    #[test]
    fn what_redis_never_takes_back_is_forgotten() {
        let (mut debts, mut now) = (Debts::default(), Instant::now());
        debts.add(slots(2), Taken::Surely);
        let both = given_back(&mut debts, now);
        assert_eq!(both.len(), 2);
        debts.failed(both, &rejection(), true, now);
        for _ in 0..MOST_ATTEMPTS {
            for _ in 0..2 {
                let one = given_back(&mut debts, now);
                assert_eq!(one.len(), 1, "alone");
                debts.failed(one, &rejection(), true, now);
            }
            assert!(given_back(&mut debts, now).is_empty(), "each in its time");
            now += PAUSE;
        }
        assert_eq!((debts.rejected.len(), debts.lost), (0, 2));
        assert!(matches!(debts.next(now), Step::Rest));
    }

    /// A slot waited half a minute for four hundred that could never be given back.
    #[test]
    fn what_redis_does_not_take_back_holds_nobody_up() {
        let (mut debts, now) = (Debts::default(), Instant::now());
        debts.add(slots(400), Taken::Surely);
        while !debts.waiting.is_empty() {
            let some = given_back(&mut debts, now);
            debts.failed(some, &rejection(), true, now);
        }
        debts.add(slots(1), Taken::Perhaps);
        let next = given_back(&mut debts, now);
        assert!(next.len() == 1 && next[0].taken == Taken::Perhaps, "the one that has not been tried yet");
        debts.add(slots(MOST_OWED), Taken::Perhaps);
        assert_eq!((debts.rejected.len(), debts.waiting.len(), debts.lost), (0, MOST_OWED, 400), "nor pushes it out");
    }

    #[test]
    fn while_redis_is_away_nothing_counts_as_an_attempt() {
        let (mut debts, now) = (Debts::default(), Instant::now());
        debts.add(slots(1), Taken::Surely);
        for error in [CallError::Away, CallError::Lost, CallError::Late, rejection()] {
            for _ in 0..100 {
                let one = given_back(&mut debts, now);
                debts.failed(one, &error, false, now);
            }
        }
        assert_eq!((debts.waiting.len(), debts.lost), (1, 0));
    }

    /// The question may have been on its way on an old connection while its slot was given back on a new one.
    #[test]
    fn a_slot_that_nobody_knows_to_be_taken_is_given_back_once_more() {
        let (mut debts, now) = (Debts::default(), Instant::now());
        debts.add(slots(1), Taken::Surely);
        debts.add(slots(2), Taken::Perhaps);
        let all = given_back(&mut debts, now);
        assert_eq!(all.len(), 3);
        debts.delivered(all, now);
        assert!(matches!(debts.next(now), Step::WaitUntil(due) if due == now + ONCE_MORE));
        let later = now + ONCE_MORE;
        let again = given_back(&mut debts, later);
        assert_eq!((again.len(), debts.under_way), (2, 0), "and nobody is owed anything by then");
        debts.failed(again, &rejection(), true, later);
        assert!(matches!(debts.next(later), Step::Rest), "once is enough, however it ends");
        assert_eq!(debts.lost, 0);
    }
}

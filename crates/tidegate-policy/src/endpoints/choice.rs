use std::sync::atomic::Ordering::Relaxed;

use super::balancer::{Balancer, Member, Method};
use super::hash_table::HashTable;
use super::schedule::Schedule;
use super::shares::{Shares, mixed, scaled};
use super::standing::Standing;
use super::tried::Tried;
use crate::Timestamp;

/// How often an endpoint is drawn anew because the one drawn is out, before all of them are looked at.
const DRAWS: usize = 8;
/// How many turns are passed over before all endpoints are looked at.
const TURNS: usize = 32;
/// How many slots are walked before all endpoints are looked at.
const SLOTS: usize = 64;
/// How many others are drawn at random to compare the first with, before all endpoints are looked at.
const CHALLENGES: usize = 4;
/// How many times as much as the other the first must have to do to lose the request to it.
const RELUCTANCE: f64 = 3.0;

impl Balancer {
    /// The endpoint for a request: an index into the list. `random` is a random number; `key` is what
    /// [`Balance::Hash`](super::Balance::Hash) spreads by, a hash of the request's key. `None` if all are forced down.
    ///
    /// Of the endpoints with the best [`Standing`], one that was not tried yet; of those, one whose weight is not 0.
    ///
    /// # Least requests
    ///
    /// The first candidate is drawn by weight, another at random from the rest. The request goes to the first, unless
    /// that has much more to do, where f is the number of requests in flight, L the latency and w the weight:
    ///
    /// ```text
    /// f₁ · L₁ ÷ w₁  >  3 · (f₂ + 1) · L₂ ÷ w₂  +  L₂ ÷ w₁
    /// ```
    ///
    /// The last term lets the first have one request, at the speed of the other, that counts for nothing: to an
    /// endpoint of weight 1 beside one of weight 10 a single request looks like much. Simulated endpoints of equal
    /// speed, from 0.2 to 100 requests in flight in the pool, got these shares, by the share of their weight:
    ///
    /// | the request goes to the first, unless … | 1:2:3:4 | 1:10 | 1:10, heavy tail |
    /// |---|---|---|---|
    /// | it has more to do than the other with this request | 0.87 to 1.17 | 0.75 to 1.36 | 0.94 to 1.65 |
    /// | it has more than twice as much to do | 0.91 to 1.09 | 0.87 to 1.17 | 0.93 to 1.31 |
    /// | more than twice as much and a request | 0.97 to 1.09 | 0.98 to 1.17 | 0.97 to 1.30 |
    /// | the same; latency forgets a sixteenth with each sample | 0.98 to 1.04 | 0.96 to 1.06 | 0.95 to 1.12 |
    /// | **three times as much and a request**; latency rises by a quarter | 0.98 to 1.02 | 0.97 to 1.03 | 0.95 to 1.03 |
    ///
    /// Of four, one that is ten times slower then gets 0.21 of its share with 2 in flight in the pool and 0.07 with
    /// 100. One that stops responding holds at most 6 requests with 2 in flight and 68 with 100, when it would have 25
    /// in good health. `examples/balance.rs` prints these figures.
    #[inline]
    pub fn choose(&self, now: Timestamp, random: u64, key: u64, tried: &Tried) -> Option<usize> {
        if let [only] = &*self.members {
            return (only.state.standing(now) != Standing::Down).then_some(0);
        }
        match &self.method {
            Method::LeastRequests(shares) => self.least_requests(shares, now, random, tried),
            Method::RoundRobin(schedule) => self.in_turn(schedule, now, random, tried),
            Method::Hash(table) => self.by_key(table, now, key, tried),
        }
    }

    fn least_requests(&self, shares: &Shares, now: Timestamp, mut random: u64, tried: &Tried) -> Option<usize> {
        let Some(first) = self.draw(shares, now, &mut random, tried) else {
            return self.least_requests_of_group(now, random, tried);
        };
        if self.members[first].state.in_flight() == 0 {
            return Some(first);
        }
        let other = self.draw_other(first, now, &mut random, tried);
        let other = other.or_else(|| Group::best(self, now, tried)?.pick(random, Some(first)));
        Some(other.filter(|other| self.has_less_to_do(*other, first, now)).unwrap_or(first))
    }

    #[cold]
    fn least_requests_of_group(&self, now: Timestamp, random: u64, tried: &Tried) -> Option<usize> {
        let group = Group::best(self, now, tried)?;
        let first = group.pick(random, None)?;
        let other = group.pick(mixed(random), Some(first));
        Some(other.filter(|other| self.has_less_to_do(*other, first, now)).unwrap_or(first))
    }

    /// An endpoint drawn by weight that is up, not tried, and not held back by its slow start.
    #[inline]
    fn draw(&self, shares: &Shares, now: Timestamp, random: &mut u64, tried: &Tried) -> Option<usize> {
        for _ in 0..DRAWS {
            let index = shares.at(*random)?;
            *random = mixed(*random);
            if self.may_take(index, now, tried) && !self.is_held_back(index, now, *random) {
                return Some(index);
            }
        }
        None
    }

    /// Any other endpoint that is up and not tried. Its weight plays no part: the comparison divides by it.
    #[inline]
    fn draw_other(&self, first: usize, now: Timestamp, random: &mut u64, tried: &Tried) -> Option<usize> {
        for _ in 0..CHALLENGES {
            let index = scaled(*random, self.len() as u64 - 1) as usize;
            let index = index + usize::from(index >= first);
            *random = mixed(*random);
            if self.may_take(index, now, tried) && self.members[index].weight.get() > 0 {
                return Some(index);
            }
        }
        None
    }

    #[inline]
    fn may_take(&self, index: usize, now: Timestamp, tried: &Tried) -> bool {
        self.members[index].state.is_up(now) && !tried.contains(index)
    }

    /// Whether the request goes to `other` rather than to `first`.
    fn has_less_to_do(&self, other: usize, first: usize, now: Timestamp) -> bool {
        let [first, other] = [first, other].map(|index| &self.members[index]);
        let measured = [first, other].map(|member| member.state.latency().measured());
        // One that never responded counts as fast as the other.
        let [first_measured, other_measured] = match measured {
            [0, 0] => [1, 1],
            [0, known] | [known, 0] => [known, known],
            both => both,
        };
        let work = |member: &Member, measured| {
            let in_flight = member.state.in_flight();
            (f64::from(in_flight), member.state.latency().expected(measured, in_flight, now))
        };
        let (first_in_flight, first_latency) = work(first, first_measured);
        let (other_in_flight, other_latency) = work(other, other_measured);
        let [first_weight, other_weight] = [first, other].map(|member| self.effective_weight(member, now));
        // Both sides multiplied by both weights.
        let allowed = RELUCTANCE * (other_in_flight + 1.0) * first_weight + other_weight;
        first_in_flight * first_latency * other_weight > allowed * other_latency
    }

    /// The weight that counts at `now`: less in a slow start.
    #[inline]
    fn effective_weight(&self, member: &Member, now: Timestamp) -> f64 {
        f64::from(member.weight.get().max(1)) * self.slow_start_share(member, now)
    }

    #[inline]
    fn in_turn(&self, schedule: &Schedule, now: Timestamp, mut random: u64, tried: &Tried) -> Option<usize> {
        for _ in 0..TURNS {
            let Some(index) = schedule.next() else { break };
            random = mixed(random);
            if self.may_take(index, now, tried) && !self.is_held_back(index, now, random) {
                return Some(index);
            }
        }
        Group::best(self, now, tried)?.pick(random, None)
    }

    /// The endpoint in the key's slot, or, if it may not be used, in the nearest slot after it: so the keys of an
    /// endpoint that is out are spread over the others, and all other keys stay where they are.
    #[inline]
    fn by_key(&self, table: &HashTable, now: Timestamp, key: u64, tried: &Tried) -> Option<usize> {
        let mut slots = table.from(table.slot(key)).take(SLOTS);
        let found = slots.find(|index| self.may_take(*index, now, tried));
        found.or_else(|| Group::best(self, now, tried)?.pick(mixed(key), None))
    }

    /// Whether an endpoint in its slow start passes this request on, so that it gets only a share of its weight.
    #[inline]
    fn is_held_back(&self, index: usize, now: Timestamp, random: u64) -> bool {
        if self.slow_start == 0 {
            return false;
        }
        let share = self.slow_start_share(&self.members[index], now);
        if share >= 1.0 {
            return false;
        }
        // The upper half draws the next endpoint.
        f64::from(random as u32) > share * f64::from(u32::MAX)
    }

    /// The share of its weight that an endpoint gets at `now`: below 1 in its slow start, unless all are in theirs.
    #[inline]
    pub(super) fn slow_start_share(&self, member: &Member, now: Timestamp) -> f64 {
        if self.slow_start == 0 {
            return 1.0;
        }
        let share = member.state.slow_start_share(self.slow_start, now);
        share.filter(|_| self.has_started(now)).unwrap_or(1.0)
    }

    /// Whether any endpoint that gets requests is past its slow start. The last one found is looked at first, and if
    /// there was none, not before one can be.
    fn has_started(&self, now: Timestamp) -> bool {
        let may_take = |member: &Member| member.weight.get() > 0 && member.state.is_up(now);
        let has_started =
            |member: &Member| may_take(member) && member.state.slow_start_share(self.slow_start, now).is_none();
        if self.members.get(self.started.load(Relaxed)).is_some_and(has_started) {
            return true;
        }
        if now.as_nanos() < self.none_started_until.load(Relaxed) {
            return false;
        }
        if let Some(index) = self.members.iter().position(has_started) {
            self.started.store(index, Relaxed);
            return true;
        }
        let ends = self.members.iter().filter(|member| may_take(member));
        let first_end = ends.map(|member| member.state.slow_start_end(self.slow_start)).min();
        self.none_started_until.store(first_end.unwrap_or(0), Relaxed);
        false
    }
}

/// The endpoints that are equally good for a request, found by looking at all of them: for when drawing at random finds
/// none, because most are out.
struct Group<'a> {
    balancer: &'a Balancer,
    now: Timestamp,
    tried: &'a Tried,
    rank: Rank,
}

/// How good an endpoint is for a request; less is better: its standing, then whether it was tried, then whether it is
/// a reserve.
type Rank = (u8, bool, bool);

impl<'a> Group<'a> {
    /// `None` if all endpoints are down.
    fn best(balancer: &'a Balancer, now: Timestamp, tried: &'a Tried) -> Option<Self> {
        let rank = (0..balancer.len()).filter_map(|index| rank(balancer, index, now, tried)).min()?;
        Some(Self { balancer, now, tried, rank })
    }

    /// One of them other than `except`, drawn by weight at `point`, where 2⁶⁴ is the sum of all weights.
    fn pick(&self, point: u64, except: Option<usize>) -> Option<usize> {
        let members = || {
            let indexes = (0..self.balancer.len()).filter(move |index| Some(*index) != except);
            let of_rank = indexes.filter(|index| rank(self.balancer, *index, self.now, self.tried) == Some(self.rank));
            of_rank.map(|index| (index, self.share(index)))
        };
        let total: u64 = members().map(|(_, share)| share).sum();
        let mut left = scaled(point, total);
        let mut last = None;
        for (index, share) in members() {
            if left < share {
                return Some(index);
            }
            left -= share;
            // Another thread may have changed the endpoints since they were summed up.
            last = Some(index);
        }
        last
    }

    /// An endpoint's part of the requests, in thousandths of a weight of 1.
    fn share(&self, index: usize) -> u64 {
        const FINENESS: f64 = 1_000.0;
        (self.balancer.effective_weight(&self.balancer.members[index], self.now) * FINENESS) as u64
    }
}

/// `None` for an endpoint that is down.
fn rank(balancer: &Balancer, index: usize, now: Timestamp, tried: &Tried) -> Option<Rank> {
    let member = &balancer.members[index];
    let standing = match member.state.standing(now) {
        Standing::Up => 0,
        Standing::Ejected | Standing::Unhealthy => 1,
        Standing::Drain => 2,
        Standing::Down => return None,
    };
    Some((standing, tried.contains(index), member.weight.get() == 0))
}

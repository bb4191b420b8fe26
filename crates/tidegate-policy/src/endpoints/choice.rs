use super::balancer::{Balancer, Member, Method};
use super::group::Group;
use super::hash_table::HashTable;
use super::schedule::Schedule;
use super::shares::{Shares, mixed, scaled};
use super::standing::Standing;
use super::state::EndpointState;
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

/// An endpoint and its index.
type Candidate<'a> = (usize, &'a Member);

impl Balancer {
    /// The endpoint for a request: an index into the list. `random` is a random number; `key` is what
    /// [`Balance::Hash`](super::Balance::Hash) spreads by, a hash of the request's key. `None` if all are forced down.
    ///
    /// Of the endpoints that were not tried yet, one with the best [`Standing`]; of those, one whose weight is not 0. A
    /// tried one is returned only if no other is left but those that are forced down. So a caller whose attempts may
    /// not be repeated stops when `tried` contains the index.
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
    /// | **three times and a request**; latency rises by a quarter | 0.98 to 1.02 | 0.98 to 1.03 | 0.96 to 1.03 |
    ///
    /// Of four, one that is ten times slower then gets 0.20 of its share with 2 in flight in the pool and 0.06 with
    /// 100. One that stops responding holds at most 6 requests with 2 in flight and 68 with 100, when it would have 25
    /// in good health. `examples/balance.rs` prints these figures, and those of the last row.
    #[inline]
    pub fn choose(&self, now: Timestamp, random: u64, key: u64, tried: &Tried) -> Option<usize> {
        if let [only] = &*self.members {
            return (only.state.standing(now) != Standing::Down).then_some(0);
        }
        match &self.method {
            Method::LeastRequests(shares) => self.least_requests(shares, now, random, tried),
            Method::RoundRobin(schedule) if tried.is_empty() => self.in_turn(schedule, now, random, tried),
            // Another attempt takes no turn: with two endpoints, requests and their retries would keep in step, and
            // each request would meet the one that fails first.
            Method::RoundRobin(_) => self.find_least_requests(now, random, tried),
            Method::Hash(table) => self.by_key(table, now, key, tried),
        }
    }

    fn least_requests(&self, shares: &Shares, now: Timestamp, random: u64, tried: &Tried) -> Option<usize> {
        let next = mixed(random);
        let drawn = shares.at(random).and_then(|index| self.drawn(index, now, next, tried));
        let Some((index, first)) = drawn.or_else(|| self.draw_again(shares, now, next, tried)) else {
            return self.find_least_requests(now, next, tried);
        };
        if first.state.in_flight() == 0 {
            return Some(index);
        }
        let drawn = self.challenger(index, now, next, tried);
        let challenger = drawn.or_else(|| self.challenger_again(index, now, next, tried));
        let taker = challenger.filter(|(_, other)| self.has_less_to_do(other, first, now));
        Some(taker.map_or(index, |(other, _)| other))
    }

    /// The endpoint drawn by weight, if it may take the request and is not held back by its slow start.
    #[inline]
    fn drawn(&self, index: usize, now: Timestamp, random: u64, tried: &Tried) -> Option<Candidate<'_>> {
        let member = self.candidate(index, now, tried)?;
        (!self.is_held_back(member, now, random)).then_some((index, member))
    }

    /// Draws by weight until an endpoint is found; `None` if that takes too long.
    #[cold]
    fn draw_again(&self, shares: &Shares, now: Timestamp, mut random: u64, tried: &Tried) -> Option<Candidate<'_>> {
        for _ in 0..DRAWS {
            let index = shares.at(random)?;
            random = mixed(random);
            let drawn = self.drawn(index, now, random, tried);
            if drawn.is_some() {
                return drawn;
            }
        }
        None
    }

    /// An endpoint other than the first, drawn at random. Its weight plays no part, because the comparison divides by
    /// it; but a reserve must not get in this way.
    #[inline]
    fn challenger(&self, first: usize, now: Timestamp, random: u64, tried: &Tried) -> Option<Candidate<'_>> {
        let index = scaled(random, self.len() as u64 - 1) as usize;
        let index = index + usize::from(index >= first);
        let member = self.candidate(index, now, tried)?;
        (member.weight.get() > 0).then_some((index, member))
    }

    #[cold]
    fn challenger_again(&self, first: usize, now: Timestamp, mut random: u64, tried: &Tried) -> Option<Candidate<'_>> {
        for _ in 0..CHALLENGES {
            random = mixed(random);
            let challenger = self.challenger(first, now, random, tried);
            if challenger.is_some() {
                return challenger;
            }
        }
        let index = Group::best(self, now, tried)?.pick(random, Some(first))?;
        Some((index, self.members.get(index)?))
    }

    /// When drawing finds none: the same with all endpoints in view.
    #[cold]
    fn find_least_requests(&self, now: Timestamp, random: u64, tried: &Tried) -> Option<usize> {
        let group = Group::best(self, now, tried)?;
        let first = group.pick(random, None)?;
        let other = group.pick(mixed(random), Some(first));
        let has_less = |other: &usize| self.has_less_to_do(&self.members[*other], &self.members[first], now);
        Some(other.filter(has_less).unwrap_or(first))
    }

    /// The endpoint at `index`, if it is up and was not tried.
    #[inline]
    fn candidate(&self, index: usize, now: Timestamp, tried: &Tried) -> Option<&Member> {
        self.members.get(index).filter(|member| member.state.is_up(now) && !tried.contains(index))
    }

    /// Whether the request goes to `other` rather than to `first`.
    #[inline]
    fn has_less_to_do(&self, other: &Member, first: &Member, now: Timestamp) -> bool {
        let weights = [first, other].map(|member| self.effective_weight(member, now));
        is_overtaken([first, other].map(|member| &*member.state), weights, now)
    }

    /// Looks at all endpoints.
    #[cold]
    fn find(&self, now: Timestamp, random: u64, tried: &Tried) -> Option<usize> {
        Group::best(self, now, tried)?.pick(random, None)
    }

    fn in_turn(&self, schedule: &Schedule, now: Timestamp, mut random: u64, tried: &Tried) -> Option<usize> {
        for _ in 0..TURNS {
            let Some(index) = schedule.next() else { break };
            random = mixed(random);
            if self.drawn(index, now, random, tried).is_some() {
                return Some(index);
            }
        }
        self.find(now, random, tried)
    }

    /// The endpoint in the key's slot, or, if it may not be used, in the nearest slot after it: so the keys of an
    /// endpoint that is out are spread over the others, and all other keys stay where they are.
    fn by_key(&self, table: &HashTable, now: Timestamp, key: u64, tried: &Tried) -> Option<usize> {
        let mut slots = table.from(table.slot(key)).take(SLOTS);
        let found = slots.find(|index| self.candidate(*index, now, tried).is_some());
        found.or_else(|| self.find(now, mixed(key), tried))
    }
}

/// Whether the first has so much more to do than the other that the request goes to the other.
fn is_overtaken([first, other]: [&EndpointState; 2], [first_weight, other_weight]: [f64; 2], now: Timestamp) -> bool {
    let [mut first_measured, mut other_measured] = [first, other].map(|state| state.latency().measured());
    if first_measured == 0.0 || other_measured == 0.0 {
        // One that never responded counts as fast as the other.
        first_measured = first_measured.max(other_measured).max(1.0);
        other_measured = first_measured;
    }
    let [first_in_flight, other_in_flight] = [first, other].map(EndpointState::in_flight);
    let first_latency = first.latency().expected(first_measured, now);
    let other_latency = other.latency().expected(other_measured, now);
    // Both sides multiplied by both weights.
    let allowed = RELUCTANCE * (f64::from(other_in_flight) + 1.0) * first_weight + other_weight;
    f64::from(first_in_flight) * first_latency * other_weight > allowed * other_latency
}

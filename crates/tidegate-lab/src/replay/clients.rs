//! Which clients are rejected most, among more than can be kept.

use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// The most policies that are compared.
pub const MOST_POLICIES: usize = 4;
/// How many clients are kept when there are twice as many.
const KEPT: usize = 50_000;

/// What is known of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    name: Box<str>,
    /// Of all its requests.
    pub requests: u64,
    /// By policy; empty for most, which are never rejected.
    rejections: Vec<ClientRejections>,
}

/// What a policy rejects of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientRejections {
    /// How many.
    pub count: u64,
    /// The index of the limit that does most of it.
    pub limit: usize,
    /// How much it leads by.
    lead: u64,
    /// The time of the first, in nanoseconds since 1970.
    pub first: u64,
    /// The time of the last.
    pub last: u64,
}

/// Clients by hashes of their names, which can't be predicted from outside: comparing names as well would cost more
/// than all the rest. If there are more than can be kept, the least rejected are forgotten, and among those the least
/// busy.
#[derive(Debug, Default)]
pub struct Clients {
    known: HashMap<u64, Client, RandomState>,
    names: RandomState,
    /// Whether some have been forgotten.
    has_forgotten: bool,
}

impl Clients {
    /// A request has come.
    pub fn record_request(&mut self, client: &str) {
        self.of(client).requests += 1;
    }

    /// A request was rejected, by this policy and limit.
    pub fn record_rejection(&mut self, client: &str, policy: usize, limit: usize, at: u64) {
        let all = &mut self.of(client).rejections;
        if all.len() <= policy {
            all.resize(policy + 1, ClientRejections::default());
        }
        let of_policy = &mut all[policy];
        if of_policy.count == 0 {
            of_policy.first = at;
        }
        of_policy.count += 1;
        of_policy.last = at;
        // By majority (Boyer and Moore): exact where one limit does more than half of it.
        match () {
            () if of_policy.limit == limit => of_policy.lead += 1,
            () if of_policy.lead == 0 => (of_policy.limit, of_policy.lead) = (limit, 1),
            () => of_policy.lead -= 1,
        }
    }

    fn of(&mut self, client: &str) -> &mut Client {
        let client = shortened(client);
        let hash = self.names.hash_one(client);
        if self.known.len() >= 2 * KEPT && !self.known.contains_key(&hash) {
            self.forget();
        }
        self.known.entry(hash).or_insert_with(|| Client { name: client.into(), ..Client::default() })
    }

    fn forget(&mut self) {
        let mut all: Vec<_> = self.known.drain().collect();
        all.select_nth_unstable_by_key(KEPT, |(_, client)| (std::cmp::Reverse(client.weight()), client.name.clone()));
        all.truncate(KEPT);
        self.known.extend(all);
        self.has_forgotten = true;
    }

    /// Whether all clients are known.
    pub fn are_exact(&self) -> bool {
        !self.has_forgotten
    }

    /// How many clients this policy rejects; at least so many, if some have been forgotten.
    pub fn rejected_count(&self, policy: usize) -> u64 {
        self.known.values().filter(|client| client.rejections(policy).count > 0).count() as u64
    }

    /// The clients that this policy rejects most, the most rejected first.
    pub fn most_rejected(&self, policy: usize, most: usize) -> Vec<(&str, &Client)> {
        let mut found: Vec<&Client> =
            self.known.values().filter(|client| client.rejections(policy).count > 0).collect();
        found.sort_unstable_by_key(|client| {
            (std::cmp::Reverse((client.rejections(policy).count, client.requests)), client.name.clone())
        });
        found.truncate(most);
        found.into_iter().map(|client| (&*client.name, client)).collect()
    }
}

/// Longer names are cut: memory must not depend on the content of a log.
const LONGEST_NAME: usize = 128;

fn shortened(name: &str) -> &str {
    &name[..name.floor_char_boundary(LONGEST_NAME)]
}

impl Client {
    /// What this policy rejects of it.
    pub fn rejections(&self, policy: usize) -> ClientRejections {
        self.rejections.get(policy).copied().unwrap_or_default()
    }

    fn weight(&self) -> (u64, u64) {
        (self.rejections.iter().map(|of_policy| of_policy.count).sum(), self.requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_rejected_are_known_however_many_clients_come() {
        let mut clients = Clients::default();
        for round in 0..10_u64 {
            for number in 0..40_000_u64 {
                clients.record_request(&format!("visitor-{round}-{number}"));
            }
            clients.record_request("attacker");
            clients.record_rejection("attacker", 0, 1, round);
        }
        assert!(!clients.are_exact());
        assert!(clients.known.len() <= 2 * KEPT);
        let [("attacker", attacker)] = clients.most_rejected(0, 10)[..] else { panic!("nobody else was rejected") };
        assert_eq!((attacker.requests, attacker.rejections(0).count), (10, 10));
        assert_eq!(
            (attacker.rejections(0).first, attacker.rejections(0).last, attacker.rejections(0).limit),
            (0, 9, 1)
        );
        assert_eq!((clients.rejected_count(0), clients.rejected_count(1)), (1, 0));
    }

    #[test]
    fn the_limit_that_rejects_most_is_reported() {
        let mut clients = Clients::default();
        for (at, limit) in [2, 0, 2, 1, 2, 2, 0].into_iter().enumerate() {
            clients.record_rejection("one", 3, limit, at as u64);
        }
        assert_eq!(clients.most_rejected(3, 1)[0].1.rejections(3).limit, 2);
    }
}

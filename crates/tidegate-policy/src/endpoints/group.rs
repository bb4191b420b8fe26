use super::balancer::Balancer;
use super::shares::scaled;
use super::standing::Standing;
use super::tried::Tried;
use crate::Timestamp;

/// The endpoints that are equally good for a request, found by looking at all of them: for when drawing at random finds
/// none, because most are out.
pub(super) struct Group<'a> {
    balancer: &'a Balancer,
    now: Timestamp,
    tried: &'a Tried,
    rank: Rank,
}

/// How good an endpoint is for a request; less is better: whether it was tried, then its standing, then whether it is a
/// reserve. An attempt on one that is out may succeed; another on one that could not be connected to hardly will.
type Rank = (bool, u8, bool);

impl<'a> Group<'a> {
    /// `None` if all endpoints are down.
    pub(super) fn best(balancer: &'a Balancer, now: Timestamp, tried: &'a Tried) -> Option<Self> {
        let rank = (0..balancer.len()).filter_map(|index| rank(balancer, index, now, tried)).min()?;
        Some(Self { balancer, now, tried, rank })
    }

    /// One of them other than `except`, drawn by weight at `point`, where 2⁶⁴ is the sum of all weights.
    pub(super) fn pick(&self, point: u64, except: Option<usize>) -> Option<usize> {
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
    Some((tried.contains(index), standing, member.weight.get() == 0))
}

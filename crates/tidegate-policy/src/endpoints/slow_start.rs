use std::sync::atomic::Ordering::Relaxed;

use super::balancer::{Balancer, Member};
use crate::Timestamp;

impl Balancer {
    /// Whether an endpoint in its slow start passes this request on, so that it gets only a share of its weight.
    #[inline]
    pub(super) fn is_held_back(&self, member: &Member, now: Timestamp, random: u64) -> bool {
        // The upper half of the number draws the next endpoint.
        self.slow_start > 0 && f64::from(random as u32) > self.growing_share(member, now) * f64::from(u32::MAX)
    }

    /// The share of its weight that an endpoint gets at `now`: below 1 in its slow start, unless all are in theirs.
    #[inline]
    pub(super) fn slow_start_share(&self, member: &Member, now: Timestamp) -> f64 {
        if self.slow_start > 0 { self.growing_share(member, now) } else { 1.0 }
    }

    #[inline(never)]
    fn growing_share(&self, member: &Member, now: Timestamp) -> f64 {
        let share = member.state.slow_start_share(self.slow_start, now);
        share.filter(|_| self.has_started(now)).unwrap_or(1.0)
    }

    /// The weight that counts at `now`: less in a slow start.
    #[inline]
    pub(super) fn effective_weight(&self, member: &Member, now: Timestamp) -> f64 {
        f64::from(member.weight.get().max(1)) * self.slow_start_share(member, now)
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

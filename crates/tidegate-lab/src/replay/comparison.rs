//! What two policies decide about the same requests.

use std::collections::HashMap;

/// How often two policies agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Neither rejects.
    pub both_admit: u64,
    /// The first does, the second does not.
    pub only_first_rejects: u64,
    /// The other way round.
    pub only_second_rejects: u64,
    /// Both do.
    pub both_reject: u64,
}

/// Pairs the decisions of two policies about each request.
#[derive(Default)]
pub(super) struct Comparison {
    pub(super) found: Differences,
    /// Decisions that still lack the other policy's.
    halves: HashMap<u64, (usize, bool)>,
    /// The last one, which mostly finds its counterpart at once.
    last: Option<(u64, usize, bool)>,
}

impl Comparison {
    pub(super) fn note(&mut self, number: u64, policy: usize, is_rejected: bool) {
        let other = match self.last.take_if(|(last, ..)| *last == number) {
            Some((_, policy, is_rejected)) => Some((policy, is_rejected)),
            None => self.halves.remove(&number),
        };
        let Some((other_policy, other_rejected)) = other else {
            if let Some((last, policy, is_rejected)) = self.last.replace((number, policy, is_rejected)) {
                self.halves.insert(last, (policy, is_rejected));
            }
            return;
        };
        let (first, second) =
            if other_policy < policy { (other_rejected, is_rejected) } else { (is_rejected, other_rejected) };
        *match (first, second) {
            (false, false) => &mut self.found.both_admit,
            (true, false) => &mut self.found.only_first_rejects,
            (false, true) => &mut self.found.only_second_rejects,
            (true, true) => &mut self.found.both_reject,
        } += 1;
    }
}

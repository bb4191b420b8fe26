//! What two policies say of the same requests.

use std::collections::HashMap;

/// How often two policies agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Neither refuses.
    pub both_admit: u64,
    /// The first does, the second does not.
    pub only_first_refuses: u64,
    /// The other way round.
    pub only_second_refuses: u64,
    /// Both do.
    pub both_refuse: u64,
}

/// Pairs what two policies say of each request.
#[derive(Default)]
pub(super) struct Comparison {
    pub(super) found: Differences,
    /// What one of them has said already.
    halves: HashMap<u64, (usize, bool)>,
    /// The last one, which mostly finds its other half at once.
    last: Option<(u64, usize, bool)>,
}

impl Comparison {
    pub(super) fn note(&mut self, number: u64, policy: usize, is_refused: bool) {
        let other = match self.last.take_if(|(last, ..)| *last == number) {
            Some((_, policy, is_refused)) => Some((policy, is_refused)),
            None => self.halves.remove(&number),
        };
        let Some((other_policy, other_refused)) = other else {
            if let Some((last, policy, is_refused)) = self.last.replace((number, policy, is_refused)) {
                self.halves.insert(last, (policy, is_refused));
            }
            return;
        };
        let (first, second) =
            if other_policy < policy { (other_refused, is_refused) } else { (is_refused, other_refused) };
        *match (first, second) {
            (false, false) => &mut self.found.both_admit,
            (true, false) => &mut self.found.only_first_refuses,
            (false, true) => &mut self.found.only_second_refuses,
            (true, true) => &mut self.found.both_refuse,
        } += 1;
    }
}

//! Whether what comes is an attack, or so much that nothing may be learnt from it as it is.

use crate::second::{Second, figure};

/// Offered so many times the ceiling.
const FLOOD: f64 = 3.0;
/// More than this share rejected, for so many seconds.
const MOSTLY: f64 = 0.5;
const LASTING: u32 = 10;
/// Neither, for so many seconds: it is over.
const QUIET: u32 = 3;

/// An attack is more than three times the ceiling offered, or more than half rejected for ten seconds.
///
/// While it lasts, what is learnt is clipped: the seconds sent to the forecaster have no more than the ceiling, and
/// raises that were recommended during the attack wait until it is over. A schedule given before goes on, up and
/// down, for it was learnt before: spikes that were foreseen look like an attack too, far above the ceiling, and the
/// limit must be up when they come. Nothing stays frozen for good, either: three ordinary seconds end it, so that of
/// spikes which come again and again the next one can be prepared.
#[derive(Default)]
pub(crate) struct Attack {
    is_on: bool,
    rejecting: u32,
    quiet: u32,
}

/// What became of an attack.
#[derive(Clone, Debug, PartialEq)]
pub enum AttackEvent {
    /// It begins: why.
    Begins(String),
    /// It is over.
    Ends,
}

impl Attack {
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// A second has passed; `ceiling` is what the limit is never raised above, in requests a second.
    pub(crate) fn observe(&mut self, second: &Second, ceiling: f64) -> Option<AttackEvent> {
        if !second.is_whole {
            return None;
        }
        let offered = figure(second.offered);
        let is_flood = offered > FLOOD * ceiling;
        let is_rejecting = figure(second.rejected) > MOSTLY * offered;
        self.rejecting = if is_rejecting { self.rejecting.saturating_add(1) } else { 0 };
        if is_flood || self.rejecting >= LASTING {
            self.quiet = 0;
            let why = || {
                if is_flood {
                    format!("{offered} requests in a second, more than {FLOOD} times the ceiling of {ceiling}")
                } else {
                    format!("more than half of all requests rejected for {LASTING} seconds")
                }
            };
            let begins = (!self.is_on).then(|| AttackEvent::Begins(why()));
            self.is_on = true;
            return begins;
        }
        self.quiet = if is_rejecting { 0 } else { self.quiet.saturating_add(1) };
        let ends = self.is_on && self.quiet >= QUIET;
        self.is_on &= !ends;
        ends.then_some(AttackEvent::Ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds of (offered, rejected) under a ceiling of 100, and after which of them it is an attack.
    fn play(attack: &mut Attack, seconds: &[(u64, u64)]) -> Vec<bool> {
        let step = |(offered, rejected): &(u64, u64)| {
            let second = Second { is_whole: true, offered: *offered, rejected: *rejected, ..Second::default() };
            let (before, event) = (attack.is_on(), attack.observe(&second, 100.0));
            let expected = match &event {
                None => before,
                Some(AttackEvent::Begins(_)) => true,
                Some(AttackEvent::Ends) => false,
            };
            assert_eq!(expected, attack.is_on(), "each change is an event, and only changes are: {event:?}");
            attack.is_on()
        };
        seconds.iter().map(step).collect()
    }

    #[test]
    fn a_flood_is_one_at_once() {
        let mut attack = Attack::default();
        let seconds = [(300, 100), (301, 100), (301, 100), (50, 0), (50, 0), (50, 0), (50, 0)];
        assert_eq!(play(&mut attack, &seconds), [false, true, true, true, true, false, false]);
    }

    #[test]
    fn many_rejected_are_one_when_it_lasts() {
        let mut attack = Attack::default();
        assert_eq!(play(&mut attack, &[(100, 50); 30]), [false; 30], "half is not more than half");
        let is_on = play(&mut attack, &[(100, 51); 12]);
        assert_eq!(is_on.iter().position(|on| *on), Some(9));
        assert!(!play(&mut attack, &[(90, 9), (90, 9), (100, 51), (90, 9), (90, 9), (90, 9)])[5]);
    }

    #[test]
    fn spikes_that_come_again_leave_time_between_them() {
        let mut attack = Attack::default();
        for _ in 0..4 {
            play(&mut attack, &[(250, 150); 12]);
            assert!(attack.is_on());
            assert!(!play(&mut attack, &[(60, 0); 10])[3]);
        }
    }

    #[test]
    fn what_is_not_known_changes_nothing() {
        let mut attack = Attack::default();
        for is_on in [false, true] {
            let gap = Second { offered: 100_000, rejected: 100_000, ..Second::default() };
            assert_eq!((attack.observe(&gap, 1.0), attack.is_on()), (None, is_on));
            play(&mut attack, &[(1_000, 0)]);
        }
    }
}

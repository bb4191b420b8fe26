//! How good forecasts were: what was predicted beside what came.

use std::collections::VecDeque;
use std::time::Duration;

use crate::second::{Second, figure};

/// Predictions that wait for what comes.
const MOST: usize = 64;
/// A prediction that holds for longer is judged by its beginning.
const LONGEST: Duration = Duration::from_secs(600);

/// Predictions, judged when their time is over.
#[derive(Default)]
pub struct Accuracy {
    open: VecDeque<Prediction>,
}

struct Prediction {
    rate: f64,
    /// The seconds it is for.
    from: u64,
    until: u64,
    highest: Option<u64>,
}

impl Accuracy {
    /// This rate is expected as the highest of the seconds that come until then.
    pub fn expect(&mut self, rate: f64, from: u64, valid_for: Duration) {
        let until = from.saturating_add(valid_for.min(LONGEST).as_secs().max(1));
        self.open.push_back(Prediction { rate, from, until, highest: None });
        if self.open.len() > MOST {
            self.open.pop_front();
        }
    }

    /// A second has passed. The error of the prediction that has ended last, if any has: how much more was predicted
    /// than came, as a share of what came.
    pub fn observe(&mut self, second: &Second) -> Option<f64> {
        for open in &mut self.open {
            if second.is_whole && (open.from..open.until).contains(&second.at) {
                open.highest = open.highest.max(Some(second.offered));
            }
        }
        let mut last = None;
        self.open.retain(|open| {
            let is_open = second.at.saturating_add(1) < open.until;
            if !is_open && let Some(highest) = open.highest {
                // Of next to nothing every share is large, and none matters.
                last = Some((open.rate - figure(highest)) / figure(highest).max(1.0));
            }
            is_open
        });
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at: u64, offered: u64) -> Second {
        Second { at, offered, is_whole: true, ..Second::default() }
    }

    #[test]
    fn a_prediction_is_judged_by_the_highest_second_when_its_time_is_over() {
        let mut accuracy = Accuracy::default();
        accuracy.expect(150.0, 10, Duration::from_secs(3));
        accuracy.expect(50.0, 12, Duration::from_secs(2));
        let errors: Vec<_> = [(9, 900), (10, 100), (11, 60), (12, 75), (13, 100), (14, 5)]
            .map(|(at, offered)| accuracy.observe(&second(at, offered)))
            .into();
        assert_eq!(errors, [None, None, None, Some(0.5), Some(-0.5), None]);
    }

    #[test]
    fn nothing_is_rightly_predicted_for_nothing() {
        let mut accuracy = Accuracy::default();
        accuracy.expect(0.0, 10, Duration::from_secs(1));
        assert_eq!(accuracy.observe(&second(10, 0)), Some(0.0));
    }

    #[test]
    fn what_nobody_saw_is_not_judged_and_many_are_bounded() {
        let mut accuracy = Accuracy::default();
        accuracy.expect(150.0, 10, Duration::from_secs(2));
        assert_eq!(accuracy.observe(&Second { is_whole: false, ..second(10, 9) }), None);
        assert_eq!(accuracy.observe(&second(500, 9)), None);
        (0..1_000).for_each(|at| accuracy.expect(1.0, at, Duration::MAX));
        assert_eq!(accuracy.open.len(), MOST);
        assert!(accuracy.open.iter().all(|open| open.until - open.from == LONGEST.as_secs()));
    }
}

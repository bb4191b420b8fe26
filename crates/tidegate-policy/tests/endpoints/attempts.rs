//! The further attempts of a request: which endpoint comes next when the ones before could not be connected to.

use tidegate_policy::endpoints::{Balance, Balancer, Standing, Tried};

use super::{NOW, balanced, take_out};

/// The endpoints of a request's attempts if none can be connected to, until only tried ones are left.
fn attempts(balancer: &Balancer) -> Vec<usize> {
    let mut tried = Tried::new();
    let mut attempts = Vec::new();
    while let Some(index) = balancer.choose(NOW, 1 << 40, 1, &tried).filter(|index| !tried.contains(*index)) {
        tried.insert(index);
        attempts.push(index);
    }
    attempts
}

/// A dead endpoint that no check had noticed yet got every attempt, while an unhealthy, ejected or draining one that
/// would have responded got none.
#[test]
fn an_endpoint_not_tried_yet_comes_before_a_tried_one_whatever_its_standing() {
    for balance in Balance::ALL {
        for standing in [Standing::Unhealthy, Standing::Ejected, Standing::Drain] {
            let balancer = balanced(&[1, 1], balance);
            take_out(&balancer, 1, standing);
            assert_eq!(attempts(&balancer), [0, 1], "{balance:?}, {standing:?}");
        }
    }
}

#[test]
fn of_those_not_tried_yet_the_one_with_the_best_standing_comes_first() {
    for balance in Balance::ALL {
        let balancer = balanced(&[1, 1, 0, 1, 1], balance);
        take_out(&balancer, 0, Standing::Drain);
        take_out(&balancer, 1, Standing::Down);
        take_out(&balancer, 3, Standing::Unhealthy);
        assert_eq!(attempts(&balancer), [4, 2, 3, 0], "up, the reserve, unhealthy, draining: {balance:?}");
    }
}

#[test]
fn a_tried_endpoint_is_chosen_only_if_no_other_is_left() {
    for balance in Balance::ALL {
        let balancer = balanced(&[1, 1, 1], balance);
        take_out(&balancer, 0, Standing::Down);
        let mut tried = Tried::new();
        tried.insert(1);
        assert_eq!(balancer.choose(NOW, 1, 1, &tried), Some(2), "{balance:?}");
        tried.insert(2);
        let chosen = balancer.choose(NOW, 1, 1, &tried);
        assert!(chosen.is_some_and(|index| index > 0 && tried.contains(index)), "{balance:?}: {chosen:?}");
        take_out(&balancer, 2, Standing::Drain);
        assert_eq!(balancer.choose(NOW, 1, 1, &tried), Some(1), "of those tried, the one with the best standing");
    }
}

//! Which client sends which request.

use fastrand::Rng;

use crate::plan::Group;

/// Who sends each request: drawn from the seed by the groups' weights, and within a group evenly. A request's number
/// alone decides, so it is the same client in every run, however many threads or instances send.
#[derive(Clone, Debug)]
pub struct Assignment {
    seed: u64,
    /// Where each group ends, as a share of all.
    ends: Vec<f64>,
    counts: Vec<u64>,
}

impl Assignment {
    /// For these groups.
    pub fn new(groups: &[Group], seed: u64) -> Self {
        let all: f64 = groups.iter().map(|group| group.weight).sum();
        let ends = groups.iter().scan(0.0, |end, group| {
            *end += group.weight / all;
            Some(*end)
        });
        Self { seed, ends: ends.collect(), counts: groups.iter().map(|group| group.count).collect() }
    }

    /// The group of request `number` by its index, and which of its clients it is.
    pub fn client(&self, number: u64) -> (usize, u64) {
        // Seeds that follow each other give unrelated numbers only after mixing.
        let mut rng = Rng::with_seed(mixed(self.seed ^ mixed(number)));
        let share = rng.f64();
        let group = self.ends.iter().position(|end| share < *end).unwrap_or(self.ends.len() - 1);
        (group, rng.u64(..self.counts[group]))
    }
}

/// The finalizer of `SplitMix64`: each bit of the input changes half of the output's.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups() -> Vec<Group> {
        [(1, 1.0), (4, 3.0), (1_000, 6.0)].map(|(count, weight)| Group { count, weight, ..Group::default() }).into()
    }

    /// Shares within five standard deviations of what the weights say.
    #[test]
    fn each_group_and_each_client_has_its_share() {
        let (assignment, all) = (Assignment::new(&groups(), 7), 200_000_u32);
        let (mut by_group, mut of_second) = ([0.0; 3], [0.0; 4]);
        for number in 0..all {
            let (group, client) = assignment.client(number.into());
            by_group[group] += 1.0;
            if group == 1 {
                of_second[client as usize] += 1.0;
            }
        }
        let is_near = |count: f64, share: f64| {
            let mean = share * f64::from(all);
            (count - mean).abs() < 5.0 * (mean * (1.0 - share)).sqrt()
        };
        for (count, share) in by_group.iter().zip([0.1, 0.3, 0.6]).chain(of_second.iter().zip([0.075; 4])) {
            assert!(is_near(*count, share), "{count} of {all}, {share} expected");
        }
    }

    #[test]
    fn the_same_number_is_the_same_client() {
        let assignment = Assignment::new(&groups(), 7);
        let clients = |assignment: &Assignment| (0..100).map(|number| assignment.client(number)).collect::<Vec<_>>();
        assert_eq!(clients(&assignment), clients(&Assignment::new(&groups(), 7)));
        assert_ne!(clients(&assignment), clients(&Assignment::new(&groups(), 8)));
    }
}

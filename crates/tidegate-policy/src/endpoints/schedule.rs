use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::shares::Shares;
use super::weight::Weight;

/// The longest cycle that is written down.
const LONGEST_CYCLE: u64 = 2_048;
/// 2⁶⁴ divided by the golden ratio. Its multiples, taken modulo 2⁶⁴, fill a line more evenly than those of any other
/// number: each falls into one of the largest gaps between the ones before.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Endpoints in turn, each as often as its weight says, one counter for all threads.
pub(super) struct Schedule {
    turn: AtomicU64,
    order: Order,
}

enum Order {
    /// Exact over each cycle, whose length is the sum of the weights.
    Cycle(Box<[u32]>),
    /// For sums too large to write down: even over any stretch, and never off by more than a few requests.
    Even(Shares),
}

impl Schedule {
    pub(super) fn new(weights: &[Weight]) -> Self {
        let shares = Shares::new(weights);
        let order = if shares.total() <= LONGEST_CYCLE {
            Order::Cycle(cycle(weights, shares.total()))
        } else {
            Order::Even(shares)
        };
        Self { turn: AtomicU64::new(0), order }
    }

    /// Whose turn it is; `None` if all weights are 0.
    pub(super) fn next(&self) -> Option<usize> {
        let turn = self.turn.fetch_add(1, Relaxed);
        match &self.order {
            Order::Cycle(cycle) => {
                let at = turn.checked_rem(cycle.len() as u64)?;
                cycle.get(at as usize).map(|index| *index as usize)
            }
            Order::Even(shares) => shares.at(turn.wrapping_mul(GOLDEN)),
        }
    }
}

/// A cycle of `length` turns without bursts: in each turn every endpoint earns its weight, and the one that has earned
/// most takes the turn and pays for it with the sum of all weights.
fn cycle(weights: &[Weight], length: u64) -> Box<[u32]> {
    let sum: i64 = weights.iter().map(|weight| i64::from(weight.get())).sum();
    let mut earned = vec![0_i64; weights.len()];
    let mut turn = |_| {
        let mut richest = 0;
        for (index, weight) in weights.iter().enumerate() {
            earned[index] += i64::from(weight.get());
            if earned[index] > earned[richest] {
                richest = index;
            }
        }
        earned[richest] -= sum;
        richest as u32
    };
    (0..length).map(&mut turn).collect()
}

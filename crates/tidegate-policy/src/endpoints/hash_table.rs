use super::shares::{mixed, scaled};
use super::weight::Weight;

/// Sizes of tables. They are primes, so that any step from slot to slot meets every slot.
const SIZES: [u64; 3] = [4_093, 16_381, 65_521];
/// A table is as large as gives its lightest endpoint so many slots, if a size does.
const SLOTS_OF_LIGHTEST: u64 = 256;

/// Consistent hashing by a table of slots: a key's slot holds the index of its endpoint.
///
/// The table is filled as in Maglev (Eisenbud et al., 2016): each endpoint has an order of preference over all slots
/// that depends on its name alone, and they take turns, each as often as its weight says, to claim the next free slot.
/// So each gets its share of slots almost exactly. When an endpoint leaves, its slots are claimed by others, and few
/// others change hands.
pub(super) struct HashTable {
    slots: Box<[u32]>,
}

/// An endpoint that claims slots.
struct Claimant {
    index: u32,
    weight: u64,
    claimed: u64,
    /// The slot it wants next, and the step to the one after that.
    wanted: u64,
    step: u64,
}

impl HashTable {
    /// A table for endpoints of these names and weights. Their order does not matter.
    pub(super) fn new(endpoints: &[(&str, Weight)]) -> Self {
        let mut named: Vec<(u64, usize)> = Vec::new();
        for (index, (name, weight)) in endpoints.iter().enumerate() {
            if weight.get() > 0 {
                named.push((name_hash(name), index));
            }
        }
        named.sort_unstable();
        let weight_of = |index: usize| u64::from(endpoints[index].1.get());
        let weights = || named.iter().map(|(_, index)| weight_of(*index));
        let (Some(lightest), Some(heaviest)) = (weights().min(), weights().max()) else {
            return Self { slots: Box::default() };
        };
        let needed = (weights().sum::<u64>() / lightest).saturating_mul(SLOTS_OF_LIGHTEST);
        let size = SIZES.into_iter().find(|size| *size >= needed).unwrap_or(SIZES[SIZES.len() - 1]);
        let claimant = |(hash, index): &(u64, usize)| Claimant {
            index: *index as u32,
            weight: weight_of(*index),
            claimed: 0,
            wanted: scaled(mixed(*hash), size),
            step: scaled(mixed(mixed(*hash)), size - 1) + 1,
        };
        Self { slots: fill(named.iter().map(claimant).collect(), heaviest, size) }
    }

    /// The slot of a key.
    pub(super) fn slot(&self, key: u64) -> usize {
        scaled(mixed(key), self.slots.len() as u64) as usize
    }

    /// The endpoints from this slot on, all the way round.
    pub(super) fn from(&self, slot: usize) -> impl Iterator<Item = usize> + '_ {
        let (before, after) = self.slots.split_at(slot.min(self.slots.len()));
        after.iter().chain(before).map(|index| *index as usize)
    }
}

/// In round `n` the heaviest claims its `n`th slot, the others as many as their weights allow by then.
fn fill(mut claimants: Vec<Claimant>, heaviest: u64, size: u64) -> Box<[u32]> {
    const FREE: u32 = u32::MAX;
    let mut slots = vec![FREE; size as usize];
    let mut free = size;
    for round in 1.. {
        for claimant in &mut claimants {
            if claimant.claimed * heaviest >= round * claimant.weight {
                continue;
            }
            if free == 0 {
                return slots.into();
            }
            while slots[claimant.wanted as usize] != FREE {
                claimant.wanted = (claimant.wanted + claimant.step) % size;
            }
            slots[claimant.wanted as usize] = claimant.index;
            claimant.claimed += 1;
            free -= 1;
        }
    }
    slots.into()
}

/// The same for a name on every machine and in every version: FNV-1a, then mixed, because similar names differ in few
/// bits of it.
fn name_hash(name: &str) -> u64 {
    let hash = name
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
    mixed(mixed(hash))
}

use super::weight::Weight;

/// The endpoints of a pool laid end to end, each as long as its weight: a point on that line is an endpoint drawn in
/// proportion to the weights.
pub(super) struct Shares {
    /// Where each endpoint's stretch ends, after the weights were divided by what they have in common.
    ends: Box<[u64]>,
    /// The end of the last.
    total: u64,
    /// Whether every stretch is 1 long, so that a point is an index.
    is_equal: bool,
}

impl Shares {
    pub(super) fn new(weights: &[Weight]) -> Self {
        let common = weights.iter().fold(0, |common, weight| divisor(common, weight.get())).max(1);
        let mut total = 0;
        let end = |weight: &Weight| {
            total += u64::from(weight.get() / common);
            total
        };
        let ends: Box<[u64]> = weights.iter().map(end).collect();
        let is_equal = weights.iter().all(|weight| weight.get() == common);
        Self { ends, total, is_equal }
    }

    /// The sum of the weights, after they were divided by what they have in common.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// The endpoint at `point`, where 2⁶⁴ is the length of the whole line; `None` if all weights are 0.
    #[inline]
    pub(super) fn at(&self, point: u64) -> Option<usize> {
        let distance = scaled(point, self.total);
        if self.is_equal {
            return Some(distance as usize).filter(|_| self.total > 0);
        }
        Some(self.ends.partition_point(|end| *end <= distance)).filter(|index| *index < self.ends.len())
    }
}

/// `point` on a line 2⁶⁴ long, on a line `length` long.
pub(super) const fn scaled(point: u64, length: u64) -> u64 {
    ((point as u128 * length as u128) >> 64) as u64
}

/// Another number that looks random, from one that is. A choice needs several and is handed one.
pub(super) const fn mixed(random: u64) -> u64 {
    let product = (random ^ (random >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    product ^ (product >> 29)
}

const fn divisor(mut one: u32, mut other: u32) -> u32 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

//! A seeded random walk: times, costs and changes of numbers, chosen so that the borders are met often.

use fastrand::Rng;

/// The numbers of any algorithm: `limit` in each `span`, or a capacity of `limit` refilled by `tokens` in each `span`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    pub limit: u64,
    pub tokens: u64,
    pub span: u64,
}

pub struct Walk {
    rng: Rng,
    pub now: u64,
    latest: u64,
    pub may_go_back: bool,
    /// When the last rejected request may come back: the most telling moment to ask again.
    pub retry_at: Option<u64>,
}

pub enum Step {
    Ask { cost: u32 },
    GiveBack,
    Change(Numbers),
}

impl Walk {
    /// Begins at one of these moments.
    pub fn new(seed: u64, starts: &[u64]) -> Self {
        let mut rng = Rng::with_seed(seed);
        let now = starts[rng.usize(0..starts.len())];
        Self { rng, now, latest: now, may_go_back: true, retry_at: None }
    }

    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    pub fn numbers(&mut self) -> Numbers {
        let rng = &mut self.rng;
        let limit = [1, 2, 3, 7, 10, 25, 40][rng.usize(0..7)];
        let tokens = [1, 2, 3, 7, 10, 11, limit][rng.usize(0..7)];
        let span = [1, 2, 10, 97, 1_000, 1_000_003, 1 << 20, 60_000_000][rng.usize(0..8)];
        Numbers { limit, tokens, span }
    }

    /// Another set of numbers, often one that differs in a single place.
    fn changed(&mut self, old: Numbers) -> Numbers {
        let new = self.numbers();
        match self.rng.u32(0..4) {
            0 => Numbers { limit: new.limit, ..old },
            1 => Numbers { tokens: new.tokens, ..old },
            2 => Numbers { span: new.span, ..old },
            _ => new,
        }
    }

    pub fn step(&mut self, numbers: Numbers) -> Step {
        self.move_clock(numbers);
        match self.rng.u32(0..1000) {
            0..4 => Step::Change(self.changed(numbers)),
            4..150 => Step::GiveBack,
            150..700 => Step::Ask { cost: 1 },
            700..980 => Step::Ask { cost: self.rng.u32(1..=numbers.limit as u32 + 1) },
            _ => Step::Ask { cost: [u32::MAX, numbers.limit as u32][self.rng.usize(0..2)] },
        }
    }

    fn move_clock(&mut self, Numbers { limit, span, .. }: Numbers) {
        let rng = &mut self.rng;
        let forward = |now: u64, by: u64| now.saturating_add(by);
        self.now = match rng.u32(0..1000) {
            0..400 => self.now,
            400..600 => forward(self.now, rng.u64(0..=span / limit + 1)),
            600..720 => self.retry_at.take().map_or(self.now, |at| at.saturating_sub(rng.u64(0..2))).max(self.now),
            720..800 => forward(self.now, rng.u64(0..=span)),
            800..900 => (forward(self.now, span) / span * span).saturating_sub(rng.u64(0..2)),
            900..960 => forward(self.now, span * rng.u64(1..4)),
            960..965 => forward(self.now, span * limit * 2),
            965..970 if self.may_go_back => self.now.saturating_sub(rng.u64(0..=span)),
            970..972 if self.may_go_back => self.now.saturating_sub(span * rng.u64(1..10)),
            972..973 => forward(self.now, span << 10),
            _ => self.now.max(self.latest),
        }
        .min(u64::MAX >> 1);
        self.latest = self.latest.max(self.now);
    }
}

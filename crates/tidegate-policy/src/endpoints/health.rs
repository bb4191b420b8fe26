use std::num::NonZeroU32;

/// What active checks say about an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Health {
    /// Never checked; counts as healthy.
    #[default]
    Unknown,
    /// Its checks pass.
    Healthy,
    /// Its checks fail. It gets no requests while another endpoint is available.
    Unhealthy,
}

impl Health {
    /// The word for it in the admin API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
        }
    }
}

/// How many checks in a row change an endpoint's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthThresholds {
    /// So many passed checks in a row make an unhealthy endpoint healthy.
    pub healthy: NonZeroU32,
    /// So many failed checks in a row make a healthy endpoint unhealthy.
    pub unhealthy: NonZeroU32,
}

/// 2 passed, 3 failed.
impl Default for HealthThresholds {
    fn default() -> Self {
        Self { healthy: const { NonZeroU32::new(2).unwrap() }, unhealthy: const { NonZeroU32::new(3).unwrap() } }
    }
}

/// The results of an endpoint's checks. The very first result decides at once: there is nothing it could contradict.
#[derive(Debug, Default)]
pub(super) struct Checks {
    health: Health,
    /// How many results in a row contradict the health.
    contradictions: u32,
}

impl Checks {
    pub(super) const fn health(&self) -> Health {
        self.health
    }

    /// Records a result, and says whether the health changed.
    pub(super) fn record(&mut self, passed: bool, thresholds: HealthThresholds) -> bool {
        let (next, needed) = match (self.health, passed) {
            (Health::Unknown, true) => (Health::Healthy, 1),
            (Health::Unknown, false) => (Health::Unhealthy, 1),
            (Health::Healthy, false) => (Health::Unhealthy, thresholds.unhealthy.get()),
            (Health::Unhealthy, true) => (Health::Healthy, thresholds.healthy.get()),
            (Health::Healthy, true) | (Health::Unhealthy, false) => (self.health, u32::MAX),
        };
        self.contradictions = if next == self.health { 0 } else { self.contradictions.saturating_add(1) };
        let has_changed = self.contradictions >= needed;
        if has_changed {
            *self = Self { health: next, contradictions: 0 };
        }
        has_changed
    }

    /// As if no check had ever been made; says whether that changes the health.
    pub(super) fn forget(&mut self) -> bool {
        std::mem::take(self).health != Health::Unknown
    }
}

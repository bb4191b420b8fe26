use crate::season::lasting;
use crate::{History, Season, seasons};

/// The cycles that are known, and when they were looked for.
#[derive(Default)]
pub(super) struct Cycles {
    found: Vec<Season>,
    /// The end of the history in which they were looked for.
    looked_at: Option<i64>,
}

/// After so many steps cycles are looked for again.
const LONGEST_UNLOOKED: usize = 60;

impl Cycles {
    /// The strongest first.
    pub(super) fn found(&self) -> &[Season] {
        &self.found
    }

    /// Looks for cycles anew, when there is enough that is new. Whether the strongest is another one than before.
    pub(super) fn look(&mut self, history: History<'_>, stride: usize) -> bool {
        let end = history.end();
        let every = (history.values.len() / 64).min(LONGEST_UNLOOKED).max(stride) * history.step as usize;
        if self.looked_at.is_some_and(|at| end - at < every as i64) {
            return false;
        }
        self.looked_at = Some(end);
        let known = self.found.first().copied();
        let before = known.map(|season| season.period);
        let found = seasons(history);
        self.found = known.and_then(|known| lasting(history, known, &found)).unwrap_or(found);
        let now = self.found.first().map(|season| season.period);
        match (before, now) {
            (Some(before), Some(now)) => (before - now).abs() > 0.01 * now,
            (before, now) => before != now,
        }
    }
}

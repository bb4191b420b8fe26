use crate::{History, Model, NotLearnt, Season};

/// What was last is what will be. The measure of all others.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastValue;

impl Model for LastValue {
    fn name(&self) -> &'static str {
        "last"
    }

    fn learn(&mut self, _history: History<'_>, _seasons: &[Season]) -> Result<(), NotLearnt> {
        Ok(())
    }

    fn path(&self, history: History<'_>, steps: usize) -> Option<Vec<f64>> {
        history.known().next_back().map(|(_, last)| vec![last; steps])
    }
}

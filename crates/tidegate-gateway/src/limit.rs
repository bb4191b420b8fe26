//! A limit: its settings, where its counts are kept, what is counted of it.

use std::sync::Arc;

use tidegate_policy::{Decision, Keyed, Rule};
use tidegate_serve::{Counter, Shard};
use tidegate_store::{Key, SharedLimit};

use crate::config::numbers::LimitNumbers;
use crate::limit_texts::LimitTexts;
use crate::settings::LimitSettings;

/// A limit as it stands in one plan. A change makes a new one, over the same counts.
#[derive(Clone)]
pub(crate) struct Limit {
    pub(crate) settings: LimitSettings,
    /// Whose numbers it has.
    pub(crate) set_by: SetBy,
    pub(crate) counts: Counts,
    pub(crate) stats: Arc<[Shard<LimitStats>]>,
    /// What responses report of it.
    pub(crate) texts: Arc<LimitTexts>,
}

/// Whose numbers a limit has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SetBy {
    File,
    /// They were set while running.
    Api,
    /// They were adapted; these are the operator's.
    Adaptive(LimitNumbers),
}

/// Where what was used is kept, from one configuration to the next.
#[derive(Clone)]
pub(crate) enum Counts {
    Memory(Arc<Keyed<Key, Rule>>),
    Shared(SharedLimit),
}

/// What a worker counted of a limit.
#[derive(Default)]
pub(crate) struct LimitStats {
    pub(crate) admitted: Counter,
    pub(crate) refused: Counter,
    /// Rejected by a limit on a dry run.
    pub(crate) would_refuse: Counter,
}

impl Limit {
    pub(crate) fn new(settings: LimitSettings, set_by: SetBy, counts: Counts, stats: Arc<[Shard<LimitStats>]>) -> Self {
        let texts = Arc::new(LimitTexts::new(&settings));
        Self { settings, set_by, counts, stats, texts }
    }

    /// The operator's numbers, whatever is in force.
    pub(crate) fn operators_numbers(&self) -> &LimitNumbers {
        match &self.set_by {
            SetBy::Adaptive(base) => base,
            SetBy::File | SetBy::Api => &self.settings.numbers,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.settings.name.as_str()
    }

    /// What a client has left: the soft excess is none of its business.
    pub(crate) fn left(&self, decision: &Decision) -> u64 {
        decision.remaining().saturating_sub(self.settings.soft)
    }

    pub(crate) fn is_degraded(&self, decision: &Decision) -> bool {
        !self.settings.dry_run && self.settings.soft > 0 && decision.remaining() < self.settings.soft
    }
}

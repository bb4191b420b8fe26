//! A limit: its settings, where its counts are kept, its statistics.

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
    /// Who set its numbers.
    pub(crate) set_by: SetBy,
    pub(crate) counts: Counts,
    pub(crate) stats: Arc<[Shard<LimitStats>]>,
    /// What responses report of it.
    pub(crate) texts: Arc<LimitTexts>,
}

/// Who set a limit's numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SetBy {
    File,
    /// The operator, while the gateway runs.
    Api,
    /// Adaptation. These are the operator's numbers.
    Adaptive(LimitNumbers),
}

/// Where a limit's counts are kept, from one configuration to the next.
#[derive(Clone)]
pub(crate) enum Counts {
    Memory(Arc<Keyed<Key, Rule>>),
    Shared(SharedLimit),
}

/// What a worker counted of a limit.
#[derive(Default)]
pub(crate) struct LimitStats {
    pub(crate) admitted: Counter,
    pub(crate) rejected: Counter,
    /// Rejected by a limit on a dry run.
    pub(crate) would_reject: Counter,
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

    /// What a client has left. The soft excess is not reported to clients.
    pub(crate) fn left(&self, decision: &Decision) -> u64 {
        decision.remaining().saturating_sub(self.settings.soft)
    }

    pub(crate) fn is_degraded(&self, decision: &Decision) -> bool {
        !self.settings.dry_run && self.settings.soft > 0 && decision.remaining() < self.settings.soft
    }
}

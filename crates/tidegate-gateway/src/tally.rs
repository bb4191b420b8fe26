//! What is counted of decisions about requests. A rejection is counted here and nowhere else.

use tidegate_policy::Decision;

use crate::admission::{Asked, Denied};
use crate::limit::Limit;
use crate::passage::Passage;
use crate::resolve::Resolved;

/// Counts a request that is sent on.
pub(crate) fn forwarded(passage: &Passage<'_>, resolved: &Resolved<'_>) {
    decided(passage, resolved, true);
}

/// Counts a rejected request: in the metrics, at the limits that reject it, in the log and in its access record.
pub(crate) fn rejected(passage: &mut Passage<'_>, resolved: &Resolved<'_>, denied: &Denied) {
    decided(passage, resolved, false);
    let plan = passage.plan;
    let limit = match denied {
        Denied::TooMany => return,
        // It has exceeded nothing.
        Denied::NoKey { limit, .. } => &plan.limits[*limit],
        Denied::StoreAway { asked, by, .. } => {
            count_at_limits(passage, asked);
            &plan.limits[asked[*by].limit]
        }
        Denied::Limit { asked, by, .. } => {
            count_at_limits(passage, asked);
            let limit = &plan.limits[asked[*by].limit];
            plan.site.count_exceeded(resolved.route_index(), resolved.tier());
            passage.worker.gateway.note_rejection(limit.name(), passage.settlement.started);
            limit
        }
    };
    if let Some(record) = &mut passage.settlement.record {
        record.refused_by = Some(limit.name().into());
    }
}

fn count_at_limits(passage: &Passage<'_>, asked: &[Asked]) {
    let rejects = |limit: &Limit, asked: &Asked| {
        !limit.settings.dry_run && matches!(asked.decision, Some(Decision::Reject { .. }))
    };
    for asked in asked {
        let limit = &passage.plan.limits[asked.limit];
        if rejects(limit, asked) {
            limit.stats[passage.worker.index].refused.inc();
        }
    }
}

/// Counts a decision, by the algorithm of the route's first limit.
fn decided(passage: &Passage<'_>, resolved: &Resolved<'_>, is_forwarded: bool) {
    let first = resolved.route().limits.first();
    let algorithm = first.map(|limit| passage.plan.limits[*limit].settings.numbers.algorithm());
    passage.worker.metrics().decided(is_forwarded, algorithm);
}

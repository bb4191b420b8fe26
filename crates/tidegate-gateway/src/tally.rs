//! Counts decisions about requests. A rejection is counted here and nowhere else.

use tidegate_policy::Decision;

use crate::admission::{LimitCheck, Rejection};
use crate::limit::Limit;
use crate::request_context::RequestContext;
use crate::resolve::Resolved;

/// Counts a request that is sent on.
pub(crate) fn forwarded(context: &RequestContext<'_>, resolved: &Resolved<'_>) {
    decided(context, resolved, true);
}

/// Counts a rejected request: in the metrics, at the limits that reject it, in the log and in its access record.
pub(crate) fn rejected(context: &mut RequestContext<'_>, resolved: &Resolved<'_>, rejection: &Rejection) {
    decided(context, resolved, false);
    let plan = context.plan;
    let limit = match rejection {
        Rejection::TooMany => return,
        // The request has exceeded nothing.
        Rejection::NoKey { limit, .. } => &plan.limits[*limit],
        Rejection::StoreAway { checks, by, .. } => {
            count_at_limits(context, checks);
            &plan.limits[checks[*by].limit]
        }
        Rejection::Limit { checks, by, .. } => {
            count_at_limits(context, checks);
            let limit = &plan.limits[checks[*by].limit];
            plan.site.count_exceeded(resolved.route_index(), resolved.tier());
            context.worker.gateway.note_rejection(limit.name(), context.settlement.started);
            limit
        }
    };
    if let Some(record) = &mut context.settlement.record {
        record.rejected_by = Some(limit.name().into());
    }
}

fn count_at_limits(context: &RequestContext<'_>, checks: &[LimitCheck]) {
    let rejects = |limit: &Limit, check: &LimitCheck| {
        !limit.settings.dry_run && matches!(check.decision, Some(Decision::Reject { .. }))
    };
    for check in checks {
        let limit = &context.plan.limits[check.limit];
        if rejects(limit, check) {
            limit.stats[context.worker.index].rejected.inc();
        }
    }
}

/// Counts a decision, by the algorithm of the route's first limit.
fn decided(context: &RequestContext<'_>, resolved: &Resolved<'_>, is_forwarded: bool) {
    let first = resolved.route().limits.first();
    let algorithm = first.map(|limit| context.plan.limits[*limit].settings.numbers.algorithm());
    context.worker.metrics().decided(is_forwarded, algorithm);
}

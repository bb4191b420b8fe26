//! The counters that adaptation reads. Requests write them anyway.

use std::sync::Arc;

use tidegate_adapt::Totals;
use tidegate_serve::HistogramSnapshot;

use crate::limit::Limit;
use crate::plan::Plan;
use crate::upstream::Upstream;

/// The totals of the limit, and of the upstreams that it protects.
pub(super) fn totals(limit: &Limit, plan: &Plan) -> Totals {
    let (mut admitted, mut rejected) = (0, 0);
    for stats in &*limit.stats {
        admitted += stats.admitted.get();
        rejected += stats.rejected.get();
    }
    let mut totals = Totals { admitted, rejected, ..Totals::default() };
    let mut latency: Option<HistogramSnapshot> = None;
    for upstream in protected_upstreams(plan, limit.name()) {
        let metrics = &upstream.stats.metrics;
        totals.errors += metrics.first_errors();
        totals.failed += metrics.first_failures();
        let counted = metrics.latency.snapshot();
        match &mut latency {
            None => latency = Some(counted),
            Some(latency) => latency.add(&counted),
        }
    }
    totals.latency = latency.map(|latency| latency.counts().to_vec()).unwrap_or_default();
    totals
}

/// The upstreams that the limit decides requests for.
fn protected_upstreams<'a>(plan: &'a Plan, limit: &str) -> impl Iterator<Item = &'a Arc<Upstream>> {
    let limit = plan.limits.iter().position(|other| other.name() == limit);
    let has_limit = move |limits: &[usize]| limit.is_some_and(|limit| limits.contains(&limit));
    let site = &plan.site;
    let is_protected = move |index: usize, upstream: &Upstream| {
        let by_route = site.routes.iter().any(|route| route.upstream == index && has_limit(&route.limits));
        by_route || has_limit(&upstream.limits)
    };
    let upstreams = site.upstreams.iter().enumerate();
    upstreams.filter_map(move |(index, upstream)| is_protected(index, upstream).then_some(upstream))
}

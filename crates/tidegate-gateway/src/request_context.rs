//! What every stage needs of the request that it works on.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_http::client::Trouble;
use tidegate_http::request::RequestHead;
use tidegate_policy::Timestamp;

use crate::access_log::Record;
use crate::admission::DecisionContext;
use crate::client::Client;
use crate::cuts::Cut;
use crate::plan::Plan;
use crate::request_id::RequestId;
use crate::resolve::Resolved;
use crate::settlement::Settlement;
use crate::worker::Worker;

/// A request between its head and its response, with what it is handled by.
pub(crate) struct RequestContext<'a> {
    pub(crate) worker: &'a Arc<Worker>,
    pub(crate) client: &'a Arc<Client>,
    pub(crate) plan: &'a Arc<Plan>,
    pub(crate) id: RequestId,
    /// When the request began. The client's limits are checked with this time.
    pub(crate) now: Timestamp,
    pub(crate) settlement: Box<Settlement>,
}

impl RequestContext<'_> {
    /// What a decision about the request needs, at this time.
    pub(crate) fn decision_context(&self, now: Timestamp) -> DecisionContext<'_> {
        let gateway = &self.worker.gateway;
        DecisionContext {
            plan: self.plan,
            store: gateway.store(),
            returns: &gateway.returns,
            clock: gateway.clock,
            now,
            worker: self.worker.index,
        }
    }

    pub(crate) fn since_1970(&self) -> Duration {
        Duration::from_nanos(self.now.as_nanos())
    }

    /// Begins the request's record for the access log.
    pub(crate) fn record(&mut self, request: &RequestHead, host: &[u8], ip: IpAddr) {
        if self.worker.gateway.access_log().is_some() {
            self.settlement.record = Some(Box::new(Record::new(request, host, ip, self.id.as_str())));
        }
    }

    /// Adds to the record what the request was resolved to.
    pub(crate) fn record_resolved(&mut self, resolved: &Resolved<'_>) {
        if let Some(record) = &mut self.settlement.record {
            let (route, upstream) = (&resolved.route().name, &resolved.upstream().name);
            record.identified(resolved.caller().user.as_deref(), route, upstream);
        }
    }

    /// Counts a client that is cut off so that it does not take from others.
    pub(crate) fn note_cut(&self, trouble: &Trouble) {
        if let Some(cut) = Cut::of(trouble) {
            self.worker.gateway.note_cut(cut, self.client.peer);
        }
    }

    /// Adds to the record which limits on a dry run would have rejected the request.
    pub(crate) fn record_would_reject(&mut self) {
        let Settlement { admissions, record, .. } = &mut *self.settlement;
        if let Some(record) = record {
            record.would_reject = admissions.would_reject().map(|limit| limit.name().into()).collect();
        }
    }
}

//! The end of a request: it is settled exactly once, however it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use http::StatusCode;
use tidegate_http::activity::Activity;
use tidegate_http::client::Trouble;
use tidegate_policy::endpoints::Outcome;

use crate::access_log::Record;
use crate::admission::Admissions;
use crate::attempt_hold::AttemptHold;
use crate::buffers::Lease;
use crate::client::Client;
use crate::cuts::Cut;
use crate::request_id::RequestId;
use crate::source::Source;
use crate::upstream::{Upstream, outcome_of};
use crate::worker::Worker;

/// What must happen when a request ends: its slots are given back, it is counted, it is logged. Made when the request
/// begins, dropped when the last byte of its response has been taken or the client has gone.
pub(crate) struct Settlement {
    worker: Arc<Worker>,
    client: Arc<Client>,
    pub(crate) started: Instant,
    /// The status of the response. 499: the client left before there was one.
    pub(crate) status: StatusCode,
    pub(crate) bytes: u64,
    /// Whether the whole response was handed over.
    pub(crate) is_whole: bool,
    /// What the request took at its limits. Its `Drop` gives it back.
    pub(crate) admissions: Admissions,
    pub(crate) upstream: Option<Arc<Upstream>>,
    /// What the request holds of its endpoint, until the endpoint has sent its response.
    pub(crate) hold: Option<AttemptHold>,
    pub(crate) record: Option<Box<Record>>,
    /// The request's id, once there is a response.
    pub(crate) id: Option<RequestId>,
    /// Where the response comes from, once there is one.
    pub(crate) source: Option<Source>,
    /// The gateway itself responded to it: metrics of requests leave it out.
    pub(crate) is_local: bool,
}

impl Settlement {
    /// Of a request that begins. The second value is how many connections of its client's address had requests under
    /// way, if with this one its connection has.
    pub(crate) fn begin(worker: &Arc<Worker>, client: &Arc<Client>) -> (Box<Self>, usize) {
        let busy_before = client.activity.request_began();
        worker.metrics().in_flight.fetch_add(1, Ordering::Relaxed);
        let settlement = Box::new(Self {
            worker: Arc::clone(worker),
            client: Arc::clone(client),
            started: Instant::now(),
            status: StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
            bytes: 0,
            is_whole: false,
            admissions: Admissions::default(),
            upstream: None,
            hold: None,
            record: None,
            id: None,
            source: None,
            is_local: false,
        });
        (settlement, busy_before)
    }

    /// The memory of so many bytes of the response that wait for their client.
    pub(crate) fn lease_of(&self, bytes: usize) -> Lease {
        let mut lease = Lease::new(&self.worker.gateway.metrics.buffers, bytes, usize::MAX);
        lease.add(bytes);
        lease
    }

    /// What happens on the client's connection.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.client.activity
    }

    /// Takes the line of the access log, for the last piece of the body: when that is sent, the request is complete.
    pub(crate) fn line(&mut self) -> Option<Box<AccessLogLine>> {
        let record = self.record.take()?;
        let (worker, status, bytes) = (Arc::clone(&self.worker), self.status, self.bytes);
        let (is_whole, started) = (self.is_whole, self.started);
        Some(Box::new(AccessLogLine { worker, record, status, bytes, is_whole, started }))
    }

    /// The response broke off. `hold` is what the request still held of its endpoint.
    pub(crate) fn broke_off(&mut self, trouble: &Trouble, hold: Option<&AttemptHold>) {
        if let (Some(upstream), Some(hold)) = (&self.upstream, hold) {
            let (gateway, pool) = (&self.worker.gateway, upstream.endpoints.pool());
            // How long the response took until then says nothing about the next one.
            let outcome = outcome_of(trouble, None);
            if let (Outcome::Failure { cause, .. }, Some(call)) = (outcome, hold.recorded_call()) {
                call.broke_off(cause, gateway.now());
            }
            if let Some(change) = pool.balancer.record(&hold.in_flight, outcome, gateway.now()) {
                gateway.note_endpoint_change(&upstream.name, &pool, change);
            }
        }
        if let Some(cut) = Cut::of(trouble) {
            self.worker.gateway.note_cut(cut, self.client.peer);
        }
        if let (Some(upstream), false) = (&self.upstream, trouble.is_clients()) {
            upstream.stats.metrics.failed(trouble.word());
            let id = self.id.as_ref().map_or("", RequestId::as_str);
            self.worker.gateway.note_trouble(&upstream.name, trouble, id);
        }
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        let took = self.started.elapsed();
        let metrics = self.worker.metrics();
        metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !self.is_local {
            metrics.ended(self.status, self.source, took);
        }
        if let (Some(record), Some(log)) = (self.record.take(), self.worker.gateway.access_log()) {
            log.write(&record, self.status, self.bytes, self.is_whole, took);
        }
        self.client.activity.request_ended();
    }
}

/// A line of the access log, written when this is dropped.
pub(crate) struct AccessLogLine {
    worker: Arc<Worker>,
    record: Box<Record>,
    status: StatusCode,
    bytes: u64,
    pub(crate) is_whole: bool,
    started: Instant,
}

impl Drop for AccessLogLine {
    fn drop(&mut self) {
        if let Some(log) = self.worker.gateway.access_log() {
            log.write(&self.record, self.status, self.bytes, self.is_whole, self.started.elapsed());
        }
    }
}

use std::convert::identity;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::alarm::Alarm;
use super::burner::Burner;
use super::fault_switch::FaultSwitch;
use super::station::{Occupancy, Ticket};
use super::{Station, Work};

/// A [`Station`] that requests come to, and the work of its workers.
///
/// A worker that is done begins the next service at once. Were that left to the request that waits, its turn would come
/// late among a flood of rejections, and the worker would be idle until then.
pub(super) struct Desk {
    station: Mutex<Station<Visitor>>,
    labour: Labour,
    pub(super) faults: FaultSwitch,
    visitors: AtomicU64,
}

/// A request that waits.
pub(super) struct Visitor {
    number: u64,
    over: oneshot::Sender<Option<BusyWorker>>,
}

enum Labour {
    Sleep(Alarm<Service>),
    Cpu(Burner<Service>),
}

impl Desk {
    pub(super) fn new(station: Station<Visitor>, work: Work) -> io::Result<Arc<Self>> {
        let labour = match work {
            Work::Sleep => Labour::Sleep(Alarm::new()?),
            Work::Cpu => Labour::Cpu(Burner::start(station.workers(), Service::end)?),
        };
        let (station, faults) = (Mutex::new(station), FaultSwitch::new());
        Ok(Arc::new(Self { station, labour, faults, visitors: AtomicU64::new(0) }))
    }

    /// Waits for a worker and for the end of the service; a request that hangs still has its worker then. None at once
    /// if the queue is full.
    pub(super) async fn serve(self: &Arc<Self>) -> Option<Option<BusyWorker>> {
        let (sender, over) = oneshot::channel();
        let number = self.visitors.fetch_add(1, Relaxed);
        let mut visit = Visit { desk: self, number, ticket: None, over };
        let began = {
            let mut station = self.station();
            let began = station.begin();
            if began.is_none() {
                visit.ticket = Some(station.wait(Visitor { number, over: sender })?);
                None
            } else {
                began.zip(Some(sender))
            }
        };
        if let Some((time, sender)) = began {
            let time = self.faults.now().slowed(time);
            let service = Service { worker: BusyWorker(Arc::clone(self)), over: sender };
            if time.is_zero() { service.end() } else { self.work(number, time, service) }
        }
        // The end of the service is sent by what does the work.
        Some((&mut visit.over).await.ok().and_then(identity))
    }

    /// Ends services when it is time to; runs as long as the desk is used.
    pub(super) async fn run(&self) -> io::Error {
        match &self.labour {
            Labour::Sleep(alarm) => alarm.ring(Service::end).await,
            Labour::Cpu(_) => std::future::pending().await,
        }
    }

    pub(super) fn occupancy(&self) -> Occupancy {
        self.station().occupancy()
    }

    /// A worker is free: the next request whose client is still there takes it.
    fn release(self: &Arc<Self>) {
        loop {
            let Some((visitor, time)) = self.station().finish() else { return };
            if !visitor.over.is_closed() {
                let service = Service { worker: BusyWorker(Arc::clone(self)), over: visitor.over };
                return self.work(visitor.number, self.faults.now().slowed(time), service);
            }
        }
    }

    /// Even a service that takes no time is not ended here: that would end the next, and so on down the queue.
    fn work(&self, number: u64, time: Duration, service: Service) {
        match &self.labour {
            Labour::Sleep(alarm) => alarm.keep(number, time, service),
            Labour::Cpu(burner) => burner.burn(time, service),
        }
    }

    fn station(&self) -> MutexGuard<'_, Station<Visitor>> {
        // Nothing panics half-way through a change of a station.
        self.station.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker that is busy until this is dropped.
pub(super) struct BusyWorker(Arc<Desk>);

impl Drop for BusyWorker {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A service under way. Dropped, its worker is free.
pub(super) struct Service {
    worker: BusyWorker,
    over: oneshot::Sender<Option<BusyWorker>>,
}

impl Service {
    /// It is over. The worker is free, unless all hangs.
    pub(super) fn end(self) {
        let Self { worker, over } = self;
        let held = worker.0.faults.now().hang.then_some(worker);
        // If the client has left, the worker is dropped with what could not be sent.
        let _sent = over.send(held);
    }
}

/// A request in the queue or at a worker, whose client may leave.
struct Visit<'a> {
    desk: &'a Arc<Desk>,
    number: u64,
    ticket: Option<Ticket>,
    over: oneshot::Receiver<Option<BusyWorker>>,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.over.close();
        // If its end has just been sent, the worker is dropped with it.
        let left = self.ticket.and_then(|ticket| self.desk.station().leave(ticket));
        if left.is_none()
            && let Labour::Sleep(alarm) = &self.desk.labour
        {
            drop(alarm.take(self.number));
        }
    }
}

#[cfg(test)]
mod tests;

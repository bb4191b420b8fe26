use std::convert::identity;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::cpu_threads::CpuThreads;
use super::fault_switch::FaultSwitch;
use super::precise_timer::PreciseTimer;
use super::station::{Occupancy, Ticket};
use super::{Station, Work};

/// A [`Station`] with a real clock: requests wait here, and its workers sleep or use the CPU.
///
/// A worker that is done begins the next service at once. Were that left to the request that waits, its turn would come
/// late among a flood of rejections, and the worker would be idle until then.
pub(super) struct LiveStation {
    station: Mutex<Station<WaitingRequest>>,
    executor: Executor,
    pub(super) faults: FaultSwitch,
    requests: AtomicU64,
}

/// A request that waits.
pub(super) struct WaitingRequest {
    number: u64,
    over: oneshot::Sender<Option<BusyWorker>>,
}

/// How a worker spends the time of a service.
enum Executor {
    Sleep(PreciseTimer<Service>),
    Cpu(CpuThreads<Service>),
}

impl LiveStation {
    pub(super) fn new(station: Station<WaitingRequest>, work: Work) -> io::Result<Arc<Self>> {
        let executor = match work {
            Work::Sleep => Executor::Sleep(PreciseTimer::new()?),
            Work::Cpu => Executor::Cpu(CpuThreads::start(station.workers(), Service::end)?),
        };
        let (station, faults) = (Mutex::new(station), FaultSwitch::new());
        Ok(Arc::new(Self { station, executor, faults, requests: AtomicU64::new(0) }))
    }

    /// Waits for a worker and for the end of the service; a request that hangs still has its worker then. None at once
    /// if the queue is full.
    pub(super) async fn serve(self: &Arc<Self>) -> Option<Option<BusyWorker>> {
        let (sender, over) = oneshot::channel();
        let number = self.requests.fetch_add(1, Relaxed);
        let mut pending = PendingRequest { station: self, number, ticket: None, over };
        let began = {
            let mut station = self.station();
            let began = station.begin();
            if began.is_none() {
                pending.ticket = Some(station.wait(WaitingRequest { number, over: sender })?);
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
        Some((&mut pending.over).await.ok().and_then(identity))
    }

    /// Ends services when it is time to; runs as long as the station is used.
    pub(super) async fn run(&self) -> io::Error {
        match &self.executor {
            Executor::Sleep(timer) => timer.run(Service::end).await,
            Executor::Cpu(_) => std::future::pending().await,
        }
    }

    pub(super) fn occupancy(&self) -> Occupancy {
        self.station().occupancy()
    }

    /// A worker is free: the next request whose client is still there takes it.
    fn release(self: &Arc<Self>) {
        loop {
            let Some((waiting, time)) = self.station().finish() else { return };
            if !waiting.over.is_closed() {
                let service = Service { worker: BusyWorker(Arc::clone(self)), over: waiting.over };
                return self.work(waiting.number, self.faults.now().slowed(time), service);
            }
        }
    }

    /// Even a service that takes no time is not ended here: that would end the next, and so on down the queue.
    fn work(&self, number: u64, time: Duration, service: Service) {
        match &self.executor {
            Executor::Sleep(timer) => timer.keep(number, time, service),
            Executor::Cpu(threads) => threads.burn(time, service),
        }
    }

    fn station(&self) -> MutexGuard<'_, Station<WaitingRequest>> {
        // Nothing panics half-way through a change of a station.
        self.station.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker that is busy until this is dropped.
pub(super) struct BusyWorker(Arc<LiveStation>);

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
struct PendingRequest<'a> {
    station: &'a Arc<LiveStation>,
    number: u64,
    ticket: Option<Ticket>,
    over: oneshot::Receiver<Option<BusyWorker>>,
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.over.close();
        // If its end has just been sent, the worker is dropped with it.
        let left = self.ticket.and_then(|ticket| self.station.station().leave(ticket));
        if left.is_none()
            && let Executor::Sleep(timer) = &self.station.executor
        {
            drop(timer.take(self.number));
        }
    }
}

#[cfg(test)]
mod tests;

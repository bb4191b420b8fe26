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
/// A worker that is done begins the next service at once, before anybody else is asked: were that left to the request that waits,
/// a flood of refusals, among which its turn comes late, would take the workers' time.
pub(super) struct Desk {
    station: Mutex<Station<Visitor>>,
    labour: Labour,
    pub(super) faults: FaultSwitch,
    visitors: AtomicU64,
}

/// Somebody who waits.
pub(super) struct Visitor {
    number: u64,
    over: oneshot::Sender<Option<Place>>,
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

    /// Waits for a worker and for the end of the service; what hangs still has its worker then. None at once if the queue is
    /// full.
    pub(super) async fn serve(self: &Arc<Self>) -> Option<Option<Place>> {
        let (told, over) = oneshot::channel();
        let number = self.visitors.fetch_add(1, Relaxed);
        let mut visit = Visit { desk: self, number, ticket: None, over };
        let began = {
            let mut station = self.station();
            let began = station.begin();
            if began.is_none() {
                visit.ticket = Some(station.wait(Visitor { number, over: told })?);
                None
            } else {
                began.zip(Some(told))
            }
        };
        if let Some((time, told)) = began {
            let time = self.faults.now().slowed(time);
            let service = Service { place: Place(Arc::clone(self)), over: told };
            if time.is_zero() { service.end() } else { self.work(number, time, service) }
        }
        // Whoever works tells the end.
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

    /// A worker is free: the next who is still there has it.
    fn release(self: &Arc<Self>) {
        loop {
            let Some((visitor, time)) = self.station().finish() else { return };
            if !visitor.over.is_closed() {
                let service = Service { place: Place(Arc::clone(self)), over: visitor.over };
                return self.work(visitor.number, self.faults.now().slowed(time), service);
            }
        }
    }

    /// Even what takes no time is not ended here, but by whoever works: that would end the next, and so on down the queue.
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

/// A worker, until it is dropped.
pub(super) struct Place(Arc<Desk>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A service under way. Dropped, its worker is free.
pub(super) struct Service {
    place: Place,
    over: oneshot::Sender<Option<Place>>,
}

impl Service {
    /// It is over. The worker is free, unless all hangs.
    pub(super) fn end(self) {
        let Self { place, over } = self;
        let held = place.0.faults.now().hang.then_some(place);
        // Who has left does not take the worker along: it is dropped with what could not be sent.
        let _told = over.send(held);
    }
}

/// A request in the queue or at a worker, whose client may leave.
struct Visit<'a> {
    desk: &'a Arc<Desk>,
    number: u64,
    ticket: Option<Ticket>,
    over: oneshot::Receiver<Option<Place>>,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.over.close();
        // If its end has been told meanwhile, the worker is dropped with what was told.
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

//! Opening a connection to an endpoint, within the bounds of the endpoint and of the process.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::connect::connect_to;
use super::connection::Connection;
use super::endpoint::{Endpoint, Room};
use super::slots::Waiter;
use super::trouble::Trouble;
use crate::deadlines::{Deadlines, Owner, TICK};
use crate::descriptors::{Descriptors, is_out_of_files};
use crate::eviction::Eviction;
use crate::stream::Stream;

/// How long to wait after something was closed before a descriptor is opened in its place.
const FILE_PATIENCE: Duration = Duration::from_millis(5);

/// The worker that sends: its connection pools, deadlines and descriptors.
pub struct Local<'a> {
    /// The worker's index.
    pub worker: usize,
    /// The worker's deadlines.
    pub deadlines: &'a Arc<Deadlines>,
    /// The descriptors for new connections.
    pub descriptors: &'a Arc<Descriptors>,
    /// Closes an idle connection to any endpoint, or ends a request that waits for its client. Returns whether it found
    /// one.
    pub close_idle: &'a (dyn Fn() -> bool + Sync),
    /// Ends a request of this owner that waits for its client, for one that has waited since then.
    pub evict: &'a (dyn Fn(Owner, std::time::Instant) -> Eviction + Sync),
    /// Closes something that can be spared, after the system has refused another descriptor.
    pub free_a_file: &'a (dyn Fn() + Sync),
    /// There is room for a connection, and it is being made: from now on the endpoint is waited for.
    pub connecting: &'a (dyn Fn() + Sync),
}

/// Opens a connection, TLS included, within the endpoint's `connect_timeout`. Waiting for a slot or a descriptor has as
/// much time of its own: it must not look as if the endpoint were slow. Where one has become idle it is that one; if it
/// should be `new`, only where there is no other way.
pub(super) async fn open(endpoint: &Endpoint, local: &Local<'_>, new: bool) -> Result<Box<Connection>, Trouble> {
    let until = Instant::now() + endpoint.bounds.connect_timeout;
    let room = if new { endpoint.room_for_new() } else { None };
    let room = match room {
        Some(room) => room,
        None => take_slot(endpoint, local, until).await.ok_or(Trouble::Full)?,
    };
    let slot = match room {
        Room::Kept(connection) => return Ok(connection),
        Room::Slot(slot) => slot,
    };
    let descriptor = local.descriptors.take(until, local.close_idle).await.ok_or(Trouble::OutOfFiles)?;
    (local.connecting)();
    let stream = connect(endpoint, local, Instant::now() + endpoint.bounds.connect_timeout).await?;
    let deadline = local.deadlines.deadline(endpoint.pools.owner);
    Ok(Connection::new(stream, local.worker, deadline, slot, descriptor))
}

/// Takes a slot for a connection, or one that is idle. Neither an idle connection of any worker nor a client that is
/// waited for may be the reason to reject a request. Requests that wait are served in the order in which they came; how
/// many there are is bounded by the requests that clients may have under way.
async fn take_slot(endpoint: &Endpoint, local: &Local<'_>, until: Instant) -> Option<Room> {
    let slots = &endpoint.pools.slots;
    if let Some(room) = endpoint.room(local.worker, slots.waiting()) {
        return Some(room);
    }
    let since = Instant::now();
    let mut waiter = Waiter::new(slots);
    // One may have become free before this request was among those that wait.
    let mut room = endpoint.room(local.worker, waiter.others());
    let mut evicts_from = since;
    while room.is_none() {
        let now = Instant::now();
        if now >= until {
            return None;
        }
        if now >= evicts_from {
            match (local.evict)(endpoint.pools.owner, since.into_std()) {
                Eviction::AllBusy => return endpoint.room(local.worker, waiter.others()),
                // Its end takes a moment: until then no other is needed.
                Eviction::Started | Eviction::NotYet => evicts_from = now + TICK,
            }
        }
        let is_woken = waiter.wait(until.min(evicts_from)).await;
        room = endpoint.room(local.worker, if is_woken { 0 } else { waiter.others() });
    }
    room
}

/// Connects to an endpoint. If the system opens no more descriptors, something that can be spared is closed first: the
/// endpoint is not at fault.
async fn connect(endpoint: &Endpoint, local: &Local<'_>, until: Instant) -> Result<Stream, Trouble> {
    loop {
        match connect_to(&[endpoint.address], endpoint.tls.as_deref(), until).await {
            Err(Trouble::Connect(error)) if is_out_of_files(&error) => {
                (local.free_a_file)();
                if Instant::now() + FILE_PATIENCE >= until {
                    return Err(Trouble::OutOfFiles);
                }
                tokio::time::sleep(FILE_PATIENCE).await;
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::yield_now;

    use super::*;

    /// Two workers, and an endpoint with this many connections.
    struct Site {
        endpoint: Arc<Endpoint>,
        deadlines: Arc<Deadlines>,
        descriptors: Arc<Descriptors>,
    }

    impl Site {
        fn new(max_connections: usize) -> Self {
            let endpoint = Endpoint::on_loopback(1, max_connections);
            Self { endpoint, deadlines: Deadlines::new(), descriptors: Descriptors::new(8) }
        }

        /// Takes a slot or an idle connection, at most within 20 s.
        async fn take(&self, worker: usize, eviction: Eviction) -> Option<Room> {
            let local = Local {
                worker,
                deadlines: &self.deadlines,
                descriptors: &self.descriptors,
                close_idle: &|| false,
                evict: if eviction == Eviction::NotYet { &|_, _| Eviction::NotYet } else { &|_, _| Eviction::AllBusy },
                free_a_file: &|| {},
                connecting: &|| {},
            };
            take_slot(&self.endpoint, &local, Instant::now() + Duration::from_secs(20)).await
        }

        /// An open connection in this slot.
        async fn connection(&self, slot: Room) -> (Box<Connection>, TcpStream) {
            let Room::Slot(slot) = slot else { panic!("a slot") };
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let address = listener.local_addr().expect("an address");
            let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
            let descriptor = self.descriptors.take(Instant::now(), || false).await.expect("one is free");
            let deadline = self.deadlines.deadline(self.endpoint.pools.owner);
            let stream = Stream::Plain(client.expect("a connection"));
            (Connection::new(stream, 0, deadline, slot, descriptor), server.expect("a connection").0)
        }
    }

    /// A request that polled for a slot lost it to every newcomer that came at the right moment.
    #[tokio::test(start_paused = true)]
    async fn a_newcomer_does_not_take_the_slot_that_another_request_waits_for() {
        let site = Site::new(1);
        let held = site.take(0, Eviction::AllBusy).await.expect("one is free");
        let newcomer = async {
            yield_now().await;
            drop(held);
            site.take(0, Eviction::AllBusy).await.is_some()
        };
        let (waits, newcomer) = tokio::join!(site.take(0, Eviction::NotYet), newcomer);
        assert!(waits.is_some() && !newcomer);
        drop(waits);
        assert!(site.take(0, Eviction::AllBusy).await.is_some(), "nobody waits any more");
    }

    /// They looked every 5 ms: so long each connection lay idle while requests waited for it.
    #[tokio::test(start_paused = true)]
    async fn what_becomes_free_goes_at_once_to_the_request_that_has_waited_longest() {
        let site = Site::new(1);
        let mut held = site.take(0, Eviction::AllBusy).await;
        let start = Instant::now();
        let mut waiting: Vec<_> = (0..5).map(|_| Box::pin(site.take(0, Eviction::NotYet))).collect();
        for waits in &mut waiting {
            assert!(tokio::time::timeout(Duration::ZERO, waits.as_mut()).await.is_err());
        }
        for (number, waits) in waiting.iter_mut().enumerate() {
            drop(held.take());
            held = waits.as_mut().await;
            assert!(held.is_some(), "{number}");
        }
        assert!(start.elapsed() < Duration::from_millis(5), "{:?}", start.elapsed());
    }

    /// With one request that waited, one slot that was free and one idle connection it was rejected.
    #[tokio::test(start_paused = true)]
    async fn a_newcomer_is_not_rejected_while_more_is_free_than_others_wait_for() {
        let site = Site::new(2);
        let (one, other) = (site.take(0, Eviction::AllBusy).await, site.take(0, Eviction::AllBusy).await);
        let mut waits = Box::pin(site.take(0, Eviction::NotYet));
        assert!(tokio::time::timeout(Duration::ZERO, waits.as_mut()).await.is_err());
        drop((one, other));
        let newcomer = site.take(0, Eviction::AllBusy).await;
        assert!(newcomer.is_some() && site.take(0, Eviction::AllBusy).await.is_none());
        assert!(waits.await.is_some());
    }

    /// Its own worker had none, so the connection was closed and another one made.
    #[tokio::test]
    async fn a_request_that_waits_gets_the_idle_connection_of_another_worker_which_returns_there() {
        let mut site = Site::new(1);
        Arc::get_mut(&mut site.endpoint).expect("not shared").pools = Arc::new(crate::client::Pools::new(2));
        let slot = site.take(0, Eviction::AllBusy).await.expect("one is free");
        let (connection, _server) = site.connection(slot).await;
        let frees = async {
            yield_now().await;
            site.endpoint.keep(connection);
        };
        let (waits, ()) = tokio::join!(site.take(1, Eviction::NotYet), frees);
        let Some(Room::Kept(connection)) = waits else { panic!("the idle one") };
        assert!(connection.reused);
        site.endpoint.keep(connection);
        assert!(site.endpoint.idle_connection(1).is_none() && site.endpoint.idle_connection(0).is_some());
    }

    /// A client that leaves while it is its turn passes it on.
    #[tokio::test(start_paused = true)]
    async fn a_request_that_ends_when_it_is_its_turn_lets_the_next_one_go_on() {
        let site = Site::new(1);
        let held = site.take(0, Eviction::AllBusy).await;
        let (mut first, mut second) =
            (Box::pin(site.take(0, Eviction::NotYet)), Box::pin(site.take(0, Eviction::NotYet)));
        for waits in [&mut first, &mut second] {
            assert!(tokio::time::timeout(Duration::ZERO, waits.as_mut()).await.is_err());
        }
        let start = Instant::now();
        drop(held);
        drop(first);
        assert!(second.await.is_some());
        assert!(start.elapsed() < Duration::from_millis(5), "{:?}", start.elapsed());
    }
}

//! Opening a connection to an endpoint, within the bounds of the endpoint and of the process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::connect::connect_to;
use super::connection::{Connection, Slot};
use super::endpoint::Endpoint;
use super::trouble::Trouble;
use crate::deadlines::{Deadlines, Owner, TICK};
use crate::descriptors::{Descriptors, Waiting, is_out_of_files};
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
    /// Ends a request of this owner that waits for its client.
    pub evict: &'a (dyn Fn(Owner) -> Eviction + Sync),
    /// Closes something that can be spared, after the system has refused another descriptor.
    pub free_a_file: &'a (dyn Fn() + Sync),
}

/// Opens a connection, TLS included, within the endpoint's `connect_timeout`. Waiting for a slot or a descriptor has as
/// much time of its own: it must not look as if the endpoint were slow.
pub(super) async fn open(endpoint: &Endpoint, local: &Local<'_>) -> Result<Box<Connection>, Trouble> {
    let until = Instant::now() + endpoint.bounds.connect_timeout;
    let slot = match take_slot(endpoint, local, until).await.ok_or(Trouble::Full)? {
        Room::Kept(connection) => return Ok(connection),
        Room::Slot(slot) => slot,
    };
    let descriptor = local.descriptors.take(until, local.close_idle).await.ok_or(Trouble::OutOfFiles)?;
    let stream = connect(endpoint, local, Instant::now() + endpoint.bounds.connect_timeout).await?;
    Ok(Connection::new(stream, local.deadlines.deadline(endpoint.pools.owner), slot, descriptor))
}

/// What a request gets that needs a connection.
enum Room {
    /// A slot for a new one.
    Slot(Slot),
    /// One that has become idle.
    Kept(Box<Connection>),
}

/// Takes a slot for a connection. Neither an idle connection of any worker nor a client that is waited for may be the
/// reason to reject a request.
async fn take_slot(endpoint: &Endpoint, local: &Local<'_>, until: Instant) -> Option<Room> {
    let pools = &endpoint.pools;
    let slot = |reserved| Slot::take(&pools.open, endpoint.bounds.max_connections.saturating_sub(reserved));
    let slot_or_idle = || slot(0).or_else(|| endpoint.close_one_idle().then(|| slot(0)).flatten());
    // Those that wait already come first.
    let waiting = pools.waiting.load(Ordering::SeqCst);
    if let Some(slot) = if waiting == 0 { slot_or_idle() } else { slot(waiting) } {
        return Some(Room::Slot(slot));
    }
    let _waiting = Waiting::new(&pools.waiting);
    let mut evicts_from = Instant::now();
    loop {
        let now = Instant::now();
        if now + FILE_PATIENCE >= until {
            return None;
        }
        if now >= evicts_from {
            match (local.evict)(pools.owner) {
                Eviction::AllBusy => return None,
                // Its end takes a moment: until then no other is needed.
                Eviction::Started => evicts_from = now + TICK,
                Eviction::NotYet => {}
            }
        }
        tokio::time::sleep(FILE_PATIENCE).await;
        if let Some(connection) = endpoint.idle_beyond(local.worker, 0) {
            return Some(Room::Kept(connection));
        }
        if let Some(slot) = slot_or_idle() {
            return Some(Room::Slot(slot));
        }
    }
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
    use tokio::task::yield_now;

    use super::*;

    /// A request that polled for a slot lost it to every newcomer that came at the right moment.
    #[tokio::test(start_paused = true)]
    async fn a_newcomer_does_not_take_the_slot_that_another_request_waits_for() {
        let endpoint = Endpoint::on_loopback(1, 1);
        let (deadlines, descriptors) = (Deadlines::new(), Descriptors::new(8));
        let local = |eviction| Local {
            worker: 0,
            deadlines: &deadlines,
            descriptors: &descriptors,
            close_idle: &|| false,
            evict: if eviction == Eviction::NotYet { &|_| Eviction::NotYet } else { &|_| Eviction::AllBusy },
            free_a_file: &|| {},
        };
        let until = Instant::now() + Duration::from_secs(20);
        let (patient, hurried) = (local(Eviction::NotYet), local(Eviction::AllBusy));
        let held = take_slot(&endpoint, &hurried, until).await.expect("one is free");
        let waits = take_slot(&endpoint, &patient, until);
        let newcomer = async {
            yield_now().await;
            drop(held);
            take_slot(&endpoint, &hurried, until).await.is_some()
        };
        let (waits, newcomer) = tokio::join!(waits, newcomer);
        assert!(waits.is_some() && !newcomer);
        drop(waits);
        assert!(take_slot(&endpoint, &hurried, until).await.is_some(), "nobody waits any more");
    }
}

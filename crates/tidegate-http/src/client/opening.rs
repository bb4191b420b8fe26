//! Opening a connection to an endpoint, within the bounds of the endpoint and of the process.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::connect::connect_to;
use super::connection::{Connection, Slot};
use super::endpoint::Endpoint;
use super::trouble::Trouble;
use crate::deadlines::{Deadlines, Owner};
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
    /// Ends a request of this owner that waits for its client.
    pub evict: &'a (dyn Fn(Owner) -> Eviction + Sync),
    /// Closes something that can be spared, after the system has refused another descriptor.
    pub free_a_file: &'a (dyn Fn() + Sync),
}

/// Opens a connection, TLS included, within the endpoint's `connect_timeout`.
pub(super) async fn open(endpoint: &Endpoint, local: &Local<'_>) -> Result<Connection, Trouble> {
    let until = Instant::now() + endpoint.bounds.connect_timeout;
    let slot = take_slot(endpoint, local, until).await.ok_or(Trouble::Full)?;
    let descriptor = local.descriptors.take(until, local.close_idle).await.ok_or(Trouble::OutOfFiles)?;
    let stream = connect(endpoint, local, until).await?;
    Ok(Connection::new(stream, local.deadlines.deadline(endpoint.pools.owner), slot, descriptor))
}

/// Takes a slot for a connection. Neither an idle connection of any worker nor a client that is waited for may be the
/// reason to reject a request.
async fn take_slot(endpoint: &Endpoint, local: &Local<'_>, until: Instant) -> Option<Slot> {
    let slot = || Slot::take(&endpoint.pools.open, endpoint.bounds.max_connections);
    loop {
        if let Some(slot) = slot().or_else(|| endpoint.close_one_idle().then(slot).flatten()) {
            return Some(slot);
        }
        let is_hopeless = (local.evict)(endpoint.pools.owner) == Eviction::AllBusy;
        if is_hopeless || Instant::now() + FILE_PATIENCE >= until {
            return None;
        }
        tokio::time::sleep(FILE_PATIENCE).await;
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

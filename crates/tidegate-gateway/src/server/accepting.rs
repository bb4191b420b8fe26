//! Accepts clients, as long as there are slots for them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_http::deadlines::TICK;
use tidegate_http::descriptors::is_out_of_files;
use tidegate_serve::Shutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;

use super::connection::{self, Held};
use crate::client_shares::CountedConnection;
use crate::listener::{BACKLOG, Listener, Socket};
use crate::worker::{Open, Worker};

/// How long no client is accepted after an error that would come again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Accepts until the gateway stops, and then the clients that are in the queue.
pub(super) async fn accept(worker: Arc<Worker>, (listener, socket): Socket, mut shutdown: Shutdown) {
    let socket = match TcpListener::from_std(socket) {
        Ok(socket) => socket,
        Err(error) => {
            worker.gateway.log.error("Gateway", format_args!("can't accept on {}: {error}", listener.address));
            return;
        }
    };
    let mut waiting = Vec::new();
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = socket.accept() => accepted,
            () = shutdown.wanted() => break,
        };
        match accepted {
            Ok((tcp, peer)) => {
                let accepted = (tcp, peer);
                let Ok(share) = worker.count_connection(peer.ip(), listener.is_admin) else { continue };
                // While no slot is free, other clients wait in the kernel's queue.
                let slot = tokio::select! {
                    biased;
                    slot = worker.acquire_slot() => slot,
                    () = shutdown.wanted() => {
                        waiting.push((accepted, share));
                        break;
                    }
                };
                let Some(slot) = slot else { return };
                serve(&worker, &listener, accepted, share, slot);
            }
            Err(error) if is_clients(&error) => {}
            Err(error) => {
                worker.gateway.note_not_accepted(&error);
                let mut pause = ACCEPT_PAUSE;
                if is_out_of_files(&error) {
                    // What is closed now frees a descriptor in a moment. If nothing can be closed, a request may end.
                    worker.free_a_file();
                    pause = TICK;
                }
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = shutdown.wanted() => break,
                }
            }
        }
    }
    // Clients in the queue when the order to stop comes are still served, as soon as a slot is free. Later ones are
    // rejected.
    for (tcp, peer) in queued(socket) {
        if let Ok(share) = worker.count_connection(peer.ip(), listener.is_admin) {
            waiting.push(((tcp, peer), share));
        }
    }
    for (accepted, share) in waiting {
        let Some(slot) = worker.acquire_slot().await else { return };
        serve(&worker, &listener, accepted, share, slot);
    }
}

/// Whether a client left before it could be accepted. All other errors would come again at once, such as that no
/// descriptors are left: they need a pause.
fn is_clients(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
}

/// Accepts all connections in a listening socket's queue, and closes the socket. Not through tokio, which knows only
/// what its last poll reported.
fn queued(socket: TcpListener) -> Vec<(TcpStream, SocketAddr)> {
    let Ok(socket) = socket.into_std() else { return Vec::new() };
    let accept = || {
        let (tcp, peer) = socket.accept()?;
        tcp.set_nonblocking(true)?;
        Ok((TcpStream::from_std(tcp)?, peer))
    };
    let is_there = |accepted: &io::Result<_>| !accepted.as_ref().is_err_and(is_clients);
    // No more than the queue can hold: otherwise this might never end.
    let accepted = (0..=BACKLOG).map(|_| accept()).filter(is_there);
    accepted.map_while(io::Result::ok).collect()
}

/// Serves a client that has connected, in a task of its own.
fn serve(
    worker: &Arc<Worker>,
    listener: &Arc<Listener>,
    (tcp, peer): (TcpStream, SocketAddr),
    counted: Option<CountedConnection>,
    slot: OwnedSemaphorePermit,
) {
    let held = Held { _open: Open::new(worker), counted, _slot: slot };
    tokio::spawn(connection::serve(Arc::clone(worker), Arc::clone(listener), tcp, peer, held));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ENOMEM and ENOBUFS come again at once, too: a loop without a pause would take a core from clients that are
    /// served.
    #[test]
    fn every_error_that_no_client_caused_pauses_accepting() {
        assert!(is_clients(&io::ErrorKind::ConnectionAborted.into()));
        // ENOMEM, ENFILE, EMFILE, ENOBUFS
        assert!(![12, 23, 24, 105].map(io::Error::from_raw_os_error).iter().any(is_clients));
    }
}

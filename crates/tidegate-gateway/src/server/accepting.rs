//! Accepting clients, as long as there is room for them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_http::deadlines::TICK;
use tidegate_http::descriptors::is_out_of_files;
use tidegate_serve::Shutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;

use super::connection;
use crate::listener::{BACKLOG, Listener, Socket};
use crate::worker::{Open, Worker};

/// How long nobody is accepted after an error that would come again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Accepts until the gateway stops, and then whoever is in the queue.
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
            Ok(accepted) => {
                // While there is no room nobody else is accepted: they wait in the kernel's queue.
                let room = tokio::select! {
                    biased;
                    room = worker.enter() => room,
                    () = shutdown.wanted() => {
                        waiting.push(accepted);
                        break;
                    }
                };
                let Some(room) = room else { return };
                welcome(&worker, &listener, accepted, room);
            }
            Err(error) if is_clients(&error) => {}
            Err(error) => {
                worker.gateway.note_not_accepted(&error);
                let mut pause = ACCEPT_PAUSE;
                if is_out_of_files(&error) {
                    // What is closed now is gone in a moment; where there is nothing to close, some request may just end.
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
    // Whoever is in the queue when the order to stop comes is still served, as soon as there is room. Those who come later are refused.
    waiting.extend(queued(socket));
    for accepted in waiting {
        let Some(room) = worker.enter().await else { return };
        welcome(&worker, &listener, accepted, room);
    }
}

/// Whether a client left before it could be accepted. Everything else would fail again at once, such as descriptors that have run out:
/// there must be a pause.
fn is_clients(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
}

/// Everyone in a listening socket's queue, which ends with it. The kernel is asked: tokio would only know what it has been told.
fn queued(socket: TcpListener) -> Vec<(TcpStream, SocketAddr)> {
    let Ok(socket) = socket.into_std() else { return Vec::new() };
    let accept = || {
        let (tcp, peer) = socket.accept()?;
        tcp.set_nonblocking(true)?;
        Ok((TcpStream::from_std(tcp)?, peer))
    };
    let is_there = |accepted: &io::Result<_>| !accepted.as_ref().is_err_and(is_clients);
    // No more than the queue can hold: others might come for ever.
    let accepted = (0..=BACKLOG).map(|_| accept()).filter(is_there);
    accepted.map_while(io::Result::ok).collect()
}

/// Serves a client that has connected.
fn welcome(
    worker: &Arc<Worker>,
    listener: &Arc<Listener>,
    (tcp, peer): (TcpStream, SocketAddr),
    room: OwnedSemaphorePermit,
) {
    let (worker, listener, open) = (Arc::clone(worker), Arc::clone(listener), Open::new(worker));
    tokio::spawn(async move {
        connection::serve(&worker, &listener, tcp, peer).await;
        drop((open, room));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ENOMEM and ENOBUFS come back at once, too: a loop without a pause would take a core from those who are served.
    #[test]
    fn whatever_is_not_a_clients_own_doing_pauses_the_accepting() {
        assert!(is_clients(&io::ErrorKind::ConnectionAborted.into()));
        // ENOMEM, ENFILE, EMFILE, ENOBUFS
        assert!(![12, 23, 24, 105].map(io::Error::from_raw_os_error).iter().any(is_clients));
    }
}

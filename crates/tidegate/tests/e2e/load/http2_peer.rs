//! A server of HTTP/2 that says goodbye, or falls silent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http::{Response, StatusCode};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// What the server does on a connection.
#[derive(Clone, Copy)]
pub(crate) enum Manner {
    /// Responds to so many requests, and then says goodbye: what came after the last one it began with is for others.
    Leaving(u32),
    /// The first connection never gets a response, the others do.
    SilentAtFirst,
}

pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicU32>,
    _runtime: Runtime,
}

impl Peer {
    pub(crate) fn start(manner: Manner) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&connections);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(converse(stream, manner, number));
            }
        });
        Self { address, connections, _runtime: runtime }
    }
}

async fn converse(stream: tokio::net::TcpStream, manner: Manner, number: u32) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let (mut responded, mut held) = (0, Vec::new());
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        if matches!(manner, Manner::SilentAtFirst) && number == 0 {
            held.push(respond);
            continue;
        }
        let response = Response::builder().status(StatusCode::OK).body(()).expect("an answer");
        if let Ok(mut body) = respond.send_response(response, false) {
            let _sent = body.send_data(Bytes::from_static(b"OK"), true);
        }
        responded += 1;
        if matches!(manner, Manner::Leaving(most) if responded == most) {
            connection.graceful_shutdown();
        }
    }
}

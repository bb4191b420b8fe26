//! A service of ours on a thread of its own, as it runs in a process of its own.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate_serve::{Shutdown, ShutdownHandle};
use tokio::net::TcpListener;

/// How long a service may take until it listens, and until it has ended.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Receives the address at which a service listens, or why it does not.
pub(super) type Ready = mpsc::Sender<Result<SocketAddr, String>>;

/// A service that runs.
pub(super) struct Hosted {
    /// Where it listens.
    pub(super) address: SocketAddr,
    stop: ShutdownHandle,
    thread: Option<JoinHandle<()>>,
}

impl Hosted {
    /// Starts one. What it serves with is made on its own thread, where its sockets belong.
    pub(super) fn start<F>(
        name: &str,
        serve: impl FnOnce(Shutdown, Ready) -> F + Send + 'static,
    ) -> Result<Self, String>
    where
        F: Future<Output = ()>,
    {
        let (ready, is_ready) = mpsc::channel();
        let stop = ShutdownHandle::new();
        let observer = stop.observer();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => {
                    runtime.block_on(serve(observer, ready));
                    runtime.shutdown_background();
                }
                Err(error) => drop(ready.send(Err(error.to_string()))),
            }
        });
        let thread = thread.map_err(|error| format!("{name} can't start: {error}"))?;
        let address = is_ready.recv_timeout(TIMEOUT).unwrap_or_else(|_| Err("it does not become ready".to_owned()));
        let address = address.map_err(|error| format!("{name} can't start: {error}"))?;
        Ok(Self { address, stop, thread: Some(thread) })
    }
}

/// Stops it and waits for its end, for a bounded time.
impl Drop for Hosted {
    fn drop(&mut self) {
        self.stop.fire();
        let Some(thread) = self.thread.take() else { return };
        let until = std::time::Instant::now() + TIMEOUT;
        while !thread.is_finished() && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        if thread.is_finished() {
            // A panic has printed its own message.
            let _ended = thread.join();
        }
    }
}

/// A service and its socket, if it has both. Reports the address, or why there is none.
pub(super) async fn listening<T>(
    service: Result<T, String>,
    address: SocketAddr,
    ready: &Ready,
) -> Option<(T, TcpListener)> {
    let bound = TcpListener::bind(address).await.map_err(|error| format!("{address}: {error}"));
    let both = service.and_then(|service| bound.map(|listener| (service, listener)));
    let address = both.as_ref().map_err(Clone::clone);
    let address = address.and_then(|(_, listener)| listener.local_addr().map_err(|error| error.to_string()));
    let _heard = ready.send(address);
    both.ok()
}

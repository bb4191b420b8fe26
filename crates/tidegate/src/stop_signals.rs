//! Signals that stop the process: SIGTERM and Ctrl-C.

use anyhow::Result;
use tidegate_serve::{Log, ShutdownHandle};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit code after a second stop signal.
pub(crate) const CUT_OFF: u8 = 130;

/// SIGTERM and Ctrl-C.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Listens for them. From now on neither ends the process by itself.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Stops the service at the first signal, and returns at the second: then it must end at once.
    pub(crate) async fn stop_service(&mut self, component: &str, stop: &ShutdownHandle, log: &Log) {
        self.next().await;
        log.info(component, "stopping: requests under way may end");
        stop.fire();
        self.next().await;
        log.warn(component, "stopping at once: requests under way are cut off");
    }
}

//! A stand-in for Redis, to be killed, and to hang.

use std::net::{Ipv4Addr, SocketAddr};

use super::hosted::{Hosted, listening};

/// A stand-in that is served on a thread of its own.
pub(super) struct StandIn {
    address: SocketAddr,
    memory: tidegate_store::StandIn,
    hosted: Option<Hosted>,
}

impl StandIn {
    /// Starts one on a free port.
    pub(super) fn start() -> Result<Self, String> {
        let memory = tidegate_store::StandIn::new();
        let hosted = serve(&memory, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        Ok(Self { address: hosted.address, memory, hosted: Some(hosted) })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its connections end, and it forgets everything.
    pub(super) fn kill(&mut self) {
        self.hosted = None;
        self.memory.forget();
    }

    /// Starts it again at the same address, without any data.
    pub(super) fn restart(&mut self) -> Result<(), String> {
        self.kill();
        self.hosted = Some(serve(&self.memory, self.address)?);
        Ok(())
    }

    /// It stops responding, or responds again.
    pub(super) fn hang(&self, begins: bool) {
        if begins { self.memory.hang() } else { self.memory.go_on() }
    }
}

fn serve(memory: &tidegate_store::StandIn, address: SocketAddr) -> Result<Hosted, String> {
    let memory = memory.clone();
    Hosted::start("stand-in", move |mut stop, ready| async move {
        if let Some((memory, listener)) = listening(Ok(memory), address, &ready).await {
            memory.run(listener, stop.wanted()).await;
        }
    })
}

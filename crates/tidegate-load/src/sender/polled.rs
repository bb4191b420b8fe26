//! A connection under a protocol that is polled: by a sender that knows from the kernel when there is something to do,
//! so that nobody needs to be woken.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::wire::Wire;

/// What has come, and what may come before others have their turn.
#[derive(Debug, Default)]
pub(super) struct Intake {
    /// Bytes in all.
    pub(super) heard: Cell<u64>,
    /// Bytes that may be read in this turn.
    pub(super) allowed: Cell<usize>,
}

/// A connection that is polled.
pub(super) struct Polled {
    wire: Wire,
    intake: Rc<Intake>,
}

impl Polled {
    pub(super) fn new(wire: Wire, intake: Rc<Intake>) -> Self {
        Self { wire, intake }
    }
}

impl AsyncRead for Polled {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let allowed = self.intake.allowed.get();
        let room = into.initialize_unfilled();
        let most = room.len().min(allowed);
        // A connection out of turn looks as if nothing had come; the sender comes back without an event.
        if most == 0 {
            return Poll::Pending;
        }
        match self.wire.read(&mut room[..most]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
            Ok(read) => {
                self.intake.allowed.set(allowed - read);
                self.intake.heard.set(self.intake.heard.get() + read as u64);
                into.advance(read);
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for Polled {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.wire.write(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
            done => Poll::Ready(done),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.wire.flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

//! A connection that carries one request at a time.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use bytes::{Buf as _, Bytes};

use super::exchange::{Done, Exchange, Failure};
use super::poller::Ready;
use crate::record::Cause;
use crate::response::ResponseReader;
use crate::wire::{Secured, Wire};

/// A connection of HTTP/1.1.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Http1 {
    pub(super) wire: Wire,
    is_connected: bool,
    /// What could not be sent at once: a head and a small body, then a large body, which all requests share.
    unsent: Bytes,
    unsent_body: Bytes,
    response: ResponseReader,
    exchange: Option<Exchange>,
    is_usable: bool,
    /// There may be more to read than was read in one go.
    has_more: bool,
    /// The other side has closed, which is reported only once: what it sent before may still have to be read.
    is_closed: bool,
}

/// How often a connection is read in one go: a response without end must not keep others from being sent and read.
const READS_AT_ONCE: usize = 4;

impl Http1 {
    pub(super) fn open(address: SocketAddr, secured: Option<&Secured>, is_head: bool) -> io::Result<Self> {
        Ok(Self {
            wire: Wire::open(address, secured)?,
            is_connected: false,
            unsent: Bytes::new(),
            unsent_body: Bytes::new(),
            response: ResponseReader::new(is_head),
            exchange: None,
            is_usable: true,
            has_more: false,
            is_closed: false,
        })
    }

    /// Whether another request may be sent on it.
    pub(super) fn is_free(&self) -> bool {
        self.is_usable && self.exchange.is_none()
    }

    /// Whether it must be read again without an event from the kernel.
    pub(super) fn has_more(&self) -> bool {
        self.has_more && self.is_usable
    }

    pub(super) fn is_usable(&self) -> bool {
        self.is_usable
    }

    /// Sends a request, as far as that can be done now: its head, and the body that may come behind.
    pub(super) fn send(&mut self, exchange: Exchange, head: &[u8], body: Bytes, done: &mut Vec<Done>) {
        self.exchange = Some(exchange);
        self.response.reset();
        self.unsent_body = body;
        let mut rest = head;
        // To the end or until it would wait: there is no event when TLS has room again.
        while self.is_connected && !rest.is_empty() {
            match self.wire.write(rest) {
                Ok(sent) => rest = &rest[sent..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return self.fail(Failure::of(&error), done),
            }
        }
        if !rest.is_empty() {
            self.unsent = Bytes::copy_from_slice(rest);
        } else if self.has_unsent()
            && let Err(error) = self.send_rest()
        {
            self.fail(Failure::of(&error), done);
        }
    }

    fn has_unsent(&self) -> bool {
        !(self.unsent.is_empty() && self.unsent_body.is_empty())
    }

    /// The socket is ready for something.
    pub(super) fn ready(&mut self, ready: &Ready, buffer: &mut [u8], done: &mut Vec<Done>) {
        if !self.is_connected {
            if let Err(error) = self.wire.connected() {
                return self.fail(Failure::new(Cause::NotConnected, error.to_string()), done);
            }
            self.is_connected = true;
        }
        if let Err(error) = self.send_rest() {
            // A response may have come before the other side closed.
            if !ready.is_readable {
                return self.fail(Failure::of(&error), done);
            }
        }
        if ready.is_readable {
            self.is_closed |= ready.is_closed;
            self.receive(buffer, done);
        }
    }

    fn send_rest(&mut self) -> io::Result<()> {
        self.wire.flush()?;
        while self.has_unsent() {
            let part = if self.unsent.is_empty() { &mut self.unsent_body } else { &mut self.unsent };
            match self.wire.write(part) {
                Ok(sent) => part.advance(sent),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => {
                    (self.unsent, self.unsent_body) = (Bytes::new(), Bytes::new());
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], done: &mut Vec<Done>) {
        self.has_more = false;
        for turn in 0.. {
            if turn == READS_AT_ONCE {
                self.has_more = true;
                break;
            }
            let read = match self.wire.read(buffer) {
                Ok(0) => return self.closed(done),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return self.fail(Failure::of(&error), done),
            };
            if self.exchange.is_none() {
                // Nothing was asked.
                self.is_usable = false;
                return;
            }
            match self.response.feed(&buffer[..read]) {
                Err(_) => {
                    let why = format!("the response is not HTTP/1: {:?}", beginning(&buffer[..read]));
                    return self.fail(Failure::new(Cause::NotHttp, why), done);
                }
                Ok(None) => {}
                Ok(Some(reported)) => {
                    // A response before its request has gone out leaves the rest of that on the way.
                    self.is_usable = reported.is_kept && !self.has_unsent();
                    done.extend(self.exchange.take().map(|exchange| Done { exchange, end: Ok(reported) }));
                    if !self.is_usable {
                        return;
                    }
                }
            }
            // The kernel would have given more, and reports when there is. An end behind it has been reported already.
            if read < buffer.len() && !self.is_closed && !self.wire.is_tls() {
                return;
            }
        }
        // TLS may have been waiting for what has come.
        if self.wire.is_tls()
            && let Err(error) = self.send_rest()
        {
            self.fail(Failure::of(&error), done);
        }
    }

    /// The other side has closed, which may have been the response's end.
    fn closed(&mut self, done: &mut Vec<Done>) {
        self.is_usable = false;
        let end =
            self.response.end().ok_or_else(|| Failure::new(Cause::Closed, "the connection ended before the response"));
        done.extend(self.exchange.take().map(|exchange| Done { exchange, end }));
    }

    fn fail(&mut self, failure: Failure, done: &mut Vec<Done>) {
        self.is_usable = false;
        done.extend(self.exchange.take().map(|exchange| Done { exchange, end: Err(failure) }));
    }

    /// Gives the request up, and the connection with it.
    pub(super) fn give_up(&mut self) -> Option<Exchange> {
        self.is_usable = false;
        self.exchange.take()
    }
}

/// As much of it as one can look at.
fn beginning(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned()
}

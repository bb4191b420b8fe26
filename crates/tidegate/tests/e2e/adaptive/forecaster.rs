//! A forecaster that responds with what a test wants, and keeps what it was asked.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use tidegate_testkit::{Received, Upstream, wait_until};

/// What a forecaster does when it is asked.
#[derive(Clone, Debug)]
pub(crate) enum Behaviour {
    /// Responds with 200 and this.
    Responses(Value),
    /// Writes these bytes.
    Writes(Vec<u8>),
    /// Never responds.
    Hangs,
    /// Closes the connection.
    Closes,
}

/// A forecaster.
pub(crate) struct Forecaster {
    upstream: Upstream,
    behaviour: Arc<Mutex<Behaviour>>,
}

impl Forecaster {
    pub(crate) fn responding(response: Value) -> Self {
        Self::behaving(Behaviour::Responses(response))
    }

    pub(crate) fn behaving(behaviour: Behaviour) -> Self {
        Self::listening(TcpListener::bind("127.0.0.1:0").expect("a free port"), behaviour)
    }

    /// On a socket that is there already.
    pub(crate) fn listening(listener: TcpListener, behaviour: Behaviour) -> Self {
        let behaviour = Arc::new(Mutex::new(behaviour));
        let asked = Arc::clone(&behaviour);
        let upstream = Upstream::listening(listener, move |_, stream| {
            let behaviour = asked.lock().expect("no panic").clone();
            match behaviour {
                Behaviour::Responses(response) => stream.write_all(&ok(&response.to_string())).is_ok(),
                Behaviour::Writes(bytes) => {
                    let _written = stream.write_all(&bytes);
                    false
                }
                // Until the other side gives up.
                Behaviour::Hangs => stream.read(&mut [0]).is_ok_and(|read| read > 0),
                Behaviour::Closes => false,
            }
        });
        Self { upstream, behaviour }
    }

    /// From now on.
    pub(crate) fn now(&self, behaviour: Behaviour) {
        *self.behaviour.lock().expect("no panic") = behaviour;
    }

    pub(crate) fn now_responses(&self, response: Value) {
        self.now(Behaviour::Responses(response));
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.upstream.address
    }

    /// The `adaptive` section that names it, asked every second, with more settings.
    pub(crate) fn section(&self, more: &str) -> String {
        format!("adaptive: {{forecaster: \"http://{}\", interval: 1s, {more}}}\n", self.address())
    }

    /// How often it was asked.
    pub(crate) fn count(&self) -> usize {
        self.upstream.count()
    }

    /// Waits until it has been asked so many times more.
    pub(crate) fn wait_for_more(&self, questions: usize) {
        let before = self.count();
        wait_until("the forecaster is asked", || self.count() >= before + questions);
    }

    pub(crate) fn questions(&self) -> Vec<Received> {
        self.upstream.received()
    }

    /// All snapshots it was sent.
    pub(crate) fn snapshots(&self) -> Vec<Value> {
        let read = |question: &Received| serde_json::from_slice(&question.body).expect("a snapshot is JSON");
        self.questions().iter().map(read).collect()
    }

    pub(crate) fn last(&self) -> Value {
        self.snapshots().pop().expect("it was asked")
    }
}

/// A response with this body.
pub(crate) fn ok(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// A response with another status.
pub(crate) fn status(status: &str, more: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{more}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

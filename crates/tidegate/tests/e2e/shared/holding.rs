//! An upstream that keeps requests waiting until it is let respond.

use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, Condvar, Mutex};

use tidegate_testkit::{Client, OK, PATIENCE, Upstream, wait_until};

/// Keeps requests for `/held` waiting; to others it responds at once.
pub(crate) struct Holding {
    upstream: Upstream,
    door: Arc<Door>,
}

#[derive(Default)]
pub(crate) struct Door {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Door {
    /// Waits until it is open. A test that fails must not keep its threads for ever.
    pub(crate) fn pass(&self) {
        let is_open = self.is_open.lock().expect("no panic");
        let _passed = self.opened.wait_timeout_while(is_open, PATIENCE, |is_open| !*is_open).expect("no panic");
    }

    pub(crate) fn set(&self, is_open: bool) {
        *self.is_open.lock().expect("no panic") = is_open;
        self.opened.notify_all();
    }
}

impl Holding {
    pub(crate) fn start() -> Self {
        let door = Arc::<Door>::default();
        let passing = Arc::clone(&door);
        let upstream = Upstream::responding(move |received| {
            if received.line.contains(" /held") {
                passing.pass();
            }
            OK.to_vec()
        });
        Self { upstream, door }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.upstream.address
    }

    /// How many requests have reached it.
    pub(crate) fn count(&self) -> usize {
        self.upstream.count()
    }

    /// Responds to all that wait, and those that come.
    pub(crate) fn let_go(&self) {
        self.door.set(true);
    }

    /// Keeps those that come waiting again.
    pub(crate) fn hold(&self) {
        self.door.set(false);
    }

    /// Sends a request that is kept waiting, and waits until it is.
    pub(crate) fn visit(&self, gateway: SocketAddr) -> Client {
        let before = self.count();
        let mut client = Client::connect(gateway);
        client.send("GET /held HTTP/1.1\r\nHost: test.example\r\n\r\n");
        wait_until("the request has arrived", || self.count() > before);
        client
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Leaves without a word.
pub(crate) fn leave(client: &Client) {
    client.stream.get_ref().shutdown(Shutdown::Both).expect("it was connected");
}

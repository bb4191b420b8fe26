//! Whether a stream of an HTTP/2 connection waits for its client. A connection all of whose streams do can make room
//! for another one.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_http::activity::{Activity, StreamCount};

/// What one stream waits for its client for.
pub(crate) struct StreamWaits {
    activity: Arc<Activity>,
    waits: Mutex<Waits>,
}

#[derive(Default)]
struct Waits {
    /// For more of the request's body.
    for_body: bool,
    /// Until it takes what there is of the response.
    for_taking: bool,
    /// Held while it waits in any way.
    counted: Option<StreamCount>,
}

impl StreamWaits {
    pub(crate) fn new(activity: &Arc<Activity>) -> Arc<Self> {
        Arc::new(Self { activity: Arc::clone(activity), waits: Mutex::default() })
    }

    /// Whether more of the request's body is waited for.
    pub(crate) fn for_body(&self, is_waiting: bool) {
        self.set(|waits| waits.for_body = is_waiting);
    }

    /// Whether the client has something to take.
    pub(crate) fn for_taking(&self, is_waiting: bool) {
        self.set(|waits| waits.for_taking = is_waiting);
    }

    /// The client has sent or taken so many bytes.
    pub(crate) fn moved(&self, bytes: usize) {
        self.activity.stream_moved(bytes);
    }

    fn set(&self, change: impl FnOnce(&mut Waits)) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut waits);
        let is_waiting = waits.for_body || waits.for_taking;
        if is_waiting != waits.counted.is_some() {
            waits.counted = is_waiting.then(|| self.activity.stream_waits());
        }
    }
}

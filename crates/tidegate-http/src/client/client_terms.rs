//! What a client may do while its request is sent and its response read.

use http::StatusCode;

use crate::client_wait::WaitTerms;
use crate::deadlines::Waiting;
use crate::headers::Headers;

/// What a client may send and hold, and where its interim responses go.
pub struct ClientTerms<'a> {
    /// How long it may be waited for while it sends its body.
    pub wait: WaitTerms,
    /// The requests on its connection, which share its pace.
    pub sharing: u32,
    /// Whether the request is one of many on the client's connection: to end it frees no connection.
    pub is_stream: bool,
    /// The most bytes of its body.
    pub max_body: u64,
    /// Passes an interim response (1xx) to the client.
    pub on_interim: &'a (dyn Fn(StatusCode, &Headers) + Sync),
}

impl ClientTerms<'_> {
    /// What a deadline waits for while the client is waited for.
    pub(super) fn waiting(&self) -> Waiting {
        if self.is_stream { Waiting::StreamClient } else { Waiting::Client }
    }
}

//! What a client may do while its request is sent and its response read.

use std::sync::Arc;

use http::StatusCode;

use crate::client_wait::WaitTerms;
use crate::headers::Headers;
use crate::share::{AddressShare, MostHeld};

/// What a client may send and hold, and where its interim responses go.
pub struct ClientTerms<'a> {
    /// How long it may be waited for while it sends its body.
    pub wait: WaitTerms,
    /// The requests on its connection, which share its pace.
    pub sharing: u32,
    /// The most bytes of its body.
    pub max_body: u64,
    /// What its address holds. None if it is not bounded.
    pub address: Option<&'a Arc<AddressShare>>,
    /// How much its address may hold.
    pub most_held: MostHeld,
    /// Passes an interim response (1xx) to the client.
    pub on_interim: &'a (dyn Fn(StatusCode, &Headers) + Sync),
}

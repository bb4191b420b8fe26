//! Sending a request, over a kept connection where there is one.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body::Body;

use super::endpoint::Endpoint;
use super::exchange::{ClientTerms, Exchange};
use super::opening::{Local, open};
use super::request_head::Traits;
use super::response::Response;
use super::trouble::Trouble;
use crate::request::BrokenBody;

/// Sends a request, over a kept connection where there is one, and waits for the head of its response. `sending` is
/// called when there is a connection and the first byte is about to go.
pub async fn send<B: Body<Data = Bytes, Error = BrokenBody> + Unpin>(
    endpoint: &Arc<Endpoint>,
    local: &Local<'_>,
    terms: &ClientTerms<'_>,
    traits: Traits,
    mut head: BytesMut,
    mut body: Option<B>,
    mut sending: impl FnMut(),
) -> Result<Response<B>, Trouble> {
    loop {
        let connection = match endpoint.idle_connection(local.worker) {
            Some(connection) => connection,
            // Boxed, as other things that happen now and then: otherwise each request would carry their room with it.
            None => Box::pin(open(endpoint, local)).await?,
        };
        sending();
        // A kept connection may be closed by the other side in this very moment. What changes nothing can be sent
        // again.
        let again = connection.reused && body.is_none() && traits.is_idempotent;
        let copy = if again { Some(head.clone()) } else { None };
        let mut exchange = Exchange::new(endpoint, local, terms, &traits, head, connection, body.take());
        match poll_fn(|cx| exchange.poll_head(cx, terms.on_interim)).await {
            Err(Trouble::Closed | Trouble::Broken(_)) if again && !exchange.has_read => head = copy.unwrap_or_default(),
            Err(trouble) => return Err(trouble),
            Ok(head) => return Response::new(exchange, head, traits.is_upgrade),
        }
    }
}

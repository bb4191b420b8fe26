//! Bodies that nobody wants, of requests that were answered early.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use http::request::Parts;
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::vetting;

/// What is read of a body that nobody wants, so that the connection can carry another request, and the client can read the answer
/// before the connection ends. Beyond it, it ends.
const MOST_UNREAD: usize = 256 * 1024;
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads the rest of a body and forgets it, within bounds. A client that waits for `100 Continue` is not asked to send.
pub(crate) fn drain(mut body: Incoming, parts: &Parts) {
    if body.is_end_stream() || vetting::expects_continue(parts) {
        return;
    }
    tokio::spawn(async move {
        let reading = async {
            let mut read = 0;
            while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                read += frame.data_ref().map_or(0, bytes::Bytes::len);
                if read > MOST_UNREAD {
                    break;
                }
            }
        };
        // Whether it was read to its end or not: what remains is dropped here, and the connection with it.
        let _read = timeout(PATIENCE, reading).await;
    });
}

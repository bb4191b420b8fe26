//! The streams of an HTTP/2 connection. Each has a deadline of its own, so that a stream that the client does not read
//! ends alone.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use hyper::rt::Executor;
use tidegate_http::deadlines::{Deadline, Deadlines};

tokio::task_local! {
    static DEADLINE: Arc<Deadline>;
}

/// The deadline of the stream that this task serves.
pub(crate) fn deadline() -> Option<Arc<Deadline>> {
    DEADLINE.try_with(Arc::clone).ok()
}

/// Runs the streams of a connection.
#[derive(Clone)]
pub(crate) struct Streams(pub(crate) Arc<Deadlines>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let deadline = self.0.deadline();
        tokio::spawn(async move {
            let mut stream = pin!(DEADLINE.scope(Arc::clone(&deadline), stream));
            poll_fn(|cx| {
                deadline.watch(cx);
                // A stream that is dropped before its end is reset.
                if deadline.has_passed() { Poll::Ready(()) } else { stream.as_mut().poll(cx) }
            })
            .await;
        });
    }
}

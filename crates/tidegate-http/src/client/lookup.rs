//! The lookup of an endpoint's addresses. All requests that need them share one lookup: a slow name server must not
//! cost a thread for each request.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::descriptors::is_out_of_files;

/// How long a result is reused.
const HOLDS_MILLIS: u64 = 1_000;

/// The last lookup of an endpoint's addresses in one worker.
#[derive(Default)]
pub(super) struct Lookup(Mutex<Option<watch::Receiver<Option<Found>>>>);

/// What the name server returned, and when.
struct Found {
    addresses: Result<Arc<[SocketAddr]>, Failure>,
    at_millis: u64,
}

/// An error that can be given to all waiting requests.
struct Failure {
    code: Option<i32>,
    kind: io::ErrorKind,
    reason: String,
}

impl Failure {
    fn new(error: &io::Error) -> Self {
        Self { code: error.raw_os_error(), kind: error.kind(), reason: error.to_string() }
    }

    fn error(&self) -> io::Error {
        self.code.map_or_else(|| io::Error::new(self.kind, self.reason.clone()), io::Error::from_raw_os_error)
    }
}

impl Lookup {
    /// The addresses. `resolve` is called only if no lookup is under way or has just ended.
    pub(super) async fn get<F>(
        &self,
        now_millis: impl Fn() -> u64 + Send + 'static,
        resolve: impl FnOnce() -> F,
    ) -> io::Result<Arc<[SocketAddr]>>
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        let mut found = self.under_way(now_millis, resolve);
        // The task that resolves ends only with the worker.
        let found = found.wait_for(Option::is_some).await.map_err(|_| io::ErrorKind::Interrupted)?;
        match found.as_ref().map(|found| &found.addresses) {
            Some(Ok(addresses)) => Ok(Arc::clone(addresses)),
            Some(Err(failure)) => Err(failure.error()),
            None => Err(io::ErrorKind::Interrupted.into()),
        }
    }

    fn under_way<F>(
        &self,
        now_millis: impl Fn() -> u64 + Send + 'static,
        resolve: impl FnOnce() -> F,
    ) -> watch::Receiver<Option<Found>>
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &*last {
            let is_fit = match &*last.borrow() {
                // The name server was not asked, because no file descriptor could be opened.
                Some(Found { addresses: Err(failure), .. }) if is_out_of_files(&failure.error()) => false,
                Some(found) => now_millis().saturating_sub(found.at_millis) < HOLDS_MILLIS,
                // Still under way, unless its task has ended.
                None => last.has_changed().is_ok(),
            };
            if is_fit {
                return last.clone();
            }
        }
        let (sender, receiver) = watch::channel(None);
        let resolving = resolve();
        // A separate task: the first request may be cancelled while others still wait.
        tokio::spawn(async move {
            let addresses = resolving.await.map(Into::into).map_err(|error| Failure::new(&error));
            sender.send_replace(Some(Found { addresses, at_millis: now_millis() }));
        });
        *last = Some(receiver.clone());
        receiver
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    /// A name server that responds once for each permit, and counts queries.
    struct Names {
        lookup: Lookup,
        now: Arc<AtomicU64>,
        asked: Arc<AtomicUsize>,
        responses: Arc<Semaphore>,
        fails: bool,
    }

    impl Names {
        fn new(fails: bool) -> Self {
            let (now, asked, responses) = (Arc::default(), Arc::default(), Arc::new(Semaphore::new(0)));
            Self { lookup: Lookup::default(), now, asked, responses, fails }
        }

        async fn get(&self) -> Result<Vec<SocketAddr>, String> {
            let (now, asked, responses) = (Arc::clone(&self.now), Arc::clone(&self.asked), Arc::clone(&self.responses));
            let fails = self.fails;
            let resolve = || async move {
                let number = asked.fetch_add(1, Ordering::Relaxed);
                responses.acquire().await.expect("it stays open").forget();
                let address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(number).expect("few")));
                if fails { Err(io::Error::other(format!("no {number}"))) } else { Ok(vec![address]) }
            };
            let found = self.lookup.get(move || now.load(Ordering::Relaxed), resolve).await;
            found.map(|addresses| addresses.to_vec()).map_err(|error| error.to_string())
        }
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(test);
    }

    #[test]
    fn one_lookup_serves_all_that_wait_and_all_that_come_within_a_second() {
        run(async {
            for fails in [false, true] {
                let names = Names::new(fails);
                let respond = async { names.responses.add_permits(1) };
                let (first, second, third, ()) = tokio::join!(names.get(), names.get(), names.get(), respond);
                assert_eq!((&first, &second), (&second, &third));
                assert_eq!(first.is_err(), fails);
                names.now.store(HOLDS_MILLIS - 1, Ordering::Relaxed);
                assert_eq!(names.get().await, first, "it still holds");
                assert_eq!(names.asked.load(Ordering::Relaxed), 1);
                names.now.store(HOLDS_MILLIS, Ordering::Relaxed);
                names.responses.add_permits(1);
                assert_ne!(names.get().await, first, "it is asked anew");
                assert_eq!(names.asked.load(Ordering::Relaxed), 2);
            }
        });
    }

    #[test]
    fn a_cancelled_request_does_not_end_the_lookup_that_others_wait_for() {
        run(async {
            let names = Names::new(false);
            {
                let mut leaves = std::pin::pin!(names.get());
                std::future::poll_fn(|cx| {
                    assert!(leaves.as_mut().poll(cx).is_pending());
                    std::task::Poll::Ready(())
                })
                .await;
            }
            names.responses.add_permits(1);
            assert!(names.get().await.is_ok());
            assert_eq!(names.asked.load(Ordering::Relaxed), 1);
        });
    }
}

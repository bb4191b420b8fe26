use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderName};

use crate::server::Worker;

/// The header that links an answer, its log lines and the upstream's.
pub(crate) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What a request is known by: the client's own id if it is harmless, else one of ours.
pub(crate) struct RequestId(Box<str>);

impl RequestId {
    pub(crate) fn of(headers: &HeaderMap, worker: &Worker) -> Self {
        let given = headers.get(&REQUEST_ID).and_then(|id| id.to_str().ok()).filter(|id| is_harmless(id));
        Self(given.map_or_else(|| worker.ids.next(), Into::into))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_harmless(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte))
}

/// Ids that differ among workers, gateways and restarts: 64 random bits, then a counter.
pub(crate) struct Ids {
    random: u64,
    next: AtomicU64,
}

impl Ids {
    pub(crate) fn new(random: u64) -> Self {
        Self { random, next: AtomicU64::new(0) }
    }

    fn next(&self) -> Box<str> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let number = (u128::from(self.random) << 64) | u128::from(self.next.fetch_add(1, Ordering::Relaxed));
        let mut text = String::with_capacity(32);
        for shift in (0..32).rev() {
            text.push(char::from(DIGITS[(number >> (shift * 4)) as usize & 15]));
        }
        text.into()
    }
}

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_http::headers::{Headers, text};

/// The header that links a response, its log lines and the upstream's.
const REQUEST_ID: &str = "x-request-id";

/// The id of a request: the one that the client gave if it is harmless, otherwise one of ours.
pub(crate) enum RequestId {
    Given(Box<str>),
    Own([u8; 32]),
}

impl RequestId {
    pub(crate) fn of(headers: &Headers, ids: &Ids) -> Self {
        let given = headers.get(REQUEST_ID).and_then(text).filter(|id| is_harmless(id));
        given.map_or_else(|| Self::own(ids), |id| Self::Given(id.into()))
    }

    /// A unique one.
    pub(crate) fn own(ids: &Ids) -> Self {
        Self::Own(ids.next())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Given(id) => id.as_bytes(),
            Self::Own(digits) => digits,
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Given(id) => id,
            Self::Own(digits) => str::from_utf8(digits).unwrap_or_default(),
        }
    }
}

fn is_harmless(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte))
}

/// Ids that differ among workers, gateways and restarts: 64 random bits, then a counter.
pub(crate) struct Ids {
    random: u64,
    next: AtomicU64,
    /// How many random numbers were drawn.
    drawn: AtomicU64,
}

impl Ids {
    pub(crate) fn new(random: u64) -> Self {
        Self { random, next: AtomicU64::new(0), drawn: AtomicU64::new(0) }
    }

    /// A number that looks random (the output function of `SplitMix64`), another one each time.
    pub(crate) fn random(&self) -> u64 {
        // Workers have ids of their own: nobody else draws meanwhile.
        let drawn = self.drawn.load(Ordering::Relaxed);
        self.drawn.store(drawn.wrapping_add(1), Ordering::Relaxed);
        let number = drawn.wrapping_add(self.random);
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn next(&self) -> [u8; 32] {
        let number = (u128::from(self.random) << 64) | u128::from(self.next.fetch_add(1, Ordering::Relaxed));
        let mut digits = [0; 32];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(number.to_be_bytes()) {
            let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' - 10 + value };
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        digits
    }
}

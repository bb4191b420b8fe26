//! What clients ask for, how often, and which responses are right.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use fastrand::Rng;

use super::site::USERS;
use crate::nginx;

/// A kind of request.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// How many of 10,000 requests are of this kind, about.
    weight: u32,
    path: &'static str,
    body: Body,
    /// Whether it names its user by an API key.
    has_key: bool,
    /// Statuses that are no error.
    pub(crate) expected: &'static [u16],
    /// Bytes of a response with 200.
    pub(crate) length: usize,
    pub(crate) leaves: Option<Leaves>,
}

/// A request's body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    None,
    Length(usize),
    /// So many chunks of 4 KiB.
    Chunks(usize),
}

/// Where a client leaves that does not wait for its response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// In the middle of the head: there is no request then.
    InHead,
    AtOnce,
    WhileItWaits,
    InUpload,
    InDownload,
}

const SMALL: usize = nginx::BODY.len();
pub(crate) const LARGE: usize = 64 * 1024;
pub(crate) const HUGE: usize = 1024 * 1024;
/// What [`desk`](super::desk) responds with.
pub(crate) const NOTE: &str = "taken";

const CHUNK: usize = 4 * 1024;

const PLAIN: Kind = Kind {
    name: "small",
    weight: 4_000,
    path: "/",
    body: Body::None,
    has_key: false,
    expected: &[200],
    length: SMALL,
    leaves: None,
};

/// All kinds over HTTP/1.1.
const KINDS: [Kind; 19] = [
    PLAIN,
    Kind { name: "with an API key", weight: 2_000, path: "/api/items?page=2", has_key: true, ..PLAIN },
    Kind { name: "large", weight: 200, path: "/large", length: LARGE, ..PLAIN },
    Kind { name: "huge", weight: 10, path: "/huge", length: HUGE, ..PLAIN },
    Kind { name: "upload", weight: 600, path: "/orders", body: Body::Length(4 * 1024), ..PLAIN },
    Kind { name: "upload, read", weight: 200, path: "/take", body: Body::Length(16 * 1024), ..AT_DESK },
    Kind { name: "upload in chunks", weight: 100, path: "/take", body: Body::Chunks(4), ..AT_DESK },
    Kind { name: "slow", weight: 100, ..AT_DESK },
    Kind { name: "shaped", weight: 100, path: "/shaped", expected: &[200, 429], ..PLAIN },
    Kind { name: "partly refused", weight: 500, path: "/search", expected: &[200, 429], ..PLAIN },
    Kind { name: "refused", weight: 1_200, path: "/closed", expected: &[200, 429], ..PLAIN },
    Kind { name: "upload, refused", weight: 200, path: "/closed", body: Body::Length(4 * 1024), ..REJECTED },
    Kind { name: "leased from Redis", weight: 600, path: "/leased", ..PLAIN },
    Kind { name: "exact in Redis", weight: 200, path: "/exact", has_key: true, ..PLAIN },
    Kind { name: "left in its head", weight: 5, leaves: Some(Leaves::InHead), ..AT_DESK },
    Kind { name: "left at once", weight: 10, leaves: Some(Leaves::AtOnce), ..AT_DESK },
    Kind { name: "left waiting", weight: 10, leaves: Some(Leaves::WhileItWaits), ..AT_DESK },
    Kind { name: "left in its upload", weight: 10, path: "/take", leaves: Some(Leaves::InUpload), ..UPLOAD },
    Kind { name: "left in its answer", weight: 10, path: "/huge", leaves: Some(Leaves::InDownload), ..PLAIN },
];

const AT_DESK: Kind = Kind { path: "/slow", length: NOTE.len(), ..PLAIN };
const REJECTED: Kind = Kind { expected: &[200, 429], ..PLAIN };
const UPLOAD: Kind = Kind { body: Body::Length(64 * 1024), length: NOTE.len(), ..PLAIN };

/// Clients' addresses, as the load balancer before the gateway sends them: so many at a time …
const ADDRESSES: u32 = 2_000;
/// … of which so many are new each second.
const NEW_ADDRESSES: u32 = 50;

/// Draws requests, the same ones for the same seed.
pub(crate) struct Draws {
    random: Rng,
    total: u32,
}

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed), total: KINDS.iter().map(|kind| kind.weight).sum() }
    }

    pub(crate) fn kind(&mut self) -> &'static Kind {
        let mut rest = self.random.u32(..self.total);
        let found = KINDS.iter().find(|kind| {
            let is_it = rest < kind.weight;
            rest = rest.saturating_sub(kind.weight);
            is_it
        });
        found.expect("it is below the sum of all")
    }

    /// Whether something happens that happens once in so many times.
    pub(crate) fn once_in(&mut self, times: u32) -> bool {
        self.random.u32(..times) == 0
    }

    /// An address of a client, so many seconds after the start.
    pub(crate) fn address(&mut self, second: u64) -> Ipv4Addr {
        let newest = (second as u32).wrapping_mul(NEW_ADDRESSES) + ADDRESSES;
        Ipv4Addr::from_bits((10 << 24) | (newest - self.random.u32(..ADDRESSES)) & 0xff_ffff)
    }

    /// Writes a request of this kind, and returns how long its head is.
    pub(crate) fn write(&mut self, kind: &Kind, second: u64, request: &mut String) -> usize {
        request.clear();
        let (method, framing) = match kind.body {
            Body::None => ("GET", String::new()),
            Body::Length(length) => ("POST", format!("Content-Length: {length}\r\n")),
            Body::Chunks(_) => ("POST", "Transfer-Encoding: chunked\r\n".to_owned()),
        };
        // Writing to memory can't fail.
        let _written = write!(
            request,
            "{method} {} HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: steady/1\r\nAccept: */*\r\n\
             X-Forwarded-For: {}\r\n{framing}",
            kind.path,
            self.address(second),
        );
        if kind.has_key {
            let _written = write!(request, "X-Api-Key: key-{}\r\n", self.random.usize(..USERS));
        }
        request.push_str("\r\n");
        let head = request.len();
        match kind.body {
            Body::None => {}
            Body::Length(length) => request.extend(std::iter::repeat_n('x', length)),
            Body::Chunks(count) => {
                for _ in 0..count {
                    let _written = write!(request, "{CHUNK:x}\r\n{}\r\n", "x".repeat(CHUNK));
                }
                request.push_str("0\r\n\r\n");
            }
        }
        head
    }
}

/// What an operator wants an endpoint to be, whatever its checks and requests say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Forced {
    /// Checks and requests decide.
    #[default]
    Auto,
    /// It gets requests, even if it is unhealthy; it is not ejected.
    Up,
    /// It gets no requests, even if no other endpoint is left.
    Down,
    /// It gets no new requests while another endpoint may be used that the request has not been sent to.
    Drain,
}

impl Forced {
    /// The word for it in the admin API, logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Up => "up",
            Self::Down => "down",
            Self::Drain => "drain",
        }
    }
}

/// Whether an endpoint gets requests, and if not, why.
///
/// Requests go to endpoints that are up. If none is up, they go to the ejected and unhealthy ones: when all are out,
/// the fault is probably not theirs. If there are none of these either, they go to the draining ones; never to those
/// that are down. The next attempt of a request is the same choice among the endpoints that it has not been sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It gets its share of the requests.
    Up,
    /// Its requests failed, and its ejection lasts.
    Ejected,
    /// Its active checks fail.
    Unhealthy,
    /// An operator drains it.
    Drain,
    /// An operator took it out.
    Down,
}

impl Standing {
    /// The word for it in the admin API, logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Ejected => "ejected",
            Self::Unhealthy => "unhealthy",
            Self::Drain => "drain",
            Self::Down => "down",
        }
    }
}

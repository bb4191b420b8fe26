//! Why a name has no addresses.

use std::fmt;
use std::time::Duration;

use hickory_resolver::net::{DnsError, NetError};

/// Why a lookup has found no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LookupError {
    /// NXDOMAIN.
    NoSuchName,
    /// The name exists, without addresses.
    NoAddress,
    /// No name server has responded within this time.
    Timeout(Duration),
    /// A name server has responded with an error, such as SERVFAIL.
    Response(String),
    /// The name can't be looked up at all.
    InvalidName,
    /// The system's name servers are not known: why.
    NoServers(String),
    /// Anything else.
    Other(String),
}

impl LookupError {
    /// Whether a name server has said that there are no addresses. Everything else may be different a moment later.
    pub(crate) fn is_definite(&self) -> bool {
        match self {
            Self::NoSuchName | Self::NoAddress => true,
            Self::Timeout(_) | Self::Response(_) | Self::InvalidName | Self::NoServers(_) | Self::Other(_) => false,
        }
    }

    /// The error to report if both families have failed: the one that says more.
    pub(crate) fn of_both(v4: Self, v6: Self) -> Self {
        match (v4.is_definite(), v6.is_definite()) {
            (true, false) => v6,
            (true, true) if v4 == Self::NoAddress => v6,
            (true, true) | (false, true | false) => v4,
        }
    }

    pub(crate) fn of(error: &NetError, timeout: Duration) -> Self {
        match error {
            NetError::Timeout => Self::Timeout(timeout),
            NetError::Dns(DnsError::ResponseCode(code)) => Self::Response(code.to_string()),
            error if error.is_nx_domain() => Self::NoSuchName,
            error if error.is_no_records_found() => Self::NoAddress,
            error => Self::Other(error.to_string()),
        }
    }
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchName => f.write_str("the name does not exist (NXDOMAIN)"),
            Self::NoAddress => f.write_str("the name has no address"),
            Self::Timeout(timeout) => write!(f, "no name server responded within {} s", timeout.as_secs_f64()),
            Self::Response(code) => write!(f, "the name server responded with an error: {code}"),
            Self::InvalidName => f.write_str("the name is invalid"),
            Self::NoServers(reason) => write!(f, "the system's name servers are unknown: {reason}"),
            Self::Other(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for LookupError {}

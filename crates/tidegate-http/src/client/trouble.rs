//! Why a request got no response, or an incomplete one.

use std::fmt;
use std::io;

use http::StatusCode;

use crate::client_wait::Late;
use crate::request::BrokenBody;

/// Why a request got no response, or an incomplete one.
#[derive(Debug)]
pub enum Trouble {
    /// All connections to the endpoint are in use.
    Full,
    /// The process can open no more file descriptors.
    OutOfFiles,
    /// No endpoint of the upstream may be used.
    NoEndpoint,
    /// No connection could be made.
    Connect(io::Error),
    /// No connection could be made in time.
    ConnectTimeout,
    /// The connection ended before the response did.
    Closed,
    /// The connection ended while the client was still sending its body: nobody knows who is to blame.
    ClosedInUpload,
    /// The connection ended after the gateway had stopped reading the response, because the client did not take it:
    /// nobody knows who is to blame.
    ClosedWhileHeld,
    /// The connection broke.
    Broken(io::Error),
    /// The response is not HTTP, or its framing is ambiguous.
    BadResponse(&'static str),
    /// No response in time.
    ResponseTimeout,
    /// The upstream paused for too long while it sent its response or took the request's body.
    BodyTimeout,
    /// The client paused for too long in its body.
    ClientTimeout,
    /// The client's body ended early, or was not what its head said.
    ClientBody(BrokenBody),
    /// The client's body is longer than permitted.
    TooLarge,
    /// The client sent its body too slowly.
    ClientSlow,
    /// The client was waited for while other requests needed the connection.
    ClientEvicted,
    /// The client's address holds its share of the upstream's connections.
    ClientShare,
}

/// A request that got no response.
#[derive(Debug)]
pub struct Failed<B> {
    /// Why.
    pub trouble: Trouble,
    /// Whether some of it may have reached the upstream.
    pub was_sent: bool,
    /// Whether it can be sent to another endpoint: nothing was sent, or only over kept connections that had ended, and
    /// sending it twice does no harm.
    pub is_repeatable: bool,
    /// Its body, if it has one. What was read of it can be read again only if the body itself keeps it.
    pub body: Option<B>,
}

impl Trouble {
    /// The status of the response to the client.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Full | Self::OutOfFiles | Self::NoEndpoint | Self::ClientShare => StatusCode::SERVICE_UNAVAILABLE,
            Self::Connect(_)
            | Self::Closed
            | Self::ClosedInUpload
            | Self::ClosedWhileHeld
            | Self::Broken(_)
            | Self::BadResponse(_) => StatusCode::BAD_GATEWAY,
            Self::ConnectTimeout | Self::ResponseTimeout | Self::BodyTimeout => StatusCode::GATEWAY_TIMEOUT,
            Self::ClientTimeout | Self::ClientSlow | Self::ClientEvicted => StatusCode::REQUEST_TIMEOUT,
            Self::ClientBody(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }

    /// A word for metrics and the response's body.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Full => "upstream_full",
            Self::OutOfFiles => "out_of_files",
            Self::NoEndpoint => "no_endpoint",
            Self::Connect(_) => "connect_failed",
            Self::ConnectTimeout => "connect_timeout",
            Self::Closed => "closed_early",
            Self::ClosedInUpload => "closed_in_upload",
            Self::ClosedWhileHeld => "closed_while_held",
            Self::Broken(_) => "connection_broken",
            Self::BadResponse(_) => "bad_answer",
            Self::ResponseTimeout => "answer_timeout",
            Self::BodyTimeout => "body_timeout",
            Self::ClientTimeout => "client_timeout",
            Self::ClientBody(_) => "client_body",
            Self::TooLarge => "body_too_large",
            Self::ClientSlow => "client_too_slow",
            Self::ClientEvicted => "client_evicted",
            Self::ClientShare => "client_share",
        }
    }

    /// The words of all troubles that the client has not caused.
    pub const OF_UPSTREAMS: [&'static str; 12] = [
        "upstream_full",
        "out_of_files",
        "no_endpoint",
        "connect_failed",
        "connect_timeout",
        "closed_early",
        "closed_in_upload",
        "closed_while_held",
        "connection_broken",
        "bad_answer",
        "answer_timeout",
        "body_timeout",
    ];

    /// Those of them that an endpoint has caused, and not the gateway itself or perhaps a client.
    pub const OF_ENDPOINTS: [&'static str; 7] = [
        "connect_failed",
        "connect_timeout",
        "closed_early",
        "connection_broken",
        "bad_answer",
        "answer_timeout",
        "body_timeout",
    ];

    /// Whether the gateway itself rejected the request: it had no connection for it, and nothing was sent.
    pub fn is_rejection(&self) -> bool {
        matches!(self, Self::Full | Self::OutOfFiles | Self::NoEndpoint | Self::ClientShare)
    }

    /// Whether the client has caused it.
    pub fn is_clients(&self) -> bool {
        match self {
            Self::ClientTimeout
            | Self::ClientBody(_)
            | Self::TooLarge
            | Self::ClientSlow
            | Self::ClientEvicted
            | Self::ClientShare => true,
            Self::Full
            | Self::OutOfFiles
            | Self::NoEndpoint
            | Self::Connect(_)
            | Self::ConnectTimeout
            | Self::Closed
            | Self::ClosedInUpload
            | Self::ClosedWhileHeld
            | Self::Broken(_)
            | Self::BadResponse(_)
            | Self::ResponseTimeout
            | Self::BodyTimeout => false,
        }
    }
}

impl From<Late> for Trouble {
    fn from(late: Late) -> Self {
        match late {
            Late::Paused => Self::ClientTimeout,
            Late::TooSlow => Self::ClientSlow,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("all connections to the upstream are in use"),
            Self::OutOfFiles => f.write_str("no file descriptor is free for a connection to the upstream"),
            Self::NoEndpoint => f.write_str("no endpoint of the upstream is available"),
            Self::Connect(error) => write!(f, "the upstream can't be reached: {}", cause(error)),
            Self::ConnectTimeout => f.write_str("the upstream can't be reached in time"),
            Self::Closed => f.write_str("the upstream closed the connection before it responded"),
            Self::ClosedInUpload => f.write_str("the upstream closed the connection before it had the request's body"),
            Self::ClosedWhileHeld => f.write_str("the upstream closed the connection while the client took nothing"),
            Self::Broken(error) => write!(f, "the connection to the upstream broke: {}", cause(error)),
            Self::BadResponse(reason) => write!(f, "the upstream's response can't be used: {reason}"),
            Self::ResponseTimeout => f.write_str("the upstream did not respond in time"),
            Self::BodyTimeout => f.write_str("the upstream paused for too long"),
            Self::ClientTimeout => f.write_str("the request's body paused for too long"),
            Self::ClientBody(BrokenBody(why)) => write!(f, "the request's body is invalid: {why}"),
            Self::TooLarge => f.write_str("the request's body is larger than allowed"),
            Self::ClientSlow => f.write_str("the request's body came too slowly"),
            Self::ClientEvicted => f.write_str("the client was too slow while other requests needed the connection"),
            Self::ClientShare => f.write_str("the client's address holds its share of the upstream's connections"),
        }
    }
}

/// The cause of an I/O error in words. The kind describes errors of the system, but not those of TLS or of a name
/// server.
pub fn cause(error: &io::Error) -> String {
    if error.raw_os_error().is_some() { error.kind().to_string() } else { error.to_string() }
}

impl std::error::Error for Trouble {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A series that appears with its first event has no rate for it.
    #[test]
    fn what_clients_do_not_cause_is_a_series_from_the_start() {
        let error = || io::Error::from(io::ErrorKind::Other);
        let all = [
            Trouble::Full,
            Trouble::OutOfFiles,
            Trouble::NoEndpoint,
            Trouble::Connect(error()),
            Trouble::ConnectTimeout,
            Trouble::Closed,
            Trouble::ClosedInUpload,
            Trouble::ClosedWhileHeld,
            Trouble::Broken(error()),
            Trouble::BadResponse(""),
            Trouble::ResponseTimeout,
            Trouble::BodyTimeout,
            Trouble::ClientTimeout,
            Trouble::ClientBody(BrokenBody::ENDED_EARLY),
            Trouble::TooLarge,
            Trouble::ClientSlow,
            Trouble::ClientEvicted,
            Trouble::ClientShare,
        ];
        for trouble in all {
            let (is_clients, is_ours) = (trouble.is_clients(), trouble.is_rejection());
            // Nobody knows who is to blame.
            let is_open = matches!(trouble, Trouble::ClosedInUpload | Trouble::ClosedWhileHeld);
            assert_eq!(Trouble::OF_UPSTREAMS.contains(&trouble.word()), !is_clients, "{trouble}");
            assert_eq!(
                Trouble::OF_ENDPOINTS.contains(&trouble.word()),
                !is_clients && !is_ours && !is_open,
                "{trouble}"
            );
        }
    }
}

use std::fmt;
use std::io;

use http::StatusCode;

use crate::request_body::Broken;

/// Why a request got no answer, or not a whole one.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// All connections that are allowed are in use.
    Full,
    /// No more file descriptors can be opened here.
    OutOfFiles,
    /// No connection came about.
    Connect(io::Error),
    ConnectTimeout,
    /// The connection ended before the answer did.
    Closed,
    /// The connection broke.
    Broken(io::Error),
    /// The answer is not HTTP, or its framing is ambiguous.
    BadAnswer(&'static str),
    /// No answer in time.
    AnswerTimeout,
    /// The answer, or the taking of the request's body, paused for too long.
    BodyTimeout,
    /// The client paused for too long in its body.
    ClientTimeout,
    /// The client's body broke off, or was not what its head said.
    ClientBody(Broken),
    /// The client's body is longer than allowed.
    TooLarge,
}

impl Trouble {
    /// The status it is answered with.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Full | Self::OutOfFiles => StatusCode::SERVICE_UNAVAILABLE,
            Self::Connect(_) | Self::Closed | Self::Broken(_) | Self::BadAnswer(_) => StatusCode::BAD_GATEWAY,
            Self::ConnectTimeout | Self::AnswerTimeout | Self::BodyTimeout => StatusCode::GATEWAY_TIMEOUT,
            Self::ClientTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::ClientBody(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }

    /// A word for metrics and the answer's body.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Full => "upstream_full",
            Self::OutOfFiles => "out_of_files",
            Self::Connect(_) => "connect_failed",
            Self::ConnectTimeout => "connect_timeout",
            Self::Closed => "closed_early",
            Self::Broken(_) => "connection_broken",
            Self::BadAnswer(_) => "bad_answer",
            Self::AnswerTimeout => "answer_timeout",
            Self::BodyTimeout => "body_timeout",
            Self::ClientTimeout => "client_timeout",
            Self::ClientBody(_) => "client_body",
            Self::TooLarge => "body_too_large",
        }
    }

    /// The words of all that can keep an upstream from answering a request, without those that are the client's doing.
    pub(crate) const OF_UPSTREAMS: [&'static str; 9] = [
        "upstream_full",
        "out_of_files",
        "connect_failed",
        "connect_timeout",
        "closed_early",
        "connection_broken",
        "bad_answer",
        "answer_timeout",
        "body_timeout",
    ];

    /// Whether the gateway itself has no room for the request: nothing was sent.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self, Self::Full | Self::OutOfFiles)
    }

    /// Whether it is the client's doing.
    pub(crate) fn is_clients(&self) -> bool {
        matches!(self, Self::ClientTimeout | Self::ClientBody(_) | Self::TooLarge)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("all connections to the upstream are in use"),
            Self::OutOfFiles => f.write_str("the gateway has no file descriptor left for a connection to the upstream"),
            Self::Connect(error) => write!(f, "the upstream can't be reached: {}", cause(error)),
            Self::ConnectTimeout => f.write_str("the upstream can't be reached in time"),
            Self::Closed => f.write_str("the upstream closed the connection before it answered"),
            Self::Broken(error) => write!(f, "the connection to the upstream broke: {}", cause(error)),
            Self::BadAnswer(reason) => write!(f, "the upstream's answer can't be used: {reason}"),
            Self::AnswerTimeout => f.write_str("the upstream did not answer in time"),
            Self::BodyTimeout => f.write_str("the upstream paused for too long"),
            Self::ClientTimeout => f.write_str("the request's body paused for too long"),
            Self::ClientBody(Broken(why)) => write!(f, "the request's body is invalid: {why}"),
            Self::TooLarge => f.write_str("the request's body is larger than allowed"),
        }
    }
}

/// What went wrong, in words: the kind says it where the system failed, and nothing where TLS or a name server did.
pub(crate) fn cause(error: &io::Error) -> String {
    if error.raw_os_error().is_some() { error.kind().to_string() } else { error.to_string() }
}

impl std::error::Error for Trouble {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate of a series that appears with its first event never has that event.
    #[test]
    fn what_is_not_the_clients_doing_is_a_series_from_the_start() {
        let error = || io::Error::from(io::ErrorKind::Other);
        let all = [
            Trouble::Full,
            Trouble::OutOfFiles,
            Trouble::Connect(error()),
            Trouble::ConnectTimeout,
            Trouble::Closed,
            Trouble::Broken(error()),
            Trouble::BadAnswer(""),
            Trouble::AnswerTimeout,
            Trouble::BodyTimeout,
            Trouble::ClientTimeout,
            Trouble::ClientBody(Broken::OFF),
            Trouble::TooLarge,
        ];
        for trouble in all {
            assert_eq!(Trouble::OF_UPSTREAMS.contains(&trouble.word()), !trouble.is_clients(), "{trouble}");
        }
    }
}

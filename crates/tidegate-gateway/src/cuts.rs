//! Clients that are cut off so that they do not take from others.

use tidegate_http::client::Trouble;

/// Why a client's request or connection ends before the client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It sent its request's body too slowly.
    SlowBody,
    /// It stopped sending its request's body.
    StalledBody,
    /// It took its response too slowly.
    SlowReader,
    /// It was waited for while another request needed its connection to the upstream.
    Evicted,
    /// Its address holds its share of the connections.
    ConnectionShare,
    /// Its address holds its share of the HTTP/2 requests under way.
    StreamShare,
    /// Its address holds its share of an upstream's connections.
    UpstreamShare,
    /// All HTTP/2 requests that may be under way are.
    StreamTotal,
    /// It takes nothing of the responses on its HTTP/2 connection.
    UntakenStreams,
}

impl Cut {
    /// What this trouble of a client is. None if it did not take from others.
    pub(crate) fn of(trouble: &Trouble) -> Option<Self> {
        match trouble {
            Trouble::ClientSlow => Some(Self::SlowBody),
            Trouble::ClientTimeout => Some(Self::StalledBody),
            Trouble::ClientEvicted => Some(Self::Evicted),
            Trouble::ClientShare => Some(Self::UpstreamShare),
            Trouble::ClientBody(_)
            | Trouble::TooLarge
            | Trouble::Full
            | Trouble::OutOfFiles
            | Trouble::NoEndpoint
            | Trouble::Connect(_)
            | Trouble::ConnectTimeout
            | Trouble::Closed
            | Trouble::ClosedInUpload
            | Trouble::ClosedWhileHeld
            | Trouble::Broken(_)
            | Trouble::BadResponse(_)
            | Trouble::ResponseTimeout
            | Trouble::BodyTimeout => None,
        }
    }

    pub(crate) const ALL: [Self; 9] = [
        Self::SlowBody,
        Self::StalledBody,
        Self::SlowReader,
        Self::Evicted,
        Self::ConnectionShare,
        Self::StreamShare,
        Self::UpstreamShare,
        Self::StreamTotal,
        Self::UntakenStreams,
    ];

    /// Its index in [`ALL`](Self::ALL).
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// The label in metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::SlowBody => "slow_body",
            Self::StalledBody => "stalled_body",
            Self::SlowReader => "slow_reader",
            Self::Evicted => "evicted",
            Self::ConnectionShare => "connection_share",
            Self::StreamShare => "stream_share",
            Self::UpstreamShare => "upstream_share",
            Self::StreamTotal => "stream_total",
            Self::UntakenStreams => "untaken_streams",
        }
    }

    /// What happened, for the log, and the setting to change.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::SlowBody => "the body of a request came too slowly (`connections.min_rate`)",
            Self::StalledBody => "the body of a request stopped coming (`connections.body_timeout`)",
            Self::SlowReader => "a response was taken too slowly (`connections.min_rate`, `connections.write_timeout`)",
            Self::Evicted => {
                "a client kept its upstream waiting while another request needed the connection or the slot \
                 (`upstreams.NAME.max_connections`, `policies.NAME.bulkhead`)"
            }
            Self::ConnectionShare => "a client address holds its share of connections (`connections.max_client_share`)",
            Self::StreamShare => "a client address holds its share of HTTP/2 requests (`connections.max_client_share`)",
            Self::StreamTotal => "too many HTTP/2 requests of all clients (`connections.max_total_streams`)",
            Self::UntakenStreams => {
                "a client did not take the responses on its HTTP/2 connection (`connections.max_untaken_streams`)"
            }
            Self::UpstreamShare => {
                "a client address holds its share of an upstream's connections (`connections.max_client_share`)"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_index_and_label() {
        for (index, cut) in Cut::ALL.into_iter().enumerate() {
            assert_eq!(cut.index(), index);
            assert_eq!(Cut::ALL.iter().filter(|other| other.label() == cut.label()).count(), 1);
        }
    }
}

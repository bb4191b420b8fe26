//! Why a connection is closed because of what its client sends.

use super::frames::{ENHANCE_YOUR_CALM, PROTOCOL_ERROR};

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not begin with the preface of HTTP/2.
    Preface,
    Flood(Flood),
}

impl Fault {
    /// The error code of the GOAWAY.
    pub(super) fn code(self) -> u32 {
        match self {
            Self::Preface => PROTOCOL_ERROR,
            Self::Flood(_) => ENHANCE_YOUR_CALM,
        }
    }

    /// The text of the GOAWAY, for people.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Preface => "invalid connection preface",
            Self::Flood(flood) => flood.text(),
        }
    }
}

/// What there was too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flood {
    Ping,
    Settings,
    WindowUpdate,
    Priority,
    EmptyData,
    HeaderFrames,
    Unknown,
    Resets,
    Malformed,
    /// What hyper bounds itself, with a GOAWAY of its own.
    Other,
}

impl Flood {
    pub(crate) const ALL: [Self; 10] = [
        Self::Ping,
        Self::Settings,
        Self::WindowUpdate,
        Self::Priority,
        Self::EmptyData,
        Self::HeaderFrames,
        Self::Unknown,
        Self::Resets,
        Self::Malformed,
        Self::Other,
    ];

    /// Its name in metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Settings => "settings",
            Self::WindowUpdate => "window_update",
            Self::Priority => "priority",
            Self::EmptyData => "empty_data",
            Self::HeaderFrames => "header_frames",
            Self::Unknown => "unknown_frames",
            Self::Resets => "resets",
            Self::Malformed => "malformed_requests",
            Self::Other => "other",
        }
    }

    /// A sentence for people.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Ping => "too many PING frames",
            Self::Settings => "too many SETTINGS frames",
            Self::WindowUpdate => "too many WINDOW_UPDATE frames",
            Self::Priority => "too many PRIORITY frames",
            Self::EmptyData => "too many DATA frames that are empty, end a stream or come after its end",
            Self::HeaderFrames => "too many CONTINUATION frames",
            Self::Unknown => "too many frames of unknown types",
            Self::Resets => "too many requests reset by the client",
            Self::Malformed => "too many malformed or too large requests",
            Self::Other => {
                "too many resets before a request began, CONTINUATION frames, small DATA frames, or too large a header \
                 list"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_flood_has_a_label_of_its_own() {
        let labels: BTreeSet<_> = Flood::ALL.iter().map(|flood| flood.label()).collect();
        assert_eq!(labels.len(), Flood::ALL.len());
    }
}

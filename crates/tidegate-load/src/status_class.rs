//! What kind of response a request got.

/// What kind of response a request got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusClass {
    /// 2xx.
    Success,
    /// 3xx.
    Redirect,
    /// 4xx but for 429.
    ClientError,
    /// 429.
    Rejected,
    /// 5xx.
    ServerError,
    /// Any other status.
    Other,
}

impl StatusClass {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Success, Self::Redirect, Self::ClientError, Self::Rejected, Self::ServerError, Self::Other];

    /// The class of a status.
    pub fn of(status: u16) -> Self {
        match status {
            200..300 => Self::Success,
            300..400 => Self::Redirect,
            429 => Self::Rejected,
            400..500 => Self::ClientError,
            500..600 => Self::ServerError,
            _ => Self::Other,
        }
    }

    /// As results and thresholds name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "2xx",
            Self::Redirect => "3xx",
            Self::ClientError => "4xx",
            Self::Rejected => "rejected",
            Self::ServerError => "5xx",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_one_class() {
        for (status, class) in [
            (100, StatusClass::Other),
            (200, StatusClass::Success),
            (299, StatusClass::Success),
            (304, StatusClass::Redirect),
            (400, StatusClass::ClientError),
            (428, StatusClass::ClientError),
            (429, StatusClass::Rejected),
            (430, StatusClass::ClientError),
            (499, StatusClass::ClientError),
            (503, StatusClass::ServerError),
            (600, StatusClass::Other),
            (999, StatusClass::Other),
        ] {
            assert_eq!(StatusClass::of(status), class, "{status}");
        }
        // Indexes are in the order of the list.
        assert!(StatusClass::ALL.iter().enumerate().all(|(index, class)| *class as usize == index));
    }
}

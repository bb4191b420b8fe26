//! Where a response comes from, for metrics and the access log.

/// Where a response comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Upstream,
    /// A limit rejects the request.
    Limit,
    /// A circuit breaker rejects it.
    Breaker,
    /// A bulkhead rejects it.
    Bulkhead,
    /// The gateway itself, for another reason.
    Gateway,
}

impl Source {
    pub(crate) const ALL: [Self; 5] = [Self::Upstream, Self::Limit, Self::Breaker, Self::Bulkhead, Self::Gateway];

    /// The word for it in metrics and the access log.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Limit => "limit",
            Self::Breaker => "breaker",
            Self::Bulkhead => "bulkhead",
            Self::Gateway => "gateway",
        }
    }

    /// Its position in [`Source::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_is_at_its_index() {
        for (index, source) in Source::ALL.into_iter().enumerate() {
            assert_eq!(source.index(), index, "{source:?}");
        }
    }
}

use super::Kind;

/// Suffixes that Prometheus adds by itself, or keeps for one kind.
const RESERVED: [&str; 5] = ["_total", "_bucket", "_sum", "_count", "_info"];

/// Whether a metric of this kind may have this name: `a_b` of letters, digits, `_` and `:`, in lower case, with
/// `_total` at the end of counters and no reserved suffix on anything else (but `_info`, on a gauge).
pub(super) fn is_family_name(name: &str, kind: Kind) -> bool {
    let is_spelled_right = is_identifier(name, |byte| byte == b':') && !name.bytes().any(|b| b.is_ascii_uppercase());
    let suffix = RESERVED.into_iter().find(|suffix| name.ends_with(suffix));
    is_spelled_right
        && match kind {
            Kind::Counter => suffix == Some("_total"),
            Kind::Gauge => matches!(suffix, None | Some("_info")),
            Kind::Histogram => suffix.is_none(),
        }
}

/// Whether we may name a label so. Prometheus keeps those with two underscores for itself, and `le` for bounds.
pub(super) fn is_label_name(name: &str) -> bool {
    is_identifier(name, |_| false) && !name.starts_with("__") && name != "le"
}

fn is_identifier(name: &str, is_allowed_too: fn(u8) -> bool) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || is_allowed_too(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_conventions() {
        for (name, kind, is_right) in [
            ("requests_total", Kind::Counter, true),
            ("requests", Kind::Counter, false),
            ("queue_length", Kind::Gauge, true),
            ("build_info", Kind::Gauge, true),
            ("requests_total", Kind::Gauge, false),
            ("request_duration_seconds", Kind::Histogram, true),
            ("request_duration_seconds_count", Kind::Histogram, false),
            ("job:requests", Kind::Gauge, true),
            ("", Kind::Gauge, false),
            ("2xx", Kind::Gauge, false),
            ("requests-now", Kind::Gauge, false),
            ("requestsNow", Kind::Gauge, false),
        ] {
            assert_eq!(is_family_name(name, kind), is_right, "{name} as a {kind}");
        }
        assert!(["route", "_a", "Code"].into_iter().all(is_label_name));
        assert!(!["", "le", "__name__", "a:b", "9", "ü", "a b"].into_iter().any(is_label_name));
    }
}

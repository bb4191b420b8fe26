//! The document that this gateway has in force, compared with the one found in Redis: the higher version wins.

use std::fmt;

use crate::stored::Stored;

/// What the document found in Redis is to the one in force here.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The newest one, or one that can't be read, which is left as it is.
    Newest,
    /// Written by somebody who gave it no version. It counts, and gets the next one: this is its text then.
    Unversioned(Vec<u8>),
    /// The one in force here belongs in its place.
    Outdated(Outdated),
}

/// Why a document is written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outdated {
    /// There is none: Redis has been restarted or emptied, or has evicted it, or somebody has deleted it.
    Missing,
    /// There is one of this lower version, as after a restart from an old snapshot.
    Older(u64),
}

impl fmt::Display for Outdated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the limits set while running were missing from Redis"),
            Self::Older(version) => write!(f, "Redis held older limits (version {version})"),
        }
    }
}

/// Compares what was `found` in Redis with the document in force here, if any, and its version.
pub(super) fn compare(held: &[u8], version: u64, found: &[u8]) -> Found {
    if found.is_empty() {
        // Whoever has nothing but a file writes nothing: others may hold more.
        return if held.is_empty() { Found::Newest } else { Found::Outdated(Outdated::Missing) };
    }
    let Ok(mut stored) = Stored::read(found, &[], |_, _| Ok(())) else { return Found::Newest };
    if stored.version >= version {
        Found::Newest
    } else if stored.version > 0 {
        Found::Outdated(Outdated::Older(stored.version))
    } else {
        stored.version = version.saturating_add(1);
        Found::Unversioned(stored.write().into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: &[u8] = br#"{"algorithm":"fixed","limit":9,"window":60,"version":7}"#;

    #[track_caller]
    fn found(held: &[u8], version: u64, text: &str, expected: &Found) {
        assert_eq!(&compare(held, version, text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn a_missing_document_is_written_back_by_whoever_holds_one() {
        found(HELD, 7, "", &Found::Outdated(Outdated::Missing));
        found(br#"{"version":7}"#, 7, "", &Found::Outdated(Outdated::Missing));
        found(br#"{"algorithm":"fixed","limit":9,"window":60}"#, 0, "", &Found::Outdated(Outdated::Missing));
    }

    #[test]
    fn whoever_has_only_a_file_writes_nothing() {
        found(b"", 0, "", &Found::Newest);
        found(b"", 0, r#"{"limits":{}}"#, &Found::Newest);
    }

    #[test]
    fn the_higher_version_wins_and_of_equals_the_one_in_redis() {
        for version in [1, 6] {
            let text = format!(r#"{{"algorithm":"fixed","limit":3,"window":60,"version":{version}}}"#);
            found(HELD, 7, &text, &Found::Outdated(Outdated::Older(version)));
        }
        for version in [7, 8, u64::MAX] {
            let text = format!(r#"{{"algorithm":"fixed","limit":3,"window":60,"version":{version}}}"#);
            found(HELD, 7, &text, &Found::Newest);
        }
    }

    #[test]
    fn what_can_not_be_read_is_left_as_it_is_whatever_its_version() {
        for text in ["many", "[]", "{}}", r#"{"limits":5,"version":3}"#] {
            found(HELD, 7, text, &Found::Newest);
        }
    }

    /// Numbers that make no sense are somebody's word all the same: others may know what they mean.
    #[test]
    fn a_document_without_a_version_counts_and_gets_the_next_one() {
        for version in ["", r#","version":0"#, r#","version":"7""#, r#","version":-1"#, r#","version":1.5"#] {
            let text = format!(r#"{{"limit":0,"colour":"blue"{version}}}"#);
            let Found::Unversioned(stamped) = compare(HELD, 7, text.as_bytes()) else { panic!("{text}") };
            let stamped: serde_json::Value = serde_json::from_slice(&stamped).expect("JSON");
            assert_eq!(stamped, serde_json::json!({ "limit": 0, "colour": "blue", "version": 8 }), "{text}");
        }
        found(b"", 0, r#"{"limit":3}"#, &Found::Newest);
        let Found::Unversioned(last) = compare(HELD, u64::MAX, b"{}") else { panic!("it has none") };
        assert_eq!(Stored::version_of(&last), u64::MAX, "the last version stays the last");
    }
}

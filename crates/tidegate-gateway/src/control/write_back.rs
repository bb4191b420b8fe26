//! Ensures that Redis has the newest document: one that it has lost, or holds in an older version, is written back.

use std::fmt;
use std::time::{Duration, Instant};

use tidegate_serve::Log;
use tidegate_store::{Document, DocumentFault};

use super::ATTEMPTS;
use crate::stored::{Stored, next_version};

/// The document in force here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Empty if there is no document.
    pub(super) text: Vec<u8>,
    /// The version in the text; 0 if it has none. Without Redis there is no text, and this counts changes.
    pub(super) version: u64,
}

impl Held {
    pub(super) fn new(text: Vec<u8>) -> Self {
        Self { version: Stored::version_of(&text), text }
    }
}

/// Why the document in Redis could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Read(DocumentFault),
    Write(DocumentFault),
    /// Others changed it at the same time, in every attempt.
    Contended,
}

impl Fault {
    /// Whether Redis is unavailable, which the connection reports.
    pub(super) fn is_away(&self) -> bool {
        matches!(self, Self::Read(DocumentFault::Away) | Self::Write(DocumentFault::Away))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(DocumentFault::Rejected(error)) => f.write_str(error),
            Self::Read(fault) | Self::Write(fault) => fault.fmt(f),
            Self::Contended => f.write_str("others changed it at the same time"),
        }
    }
}

/// When a failed write is attempted again: after growing pauses, or at once over a new connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    reconnections: u32,
    pause: Duration,
    at: Instant,
}

impl Retry {
    const FIRST_PAUSE: Duration = Duration::from_secs(1);
    const LONGEST_PAUSE: Duration = Duration::from_secs(30);

    /// After a failed write. `before` is the previous attempt at the same write.
    pub(super) fn after(before: Option<Self>, reconnections: u32, now: Instant) -> Self {
        let before = before.filter(|before| before.reconnections == reconnections);
        let pause = before.map_or(Self::FIRST_PAUSE, |before| (before.pause * 2).min(Self::LONGEST_PAUSE));
        Self { reconnections, pause, at: now + pause }
    }

    pub(super) fn is_due(&self, reconnections: u32, now: Instant) -> bool {
        self.reconnections != reconnections || now >= self.at
    }
}

/// The newest document, and what Redis has.
pub(super) struct Reconciled {
    pub(super) text: Vec<u8>,
    /// The text in Redis: another one, if the newest could not be written.
    pub(super) seen: Vec<u8>,
    /// Why it could not be written.
    pub(super) fault: Option<Fault>,
}

impl Reconciled {
    fn written(text: Vec<u8>) -> Self {
        Self { seen: text.clone(), text, fault: None }
    }
}

/// Compares what was `found` in Redis with the document in force here, and writes the newer one to Redis if it is not
/// there.
pub(super) async fn reconcile(
    document: &Document,
    held: &Held,
    mut found: Vec<u8>,
    log: &Log,
) -> Result<Reconciled, Fault> {
    for _ in 0..ATTEMPTS {
        let (newest, why) = match compare(held, &found) {
            Found::Newest => return Ok(Reconciled::written(found)),
            Found::Conflicting => {
                report_conflict(log, document, held.version);
                return Ok(Reconciled::written(found));
            }
            Found::Unversioned(text) => (text, None),
            Found::Outdated(why) => (held.text.clone(), Some(why)),
        };
        match document.replace(&found, &newest).await {
            Ok(true) => {
                if let Some(why) = why {
                    report_written_back(log, document, why, held.version);
                }
                return Ok(Reconciled::written(newest));
            }
            Ok(false) => found = document.read().await.map_err(Fault::Read)?,
            Err(fault) => return Ok(Reconciled { text: newest, seen: found, fault: Some(Fault::Write(fault)) }),
        }
    }
    Err(Fault::Contended)
}

/// Reports that a document was written back.
pub(super) fn report_written_back(log: &Log, document: &Document, why: Outdated, version: u64) {
    let version = if version > 0 { format!(", version {version}") } else { String::new() };
    log.warn("ConfigController", format_args!("{why} (`{}`{version})", document.key()));
}

fn report_conflict(log: &Log, document: &Document, version: u64) {
    let key = document.key();
    log.warn(
        "ConfigController",
        format_args!(
            "Redis holds other limits than those in force under the same version; following Redis (`{key}`, version \
             {version})"
        ),
    );
}

/// How the document found in Redis relates to the one in force here.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It is the newest, or can't be parsed and is left as it is.
    Newest,
    /// It is another document with the same version, as after changes on both sides of a network split. The one in
    /// Redis counts: all gateways see it.
    Conflicting,
    /// It was written without a version. It counts and gets the next version: this is its new text.
    Unversioned(Vec<u8>),
    /// The one in force here is newer.
    Outdated(Outdated),
}

/// Why a document is written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outdated {
    /// Redis has none: it was restarted or flushed, or the document was evicted or deleted.
    Missing,
    /// Redis has this lower version, as after a restart from an old snapshot.
    Older(u64),
}

impl fmt::Display for Outdated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the limits set while running were missing from Redis; wrote them back"),
            Self::Older(version) => write!(f, "Redis held older limits (version {version}); wrote back the newer ones"),
        }
    }
}

/// Compares what was `found` in Redis with the document in force here.
pub(super) fn compare(held: &Held, found: &[u8]) -> Found {
    if found.is_empty() {
        // A gateway without a document writes nothing: others may have one.
        return if held.text.is_empty() { Found::Newest } else { Found::Outdated(Outdated::Missing) };
    }
    let read = |text: &[u8]| Stored::read(text, &[], |_, _| Ok(()));
    let Ok(mut stored) = read(found) else { return Found::Newest };
    if held.version == 0 || stored.version > held.version {
        Found::Newest
    } else if stored.version == held.version {
        let is_same = read(&held.text).is_ok_and(|held| held.write() == stored.write());
        if is_same { Found::Newest } else { Found::Conflicting }
    } else if stored.version > 0 {
        Found::Outdated(Outdated::Older(stored.version))
    } else {
        stored.version = held.version;
        let mut text = stored.write().into_bytes();
        // If the texts are equal, it already got its version, which could not be written.
        if text != held.text {
            stored.version = next_version(held.version, 0);
            text = stored.write().into_bytes();
        }
        Found::Unversioned(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::HIGHEST_VERSION;

    const HELD: &str = r#"{"algorithm":"fixed","limit":9,"window":60,"version":7}"#;

    fn held(text: &str) -> Held {
        Held::new(text.as_bytes().to_vec())
    }

    #[track_caller]
    fn found(in_force: &str, text: &str, expected: &Found) {
        assert_eq!(&compare(&held(in_force), text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn a_missing_document_is_written_back_by_any_gateway_that_holds_one() {
        found(HELD, "", &Found::Outdated(Outdated::Missing));
        found(r#"{"version":7}"#, "", &Found::Outdated(Outdated::Missing));
        found(r#"{"algorithm":"fixed","limit":9,"window":60}"#, "", &Found::Outdated(Outdated::Missing));
    }

    #[test]
    fn a_gateway_that_has_only_a_file_writes_nothing() {
        found("", "", &Found::Newest);
        found("", r#"{"limits":{}}"#, &Found::Newest);
    }

    #[test]
    fn the_higher_version_wins_and_of_equals_the_one_in_redis() {
        let other = |version: u64| format!(r#"{{"algorithm":"fixed","limit":3,"window":60,"version":{version}}}"#);
        for version in [1, 6] {
            found(HELD, &other(version), &Found::Outdated(Outdated::Older(version)));
        }
        found(HELD, &other(7), &Found::Conflicting);
        for version in [8, HIGHEST_VERSION] {
            found(HELD, &other(version), &Found::Newest);
        }
        found(HELD, HELD, &Found::Newest);
        found(HELD, r#"{ "version": 7, "window": 60, "limit": 9, "algorithm": "fixed" }"#, &Found::Newest);
    }

    #[test]
    fn a_text_that_can_not_be_parsed_is_left_as_it_is_whatever_its_version() {
        for text in ["many", "[]", "{}}", r#"{"limits":5,"version":3}"#] {
            found(HELD, text, &Found::Newest);
        }
    }

    #[track_caller]
    fn stamped(in_force: &Held, text: &str) -> Vec<u8> {
        match compare(in_force, text.as_bytes()) {
            Found::Unversioned(stamped) => stamped,
            other @ (Found::Newest | Found::Conflicting | Found::Outdated(_)) => panic!("{other:?}: {text}"),
        }
    }

    /// Invalid numbers count too: other gateways may know what they mean. A version that no gateway gives is ignored:
    /// 2^64-1 stayed the highest for ever.
    #[test]
    fn a_document_without_a_version_counts_and_gets_the_next_one() {
        let too_high = [format!(r#","version":{}"#, u64::MAX), format!(r#","version":{}"#, HIGHEST_VERSION + 1)];
        let none = ["", r#","version":0"#, r#","version":"7""#, r#","version":-1"#, r#","version":1.5"#];
        for version in none.into_iter().chain(too_high.iter().map(String::as_str)) {
            let text = format!(r#"{{"limit":0,"colour":"blue"{version}}}"#);
            let stamped: serde_json::Value = serde_json::from_slice(&stamped(&held(HELD), &text)).expect("JSON");
            assert_eq!(stamped, serde_json::json!({ "limit": 0, "colour": "blue", "version": 8 }), "{text}");
        }
        found("", r#"{"limit":3}"#, &Found::Newest);
        let last = Held { text: b"{}".to_vec(), version: HIGHEST_VERSION };
        assert_eq!(Stored::version_of(&stamped(&last, r#"{"limit":3}"#)), HIGHEST_VERSION);
    }

    #[test]
    fn a_version_that_could_not_be_written_is_written_later_and_not_raised() {
        let text = r#"{"limit":3}"#;
        let first = stamped(&held(HELD), text);
        assert_eq!(Stored::version_of(&first), 8);
        assert_eq!(stamped(&Held::new(first.clone()), text), first);
        let other = stamped(&Held::new(first), r#"{"limit":4}"#);
        assert_eq!(Stored::version_of(&other), 9, "this is another document");
    }

    #[test]
    fn failed_writes_are_attempted_again_after_growing_pauses_and_at_once_over_a_new_connection() {
        let mut now = Instant::now();
        let mut retry = Retry::after(None, 0, now);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            assert!(
                !retry.is_due(0, now) && !retry.is_due(0, now + retry.pause.saturating_sub(Duration::from_nanos(1)))
            );
            assert!(retry.is_due(0, now + retry.pause) && retry.is_due(1, now));
            pauses.push(retry.pause.as_secs());
            now += retry.pause;
            retry = Retry::after(Some(retry), 0, now);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(Retry::after(Some(retry), 1, now).pause, Retry::FIRST_PAUSE);
    }
}

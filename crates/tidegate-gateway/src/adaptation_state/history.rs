//! The history of adaptation: a bounded list with the newest entry last.

use std::collections::VecDeque;

use serde_json::{Map, Value};
use tidegate_adapt::unix_seconds;
use tidegate_policy::Timestamp;

/// The largest recommendation that is kept in full.
const LARGEST_RECOMMENDATION: usize = 8 * 1024;

/// The last entries.
#[derive(Default)]
pub(crate) struct History {
    entries: VecDeque<Value>,
    most: usize,
}

impl History {
    /// Keeps at most `most` entries from now on.
    pub(crate) fn keep(&mut self, most: usize) {
        self.most = most;
        while self.entries.len() > most {
            self.entries.pop_front();
        }
    }

    pub(crate) fn push(&mut self, at: Timestamp, event: &str, mut fields: Map<String, Value>) {
        if self.most == 0 {
            return;
        }
        fields.insert("timestamp".to_owned(), unix_seconds(at).into());
        fields.insert("event".to_owned(), event.into());
        if self.entries.len() >= self.most {
            self.entries.pop_front();
        }
        self.entries.push_back(Value::Object(fields));
    }

    pub(crate) fn entries(&self) -> Vec<Value> {
        self.entries.iter().cloned().collect()
    }
}

/// A recommendation as the history keeps it: as received, or the start of its text if it is too large.
pub(crate) fn as_received(recommendation: &Value) -> Value {
    let text = recommendation.to_string();
    if text.len() <= LARGEST_RECOMMENDATION {
        return recommendation.clone();
    }
    let end = text.floor_char_boundary(LARGEST_RECOMMENDATION);
    format!("{}… ({} bytes)", &text[..end], text.len()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entries_are_dropped_first() {
        let mut history = History::default();
        history.push(Timestamp::default(), "lost", Map::new());
        history.keep(3);
        for index in 0..5_u64 {
            let fields = Map::from_iter([("index".to_owned(), index.into())]);
            history.push(Timestamp::from_nanos(index * 1_500_000_000), "event", fields);
        }
        let indices: Vec<_> = history.entries().iter().map(|entry| entry["index"].as_u64()).collect();
        assert_eq!(indices, [Some(2), Some(3), Some(4)]);
        assert_eq!(history.entries()[1]["timestamp"], 4.5);
        history.keep(1);
        assert_eq!(history.entries().len(), 1);
    }

    #[test]
    fn a_recommendation_that_is_too_large_is_kept_in_part() {
        let large = Value::from("é".repeat(LARGEST_RECOMMENDATION));
        let kept = as_received(&large).to_string();
        assert!(kept.len() < LARGEST_RECOMMENDATION + 100 && kept.contains("bytes"), "{}", kept.len());
        assert_eq!(as_received(&Value::from(7)), 7);
    }
}

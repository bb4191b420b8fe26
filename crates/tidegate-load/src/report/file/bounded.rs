//! Lists and values that end: what a file makes us keep is bounded while it is read, not afterwards.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tidegate_input::json;

/// A list of at most `N` entries.
pub(super) fn at_most<'de, D, T, const N: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct List<T, const N: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for List<T, N> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(entry) = entries.next_element()? {
                if list.len() == N {
                    return Err(A::Error::custom(format_args!("a list has more than {N} entries")));
                }
                list.push(entry);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(List::<T, N>(PhantomData))
}

/// The most values that a plan as it is shown may consist of; more than one ever does.
const MOST_VALUES: u32 = 30_000;

/// A plan as it is shown.
pub(super) struct Shown(pub(super) Value);

impl<'de> Deserialize<'de> for Shown {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        json::bounded(deserializer, "plan", MOST_VALUES).map(Self)
    }
}

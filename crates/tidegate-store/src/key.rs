use std::fmt;

use sha2::{Digest, Sha256};

/// A name that an operator gives: of a namespace or of a limit. It becomes part of Redis keys, so it is plain: letters,
/// digits, `_`, `-` and `.`, at most 64 of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(Box<str>);

/// A text that can't be a [`Name`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidName(pub String);

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} can't be a name: it must be 1 to 64 of A-Z a-z 0-9 `_` `-` `.`", self.0)
    }
}

impl std::error::Error for InvalidName {}

impl Name {
    /// `name`, if it is plain.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if (1..=64).contains(&name.len()) && name.chars().all(plain) {
            Ok(Self(name.into()))
        } else {
            Err(InvalidName(name.to_owned()))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a limit counts by: what users send, hashed, so that it can neither choose a slot of a cluster nor be taken for
/// anything else.
///
/// ```
/// use tidegate_store::Key;
///
/// assert_ne!(Key::of(&["a:b", "c"]), Key::of(&["a", "b:c"])); // the parts stay apart
/// assert_eq!(Key::of(&["{x}"]).to_string().len(), 32); // a user named `{x}` is just a name
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; 16]);

impl Key {
    /// The key of these parts: a user, or a user and an endpoint, or nothing at all for a limit that everyone shares.
    ///
    /// It is the first half of a SHA-256, the same in every process; nobody can find two texts with the same one.
    pub fn of(parts: &[&str]) -> Self {
        Self::hashed(parts.iter().map(|part| part.as_bytes()))
    }

    /// The same of parts that are not text: addresses, header values.
    pub fn of_bytes(parts: &[&[u8]]) -> Self {
        Self::hashed(parts.iter().copied())
    }

    /// Some of its bits as a number, the same in every process.
    pub fn short_hash(&self) -> u64 {
        (u128::from_be_bytes(self.0) >> 64) as u64
    }

    fn hashed<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let mut half = [0; 16];
        half.copy_from_slice(&hash.finalize()[..16]);
        Self(half)
    }

    /// A number that spreads keys evenly.
    pub(crate) fn spread(self) -> usize {
        usize::from(self.0[0])
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

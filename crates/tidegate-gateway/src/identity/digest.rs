//! SHA-256, by which secrets are looked up. The time of a lookup then reveals something about the hash alone, which is
//! no help to find the secret.

use std::fmt::Write;

pub(super) type Digest = [u8; 32];

pub(super) fn sha256(bytes: &[u8]) -> Digest {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().try_into().expect("a SHA-256 has 32 bytes")
}

/// 64 hex digits, of either case.
pub(super) fn from_hex(text: &str) -> Option<Digest> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut digest = Digest::default();
    for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(digest)
}

/// The first 8 bytes in hex: enough to distinguish keys in a log.
pub(super) fn short_id(digest: &Digest) -> Box<str> {
    let mut id = String::with_capacity(16);
    for byte in &digest[..8] {
        write!(id, "{byte:02x}").expect("a String takes all that is written");
    }
    id.into()
}

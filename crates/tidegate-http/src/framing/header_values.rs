//! Values of headers that decide how a message is passed on.

/// The most words in all `Connection` headers of a head: each is compared with each header.
pub(crate) const MOST_CONNECTION_WORDS: usize = 64;

/// The words of a list such as the value of `Connection`. A word that is not UTF-8 is empty.
pub fn words(value: &[u8]) -> impl Iterator<Item = &str> {
    value.split(|byte| *byte == b',').map(|word| str::from_utf8(word.trim_ascii()).unwrap_or_default())
}

/// Whether a word of `TE` announces that the sender accepts trailers.
pub fn takes_trailers(word: &str) -> bool {
    word.split(';').next().is_some_and(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}

/// Whether a word of `Connection` names a header.
pub(crate) fn is_nomination(word: &str) -> bool {
    let usual = ["keep-alive", "close", "upgrade", "te"];
    !word.is_empty() && !usual.iter().any(|usual| word.eq_ignore_ascii_case(usual))
}

/// The number in a header such as `Content-Length`: digits and nothing else.
pub fn content_length(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.len() <= 19 && value.iter().all(u8::is_ascii_digit);
    digits.then(|| value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

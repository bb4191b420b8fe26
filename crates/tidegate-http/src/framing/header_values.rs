//! Values of headers that decide how a message is passed on.

/// The most words in all `Connection` headers of a head: each is compared with each header.
pub(crate) const MOST_CONNECTION_WORDS: usize = 64;

/// The words of a list such as the value of `Connection`.
pub fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Whether a word of `TE` announces that the sender accepts trailers.
pub fn takes_trailers(word: &[u8]) -> bool {
    word.split(|byte| *byte == b';').next().is_some_and(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

/// Whether a word of `Connection` names a header.
pub(crate) fn is_nomination(word: &[u8]) -> bool {
    let usual: [&[u8]; 4] = [b"keep-alive", b"close", b"upgrade", b"te"];
    !word.is_empty() && !usual.iter().any(|usual| word.eq_ignore_ascii_case(usual))
}

/// The number in a header such as `Content-Length`: digits and nothing else.
pub fn content_length(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.len() <= 19 && value.iter().all(u8::is_ascii_digit);
    digits.then(|| value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

//! The ends of lines.

/// Whether every line up to the empty one ends in CR LF: a bare LF ends a line for some parsers and not for others.
pub(crate) fn ends_in_crlf(head: &[u8]) -> bool {
    let mut line = 0;
    for end in memchr::memchr_iter(b'\n', head) {
        if end == line || head[end - 1] != b'\r' {
            return false;
        }
        if end == line + 1 {
            return true;
        }
        line = end + 1;
    }
    true
}

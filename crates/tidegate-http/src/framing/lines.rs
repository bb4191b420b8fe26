//! How lines end.

/// Whether every line in it, up to the empty one, ends in CR LF: a bare LF is an end to some and none to others.
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

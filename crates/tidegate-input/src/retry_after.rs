//! The header `Retry-After`.

use std::time::{Duration, SystemTime};

/// How long `Retry-After` asks to wait: seconds, or a date, which is compared with `now`. What is neither is ignored.
pub fn retry_after(value: &[u8], now: SystemTime) -> Option<Duration> {
    let text = str::from_utf8(value).ok()?;
    // Digits and nothing else: Rust would take a sign, too.
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = text.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds.min(u32::MAX.into())));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770);
        let at = |text: &str| retry_after(text.as_bytes(), now).map(|after| after.as_secs());
        assert_eq!(at("7"), Some(7));
        assert_eq!(at("99999999999"), Some(u32::MAX.into()), "as good as never");
        assert_eq!(at("99999999999999999999999999"), Some(u32::MAX.into()));
        assert_eq!(at("Sun, 06 Nov 1994 08:49:37 GMT"), Some(7));
        assert_eq!(at("Sun, 06 Nov 1994 08:49:29 GMT"), Some(0), "it is over");
        for odd in ["", "-1", "+1", "soon", "1.5", "7 ", "\u{663}"] {
            assert_eq!(at(odd), None, "{odd}");
        }
        assert_eq!(retry_after(b"\xff", now), None);
    }
}

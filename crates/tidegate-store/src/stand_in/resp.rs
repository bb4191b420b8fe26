//! Redis' protocol, as far as it is spoken here.

use std::io::Write as _;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// A word, such as `OK`.
    Word(&'static str),
    /// What is wrong, on one line.
    Error(String),
    Number(i64),
    Bytes(Vec<u8>),
    Nothing,
    List(Vec<Reply>),
}

impl Reply {
    /// An error; a text of several lines becomes one.
    pub(super) fn error(text: &str) -> Self {
        Self::Error(text.replace(['\r', '\n'], " "))
    }

    /// A number that is not above 2⁵³, as all here are.
    pub(super) fn number(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        const TO_MEMORY: &str = "memory takes everything";
        match self {
            Self::Word(word) => write!(out, "+{word}\r\n").expect(TO_MEMORY),
            Self::Error(error) => write!(out, "-{error}\r\n").expect(TO_MEMORY),
            Self::Number(number) => write!(out, ":{number}\r\n").expect(TO_MEMORY),
            Self::Bytes(bytes) => {
                write!(out, "${}\r\n", bytes.len()).expect(TO_MEMORY);
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Self::Nothing => out.extend_from_slice(b"$-1\r\n"),
            Self::List(list) => {
                write!(out, "*{}\r\n", list.len()).expect(TO_MEMORY);
                for reply in list {
                    reply.write(out);
                }
            }
        }
    }
}

/// The longest command: a document's text before and after, and a script.
pub(super) const LONGEST_COMMAND: usize = 4 << 20;
/// The most words of a command.
const MOST_WORDS: usize = 1_024;
/// The longest line that says how much follows.
const LONGEST_LINE: usize = 16;

/// The words of a command, and how many bytes it takes.
type Command<'a> = (Vec<&'a [u8]>, usize);

/// The first command; none if it is not there whole. An error says what is wrong with it.
pub(super) fn command(bytes: &[u8]) -> Result<Option<Command<'_>>, &'static str> {
    let mut rest = bytes;
    let Some(count) = length(&mut rest, b'*', MOST_WORDS)? else { return Ok(None) };
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let Some(length) = length(&mut rest, b'$', LONGEST_COMMAND)? else { return Ok(None) };
        let Some((word, after)) = rest.split_at_checked(length) else { return Ok(None) };
        let Some((end, after)) = after.split_at_checked(2) else { return Ok(None) };
        if end != b"\r\n" {
            return Err("expected the end of a word");
        }
        words.push(word);
        rest = after;
    }
    Ok(Some((words, bytes.len() - rest.len())))
}

/// `*3` or `$12` and the end of its line, removed from the rest; none if it is not there whole.
fn length(rest: &mut &[u8], mark: u8, most: usize) -> Result<Option<usize>, &'static str> {
    match rest.first() {
        None => return Ok(None),
        Some(first) if *first != mark => return Err("expected a list of words"),
        Some(_) => {}
    }
    let line = &rest[1..rest.len().min(LONGEST_LINE)];
    let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
        return if rest.len() < LONGEST_LINE { Ok(None) } else { Err("invalid length") };
    };
    let digits = Some(&line[..end]).filter(|line| line.iter().all(u8::is_ascii_digit));
    let length = digits.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok()).filter(|length| *length <= most);
    *rest = &rest[1 + end + 2..];
    length.map(Some).ok_or("invalid length")
}

/// An argument that is a number.
pub(super) fn number(argument: &[u8]) -> Option<u64> {
    str::from_utf8(argument).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_read_once_it_is_there_whole() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n*1";
        for length in 0..bytes.len() - 2 {
            assert_eq!(command(&bytes[..length]), Ok(None), "{length} bytes");
        }
        assert_eq!(command(bytes), Ok(Some((vec![&b"GET"[..], b"\r\n"], bytes.len() - 2))));
    }

    #[test]
    fn what_can_not_be_a_command_is_reported() {
        for garbage in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"*x\r\n",
            b"*-1\r\n",
            b"*99999999999999999999\r\n",
            b"*1025\r\n",
            b"*1\r\n:3\r\n",
            b"*1\r\n$99999999\r\n",
            b"*1\r\n$1\r\nabc",
        ] {
            assert!(command(garbage).is_err(), "{}", garbage.escape_ascii());
        }
    }
}

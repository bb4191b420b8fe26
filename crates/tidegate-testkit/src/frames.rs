//! HTTP/2 by hand: frames and header blocks as they are given, right or wrong (RFC 9113, RFC 7541).

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::PATIENCE;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub const PROTOCOL_ERROR: u32 = 1;
pub const FLOW_CONTROL_ERROR: u32 = 3;
pub const ENHANCE_YOUR_CALM: u32 = 11;

pub const INITIAL_WINDOW_SIZE: u16 = 4;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Clone, Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn new(kind: u8, flags: u8, stream: u32, payload: impl Into<Vec<u8>>) -> Self {
        Self { kind, flags, stream, payload: payload.into() }
    }

    /// A whole request without a body.
    pub fn request(stream: u32, fields: &[(&str, &[u8])]) -> Self {
        Self::new(HEADERS, END_HEADERS | END_STREAM, stream, block(fields))
    }

    pub fn reset(stream: u32) -> Self {
        Self::new(RST_STREAM, 0, stream, 8_u32.to_be_bytes())
    }

    pub fn settings(settings: &[(u16, u32)]) -> Self {
        let one = |(name, value): &(u16, u32)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat();
        Self::new(SETTINGS, 0, 0, settings.iter().flat_map(one).collect::<Vec<u8>>())
    }

    pub fn window_update(stream: u32, increment: u32) -> Self {
        Self::new(WINDOW_UPDATE, 0, stream, increment.to_be_bytes())
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.payload.len() as u32).to_be_bytes()[1..]);
        out.extend_from_slice(&[self.kind, self.flags]);
        out.extend_from_slice(&self.stream.to_be_bytes());
        out.extend_from_slice(&self.payload);
    }

    /// The error code of a reset or a farewell.
    fn code(&self) -> u32 {
        let start = if self.kind == GOAWAY { 4 } else { 0 };
        self.payload[start..start + 4].try_into().map(u32::from_be_bytes).expect("four bytes")
    }
}

/// A header block: every field a literal that is not indexed, bytes as they are.
pub fn block(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        string(&mut out, name.as_bytes());
        string(&mut out, value);
    }
    out
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    integer(out, 7, 0, bytes.len());
    out.extend_from_slice(bytes);
}

/// RFC 7541 §5.1: an integer with a prefix of so many bits.
pub fn integer(out: &mut Vec<u8>, bits: u32, first: u8, value: usize) {
    let most = (1_usize << bits) - 1;
    if value < most {
        out.push(first | value as u8);
        return;
    }
    out.push(first | most as u8);
    let mut rest = value - most;
    while rest >= 128 {
        out.push(128 | (rest % 128) as u8);
        rest /= 128;
    }
    out.push(rest as u8);
}

/// How a stream ended, or the connection before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Status(u16),
    Reset(u32),
    GoneAway(u32),
    Closed,
}

impl Outcome {
    /// Whether the gateway rejected, by whatever means.
    pub fn is_rejection(&self) -> bool {
        // 501 is what CONNECT gets.
        !matches!(self, Self::Status(..400 | 500 | 502..))
    }
}

/// A connection that speaks HTTP/2 without TLS.
pub struct Wire {
    stream: BufReader<TcpStream>,
}

impl Wire {
    /// Connects, with the preface and no settings.
    pub fn connect(address: SocketAddr) -> Self {
        Self::connect_with(address, &[])
    }

    pub fn connect_with(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        Self::over(TcpStream::connect(address).expect("it listens"), settings)
    }

    /// Speaks over a connection that is there already.
    pub fn over(stream: TcpStream, settings: &[(u16, u32)]) -> Self {
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        let mut wire = Self { stream: BufReader::new(stream) };
        let mut bytes = PREFACE.to_vec();
        Frame::settings(settings).write(&mut bytes);
        wire.stream.get_mut().write_all(&bytes).expect("it takes them");
        wire
    }

    /// Sends frames at once; whether they were taken.
    pub fn send(&mut self, frames: &[Frame]) -> bool {
        let mut bytes = Vec::new();
        for frame in frames {
            frame.write(&mut bytes);
        }
        self.send_bytes(&bytes)
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) -> bool {
        self.stream.get_mut().write_all(bytes).is_ok()
    }

    /// The next frame; none if the connection ends. Settings and pings are acknowledged.
    pub fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
        let frame = Frame { kind: head[3], flags: head[4], stream, payload };
        if frame.kind == SETTINGS && frame.flags & ACK == 0 {
            self.send(&[Frame::new(SETTINGS, ACK, 0, [])]);
        }
        if frame.kind == PING && frame.flags & ACK == 0 {
            self.send(&[Frame::new(PING, ACK, 0, frame.payload.clone())]);
        }
        Some(frame)
    }

    /// Reads until a frame of this kind comes.
    pub fn read_until(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.read()?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// Reads until it knows how this stream ends, or that the connection does.
    pub fn outcome(&mut self, stream: u32) -> Outcome {
        loop {
            let Some(frame) = self.read() else { return Outcome::Closed };
            match frame.kind {
                HEADERS if frame.stream == stream => return Outcome::Status(status(&frame.payload)),
                RST_STREAM if frame.stream == stream => return Outcome::Reset(frame.code()),
                GOAWAY if frame.code() != 0 => return Outcome::GoneAway(frame.code()),
                _ => {}
            }
        }
    }

    /// Waits until everything sent so far has been read by the other side. False if the connection has ended.
    pub fn settle(&mut self) -> bool {
        self.send(&[Frame::new(PING, 0, 0, *b"settled?")])
            && loop {
                match self.read() {
                    None => break false,
                    Some(frame) if frame.kind == PING && frame.flags & ACK != 0 && frame.payload == b"settled?" => {
                        break true;
                    }
                    Some(_) => {}
                }
            }
    }

    /// Waits until the other side has closed the connection.
    pub fn wait_for_end(&mut self) {
        while self.read().is_some() {}
        // A timeout is no end.
        self.stream.get_ref().set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
        let ended = match self.stream.get_mut().read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
        };
        assert!(ended, "the connection stays open");
    }
}

/// The status in a response's header block, which stands first. Only the first response of a connection can be read:
/// later ones refer to it.
fn status(block: &[u8]) -> u16 {
    let mut block = block;
    // Changes of the table's size.
    while block[0] & 0xe0 == 0x20 {
        let is_long = block[0] & 0x1f == 0x1f;
        let more = if is_long { block[1..].iter().take_while(|byte| **byte & 0x80 != 0).count() + 1 } else { 0 };
        block = &block[1 + more..];
    }
    match block[0] {
        indexed @ 0x88..=0x8e => [200, 204, 206, 304, 400, 404, 500][usize::from(indexed - 0x88)],
        0x48 | 0x08 | 0x18 => {
            let (is_huffman, length) = (block[1] & 0x80 != 0, usize::from(block[1] & 0x7f));
            let text = &block[2..2 + length];
            let digits = if is_huffman { huffman_digits(text) } else { text.to_vec() };
            digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'))
        }
        other => panic!("no status: {other:#x}"),
    }
}

/// RFC 7541, appendix B: `0` to `2` have five bits, the other digits six.
fn huffman_digits(bytes: &[u8]) -> Vec<u8> {
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let number = |bits: &[u8]| bits.iter().fold(0_u8, |number, bit| number << 1 | bit);
    let (mut at, mut digits) = (0, Vec::new());
    while digits.len() < 3 {
        let five = number(&bits[at..at + 5]);
        if five <= 2 {
            digits.push(b'0' + five);
            at += 5;
        } else {
            digits.push(b'0' + number(&bits[at..at + 6]) - 0x19 + 3);
            at += 6;
        }
    }
    digits
}

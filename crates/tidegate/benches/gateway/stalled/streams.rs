//! HTTP/2 streams that never get a window to be responded in.

use std::io;
use std::sync::atomic::Ordering;

use bytes::{Buf as _, BytesMut};
use tidegate_testkit::frames::{
    ACK, DATA, END_STREAM, Frame, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, PING, PREFACE, RST_STREAM, SETTINGS,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval};

use super::attack::{PAUSE, Tally};

/// 47 × 128 streams are some 6,000.
pub(crate) const CONNECTIONS: u32 = 47;
const STREAMS: u32 = 128;

const REQUEST: [(&str, &[u8]); 4] =
    [(":method", b"GET"), (":scheme", b"http"), (":path", b"/1m"), (":authority", b"bench")];

/// Opens all streams of a connection, and each again that ends, until the connection does.
pub(crate) async fn hold(stream: TcpStream, tally: &Tally) -> io::Result<()> {
    let (mut reader, mut writer) = stream.into_split();
    let mut out = PREFACE.to_vec();
    Frame::settings(&[(INITIAL_WINDOW_SIZE, 0)]).write(&mut out);
    let (mut read, mut next_stream, mut missing) = (BytesMut::new(), 1, STREAMS);
    let mut turns = interval(PAUSE);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            count = reader.read_buf(&mut read) => if count? == 0 { return Ok(()) },
            _ = turns.tick() => {
                for _ in 0..std::mem::take(&mut missing) {
                    Frame::request(next_stream, &REQUEST).write(&mut out);
                    next_stream += 2;
                    tally.opened.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        while let Some(frame) = frame(&mut read) {
            match frame.kind {
                GOAWAY => return Ok(()),
                SETTINGS | PING if frame.flags & ACK == 0 => {
                    let payload = if frame.kind == PING { frame.payload } else { Vec::new() };
                    Frame::new(frame.kind, ACK, 0, payload).write(&mut out);
                }
                RST_STREAM => missing += ended(tally),
                HEADERS | DATA if frame.flags & END_STREAM != 0 => missing += ended(tally),
                _ => {}
            }
        }
        writer.write_all(&out).await?;
        out.clear();
    }
}

/// Counts a stream that has ended.
fn ended(tally: &Tally) -> u32 {
    tally.ended.fetch_add(1, Ordering::Relaxed);
    1
}

/// The next whole frame of what was read.
fn frame(read: &mut BytesMut) -> Option<Frame> {
    let head: [u8; 9] = read.get(..9)?.try_into().ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    if read.len() < 9 + length {
        return None;
    }
    read.advance(9);
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
    Some(Frame::new(head[3], head[4], stream, read.split_to(length).to_vec()))
}

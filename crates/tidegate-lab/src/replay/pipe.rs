//! Pipes, standard input among them, which may be silent for a long time. Stopping does not wait for them.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// How often it looks whether it is to stop.
const PAUSE: Duration = Duration::from_millis(50);
/// Pieces that may wait, and how long each is.
const PIECES: usize = 4;
const PIECE: usize = 256 * 1024;

/// Reads on a thread of its own. When it is to stop, it ends.
pub(super) struct Pipe<'a> {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    at: usize,
    is_stopped: &'a AtomicBool,
}

impl<'a> Pipe<'a> {
    /// The pipe at this path, or standard input.
    pub(super) fn open(path: Option<PathBuf>, is_stopped: &'a AtomicBool) -> io::Result<Self> {
        let (sender, pieces) = sync_channel(PIECES);
        std::thread::Builder::new().name("pipe".to_owned()).spawn(move || {
            // Opening one may take as long as reading.
            let mut input: Box<dyn Read> = match path.map(File::open).transpose() {
                Ok(Some(file)) => Box::new(file),
                Ok(None) => Box::new(io::stdin().lock()),
                Err(error) => return drop(sender.send(Err(error))),
            };
            loop {
                let mut piece = vec![0; PIECE];
                let read = input.read(&mut piece).map(|length| {
                    piece.truncate(length);
                    piece
                });
                // An error or the end is sent last.
                let is_last = read.as_ref().map_or(true, Vec::is_empty);
                if sender.send(read).is_err() || is_last {
                    return;
                }
            }
        })?;
        Ok(Self { pieces, piece: Vec::new(), at: 0, is_stopped })
    }
}

impl Read for Pipe<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            match self.pieces.recv_timeout(PAUSE) {
                Ok(piece) if piece.as_ref().is_ok_and(Vec::is_empty) => return Ok(0),
                Ok(piece) => (self.piece, self.at) = (piece?, 0),
                Err(RecvTimeoutError::Timeout) if !self.is_stopped.load(Relaxed) => {}
                Err(_) => return Ok(0),
            }
        }
        let length = buffer.len().min(self.piece.len() - self.at);
        buffer[..length].copy_from_slice(&self.piece[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}

//! A response that is read ahead of a client that takes it slowly, so that its upstream can serve other requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use tidegate_http::client::{ResponseStream, Trouble};

use crate::attempt_hold::AttemptHold;
use crate::buffers::Lease;
use crate::request_body::RequestBody;

/// Smaller pieces are copied, because each would keep the whole buffer that it was read into: up to 32 KiB.
const SMALL: usize = 16 * 1024;
/// What a piece costs besides its bytes.
const OF_A_PIECE: usize = 64;

/// A response that is read ahead. The task that writes to the client and the body that hyper has share it.
#[derive(Clone)]
pub(crate) struct ReadAhead(Arc<Mutex<Reading>>);

struct Reading {
    stream: Box<ResponseStream<RequestBody>>,
    pieces: VecDeque<Frame<Bytes>>,
    lease: Lease,
    end: End,
    /// The client takes what comes: nothing has to be read ahead.
    is_wanted: bool,
    /// What the request holds as long as its endpoint works on it: of the endpoint, and of the upstream's limits.
    held: (Option<AttemptHold>, Option<Box<dyn Send>>),
}

enum End {
    Open,
    Whole,
    Broken(Option<Trouble>),
}

impl ReadAhead {
    pub(crate) fn new(stream: Box<ResponseStream<RequestBody>>, lease: Lease) -> Self {
        let (pieces, end, held) = (VecDeque::new(), End::Open, (None, None));
        Self(Arc::new(Mutex::new(Reading { stream, pieces, lease, end, is_wanted: false, held })))
    }

    /// Holds this until the endpoint has sent the whole response, or the request has ended.
    pub(crate) fn hold(&self, of_endpoint: Option<AttemptHold>, of_limits: Option<Box<dyn Send>>) {
        self.lock().held = (of_endpoint, of_limits);
    }

    /// What is held of the endpoint, after the response has broken off.
    pub(crate) fn take_hold(&self) -> Option<AttemptHold> {
        self.lock().held.0.take()
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes are still to come, where that is known.
    pub(crate) fn length(&self) -> Option<u64> {
        let reading = self.lock();
        let data = reading.pieces.iter().filter_map(Frame::data_ref);
        Some(reading.stream.length()? + data.map(|data| data.len() as u64).sum::<u64>())
    }

    /// Whether the client has all of it.
    pub(crate) fn is_ended(&self) -> bool {
        let reading = self.lock();
        reading.pieces.is_empty() && reading.stream.is_ended() && !matches!(reading.end, End::Broken(Some(_)))
    }

    /// The next piece.
    pub(crate) fn poll_piece(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Trouble>>> {
        let reading = &mut *self.lock();
        reading.is_wanted = false;
        if let Some(frame) = reading.pieces.pop_front() {
            reading.lease.remove(cost(&frame));
            return Poll::Ready(Some(Ok(frame)));
        }
        match &mut reading.end {
            End::Whole => return Poll::Ready(None),
            End::Broken(trouble) => return Poll::Ready(trouble.take().map(Err)),
            End::Open => {}
        }
        let frame = reading.stream.poll_frame(cx);
        reading.is_wanted = frame.is_pending();
        if reading.stream.is_ended() && !matches!(frame, Poll::Ready(Some(Err(_)))) {
            reading.let_go();
        }
        frame
    }

    /// Reads ahead while the client takes nothing. Returns why its request must end, if another one needs the
    /// connection.
    pub(crate) fn poll_ahead(&self, cx: &mut Context<'_>) -> Option<Trouble> {
        let reading = &mut *self.lock();
        if reading.is_wanted {
            return None;
        }
        while matches!(reading.end, End::Open) {
            if !reading.lease.has_room() {
                return reading.stream.client_blocks(cx);
            }
            match reading.stream.poll_frame(cx) {
                Poll::Pending => return None,
                Poll::Ready(Some(Ok(frame))) => {
                    let frame =
                        frame.map_data(|data| if data.len() < SMALL { Bytes::copy_from_slice(&data) } else { data });
                    reading.lease.add(cost(&frame));
                    reading.pieces.push_back(frame);
                    if reading.stream.is_ended() {
                        reading.end = End::Whole;
                    }
                }
                Poll::Ready(Some(Err(trouble))) => {
                    // The endpoint is judged when the client has read as far; the upstream's limits need not wait.
                    reading.held.1 = None;
                    if let Some(hold) = &mut reading.held.0 {
                        hold.in_flight.broke_off();
                        hold.give_back_slot();
                    }
                    reading.end = End::Broken(Some(trouble));
                }
                Poll::Ready(None) => reading.end = End::Whole,
            }
        }
        if matches!(reading.end, End::Whole) {
            reading.let_go();
        }
        None
    }
}

impl Reading {
    /// The endpoint has sent its whole response.
    fn let_go(&mut self) {
        if let (Some(hold), _) = std::mem::take(&mut self.held) {
            hold.in_flight.ended();
        }
    }
}

fn cost(frame: &Frame<Bytes>) -> usize {
    OF_A_PIECE + frame.data_ref().map_or(0, Bytes::len)
}

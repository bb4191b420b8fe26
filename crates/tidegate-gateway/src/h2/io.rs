//! The bytes of a client's HTTP/2 connection, between its socket and hyper.

use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::rt::{Read, ReadBufCursor, Write};
use tidegate_http::activity::Activity;
use tidegate_http::deadlines::Deadlines;
use tidegate_http::stream::{LINGER, Stream, hold, linger};
use tokio::io::{AsyncRead as _, AsyncWrite as _, AsyncWriteExt as _, ReadBuf};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::flood::{Fault, Flood};
use super::frames::{NO_ERROR, goaway};
use super::watch::{Terms, Watch};

/// The most that is read at once.
const MOST_READ: usize = 16 * 1024;
/// After a read with so many bytes of requests, other connections have a turn: compressed headers may cost much.
const MANY_REQUESTS: usize = 4 * 1024;
/// How long the write of a GOAWAY may take.
const GOAWAY_TIMEOUT: Duration = Duration::from_secs(1);

/// What the server of a connection counts for its [`ClientIo`]: how often hyper has had a turn, how many requests it
/// has handed over, how many of those were rejected because of their head, and whether the connection must end. In the
/// other direction: whether hyper has ended it because the client broke the rules of HTTP/2.
#[derive(Default)]
pub(crate) struct Tally {
    turns: AtomicU64,
    served: AtomicU64,
    rejected: AtomicU64,
    leaves: AtomicBool,
    is_invalid: AtomicBool,
}

impl Tally {
    pub(crate) fn turn_begins(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn request_came(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn request_rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the connection at its next read. Requests on it may only wait for their client.
    pub(crate) fn leave(&self) {
        self.leaves.store(true, Ordering::Relaxed);
    }

    /// Whether hyper has ended the connection because the client broke the rules of HTTP/2.
    pub(crate) fn is_invalid(&self) -> bool {
        self.is_invalid.load(Ordering::Relaxed)
    }
}

/// The bytes of a client's HTTP/2 connection. It records the connection's activity, counts the client's frames and
/// inspects its header blocks before hyper sees them. After a fault hyper sees an error, and the server of the
/// connection gets the stream back to end it.
pub(crate) struct ClientIo {
    /// `None` when it has been given back.
    stream: Option<Stream>,
    activity: Arc<Activity>,
    deadlines: Arc<Deadlines>,
    watch: Watch,
    /// Bytes that hyper's buffer had no space for yet.
    ready: Bytes,
    tally: Arc<Tally>,
    /// The last turn in which hyper wanted to read.
    turn: u64,
    /// It got nothing then: it had handled all that it had read before.
    is_drained: bool,
    /// The last write could not go on: not all frames of hyper may have been written.
    is_blocked: bool,
    fault: Option<Fault>,
    closing: Option<oneshot::Sender<Closing>>,
    /// The turn in which no more is read, so that other connections have theirs.
    yields_in: Option<u64>,
}

impl ClientIo {
    /// The receiver gets the stream if the connection has to end because of a fault.
    pub(crate) fn new(
        stream: Stream,
        activity: Arc<Activity>,
        deadlines: Arc<Deadlines>,
        tally: Arc<Tally>,
        terms: Terms,
    ) -> (Self, oneshot::Receiver<Closing>) {
        let (closing, given_back) = oneshot::channel();
        let watch = Watch::new(terms, deadlines.now_millis());
        let (stream, closing) = (Some(stream), Some(closing));
        (
            Self {
                stream,
                activity,
                deadlines,
                watch,
                ready: Bytes::new(),
                tally,
                turn: 0,
                is_drained: false,
                is_blocked: false,
                fault: None,
                closing,
                yields_in: None,
            },
            given_back,
        )
    }

    /// Counts the requests that were rejected so far. By the end of a turn hyper has handed over all requests that it
    /// will, of what it has handled, and it has handled everything unless it could not write. While it can't, it is not
    /// known which streams it has refused.
    fn settle(&mut self) {
        let turn = self.tally.turns.load(Ordering::Relaxed);
        let is_new_turn = std::mem::replace(&mut self.turn, turn) != turn;
        self.fault = self.fault.or(self.watch.rejected(self.tally.rejected.load(Ordering::Relaxed)).err());
        if std::mem::replace(&mut self.is_drained, true) && is_new_turn && !self.is_blocked {
            self.fault = self.fault.or(self.watch.settle(self.tally.served.load(Ordering::Relaxed)).err());
        }
    }

    /// The connection, unless it has ended. After a fault it ends between two frames: hyper first finishes the frame
    /// that it has begun.
    fn stream(&mut self) -> io::Result<Pin<&mut Stream>> {
        if let Some(fault) = self.fault.filter(|_| self.watch.begun() == 0)
            && let (Some(stream), Some(closing)) = (self.stream.take(), self.closing.take())
        {
            // The receiver is gone if the server of the connection has already ended it.
            let _dropped = closing.send(Closing { stream, fault, last_stream: self.watch.last_stream() });
        }
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::ConnectionAborted.into())
    }

    /// Ends the connection with a GOAWAY that names the last request that was served (RFC 9113 §6.8): a request that
    /// comes at this moment is above it, so that the client knows that it can send it again. If the socket does not
    /// take so few bytes at once, because the client takes nothing, no GOAWAY is sent.
    fn leave(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let goaway = goaway(self.watch.last_stream(), NO_ERROR, "");
        let _sent = self.stream()?.poll_write(cx, &goaway);
        let _flushed = self.stream()?.poll_flush(cx);
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    /// Hands on what is ready, as much as the buffer has space for.
    fn hand_on(&mut self, buf: &mut ReadBufCursor<'_>) {
        let count = self.ready.len().min(buf.remaining());
        buf.put_slice(&self.ready.split_to(count));
        self.is_drained = false;
    }

    fn has_written(&mut self, bytes: usize, is_blocked: bool) {
        self.is_blocked = is_blocked;
        self.activity.has_written(bytes, is_blocked);
    }
}

impl Read for ClientIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, mut buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let io = self.get_mut();
        if io.tally.leaves.load(Ordering::Relaxed) {
            return Poll::Ready(io.leave(cx));
        }
        if !io.ready.is_empty() {
            io.hand_on(&mut buf);
            return Poll::Ready(Ok(()));
        }
        io.settle();
        io.stream()?;
        if io.fault.is_some() {
            // The frame that has begun is still to be written.
            return Poll::Pending;
        }
        // Not only a wake: other connections may wait for their sockets, which are polled before this goes on.
        if io.yields_in == Some(io.turn) && pin!(yield_now()).poll(cx).is_pending() {
            return Poll::Pending;
        }
        let mut space = [const { MaybeUninit::uninit() }; MOST_READ];
        // A header block that is not complete is held back: then there is more to read.
        loop {
            let mut space = ReadBuf::uninit(&mut space);
            std::task::ready!(io.stream()?.poll_read(cx, &mut space))?;
            io.activity.has_read();
            let mut passed = Vec::with_capacity(space.filled().len());
            match io.watch.received(space.filled(), io.deadlines.now_millis(), &mut passed) {
                Ok(has_blocks) => {
                    io.yields_in = (has_blocks && space.filled().len() >= MANY_REQUESTS).then_some(io.turn);
                    if !passed.is_empty() {
                        io.ready = passed.into();
                        io.hand_on(&mut buf);
                    }
                    // A read of nothing is the end.
                    if !io.is_drained || space.filled().is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                }
                Err(fault) => {
                    io.fault = Some(fault);
                    io.stream()?;
                    return Poll::Pending;
                }
            }
        }
    }
}

impl Write for ClientIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let io = self.get_mut();
        let most = if io.fault.is_some() { io.watch.begun() } else { buf.len() };
        let buf = &buf[..most.min(buf.len())];
        let written = io.stream()?.poll_write(cx, buf);
        let count = if let Poll::Ready(Ok(count)) = written { count } else { 0 };
        io.has_written(count, written.is_pending());
        if let Poll::Ready(Ok(count)) = written {
            io.fault = io.fault.or(io.watch.sent(&buf[..count]).err());
            if io.watch.is_invalid() {
                io.tally.is_invalid.store(true, Ordering::Relaxed);
            }
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let io = self.get_mut();
        let flushed = io.stream()?.poll_flush(cx);
        io.has_written(0, flushed.is_pending());
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream()?.poll_shutdown(cx)
    }
}

/// A connection that has to end because of a fault.
pub(crate) struct Closing {
    stream: Stream,
    pub(crate) fault: Fault,
    last_stream: u32,
}

impl Closing {
    /// Sends the client the reason, and ends the connection.
    pub(crate) async fn send_goaway(mut self) {
        let sending = async {
            if self.fault != Fault::Flood(Flood::Other) {
                self.stream.write_all(&goaway(self.last_stream, self.fault.code(), self.fault.text())).await?;
            }
            self.stream.flush().await
        };
        if let Ok(Ok(())) = timeout(GOAWAY_TIMEOUT, sending).await {
            match self.fault {
                Fault::Preface => linger(self.stream, LINGER).await,
                Fault::Flood(_) => hold(self.stream).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tidegate_http::activity::Timeouts;
    use tidegate_http::deadlines::Owner;
    use tidegate_http::pace::PaceTerms;
    use tidegate_http::share::BusyConnections;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::super::frames::{CONTINUATION, DATA, ENHANCE_YOUR_CALM, HEADERS, PING};
    use super::super::watch::PREFACE;
    use super::*;

    const DATA_FRAME: &[u8] = &[0, 0, 5, DATA, 0, 0, 0, 0, 1, b'h', b'e', b'l', b'l', b'o'];
    const OPEN_BLOCK: &[u8] = &[0, 0, 1, HEADERS, 0, 0, 0, 0, 1, 0x88];
    const PING_FRAME: &[u8] = &[0, 0, 8, PING, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    /// A connection, the receiver of its stream after a fault, and its client.
    async fn connected() -> (ClientIo, oneshot::Receiver<Closing>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let client = TcpStream::connect(address).await.expect("it listens");
        let (stream, _) = listener.accept().await.expect("a client");
        let deadlines = Deadlines::new();
        let [head, idle, write] = [10, 75, 30].map(Duration::from_secs);
        let pace = PaceTerms { bytes_per_second: 0, window: write, step: 0 };
        let activity = Activity::new(
            deadlines.deadline(Owner::NONE),
            Timeouts { head, idle, write, pace },
            true,
            BusyConnections::default(),
        );
        let terms = Terms { max_head_bytes: 32_768, max_streams: 128, may_be_https: false };
        let (io, given_back) = ClientIo::new(Stream::Plain(stream), activity, deadlines, Arc::default(), terms);
        (io, given_back, client)
    }

    async fn write(io: &mut ClientIo, bytes: &[u8]) -> io::Result<usize> {
        poll_fn(|cx| Pin::new(&mut *io).poll_write(cx, bytes)).await
    }

    /// Reads until a fault. An error if the connection has been given back by then.
    async fn read_to_fault(io: &mut ClientIo) -> io::Result<()> {
        loop {
            let mut space = [0; 1_000];
            let mut space = hyper::rt::ReadBuf::new(&mut space);
            let read = poll_fn(|cx| match Pin::new(&mut *io).poll_read(cx, space.unfilled()) {
                Poll::Pending if io.fault.is_some() => Poll::Ready(Ok(false)),
                read => read.map_ok(|()| true),
            });
            if !read.await? {
                return Ok(());
            }
        }
    }

    /// hyper may be in the middle of a frame when the flood comes: the client must see the rest of that frame before
    /// the GOAWAY, and nothing of what hyper would write behind it.
    #[tokio::test]
    async fn a_goaway_is_written_between_two_frames() {
        let block = [OPEN_BLOCK, &[0, 0, 0, CONTINUATION, 4, 0, 0, 0, 1]].concat();
        for (whole, begun) in [(DATA_FRAME, 1), (DATA_FRAME, 9), (DATA_FRAME, 12), (&block, OPEN_BLOCK.len())] {
            let (mut io, mut given_back, mut client) = connected().await;
            assert_eq!(write(&mut io, &whole[..begun]).await.expect("it is written"), begun);
            client.write_all(PREFACE).await.expect("it is taken");
            client.write_all(&PING_FRAME.repeat(3_000)).await.expect("they are taken");
            read_to_fault(&mut io).await.expect("it waits for the rest of the frame");
            assert!(given_back.try_recv().is_err());
            let mut unwritten = &[&whole[begun..], DATA_FRAME, DATA_FRAME].concat()[..];
            while let Ok(count) = write(&mut io, unwritten).await {
                unwritten = &unwritten[count..];
            }
            assert_eq!(unwritten.len(), 2 * DATA_FRAME.len());
            let closing = given_back.try_recv().expect("it is given back");
            assert_eq!(closing.fault, Fault::Flood(Flood::Ping));
            drop(io);
            let goaway_sent = tokio::spawn(closing.send_goaway());
            let mut seen = Vec::new();
            client.read_to_end(&mut seen).await.expect("it ends in order");
            drop(client);
            assert_eq!(seen, [whole, &goaway(0, ENHANCE_YOUR_CALM, "too many PING frames")].concat());
            goaway_sent.await.expect("it ends");
        }
    }

    #[tokio::test]
    async fn a_fault_between_frames_ends_the_connection_at_once() {
        let (mut io, mut given_back, mut client) = connected().await;
        assert_eq!(write(&mut io, DATA_FRAME).await.expect("it is written"), DATA_FRAME.len());
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("it is taken");
        assert!(read_to_fault(&mut io).await.is_err());
        assert_eq!(given_back.try_recv().expect("it is given back").fault, Fault::Preface);
        assert!(write(&mut io, DATA_FRAME).await.is_err());
    }

    /// hyper may have read requests and not handled them yet, because it could not write: they are not rejected.
    #[tokio::test]
    async fn requests_that_wait_are_not_taken_for_rejected_ones() {
        let (mut io, mut given_back, mut client) = connected().await;
        let requests: Vec<u8> = (0..60).flat_map(|count| [0, 0, 1, HEADERS, 4, 0, 0, 0, 2 * count + 1, 0x82]).collect();
        client.write_all(&[PREFACE, &requests].concat()).await.expect("they are taken");
        // Reads until there is nothing more; each time is a turn.
        let mut space = [0; 1_000];
        let mut space = hyper::rt::ReadBuf::new(&mut space);
        while space.filled().len() < PREFACE.len() + requests.len() {
            io.tally.turn_begins();
            poll_fn(|cx| Pin::new(&mut io).poll_read(cx, space.unfilled())).await.expect("it goes on");
        }
        let mut reads_nothing = |io: &mut ClientIo| {
            io.tally.turn_begins();
            let mut cx = Context::from_waker(std::task::Waker::noop());
            Pin::new(io).poll_read(&mut cx, space.unfilled())
        };
        assert!(reads_nothing(&mut io).is_pending(), "it has only now handled the last of them");
        assert!(matches!(reads_nothing(&mut io), Poll::Ready(Err(_))), "it has handed none of them over");
        assert_eq!(given_back.try_recv().expect("it is given back").fault, Fault::Flood(Flood::Malformed));
    }

    /// What hyper refuses because of too many streams is known only when it has been written.
    #[tokio::test]
    async fn requests_are_not_taken_for_rejected_ones_while_nothing_can_be_written() {
        let (mut io, mut given_back, mut client) = connected().await;
        let requests: Vec<u8> = (0..60).flat_map(|count| [0, 0, 1, HEADERS, 4, 0, 0, 0, 2 * count + 1, 0x82]).collect();
        client.write_all(&[PREFACE, &requests].concat()).await.expect("they are taken");
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut unread = 0;
        while let Poll::Ready(written) = Pin::new(&mut io).poll_write(&mut cx, &DATA_FRAME.repeat(1_000)) {
            unread += written.expect("it is written");
        }
        let mut space = [0; 1_000];
        let mut space = hyper::rt::ReadBuf::new(&mut space);
        while space.filled().len() < PREFACE.len() + requests.len() {
            io.tally.turn_begins();
            poll_fn(|cx| Pin::new(&mut io).poll_read(cx, space.unfilled())).await.expect("it goes on");
        }
        for _ in 0..3 {
            io.tally.turn_begins();
            assert!(Pin::new(&mut io).poll_read(&mut cx, space.unfilled()).is_pending());
        }
        // The client reads, and the rest of the last frame is written.
        client.read_exact(&mut vec![0; unread]).await.expect("it is there");
        let rest = &DATA_FRAME[unread % DATA_FRAME.len()..];
        assert_eq!(write(&mut io, rest).await.expect("it is written"), rest.len());
        io.tally.turn_begins();
        assert!(matches!(Pin::new(&mut io).poll_read(&mut cx, space.unfilled()), Poll::Ready(Err(_))));
        assert_eq!(given_back.try_recv().expect("it is given back").fault, Fault::Flood(Flood::Malformed));
    }

    /// A read of nothing would be the end of the connection.
    #[tokio::test]
    async fn a_header_block_is_handed_on_when_it_is_complete() {
        let (mut io, _given_back, mut client) = connected().await;
        client.write_all(PREFACE).await.expect("it is taken");
        let mut space = [0; 100];
        let mut space = hyper::rt::ReadBuf::new(&mut space);
        while space.filled().len() < PREFACE.len() {
            poll_fn(|cx| Pin::new(&mut io).poll_read(cx, space.unfilled())).await.expect("it goes on");
        }
        let request = [0, 0, 3, HEADERS, 5, 0, 0, 0, 1, 0x82, 0x84, 0x86];
        let (first, rest) = request.split_at(11);
        client.write_all(first).await.expect("it is taken");
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(Pin::new(&mut io).poll_read(&mut cx, space.unfilled()).is_pending());
        client.write_all(rest).await.expect("it is taken");
        let mut passed = Vec::new();
        // In small reads.
        while passed.len() < request.len() {
            let mut space = [0; 5];
            let mut space = hyper::rt::ReadBuf::new(&mut space);
            poll_fn(|cx| Pin::new(&mut io).poll_read(cx, space.unfilled())).await.expect("it goes on");
            passed.extend_from_slice(space.filled());
        }
        assert_eq!(passed, request);
    }
}

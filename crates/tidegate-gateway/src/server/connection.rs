//! A client's connection, from its first byte: TLS or not, HTTP/1 or HTTP/2.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use tidegate_http::activity::{Activity, Timeouts};
use tidegate_http::deadlines::{Deadline, Ended, Owner, Waiting};
use tidegate_http::share::{AddressShare, BusyConnections};
use tidegate_http::stream::Stream;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::http1::{self, DRAIN_IDLE_TIMEOUT};
use crate::buffers::{Window, WindowLease};
use crate::client::Client;
use crate::client_shares::{CountedConnection, NoStream};
use crate::config::model::Connections;
use crate::gateway::Gateway;
use crate::h2::{ClientIo, Closing, Fault, PREFACE, Tally, Terms};
use crate::h2_streams::{self, Streams};
use crate::handler::handle;
use crate::listener::Listener;
use crate::rejection;
use crate::request_body::{H2Body, RequestBody};
use crate::request_id::RequestId;
use crate::response::Response;
use crate::stream_turns::StreamTurns;
use crate::worker::{Open, Worker};

/// How long the last frames to a client whose deadline has passed may take.
const GOODBYE_TIMEOUT: Duration = Duration::from_millis(500);
/// While no more HTTP/2 requests of all clients are under way, those without a response keep nobody waiting.
const FEW_STREAMS: usize = 64;
/// A connection that begins so does not speak HTTP/1, whatever follows.
const H2_BEGIN: &[u8] = b"PRI * HTTP/2.0";

/// What a connection holds until it has ended.
pub(super) struct Held {
    pub(super) _open: Open,
    pub(super) counted: Option<CountedConnection>,
    pub(super) _slot: OwnedSemaphorePermit,
}

/// Serves a connection to its end.
pub(super) async fn serve(worker: Arc<Worker>, listener: Arc<Listener>, tcp: TcpStream, peer: SocketAddr, held: Held) {
    let share = held.counted.as_ref().map(|counted| Arc::clone(&counted.share));
    let owner = share.as_ref().map_or(Owner::NONE, |share| share.owner);
    // The admin listener has slots of its own, which the metrics of clients' connections leave out.
    let (deadline, counted) =
        (worker.deadlines.deadline(owner), (!listener.is_admin).then(|| Counted::new(&worker.gateway)));
    serve_until(&worker, &listener, tcp, peer, &deadline, share).await;
    drop(counted);
    if let Some(ended) = deadline.ended() {
        worker.ended(ended, listener.is_admin);
    }
    drop(held);
}

async fn serve_until(
    worker: &Arc<Worker>,
    listener: &Listener,
    tcp: TcpStream,
    peer: SocketAddr,
    deadline: &Arc<Deadline>,
    share: Option<Arc<AddressShare>>,
) {
    // A connection that has already ended fails when it is read.
    let _set = tcp.set_nodelay(true);
    // Not the plan: a connection may outlive many plans, and must not keep what they hold.
    let connections = &worker.gateway.plan().site.connections.clone();
    let tls = listener.tls.load_full();
    let is_tls = tls.is_some();
    let Some((stream, is_h2)) = open(worker, listener, tcp, tls, deadline, connections).await else { return };
    let timeouts = Timeouts {
        head: connections.head_timeout.get(),
        idle: connections.idle_timeout.get(),
        write: connections.write_timeout.get(),
        pace: connections.pace(),
    };
    let busy = BusyConnections { all: Arc::clone(worker.busy()), address: share.clone() };
    let activity = Activity::new(Arc::clone(deadline), timeouts, is_h2, busy);
    let client = Arc::new(Client::new(peer.ip(), listener.address, is_tls, listener.is_admin, activity, share));
    let is_http = if is_h2 {
        Box::pin(serve_h2(worker, &client, stream, connections)).await
    } else {
        http1::serve(worker, &client, stream, connections).await
    };
    if !is_http {
        worker.gateway.metrics.bad_requests.inc();
    }
}

/// Detects what a connection speaks: TLS or not, and whether HTTP/2. `None` if it ends before that is known.
async fn open(
    worker: &Worker,
    listener: &Listener,
    tcp: TcpStream,
    tls: Option<Arc<rustls::ServerConfig>>,
    deadline: &Deadline,
    connections: &Connections,
) -> Option<(Stream, bool)> {
    let head_timeout = connections.head_timeout.get();
    deadline.set_for(Waiting::First, head_timeout.min(connections.idle_timeout.get()));
    let Some(config) = tls else {
        if !listener.h2c {
            return Some((Stream::Plain(tcp), false));
        }
        return in_time(worker, deadline, pin!(sniff(tcp, deadline, head_timeout))).await;
    };
    // A client that sends nothing has not begun a handshake.
    in_time(worker, deadline, pin!(tcp.readable())).await?;
    deadline.set_for(Waiting::Head, head_timeout);
    let tls = in_time(worker, deadline, Box::pin(TlsAcceptor::from(config).accept(tcp))).await?;
    let is_h2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
    Some((Stream::Tls(Box::new(tls.into())), is_h2))
}

/// Runs what comes before the first request until the deadline. When the gateway drains, the deadline is near.
async fn in_time<T>(
    worker: &Worker,
    deadline: &Deadline,
    mut opening: impl Future<Output = io::Result<T>> + Unpin,
) -> Option<T> {
    let mut is_draining = false;
    poll_fn(|cx| {
        deadline.watch(cx);
        if let Poll::Ready(opened) = Pin::new(&mut opening).poll(cx) {
            return Poll::Ready(opened.ok());
        }
        if deadline.has_passed() {
            return Poll::Ready(None);
        }
        if worker.gateway.is_draining() && !std::mem::replace(&mut is_draining, true) {
            deadline.set(DRAIN_IDLE_TIMEOUT);
        }
        Poll::Pending
    })
    .await
}

/// A client's connection in the gauge of connections.
struct Counted(Arc<Gateway>);

impl Counted {
    fn new(gateway: &Arc<Gateway>) -> Self {
        gateway.metrics.connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(gateway))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.metrics.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads as much as is needed to distinguish HTTP/2 from HTTP/1.
async fn sniff(mut tcp: TcpStream, deadline: &Deadline, head_timeout: Duration) -> io::Result<(Stream, bool)> {
    let mut read = BytesMut::with_capacity(PREFACE.len());
    loop {
        if read.starts_with(PREFACE) || !PREFACE.starts_with(&read) {
            let is_h2 = read.starts_with(H2_BEGIN);
            return Ok((Stream::Prefixed(read.freeze(), tcp), is_h2));
        }
        let is_first = read.is_empty();
        if tcp.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if is_first {
            deadline.set_for(Waiting::Head, head_timeout);
        }
    }
}

/// Serves HTTP/2, which hyper speaks. False if what came was not HTTP/2.
async fn serve_h2(worker: &Arc<Worker>, client: &Arc<Client>, stream: Stream, connections: &Connections) -> bool {
    let (tally, activity): (Arc<Tally>, _) = (Arc::default(), &client.activity);
    let is_trusted = worker.gateway.plan().site.is_trusted(client.peer);
    // A trusted proxy has clients of its own, and some of them are slow.
    let turns = (!is_trusted).then(|| StreamTurns::new(connections.max_untaken_streams, connections.max_streams));
    let service = service_fn(|request: Request<Incoming>| {
        let arrival = activity.request_came();
        tally.request_came();
        let (worker, client, tally) = (Arc::clone(worker), Arc::clone(client), Arc::clone(&tally));
        let turns = turns.clone();
        let (parts, body) = request.into_parts();
        async move {
            if let Err(no_stream) = begin_stream(&worker, &client, turns, arrival.busy_before()).await {
                // Its client may leave this response untaken, too.
                if let Some(stream) = h2_streams::stream() {
                    stream.begin(&client.activity, None);
                    stream.respond(&client.activity, None, true);
                }
                return Ok(reject_stream(&worker, &client, no_stream).into_h2());
            }
            let waits = h2_streams::stream().and_then(|stream| stream.waits());
            let response = handle(worker, client, parts.into(), RequestBody::H2(H2Body::new(body, waits))).await;
            drop(arrival);
            // A trusted proxy forwards requests of many clients, which share the connection.
            if response.is_for_invalid_head && !is_trusted {
                tally.request_rejected();
            }
            Ok::<_, Infallible>(response.into_h2())
        }
    });
    let terms = Terms {
        max_head_bytes: connections.max_head_bytes,
        max_streams: connections.max_streams,
        may_be_https: client.scheme == "https" || is_trusted,
    };
    let (io, mut given_back) =
        ClientIo::new(stream, Arc::clone(activity), Arc::clone(&worker.deadlines), Arc::clone(&tally), terms);
    // Boxed: what it holds is dropped before a GOAWAY of ours is sent.
    let buffers = &worker.gateway.metrics.buffers;
    let lease = (!is_trusted).then(|| WindowLease::new(buffers, connections.max_buffer_bytes));
    let window = lease.as_ref().map_or(Window::OF_PROXY, WindowLease::window);
    let builder = h2_builder(worker, client, connections, window);
    let mut connection = Box::pin(builder.serve_connection(io, service));
    let mut end = H2End::default();
    let ended = poll_fn(|cx| {
        activity.deadline.watch(cx);
        match end.next(worker, client) {
            EndStep::None => {}
            EndStep::FinishRequests => connection.as_mut().graceful_shutdown(),
            EndStep::Close => return Poll::Ready(Ok(())),
        }
        tally.turn_begins();
        let polled = connection.as_mut().poll(cx);
        // A request that has just come is served. Otherwise all requests wait for their client, if there are any, and
        // the connection can end here.
        if polled.is_pending() && activity.deadline.is_evicted() {
            // Not hyper's graceful shutdown: without a round trip, that names no last request.
            tally.leave();
            let _left = connection.as_mut().poll(cx);
            return Poll::Ready(Ok(()));
        }
        polled
    });
    let ended = ended.await;
    drop(connection);
    match given_back.try_recv() {
        Ok(closing) => close_h2(worker, client, closing).await,
        Err(_) => !tally.is_invalid() && !ended.is_err_and(|error| error.is_parse()),
    }
}

/// Counts a request, unless there are too many already, and waits for its turn.
async fn begin_stream(
    worker: &Worker,
    client: &Client,
    turns: Option<Arc<StreamTurns>>,
    busy_before: usize,
) -> Result<(), NoStream> {
    if !worker.permits_busy(busy_before) {
        return Err(NoStream::Connections);
    }
    let gateway = &worker.gateway;
    let shares = &gateway.metrics.shares;
    let (most_held, most_streams, patience) = {
        let site = &gateway.plan().site;
        (site.most_held, site.connections.max_total_streams, site.connections.write_timeout.get())
    };
    let counted = shares.begin_stream(client.share.as_ref(), most_held, most_streams)?;
    let Some(stream) = h2_streams::stream() else { return Ok(()) };
    stream.count(counted);
    let turn = match turns {
        None => None,
        Some(turns) => {
            let is_quiet = || shares.streams() <= FEW_STREAMS;
            let _waits = client.activity.request_waits();
            Some(turns.begin(Instant::now() + patience, is_quiet).await.ok_or(NoStream::Untaken)?)
        }
    };
    stream.begin(&client.activity, turn);
    Ok(())
}

/// Rejects a request because there are too many already.
fn reject_stream(worker: &Worker, client: &Client, no_stream: NoStream) -> Response {
    let detail = no_stream.detail();
    worker.gateway.note_cut(no_stream.cut(), client.peer);
    worker.metrics().responded(StatusCode::SERVICE_UNAVAILABLE);
    let id = RequestId::own(&worker.ids);
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let mut response = rejection::rejected(status, no_stream.reason(), detail, id.as_str());
    response.lines.add("retry-after", "1");
    response.lines.add("x-request-id", id.as_bytes());
    response
}

fn h2_builder(worker: &Worker, client: &Client, connections: &Connections, window: Window) -> http2::Builder<Streams> {
    let (gateway, peer) = (Arc::clone(&worker.gateway), client.peer);
    let on_cut = Arc::new(move |cut| gateway.note_cut(cut, peer));
    let mut builder = http2::Builder::new(Streams { deadlines: Arc::clone(&worker.deadlines), on_cut });
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(30))
        .max_concurrent_streams(connections.max_streams)
        .max_header_list_size(u32::try_from(connections.max_head_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(window.of_stream)
        .initial_connection_window_size(window.of_connection)
        .max_send_buf_size(64 * 1024);
    builder
}

/// How far an HTTP/2 connection has come towards its end.
#[derive(Default)]
struct H2End {
    is_leaving: bool,
    has_been_late: bool,
}

/// What has to be done about the end of an HTTP/2 connection.
enum EndStep {
    None,
    /// Requests under way are finished, and no more are accepted.
    FinishRequests,
    Close,
}

impl H2End {
    /// Looks at the connection's deadline, and whether the gateway drains.
    fn next(&mut self, worker: &Worker, client: &Client) -> EndStep {
        let activity = &client.activity;
        // It sets the deadline anew if the client takes its responses fast enough.
        let late = if activity.is_late() { activity.deadline.ended() } else { None };
        let late = late.filter(|ended| matches!(ended, Ended::Late(_)));
        let is_late = activity.deadline.take_passed();
        if is_late && std::mem::replace(&mut self.has_been_late, true) {
            return EndStep::Close;
        }
        if let Some(late) = late {
            // A client that has sent no request yet is idle, too: HTTP/2 connections begin with other frames.
            let late = if late == Ended::Late(Waiting::First) { Ended::Late(Waiting::Next) } else { late };
            worker.ended(late, client.is_admin);
            // A GOAWAY names the last request before the connection ends (RFC 9113 §6.8).
            activity.deadline.set(GOODBYE_TIMEOUT);
        }
        if !(is_late || worker.gateway.is_draining()) || std::mem::replace(&mut self.is_leaving, true) {
            return EndStep::None;
        }
        if !is_late && activity.is_idle() {
            // An idle client that does not close its connection is not waited for.
            activity.deadline.set(DRAIN_IDLE_TIMEOUT);
        }
        EndStep::FinishRequests
    }
}

/// Ends a connection because of what its client sent. False if that was not HTTP/2.
async fn close_h2(worker: &Worker, client: &Client, closing: Closing) -> bool {
    let fault = closing.fault;
    if let Fault::Flood(flood) = fault {
        worker.gateway.note_flood(flood, client.peer);
    }
    // Cleared twice: requests that end in between set the deadline again, and it must not be counted as late.
    client.activity.deadline.clear();
    closing.send_goaway().await;
    client.activity.deadline.clear();
    fault != Fault::Preface
}

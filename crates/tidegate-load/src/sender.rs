//! A thread that sends what is due and reads what comes back. It never waits for a response before it sends.
//!
//! It sleeps until shortly before the next request is due and then looks on without sleeping, so that it does not
//! depend on how fast it is woken up. Between two responses that it reads it sends whatever has become due.

mod commands;
mod connection;
mod exchange;
mod http1;
mod http2;
mod polled;
mod poller;
mod retries;

pub(crate) use commands::Commands;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use slab::Slab;
use tidegate_serve::Shard;

use crate::agenda::{Agenda, Turn};
use crate::assignment::Assignment;
use crate::heads::Heads;
use crate::live::Live;
use crate::plan::Plan;
use crate::record::{Cause, End, Missed, Record, Sample};
use crate::response::Received;
use crate::wire::Secured;
use connection::Connection;
use exchange::{Done, Exchange};
use http1::Http1;
use http2::Http2;
use poller::{Poller, Ready};
use retries::Retries;

pub use retries::comes_back;

/// How long before a request is due the sender no longer sleeps.
const SPIN: Duration = Duration::from_micros(100);
/// How many requests that are due go out before responses are read again.
const SENT_AT_ONCE: usize = 32;
const BUFFER_BYTES: usize = 65_536;
/// How often a request that nobody has looked at is put on another connection.
const MOST_HANDED_BACK: u8 = 3;

/// What all senders of a run have in common.
pub(crate) struct RunContext {
    pub(crate) plan: Arc<Plan>,
    pub(crate) address: SocketAddr,
    pub(crate) secured: Option<Secured>,
    pub(crate) start: Instant,
    pub(crate) heads: Heads,
    pub(crate) assignment: Assignment,
    /// Called for each request that has ended.
    pub(crate) observer: Option<Observer>,
}

/// Called with each request that has ended. It is called between two requests, so it must be quick.
pub type Observer = Arc<dyn Fn(&Observed) + Send + Sync>;

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// What became of it.
    pub sample: Sample,
    /// The index of its client in the group.
    pub client: u64,
    /// How often its client had sent it before.
    pub retries: u32,
    /// Whether the gateway itself rejected it, and not the service behind it.
    pub is_rejected: bool,
}

/// What one sender has to do.
pub(crate) struct Task {
    pub(crate) context: Arc<RunContext>,
    pub(crate) agenda: Agenda,
    pub(crate) commands: Arc<Commands>,
    pub(crate) live: Arc<Shard<Live>>,
    /// How many requests may be in flight at once.
    pub(crate) slots: usize,
}

impl Task {
    /// Sends everything and waits for the last response, or until it is stopped. What is recorded is good even if
    /// something fails.
    pub(crate) fn carry_out(self) -> (Record, io::Result<()>) {
        let plan = &self.context.plan;
        let classes: Vec<_> = plan.clients.iter().map(|group| group.class).collect();
        let record = Record::new(plan.duration, &classes);
        match Sender::new(self, record.clone()) {
            Ok(sender) => sender.run(),
            Err(error) => (record, Err(error)),
        }
    }
}

/// A connection, and what the sender has to know of it.
struct Held {
    /// Distinguishes it from connections that had the same index before.
    serial: u32,
    /// Whether it is among those that are free.
    is_listed: bool,
    connection: Connection,
}

/// A thread's state.
struct Sender {
    context: Arc<RunContext>,
    agenda: Agenda,
    commands: Arc<Commands>,
    live: Arc<Shard<Live>>,
    record: Record,
    poller: Poller,
    connections: Slab<Held>,
    next_serial: u32,
    /// Connections that may take a request, the last used last. Some of them no longer do, and some are gone.
    free: Vec<usize>,
    /// Requests that a connection has handed back: they go on another one.
    again: Vec<Exchange>,
    /// Connections that have more to read than they could in one go, by index and serial.
    unread: Vec<(usize, u32)>,
    /// When requests under way have waited long enough: by time, connection and stream.
    deadlines: BTreeSet<(Duration, usize, u32)>,
    in_flight: usize,
    most_in_flight: usize,
    retries: Retries,
    request: Vec<u8>,
    buffer: Box<[u8]>,
    done: Vec<Done>,
}

impl Sender {
    fn new(task: Task, record: Record) -> io::Result<Self> {
        let Task { context, agenda, commands, live, slots } = task;
        Ok(Self {
            poller: Poller::new(&*commands)?,
            retries: Retries::new(context.plan.seed, context.plan.duration),
            record,
            context,
            agenda,
            commands,
            live,
            connections: Slab::new(),
            next_serial: 0,
            free: Vec::new(),
            again: Vec::new(),
            unread: Vec::new(),
            deadlines: BTreeSet::new(),
            in_flight: 0,
            most_in_flight: slots,
            request: Vec::new(),
            buffer: vec![0; BUFFER_BYTES].into(),
            done: Vec::new(),
        })
    }

    fn run(mut self) -> (Record, io::Result<()>) {
        let result = self.send_all();
        for (_, connection, stream) in std::mem::take(&mut self.deadlines) {
            if let Some(exchange) = self.connections[connection].connection.give_up(stream, &mut self.done) {
                self.settle(exchange, End::Unfinished, Received::default());
            }
            self.settle_done();
        }
        for exchange in std::mem::take(&mut self.again) {
            self.settle(exchange, End::Unfinished, Received::default());
        }
        self.retries.abandon(&mut self.record);
        (self.record, result)
    }

    fn now(&self) -> Duration {
        self.context.start.elapsed()
    }

    /// Waits until the run begins, which all senders of all instances have agreed upon.
    fn await_start(&mut self) -> io::Result<()> {
        loop {
            let ahead = self.context.start.saturating_duration_since(Instant::now());
            if ahead.is_zero() || self.commands.is_stopped() {
                return Ok(());
            }
            match ahead.checked_sub(SPIN) {
                Some(sleep) => self.poller.sleep(sleep)?,
                None => self.poller.look()?,
            }
        }
    }

    fn send_all(&mut self) -> io::Result<()> {
        self.await_start()?;
        loop {
            if self.commands.is_stopped() {
                return Ok(());
            }
            if let Some(profile) = self.commands.take_profile() {
                self.agenda.change(&profile);
            }
            let next = self.send_due();
            let now = self.now();
            let is_over = next.is_none() && now >= self.context.plan.duration;
            if is_over && self.in_flight == 0 {
                return Ok(());
            }
            self.pause(now, next)?;
            self.read_responses();
            self.expire();
        }
    }

    /// Sends what is due, and returns when the next request will be.
    fn send_due(&mut self) -> Option<Duration> {
        for exchange in std::mem::take(&mut self.again) {
            self.dispatch(exchange);
        }
        for _ in 0..SENT_AT_ONCE {
            let now = self.now();
            // What was planned comes first: what clients send again is extra.
            match self.agenda.turn(now) {
                Turn::Send { number, intended } => {
                    let (group, client) = self.context.assignment.client(number);
                    self.send(Exchange {
                        number,
                        group,
                        client,
                        attempt: 0,
                        intended,
                        sent: now,
                        stream: 0,
                        handed_back: 0,
                    });
                }
                Turn::TooLate { number, intended } => {
                    let (group, _) = self.context.assignment.client(number);
                    self.record.miss(group, intended, Missed::TooLate);
                    self.live.missed(Missed::TooLate);
                }
                turn @ (Turn::Wait(_) | Turn::Over) => {
                    let Some(again) = self.retries.due(now) else {
                        let due = if let Turn::Wait(due) = turn { Some(due) } else { None };
                        return [due, self.retries.next()].into_iter().flatten().min();
                    };
                    self.send(Exchange { sent: now, stream: 0, handed_back: 0, ..again });
                }
            }
        }
        // There is more: at once, after a look at what has come.
        Some(Duration::ZERO)
    }

    /// Sleeps until something is ready or nearly due; or only looks, if it is.
    fn pause(&mut self, now: Duration, next: Option<Duration>) -> io::Result<()> {
        let wake = next.map(|next| next.saturating_sub(SPIN));
        if wake.is_some_and(|wake| wake <= now) || !self.unread.is_empty() || !self.again.is_empty() {
            return self.poller.look();
        }
        let deadline = self.deadlines.first().map(|(deadline, ..)| *deadline);
        let end = self.context.plan.duration;
        let until = [wake, deadline, (now < end).then_some(end)].into_iter().flatten().min();
        self.poller.wait(now, until.unwrap_or(now + Duration::from_secs(1)))
    }

    fn read_responses(&mut self) {
        let mut index = 0;
        while let Some(ready) = self.poller.ready(index) {
            index += 1;
            self.attend(ready.key as u32 as usize, (ready.key >> 32) as u32, &ready);
        }
        let again = Ready { key: 0, is_readable: true, is_closed: false };
        for (key, serial) in std::mem::take(&mut self.unread) {
            self.attend(key, serial, &again);
        }
    }

    /// Looks after a connection that is ready for something, and sends what has become due.
    fn attend(&mut self, key: usize, serial: u32, ready: &Ready) {
        let Some(held) = self.connections.get_mut(key).filter(|held| held.serial == serial) else { return };
        held.connection.ready(ready, &mut self.buffer, &mut self.done);
        if held.connection.has_more() {
            self.unread.push((key, serial));
        }
        self.tidy(key);
        self.send_due();
    }

    /// Sends a request, unless there is no room for it.
    fn send(&mut self, exchange: Exchange) {
        let is_retry = exchange.attempt > 0;
        if self.in_flight >= self.most_in_flight {
            if is_retry {
                self.record.give_up(exchange.group);
            } else {
                self.record.miss(exchange.group, exchange.intended, Missed::NoRoom);
                self.live.missed(Missed::NoRoom);
            }
            return;
        }
        self.in_flight += 1;
        self.live.sent(is_retry, self.in_flight);
        self.dispatch(exchange);
    }

    /// Puts a request on a connection.
    fn dispatch(&mut self, exchange: Exchange) {
        let key = self.free_line().map_or_else(|| self.open(), Ok);
        let key = match key {
            Ok(key) => key,
            Err(error) => {
                self.live.explain(Cause::NotConnected, &error.to_string());
                return self.settle(exchange, End::Failed(Cause::NotConnected), Received::default());
            }
        };
        let deadline = exchange.sent + self.context.plan.request.timeout;
        let stream = match &mut self.connections[key].connection {
            Connection::Http1(connection) => {
                self.request.clear();
                let body = self.context.heads.write(exchange.group, exchange.client, &mut self.request);
                connection.send(exchange, &self.request, body, &mut self.done);
                0
            }
            Connection::Http2(connection) => {
                connection.send(exchange, self.context.heads.request(exchange.group, exchange.client), &mut self.done)
            }
        };
        self.deadlines.insert((deadline, key, stream));
        self.tidy(key);
    }

    /// A connection that can take a request. It stays in the list as long as it can take another.
    fn free_line(&mut self) -> Option<usize> {
        while let Some(key) = self.free.last().copied() {
            let held = self.connections.get_mut(key).filter(|held| held.is_listed);
            if let Some(Held { connection: Connection::Http2(connection), .. }) = &held
                && connection.is_free()
            {
                return Some(key);
            }
            self.free.pop();
            if let Some(held) = held {
                held.is_listed = false;
                if held.connection.is_free() {
                    return Some(key);
                }
            }
        }
        None
    }

    fn open(&mut self) -> io::Result<usize> {
        // A server may open connections and take nothing on them.
        if self.connections.len() > self.most_in_flight {
            return Err(io::Error::other("no connection takes a request"));
        }
        let RunContext { plan, address, secured, .. } = &*self.context;
        let is_head = plan.request.method == http::Method::HEAD;
        let connection = if plan.request.is_http2 {
            Connection::Http2(Box::new(Http2::open(*address, secured.as_ref())?))
        } else {
            Connection::Http1(Box::new(Http1::open(*address, secured.as_ref(), is_head)?))
        };
        let serial = self.next_serial;
        self.next_serial = self.next_serial.wrapping_add(1);
        let entry = self.connections.vacant_entry();
        let key = u64::from(serial) << 32 | entry.key() as u64;
        match &connection {
            Connection::Http1(connection) => self.poller.add(&connection.wire, key)?,
            Connection::Http2(connection) => connection.watch(|socket| self.poller.add(socket, key))?,
        }
        let index = entry.key();
        entry.insert(Held { serial, is_listed: false, connection });
        Ok(index)
    }

    /// After something has happened on a connection: what has ended is counted, the connection kept or closed.
    fn tidy(&mut self, key: usize) {
        for Done { exchange, .. } in &self.done {
            self.deadlines.remove(&(exchange.sent + self.context.plan.request.timeout, key, exchange.stream));
        }
        self.settle_done();
        let held = &mut self.connections[key];
        if !held.connection.is_usable() {
            self.connections.remove(key);
        } else if !held.is_listed && held.connection.is_free() {
            held.is_listed = true;
            self.free.push(key);
        }
    }

    fn settle_done(&mut self) {
        while let Some(Done { exchange, end }) = self.done.pop() {
            match end {
                Ok(reported) => self.settle(exchange, End::Responded(reported.status), reported),
                Err(failure) if failure.is_untouched && exchange.handed_back < MOST_HANDED_BACK => {
                    self.again.push(Exchange { handed_back: exchange.handed_back + 1, ..exchange });
                }
                Err(failure) => {
                    self.live.explain(failure.cause, &failure.why);
                    self.settle(exchange, End::Failed(failure.cause), Received::default());
                }
            }
        }
    }

    /// A request has ended.
    fn settle(&mut self, exchange: Exchange, end: End, reported: Received) {
        self.in_flight -= 1;
        let Exchange { group, intended, sent, .. } = exchange;
        let finished = self.now();
        let sample = Sample { group, intended, sent, finished, end };
        let is_retry = exchange.attempt > 0;
        if is_retry {
            self.record.add_retry(&sample);
        } else {
            self.record.add(&sample);
        }
        if let Some(observer) = &self.context.observer {
            let Exchange { client, attempt: retries, .. } = exchange;
            observer(&Observed { sample, client, retries, is_rejected: reported.is_rejected });
        }
        if let Some(comeback) =
            self.context.plan.clients[group].comeback.as_ref().filter(|it| comes_back(&it.after, end))
        {
            self.retries.ended(exchange, comeback, reported.retry_after, finished, &mut self.record);
        }
        self.live.ended(
            is_retry,
            end,
            finished.saturating_sub(intended),
            finished.saturating_sub(sent),
            self.in_flight,
        );
    }

    /// Gives up what has waited too long.
    fn expire(&mut self) {
        let now = self.now();
        while let Some((deadline, key, stream)) = self.deadlines.first().copied() {
            if deadline > now {
                return;
            }
            self.deadlines.pop_first();
            if let Some(exchange) = self.connections[key].connection.give_up(stream, &mut self.done) {
                self.settle(exchange, End::Failed(Cause::TimedOut), Received::default());
            }
            self.tidy(key);
        }
    }
}

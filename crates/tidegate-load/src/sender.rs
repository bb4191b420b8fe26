//! A thread that sends what is due and reads what comes back. It never waits for a response before it sends.
//!
//! It sleeps until shortly before the next request is due and then looks on without sleeping, so that it does not
//! depend on how fast it is woken up. Between two responses that it reads it sends whatever has become due.

mod exchange;
mod http1;
mod http2;
mod line;
mod orders;
mod polled;
mod poller;
mod retries;

pub(crate) use orders::Orders;

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
use crate::wire::Secured;
use exchange::{Done, Exchange};
use http1::Http1;
use http2::Http2;
use line::Line;
use poller::{Poller, Ready};
use retries::Retries;

/// How long before a request is due the sender no longer sleeps.
const SPIN: Duration = Duration::from_micros(100);
/// How many requests that are due go out before responses are read again.
const SENT_AT_ONCE: usize = 32;
const BUFFER_BYTES: usize = 65_536;
/// How often a request that nobody has looked at is put on another connection.
const MOST_HANDED_BACK: u8 = 3;

/// What all senders of a run have in common.
pub(crate) struct Errand {
    pub(crate) plan: Arc<Plan>,
    pub(crate) address: SocketAddr,
    pub(crate) secured: Option<Secured>,
    pub(crate) start: Instant,
    pub(crate) heads: Heads,
    pub(crate) assignment: Assignment,
    /// Who wants to know of each request that has ended.
    pub(crate) observer: Option<Observer>,
}

/// Hears of each planned request when it has ended, and which of its group's clients it was of. It is called between
/// two requests: it must be quick.
pub type Observer = Arc<dyn Fn(&Sample, u64) + Send + Sync>;

/// What one sender has to do.
pub(crate) struct Task {
    pub(crate) errand: Arc<Errand>,
    pub(crate) agenda: Agenda,
    pub(crate) orders: Arc<Orders>,
    pub(crate) live: Arc<Shard<Live>>,
    /// How many requests may be in flight at once.
    pub(crate) slots: usize,
}

impl Task {
    /// Sends everything and waits for the last response, or until it is stopped. What is recorded is good even if
    /// something fails.
    pub(crate) fn carry_out(self) -> (Record, io::Result<()>) {
        let plan = &self.errand.plan;
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
    /// Tells it apart from those that had the same index before.
    serial: u32,
    /// Whether it is among those that are free.
    is_listed: bool,
    line: Line,
}

/// A thread's state.
struct Sender {
    errand: Arc<Errand>,
    agenda: Agenda,
    orders: Arc<Orders>,
    live: Arc<Shard<Live>>,
    record: Record,
    poller: Poller,
    lines: Slab<Held>,
    next_serial: u32,
    /// Lines that may take a request, the last used last. Some of them no longer do, and some are gone.
    free: Vec<usize>,
    /// Requests that a connection has handed back: they go on another one.
    again: Vec<Exchange>,
    /// Lines that have more to read than they could in one go, by index and serial.
    unread: Vec<(usize, u32)>,
    /// When requests under way have waited long enough: by time, line and stream.
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
        let Task { errand, agenda, orders, live, slots } = task;
        Ok(Self {
            poller: Poller::new(&*orders)?,
            retries: Retries::new(errand.plan.seed, errand.plan.duration),
            record,
            errand,
            agenda,
            orders,
            live,
            lines: Slab::new(),
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
        for (_, line, stream) in std::mem::take(&mut self.deadlines) {
            if let Some(exchange) = self.lines[line].line.give_up(stream, &mut self.done) {
                self.settle(exchange, End::Unfinished, None);
            }
            self.settle_done();
        }
        for exchange in std::mem::take(&mut self.again) {
            self.settle(exchange, End::Unfinished, None);
        }
        self.retries.abandon(&mut self.record);
        (self.record, result)
    }

    fn now(&self) -> Duration {
        self.errand.start.elapsed()
    }

    /// Waits until the run begins, which all senders of all instances have agreed upon.
    fn await_start(&mut self) -> io::Result<()> {
        loop {
            let ahead = self.errand.start.saturating_duration_since(Instant::now());
            if ahead.is_zero() || self.orders.is_stopped() {
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
            if self.orders.is_stopped() {
                return Ok(());
            }
            if let Some(profile) = self.orders.take_profile() {
                self.agenda.change(&profile);
            }
            let next = self.send_due();
            let now = self.now();
            let is_over = next.is_none() && now >= self.errand.plan.duration;
            if is_over && self.in_flight == 0 {
                return Ok(());
            }
            self.pause(now, next)?;
            self.read_responses();
            self.expire();
        }
    }

    /// Sends what is due, and says when the next request will be.
    fn send_due(&mut self) -> Option<Duration> {
        for exchange in std::mem::take(&mut self.again) {
            self.dispatch(exchange);
        }
        for _ in 0..SENT_AT_ONCE {
            let now = self.now();
            // What was planned comes first: what polite clients send again is extra.
            match self.agenda.turn(now) {
                Turn::Send { number, intended } => {
                    let (group, client) = self.errand.assignment.client(number);
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
                    let (group, _) = self.errand.assignment.client(number);
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
        let end = self.errand.plan.duration;
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

    /// Looks after a line that is ready for something, and sends what has become due.
    fn attend(&mut self, key: usize, serial: u32, ready: &Ready) {
        let Some(held) = self.lines.get_mut(key).filter(|held| held.serial == serial) else { return };
        held.line.ready(ready, &mut self.buffer, &mut self.done);
        if held.line.has_more() {
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
                return self.settle(exchange, End::Failed(Cause::NotConnected), None);
            }
        };
        let deadline = exchange.sent + self.errand.plan.request.timeout;
        let stream = match &mut self.lines[key].line {
            Line::Http1(line) => {
                self.request.clear();
                let body = self.errand.heads.write(exchange.group, exchange.client, &mut self.request);
                line.send(exchange, &self.request, body, &mut self.done);
                0
            }
            Line::Http2(line) => {
                line.send(exchange, self.errand.heads.request(exchange.group, exchange.client), &mut self.done)
            }
        };
        self.deadlines.insert((deadline, key, stream));
        self.tidy(key);
    }

    /// A line that can take a request. It stays in the list as long as it can take another.
    fn free_line(&mut self) -> Option<usize> {
        while let Some(key) = self.free.last().copied() {
            let held = self.lines.get_mut(key).filter(|held| held.is_listed);
            if let Some(Held { line: Line::Http2(line), .. }) = &held
                && line.is_free()
            {
                return Some(key);
            }
            self.free.pop();
            if let Some(held) = held {
                held.is_listed = false;
                if held.line.is_free() {
                    return Some(key);
                }
            }
        }
        None
    }

    fn open(&mut self) -> io::Result<usize> {
        // A server may open connections and take nothing on them.
        if self.lines.len() > self.most_in_flight {
            return Err(io::Error::other("no connection takes a request"));
        }
        let Errand { plan, address, secured, .. } = &*self.errand;
        let is_head = plan.request.method == http::Method::HEAD;
        let line = if plan.request.is_http2 {
            Line::Http2(Box::new(Http2::open(*address, secured.as_ref())?))
        } else {
            Line::Http1(Box::new(Http1::open(*address, secured.as_ref(), is_head)?))
        };
        let serial = self.next_serial;
        self.next_serial = self.next_serial.wrapping_add(1);
        let entry = self.lines.vacant_entry();
        let key = u64::from(serial) << 32 | entry.key() as u64;
        match &line {
            Line::Http1(line) => self.poller.add(&line.wire, key)?,
            Line::Http2(line) => line.watch(|socket| self.poller.add(socket, key))?,
        }
        let index = entry.key();
        entry.insert(Held { serial, is_listed: false, line });
        Ok(index)
    }

    /// After something has happened on a line: what has ended is counted, the line kept or closed.
    fn tidy(&mut self, key: usize) {
        for Done { exchange, .. } in &self.done {
            self.deadlines.remove(&(exchange.sent + self.errand.plan.request.timeout, key, exchange.stream));
        }
        self.settle_done();
        let held = &mut self.lines[key];
        if !held.line.is_usable() {
            self.lines.remove(key);
        } else if !held.is_listed && held.line.is_free() {
            held.is_listed = true;
            self.free.push(key);
        }
    }

    fn settle_done(&mut self) {
        while let Some(Done { exchange, end }) = self.done.pop() {
            match end {
                Ok(reported) => self.settle(exchange, End::Responded(reported.status), reported.retry_after),
                Err(failure) if failure.is_untouched && exchange.handed_back < MOST_HANDED_BACK => {
                    self.again.push(Exchange { handed_back: exchange.handed_back + 1, ..exchange });
                }
                Err(failure) => {
                    self.live.explain(failure.cause, &failure.why);
                    self.settle(exchange, End::Failed(failure.cause), None);
                }
            }
        }
    }

    /// A request has ended.
    fn settle(&mut self, exchange: Exchange, end: End, retry_after: Option<Duration>) {
        self.in_flight -= 1;
        let Exchange { group, intended, sent, .. } = exchange;
        let finished = self.now();
        let sample = Sample { group, intended, sent, finished, end };
        let is_retry = exchange.attempt > 0;
        if is_retry {
            self.record.add_retry(&sample);
        } else {
            self.record.add(&sample);
            if let Some(observer) = &self.errand.observer {
                observer(&sample, exchange.client);
            }
        }
        if end == End::Responded(429)
            && let Some(polite) = &self.errand.plan.clients[group].politeness
        {
            self.retries.rejected(exchange, polite, retry_after, finished, &mut self.record);
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
            if let Some(exchange) = self.lines[key].line.give_up(stream, &mut self.done) {
                self.settle(exchange, End::Failed(Cause::TimedOut), None);
            }
            self.tidy(key);
        }
    }
}

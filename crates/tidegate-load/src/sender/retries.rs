//! What clients send again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::exchange::Exchange;
use crate::plan::{After, Comeback};
use crate::record::{Cause, End, Record};

/// How many may wait to be sent again, a sender. A client that comes when there are so many gives up.
const MOST_WAITING: usize = 100_000;

/// Whether a request that ended so is sent again.
pub fn comes_back(after: &After, end: End) -> bool {
    match end {
        End::Responded(status) => after.has_status(status),
        End::Failed(Cause::TimedOut) => after.timeouts,
        End::Failed(Cause::NotConnected | Cause::Tls | Cause::Closed | Cause::NotHttp) => after.failures,
        End::Unfinished => false,
    }
}

/// Requests that wait to be sent again.
pub(super) struct Retries {
    seed: u64,
    /// When the test is over, and nobody comes back any more.
    end: Duration,
    /// By when they are due, and a serial number.
    waiting: BTreeMap<(Duration, u64), Exchange>,
}

impl Retries {
    pub(super) fn new(seed: u64, end: Duration) -> Self {
        Self { seed, end, waiting: BTreeMap::new() }
    }

    /// A request has ended at `now` in a way after which its client sends it again later, or gives up.
    pub(super) fn ended(
        &mut self,
        mut exchange: Exchange,
        comeback: &Comeback,
        retry_after: Option<Duration>,
        now: Duration,
        record: &mut Record,
    ) {
        let asked = retry_after.filter(|_| comeback.heeds);
        let pause = asked.unwrap_or_else(|| comeback.pause(self.seed, exchange.number, exchange.attempt));
        let due = now + pause;
        let is_too_often = exchange.attempt >= comeback.retries;
        let is_too_long = pause.as_secs_f64() > comeback.longest || due >= self.end;
        if is_too_often || is_too_long || self.waiting.len() >= MOST_WAITING {
            record.give_up(exchange.group);
            return;
        }
        exchange.attempt += 1;
        exchange.intended = due;
        self.waiting.insert((due, exchange.number), exchange);
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Duration> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// One that is due.
    pub(super) fn due(&mut self, now: Duration) -> Option<Exchange> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Nobody comes back any more.
    pub(super) fn abandon(&mut self, record: &mut Record) {
        for exchange in std::mem::take(&mut self.waiting).into_values() {
            record.give_up(exchange.group);
        }
    }
}

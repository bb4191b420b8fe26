use std::time::Duration;

use crate::invalid_limit::count;
use crate::receipt::Receipt;
use crate::timestamp::{LONGEST_SPAN, nanos};
use crate::{Cost, Decision, InvalidLimit, Rate, Timestamp};

/// A capacity that refills at a rate, and the arithmetic of what a key *owes* it, free of rounding.
///
/// A token is split into `token` units, just so many that every nanosecond pays back a whole number of them, `pay`: at
/// 3 tokens per second a token is 10⁹ units and a nanosecond pays 3. Owing 0 is a full bucket, owing `full` is an empty
/// one. Because all three are integers there is no drift, however long it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    token: u64,
    pay: u64,
    full: u64,
}

impl Budget {
    /// `field` is what its limiter calls the capacity.
    pub(crate) fn new(rate: Rate, capacity: u64, field: &'static str) -> Result<Self, InvalidLimit> {
        let capacity = count(field, capacity, u32::MAX.into())?;
        let (token, pay) = (rate.nanos(), rate.tokens());
        let full = capacity.checked_mul(token).filter(|full| *full < 1 << 63).ok_or(InvalidLimit::TooFine {
            field,
            capacity,
            units: token,
        })?;
        if full / pay > nanos(LONGEST_SPAN) {
            return Err(InvalidLimit::TooLong { field: "time to refill" });
        }
        Ok(Self { token, pay, full })
    }

    pub(crate) const fn capacity(&self) -> u64 {
        self.full / self.token
    }

    pub(crate) fn rate(&self) -> Rate {
        Rate::new(self.pay, Duration::from_nanos(self.token)).expect("both came from a checked rate")
    }

    /// What `tokens` cost in units; more than the capacity is `None`.
    pub(crate) fn price(&self, cost: Cost) -> Option<u64> {
        cost.tokens().checked_mul(self.token).filter(|price| *price <= self.full)
    }

    /// What `nanos` of time pay back.
    pub(crate) const fn paid_in(&self, nanos: u64) -> u128 {
        self.pay as u128 * nanos as u128
    }

    /// How many nanoseconds it takes to pay off `owed` units (whole ones), and what of them is left over.
    pub(crate) const fn split(&self, owed: u64) -> (u64, u32) {
        if self.pay == 1 { (owed, 0) } else { (owed / self.pay, (owed % self.pay) as u32) }
    }

    pub(crate) const fn fits(&self, owed: u128, price: u64) -> bool {
        owed + price as u128 <= self.full as u128
    }

    pub(crate) fn admit(&self, owed_after: u64, wait: Duration) -> Decision {
        Decision::Admit {
            wait,
            remaining: (self.full - owed_after) / self.token,
            reset_after: self.time_to_pay(owed_after.into()),
        }
    }

    /// The rejection of a request of `price` (`None`: above the capacity) to a key that owes `owed`.
    pub(crate) fn reject(&self, owed: u128, price: Option<u64>) -> Decision {
        Decision::Reject {
            retry_after: price.map(|price| self.time_to_pay(owed + u128::from(price) - u128::from(self.full))),
            remaining: u64::try_from(owed).map_or(0, |owed| self.full.saturating_sub(owed) / self.token),
            reset_after: self.time_to_pay(owed),
        }
    }

    /// The first whole nanosecond by which `owed` units are paid off.
    pub(crate) const fn time_to_pay(&self, owed: u128) -> Duration {
        let pay = self.pay as u128;
        let nanos = if owed >> 64 == 0 { (owed as u64).div_ceil(self.pay) } else { owed.div_ceil(pay) as u64 };
        Duration::from_nanos(nanos)
    }

    /// `units` as tokens, begun ones counted whole.
    pub(crate) const fn tokens(&self, units: u128) -> u64 {
        let tokens = units.div_ceil(self.token as u128);
        if tokens > u64::MAX as u128 { u64::MAX } else { tokens as u64 }
    }

    /// What can be returned of a receipt, in units, to a key that is in the run of requests `run` and has been given
    /// back `returned` tokens in all.
    ///
    /// The key is to end up with no more than if the request had never come. Without it the bucket would have been
    /// fuller all the time since, but never fuller than full: in another run nothing can be returned, in the same run
    /// what the key owed at its lowest is all that can. That is at least what it owed right after the request, less
    /// what time has paid and others have given back since.
    pub(crate) fn returnable(&self, receipt: &Receipt, run: u32, returned: u32, now: Timestamp) -> u64 {
        let marks = receipt.marks();
        if marks.run != run {
            return 0;
        }
        let paid = self.pay.saturating_mul(now.nanos_since(receipt.at()));
        let given_back = self.token.saturating_mul(returned.wrapping_sub(marks.returned).into());
        let lowest = marks.owed.saturating_sub(paid).saturating_sub(given_back);
        self.price(receipt.cost()).unwrap_or(0).min(lowest)
    }

    /// What `owed` under the numbers `before` is under these: the same count of tokens, fractions kept (rounded up), at
    /// most all.
    pub(crate) fn convert(&self, owed: u128, before: &Self) -> u64 {
        let owed = owed.min(before.full.into());
        let converted = (owed * u128::from(self.token)).div_ceil(before.token.into());
        converted.min(self.full.into()) as u64
    }
}

/// Marks the run of requests that begins at `start` with a full bucket. Two runs of a key share a mark once in 4 · 10⁹
/// times.
pub(crate) const fn run_mark(start: Timestamp) -> u32 {
    let nanos = start.as_nanos();
    (nanos ^ (nanos >> 32)) as u32
}

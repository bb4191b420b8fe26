//! What Redis has, and what of it can be put in force.

use std::time::Instant;

use tidegate_serve::Log;
use tidegate_store::Store;

use super::write_back::{Fault, Held, Retry, Settled, settle};
use super::{State, report_unusable};
use crate::config::numbers::LimitNumbers;
use crate::plan::{Overrides, Plan};
use crate::settings::LimitSettings;
use crate::stored::Stored;

/// What was found in Redis.
pub(super) struct Look {
    pub(super) judged: Judged,
    /// What stands there now.
    pub(super) seen: Vec<u8>,
    /// The document to put in force.
    pub(super) held: Held,
    pub(super) fault: Option<Fault>,
}

/// Redis' text, judged: numbers to put in force, and what is to be reported of those that can't be.
pub(super) struct Judged {
    pub(super) overrides: Overrides,
    warnings: Vec<String>,
    remark: Option<String>,
}

impl Judged {
    /// Reports what can't be used, and what is in force `instead`.
    pub(super) fn report(&self, log: &Log, instead: &str) {
        report_unusable(log, instead, &self.warnings);
        if let Some(remark) = &self.remark {
            log.warn("ConfigController", format_args!("the limits in Redis: {remark}"));
        }
    }
}

impl State {
    /// Looks into Redis, for limits as `base` has them. What it has forgotten is written back.
    pub(super) async fn look(&self, base: &[LimitSettings], store: Option<&Store>, log: &Log) -> Look {
        let Some(document) = &self.document else {
            // Without Redis what was set while running lasts until here.
            let judged = Judged { overrides: Overrides::new(), warnings: Vec::new(), remark: None };
            return Look { judged, seen: Vec::new(), held: self.held.clone(), fault: None };
        };
        let settled = match document.read().await {
            Ok(text) => settle(document, &self.held, text, log).await,
            Err(fault) => Err(Fault::Read(fault)),
        };
        match settled {
            Ok(settled) => self.judge(settled, base, store),
            Err(fault) => Look {
                judged: self.known(base, store, Vec::new()),
                seen: self.seen.clone(),
                held: self.held.clone(),
                fault: Some(fault),
            },
        }
    }

    /// What the newest document means. What can't be used of it leaves in force what was.
    pub(super) fn judge(&self, settled: Settled, base: &[LimitSettings], store: Option<&Store>) -> Look {
        let Settled { text, seen, fault } = settled;
        let check = |limit: &LimitSettings, numbers: &LimitNumbers| Plan::check_numbers(limit, numbers, store);
        match Stored::read(&text, base, check) {
            Ok(stored) => {
                let warnings = stored.unusable.iter().map(|(name, reason)| format!("limit `{name}`: {reason}"));
                let judged = Judged {
                    warnings: warnings.collect(),
                    overrides: self.with_known(&stored, base, store),
                    remark: stored.remark,
                };
                Look { judged, seen, held: Held::new(text), fault }
            }
            Err(error) => Look { judged: self.known(base, store, vec![error]), seen, held: self.held.clone(), fault },
        }
    }

    /// What was in force before, as far as it can be under `base`.
    fn known(&self, base: &[LimitSettings], store: Option<&Store>, mut warnings: Vec<String>) -> Judged {
        let mut overrides = self.overrides.clone();
        for limit in base {
            let Some(numbers) = overrides.get(limit.name.as_str()) else { continue };
            if let Err(reason) = Plan::check_numbers(limit, numbers, store) {
                warnings.push(format!("limit `{}`: {reason}", limit.name.as_str()));
                overrides.remove(limit.name.as_str());
            }
        }
        Judged { overrides, warnings, remark: None }
    }

    /// The numbers of a text, and the last known ones for what can't be used of it.
    pub(super) fn with_known(&self, stored: &Stored, base: &[LimitSettings], store: Option<&Store>) -> Overrides {
        let mut overrides = stored.overrides.clone();
        for (name, _) in &stored.unusable {
            let limit = base.iter().find(|limit| limit.name.as_str() == name);
            if let (Some(limit), Some(known)) = (limit, self.overrides.get(name))
                && Plan::check_numbers(limit, known, store).is_ok()
            {
                overrides.insert(name.clone(), known.clone());
            }
        }
        overrides
    }

    /// Notes what Redis has now, and what kept us from reading it or writing to it.
    pub(super) fn note(
        &mut self,
        seen: Vec<u8>,
        fault: Option<Fault>,
        store: Option<&Store>,
        log: &Log,
        instead: &str,
    ) {
        let is_same = seen == self.seen;
        self.seen = seen;
        let Some(fault) = fault else {
            (self.retry, self.fault) = (None, None);
            return;
        };
        if let (Fault::Write(_), Some(store)) = (&fault, store) {
            let before = self.retry.filter(|_| is_same);
            self.retry = Some(Retry::after(before, store.reconnections(), Instant::now()));
        }
        self.report(fault, log, instead);
    }

    /// Whether a document that could not be written is due to be written again.
    pub(super) fn is_retry_due(&self, store: &Store) -> bool {
        self.retry.is_some_and(|retry| retry.is_due(store.reconnections(), Instant::now()))
    }

    /// Reports a fault, once, and what is in force `instead`. That Redis is away is reported by the connection.
    pub(super) fn report(&mut self, fault: Fault, log: &Log, instead: &str) {
        let Some(document) = &self.document else { return };
        if fault.is_away() || self.fault.as_ref() == Some(&fault) {
            return;
        }
        let key = document.key();
        match &fault {
            Fault::Write(_) => log.warn(
                "ConfigController",
                format_args!("could not write the limits in force to Redis (`{key}`): {fault}; retrying"),
            ),
            Fault::Read(_) | Fault::Contended => report_unusable(log, instead, &[format!("`{key}`: {fault}")]),
        }
        self.fault = Some(fault);
    }
}

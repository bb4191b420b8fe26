//! The check of the document in Redis: what it holds, and which of its numbers can be put in force.

use std::time::Instant;

use tidegate_serve::Log;
use tidegate_store::Store;

use super::write_back::{Fault, Held, Reconciled, Retry, reconcile};
use super::{State, report_unusable};
use crate::config::numbers::LimitNumbers;
use crate::plan::{Overrides, Plan};
use crate::settings::LimitSettings;
use crate::stored::Stored;

/// What was found in Redis.
pub(super) struct DocumentCheck {
    pub(super) usable: UsableNumbers,
    /// The text that Redis has now.
    pub(super) seen: Vec<u8>,
    /// The document to put in force.
    pub(super) held: Held,
    pub(super) fault: Option<Fault>,
}

/// The numbers to put in force, and warnings about those that can't be.
pub(super) struct UsableNumbers {
    pub(super) overrides: Overrides,
    warnings: Vec<String>,
    remark: Option<String>,
}

impl UsableNumbers {
    /// Reports what can't be used, and what is in force `instead`.
    pub(super) fn report(&self, log: &Log, instead: &str) {
        report_unusable(log, instead, &self.warnings);
        if let Some(remark) = &self.remark {
            log.warn("ConfigController", format_args!("the limits in Redis: {remark}"));
        }
    }
}

impl State {
    /// Reads the document in Redis, for the limits in `base`. If Redis has lost it, writes it back.
    pub(super) async fn check_document(
        &self,
        base: &[LimitSettings],
        store: Option<&Store>,
        log: &Log,
    ) -> DocumentCheck {
        let Some(document) = &self.document else {
            // Without Redis, a reload removes numbers that were set while running.
            let usable = UsableNumbers { overrides: Overrides::new(), warnings: Vec::new(), remark: None };
            return DocumentCheck { usable, seen: Vec::new(), held: self.held.clone(), fault: None };
        };
        let reconciled = match document.read().await {
            Ok(text) => reconcile(document, &self.held, text, log).await,
            Err(fault) => Err(Fault::Read(fault)),
        };
        match reconciled {
            Ok(reconciled) => self.evaluate(reconciled, base, store),
            Err(fault) => DocumentCheck {
                usable: self.known(base, store, Vec::new()),
                seen: self.seen.clone(),
                held: self.held.clone(),
                fault: Some(fault),
            },
        }
    }

    /// Evaluates the newest document. Where its numbers can't be used, those in force stay.
    pub(super) fn evaluate(
        &self,
        reconciled: Reconciled,
        base: &[LimitSettings],
        store: Option<&Store>,
    ) -> DocumentCheck {
        let Reconciled { text, seen, fault } = reconciled;
        let check = |limit: &LimitSettings, numbers: &LimitNumbers| Plan::check_numbers(limit, numbers, store);
        match Stored::read(&text, base, check) {
            Ok(stored) => {
                let warnings = stored.unusable.iter().map(|(name, reason)| format!("limit `{name}`: {reason}"));
                let usable = UsableNumbers {
                    warnings: warnings.collect(),
                    overrides: self.with_known(&stored, base, store),
                    remark: stored.remark,
                };
                DocumentCheck { usable, seen, held: Held::new(text), fault }
            }
            Err(error) => {
                let usable = self.known(base, store, vec![error]);
                DocumentCheck { usable, seen, held: self.held.clone(), fault }
            }
        }
    }

    /// The numbers in force before, as far as they are valid for `base`.
    fn known(&self, base: &[LimitSettings], store: Option<&Store>, mut warnings: Vec<String>) -> UsableNumbers {
        let mut overrides = self.overrides.clone();
        for limit in base {
            let Some(numbers) = overrides.get(limit.name.as_str()) else { continue };
            if let Err(reason) = Plan::check_numbers(limit, numbers, store) {
                warnings.push(format!("limit `{}`: {reason}", limit.name.as_str()));
                overrides.remove(limit.name.as_str());
            }
        }
        UsableNumbers { overrides, warnings, remark: None }
    }

    /// The numbers of a text. Limits whose numbers can't be used keep the last known ones.
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

    /// Notes what Redis has now, and why it could not be read or written.
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

    /// Whether the next attempt to write the document is due.
    pub(super) fn is_retry_due(&self, store: &Store) -> bool {
        self.retry.is_some_and(|retry| retry.is_due(store.reconnections(), Instant::now()))
    }

    /// Reports a fault once, and what is in force `instead`. The connection reports that Redis is unavailable.
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

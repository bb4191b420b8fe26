//! Whether a run can be believed, and how far.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_input::grouped;

use super::instance::{Instance, MOST_NOTES};
use super::numbers::{seconds, share, time};
use super::percentiles::{Percentiles, Reading};
use super::{Ended, Report};
use crate::plan::{Figure, Plan, Times};
use crate::record::Counts;

/// The percentiles that reports have.
pub(super) const PERCENTS: [(&str, f64); 5] =
    [("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9)];

/// Whether a run can be believed, and how far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Why it can't; none if it can.
    pub reasons: Vec<String>,
    /// What to bear in mind.
    pub qualifications: Vec<String>,
}

impl Verdict {
    /// Whether it can be believed.
    pub fn is_valid(&self) -> bool {
        self.reasons.is_empty()
    }
}

impl Report {
    /// Whether this can be believed, and how far.
    pub fn verdict(&self) -> Verdict {
        let are_several = self.instances.len() > 1;
        let reasons = self.instances.iter().flat_map(|instance| {
            let prefix = if are_several { format!("{}: ", instance.name()) } else { String::new() };
            self.reasons(instance).into_iter().map(move |reason| format!("{prefix}{reason}"))
        });
        Verdict { reasons: reasons.collect(), qualifications: self.qualifications() }
    }

    fn reasons(&self, instance: &Instance) -> Vec<String> {
        let mut reasons = Vec::new();
        if instance.sent == 0 {
            reasons.push("nothing was sent".to_owned());
        }
        let (lag, budget) = (instance.lag_p99_micros, self.setting.lag_budget);
        // A histogram's least time is a microsecond.
        if lag > (budget.as_micros() as u64).max(1) {
            let (lag, budget) = (time(seconds(lag)), time(budget.as_secs_f64()));
            reasons.push(format!("requests were sent late: the lag's 99th percentile is {lag}, its budget {budget}"));
        }
        if instance.too_late > 0 {
            let (missed, most) = (requests(instance.too_late), time(self.setting.max_lag.as_secs_f64()));
            reasons.push(format!("{missed} never sent: the generator was more than {most} behind"));
        }
        reasons
    }

    fn qualifications(&self) -> Vec<String> {
        let tally = self.record.all();
        let (counts, setting) = (&tally.counts, &self.setting);
        let of_all = |part: u64| format!("{} ({})", requests(part), share(part, counts.due()));
        let mut notes = Vec::new();
        if self.ended() == Ended::Stopped {
            let (window, whole) = (time(self.window().as_secs_f64()), time(setting.duration.as_secs_f64()));
            notes.push(if self.window().is_zero() {
                "the run was stopped before it began".to_owned()
            } else {
                format!("the run was stopped after {window} of {whole}")
            });
        }
        if counts.sent() > 0 && counts.responded() == 0 {
            notes.push("no request got a response".to_owned());
        }
        if counts.no_room > 0 {
            let (missed, most) = (of_all(counts.no_room), grouped(setting.concurrency));
            notes.push(format!("{missed} never sent, with {most} in flight; counted as slower than all others"));
        }
        if counts.unfinished > 0 {
            let unfinished = of_all(counts.unfinished);
            notes.push(format!(
                "{unfinished} without a response when the run was stopped; counted as slower than all others"
            ));
        }
        if counts.timed_out() > 0 {
            let (timeouts, timeout) = (of_all(counts.timed_out()), time(setting.timeout.as_secs_f64()));
            notes.push(format!("{timeouts} without a response within {timeout}; counted with the time waited"));
        }
        if let Some(threshold) = self.class_threshold_that_holds().filter(|_| counts.timed_out() > 0) {
            let timeouts = requests(counts.timed_out());
            notes.push(format!("{timeouts} timed out and are in no class: {threshold} does not count them"));
        }
        if let Some(rejections) = self.mostly_rejected() {
            notes.push(format!(
                "most responses are rejections: {rejections}, so latencies of all responses are mostly theirs; \
                 a threshold such as p99{{2xx}}<250ms counts one class of responses"
            ));
        }
        if !tally.latency.are_split() {
            let unknown = requests(tally.latency.unknown().len());
            notes.push(format!(
                "latencies by status are unknown: {unknown} from a result of an earlier version, which did not keep \
                 them apart"
            ));
        }
        let all = tally.latency.all();
        let latency = Percentiles::latency(&all, counts, setting.timeout);
        let bound =
            |(name, percent): (&'static str, f64)| latency.at(percent).filter(|at| at.is_at_least).map(|at| (name, at));
        let bounds: Vec<(&str, Reading)> = PERCENTS.into_iter().filter_map(bound).collect();
        if let [(name, at), ..] = bounds[..] {
            notes.push(format!("latencies from {name} on are bounds: {name} is at least {}", time(at.value)));
        }
        notes.extend(self.missing_parts());
        notes.extend(self.notes());
        notes
    }

    /// The first threshold on the latency of one class of responses that holds.
    fn class_threshold_that_holds(&self) -> Option<String> {
        let judged = self.setting.thresholds.iter().zip(self.thresholds());
        let mut of_classes = judged.filter(|(threshold, _)| matches!(threshold.figure, Figure::Latency(_, Some(_))));
        of_classes.find_map(|(_, judged)| (judged.holds == Some(true)).then_some(judged.threshold))
    }

    /// How many responses are rejections, if most are: figures of all responses then say little about the service.
    pub(crate) fn mostly_rejected(&self) -> Option<String> {
        let counts = self.record.all().counts;
        is_mostly_rejected(&counts).then(|| {
            let (rejected, responded) = (grouped(counts.rate_limited()), grouped(counts.responded()));
            let part = share(counts.rate_limited(), counts.responded());
            format!("{rejected} of {responded} ({part}) are 429")
        })
    }

    /// What was noted of the runs: once if it was of all of them, else with the run's name.
    fn notes(&self) -> Vec<String> {
        let first = self.instances.first().map_or(&[][..], |instance| &instance.notes);
        let is_of_all = |note: &&String| self.instances.iter().all(|instance| instance.notes.contains(note));
        let mut notes: Vec<String> = first.iter().filter(is_of_all).cloned().collect();
        let common = notes.len();
        let of_some =
            self.instances.iter().flat_map(|instance| instance.notes.iter().map(move |note| (instance, note)));
        for (instance, note) in of_some.filter(|(_, note)| !notes[..common].contains(note)).collect::<Vec<_>>() {
            if notes.len() == MOST_NOTES {
                notes.push("there are more notes; `instances` in the result file has all of them".to_owned());
                break;
            }
            notes.push(format!("{}: {note}", instance.name()));
        }
        notes
    }

    /// Reports parts of the plan that are missing, if it was divided evenly.
    pub(super) fn missing_parts(&self) -> Option<String> {
        let parts: Option<Vec<_>> = self.instances.iter().map(|instance| instance.part).collect();
        let parts = parts?;
        let of = parts.first()?.of();
        let here: BTreeSet<u64> = parts.iter().filter(|part| part.of() == of).map(|part| part.index()).collect();
        if here.len() < parts.len() {
            return Some(
                "the parts are of divisions that differ: it is unknown whether they are all of the plan".to_owned(),
            );
        }
        let missing = of - here.len() as u64;
        let are = if missing == 1 { "is" } else { "are" };
        (missing > 0).then(|| {
            format!("{missing} of the plan's {of} parts {are} not here: the load was higher than these figures show")
        })
    }
}

/// Whether more than half of all responses are 429.
pub(super) fn is_mostly_rejected(counts: &Counts) -> bool {
    counts.rate_limited() > counts.responded() / 2
}

/// Reports a trace that was over before the test was: rates are averages over the whole time.
pub(super) fn short_trace(plan: &Plan) -> Option<String> {
    let Times::Rate(profile, _) = &plan.times else { return None };
    let (length, whole) = (profile.length(), plan.duration);
    // A thousandth of a second is what rounding may have cost.
    (length + Duration::from_millis(1) < whole).then(|| {
        let (length, whole) = (time(length.as_secs_f64()), time(whole.as_secs_f64()));
        format!("the trace was over after {length} of {whole}: nothing was due from then on")
    })
}

fn requests(number: u64) -> String {
    format!("{} request{}", grouped(number), if number == 1 { "" } else { "s" })
}

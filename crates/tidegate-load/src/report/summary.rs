//! A report on a terminal.

mod page;
mod sparkline;

use std::time::{Duration, UNIX_EPOCH};

use tidegate_input::{Utc, grouped};

use super::numbers::{decimal, float, seconds, share, time};
use super::percentiles::{Percentiles, Reading};
use super::verdict::PERCENTS;
use super::{Judged, Report, Unit};
use crate::plan::Class;
use crate::record::{Counts, StepTally, Tally};
use crate::status_class::StatusClass;
use page::{Ink, Page, cells, cut, padded};

/// The most groups, statuses, runs and such that are reported one by one.
const MOST_ROWS: usize = 20;

impl Report {
    /// As a person reads it, at most 100 columns wide; in colours if asked.
    pub fn summary(&self, has_colours: bool) -> String {
        let mut page = Page::new(has_colours);
        let verdict = self.verdict();
        for reason in verdict.reasons.iter().take(MOST_ROWS) {
            page.marked("INVALID", Ink::Red, reason);
        }
        if verdict.reasons.len() > MOST_ROWS {
            page.plain(&format!("         and {} more", verdict.reasons.len() - MOST_ROWS));
        }
        for qualification in &verdict.qualifications {
            page.marked("note", Ink::Yellow, qualification);
        }
        page.gap();
        self.write_what(&mut page);
        page.gap();
        self.write_requests(&mut page);
        page.gap();
        self.write_times(&mut page);
        if self.setting.groups.len() > 1 {
            page.gap();
            self.write_groups(&mut page);
        }
        self.write_series(&mut page);
        let judged = self.thresholds();
        if !judged.is_empty() {
            page.gap();
            write_thresholds(&mut page, &judged);
        }
        page.finish()
    }

    fn write_what(&self, page: &mut Page) {
        let setting = &self.setting;
        page.line(Ink::Bold, &cut(&setting.target, 98));
        let started = self.instances.first().map_or(0, |instance| instance.started_millis);
        let started = Utc::from(UNIX_EPOCH + Duration::from_millis(started)).with_seconds();
        let runs = match self.instances.len() {
            1 => String::new(),
            several => format!(" · {several} runs together"),
        };
        let length = time(setting.duration.as_secs_f64());
        page.plain(&format!("{} · {length} · {started}{runs}", setting.profile));
    }

    fn write_requests(&self, page: &mut Page) {
        let counts = self.record.all().counts;
        let due = counts.due();
        let (offered, sent) = (decimal(self.rate(due)), decimal(self.rate(counts.sent())));
        page.line(Ink::Bold, &format!("{:<14}{:>15}   {offered}/s due, {sent}/s sent", "Requests", grouped(due)));
        let mut row = |name: &str, part: u64, detail: &str| {
            page.plain(&cut(&format!("  {name:<12}{:>15}  {:>8}   {detail}", grouped(part), share(part, due)), 98));
        };
        row("success", counts.success(), "");
        row("rate limited", counts.rate_limited(), "");
        row("errors", counts.errors(), &causes(&counts));
        if counts.unfinished > 0 {
            row("unfinished", counts.unfinished, "");
        }
        let missed = [(counts.too_late, "too late"), (counts.no_room, "no room")];
        let missed: Vec<String> = missed
            .iter()
            .filter(|(part, _)| *part > 0)
            .map(|(part, name)| format!("{name} × {}", grouped(*part)))
            .collect();
        row("missed", counts.missed(), &missed.join(" · "));
        let retries = self.record.all_retries().counts;
        if retries.total() > 0 {
            let (success, limited) = (grouped(retries.success()), grouped(retries.rate_limited()));
            let given_up = grouped(retries.given_up);
            let retries = grouped(retries.sent());
            page.plain(&format!(
                "  {:<12}{retries:>15}             besides: {success} success, {limited} limited, {given_up} given up",
                "retries"
            ));
        }
    }

    fn write_times(&self, page: &mut Page) {
        let tally = self.record.all();
        let (counts, timeout) = (&tally.counts, self.setting.timeout);
        let names = ["mean"].into_iter().chain(PERCENTS.map(|(name, _)| name)).chain(["max"]);
        page.line(Ink::Bold, &format!("{:<18}{}", "Latency", cells(names)));
        let mut row = |name: &str, times: &Percentiles<'_, u64, 3>| {
            let percentiles = PERCENTS.map(|(_, percent)| times.at(percent));
            let all = [times.mean()].into_iter().chain(percentiles).chain([times.max()]);
            page.plain(&format!("  {name:<16}{}", cells(all.map(reported))));
        };
        let latency = tally.latency.all();
        row("from when due", &Percentiles::latency(&latency, counts, timeout));
        let classes = StatusClass::ALL.into_iter().filter_map(|class| Some((class, tally.latency.of(class)?)));
        // Where all are of one class, its row would be the same once more.
        for (class, known) in classes.filter(|(_, known)| !known.is_empty() && known.len() < latency.len()) {
            row(&format!("  of {}", class.name()), &Percentiles::of_class(known, counts));
        }
        row("from when sent", &Percentiles::service(&tally.service, counts, timeout));
        let lag = &self.record.lag;
        let lags = PERCENTS.map(|(_, percent)| lag.percentile(percent));
        let lags = lags.into_iter().chain([lag.max()]).map(|micros| time(seconds(micros)));
        if !lag.is_empty() {
            page.plain(&format!("  {:<16}{}", "lag of sending", cells([String::new()].into_iter().chain(lags))));
        }
    }

    fn write_groups(&self, page: &mut Page) {
        let heads = ["due", "success", "limited", "errors", "p50", "p99"];
        page.line(Ink::Bold, &format!("{:<32}{}", "Groups", cells(heads)));
        let rows = self.setting.groups.iter().zip(&self.record.groups);
        for ((name, class), tally) in rows.take(MOST_ROWS) {
            let mark = if *class == Class::Attacker { " (attacker)" } else { "" };
            let name = format!("{}{mark}", cut(name, 29 - mark.len()));
            page.plain(&format!("  {}{}", padded(&name, 30), self.group_cells(tally)));
        }
        if self.setting.groups.len() > MOST_ROWS {
            page.plain(&format!("  and {} more", self.setting.groups.len() - MOST_ROWS));
        }
        for class in Class::ALL {
            let groups = self.record.classes.iter().filter(|of| **of == class).count();
            // Where there is only one of a class, it has been reported.
            if let Some(tally) = self.record.class(class).filter(|_| groups > 1) {
                page.plain(&format!("  {}{}", padded(&format!("all {}", class.name()), 30), self.group_cells(&tally)));
            }
        }
    }

    fn group_cells(&self, tally: &Tally) -> String {
        let counts = &tally.counts;
        let latency = tally.latency.all();
        let latency = Percentiles::latency(&latency, counts, self.setting.timeout);
        let due = counts.due();
        cells([
            grouped(due),
            share(counts.success(), due),
            share(counts.rate_limited(), due),
            share(counts.errors(), due),
            reported(latency.at(50.0)),
            reported(latency.at(99.0)),
        ])
    }

    /// Rate and latency over time, where there is a course to see.
    fn write_series(&self, page: &mut Page) {
        let step = self.record.step.as_secs_f64();
        let rate = |class: Class| {
            let sent = self.record.steps.iter().map(move |step| step.of(class).counts.sent());
            sent.map(move |sent| float(sent) / step)
        };
        let rates: Vec<f64> = rate(Class::Honest).zip(rate(Class::Attacker)).map(|(one, other)| one + other).collect();
        if rates.len() < 3 {
            return;
        }
        page.gap();
        page.line(Ink::Bold, "Over time");
        let most = rates.iter().copied().fold(0.0, f64::max);
        page.plain(&format!("  {:<16}{}  up to {}/s", "sent", sparkline::of(&rates), decimal(most)));
        for class in Class::ALL {
            self.write_class_series(page, class);
        }
    }

    /// The latencies of a class over time, if any are known.
    fn write_class_series(&self, page: &mut Page, class: Class) {
        let Some(longest) = self.record.class(class).map(|tally| tally.latency.max()).filter(|max| *max > 0) else {
            return;
        };
        let p99 = self.record.steps.iter().map(|step| {
            let StepTally { counts, latency } = step.of(class);
            Percentiles::latency(latency, counts, self.setting.timeout).within(longest).at(99.0)
        });
        let p99: Vec<Option<Reading>> = p99.collect();
        let bars: Vec<f64> = p99.iter().map(|at| at.map_or(0.0, |at| at.value)).collect();
        // The highest of some that are bounds is one.
        let is_at_least = p99.iter().flatten().any(|at| at.is_at_least);
        let most = Reading { value: bars.iter().copied().fold(0.0, f64::max), is_at_least };
        let name = if self.record.classes.contains(&Class::Attacker) { class.name() } else { "" };
        let name = format!("p99 {name}");
        page.plain(&format!("  {name:<16}{}  up to {}", sparkline::of(&bars), reported(Some(most))));
    }
}

/// A lower bound is marked by `≥`.
fn reported(reading: Option<Reading>) -> String {
    match reading {
        None => "-".to_owned(),
        Some(Reading { value, is_at_least: true }) => format!("≥ {}", time(value)),
        Some(Reading { value, .. }) => time(value),
    }
}

/// Errors by status and cause, the most frequent first.
fn causes(counts: &Counts) -> String {
    let is_error = |status: &u16| !(200..300).contains(status) && *status != 429;
    let statuses = counts.statuses().filter(|(status, _)| is_error(status));
    let statuses = statuses.map(|(status, count)| (count, status.to_string()));
    let failures = counts.failures().map(|(cause, count)| (count, cause.name().replace('_', " ")));
    let mut all: Vec<(u64, String)> = statuses.chain(failures).collect();
    all.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    let reported: Vec<String> =
        all.iter().take(MOST_ROWS).map(|(part, name)| format!("{name} × {}", grouped(*part))).collect();
    reported.join(" · ")
}

fn write_thresholds(page: &mut Page, judged: &[Judged]) {
    page.line(Ink::Bold, "Thresholds");
    for Judged { threshold, value, unit, is_at_least, holds } in judged {
        let value = match (value, unit) {
            (None, _) => "nothing to measure".to_owned(),
            (Some(value), Unit::Seconds) => reported(Some(Reading { value: *value, is_at_least: *is_at_least })),
            (Some(value), Unit::PerSecond) => format!("{}/s", decimal(*value)),
            (Some(value), Unit::Share) => format!("{:.3} %", value * 100.0),
        };
        let (mark, ink, later) = match holds {
            Some(true) => ("✓", Ink::Green, ""),
            Some(false) => ("✗", Ink::Red, ""),
            None => ("-", Ink::Yellow, "  of a part: judged when all parts are merged"),
        };
        page.marked(mark, ink, &format!("{}  {value}{later}", padded(&cut(threshold, 40), 24)));
    }
}

//! A replay on a terminal.

use std::fmt::Write as _;

use tidegate_input::{Utc, grouped};
use tidegate_lab::replay::{Replay, Replayed, Suggestion, printable};
use tidegate_lab::scenario::shown_share;

const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";
/// How many clients are shown.
const MOST_CLIENTS: usize = 10;
/// How many bad lines.
const MOST_BAD: usize = 3;

/// What was read, and what each policy would have done.
pub(super) fn of(found: &Replay, has_colours: bool) -> String {
    let bold = |text: String| if has_colours { format!("{BOLD}{text}{PLAIN}") } else { text };
    let mut page = log(found);
    for (index, policy) in found.policies.iter().enumerate() {
        let _infallible = writeln!(page, "\n{}", bold(verdict(found, index, policy)));
        for note in &policy.notes {
            let _infallible = writeln!(page, "  {note}");
        }
        page.push_str(&rest(policy));
        page.push_str(&limits(policy));
        page.push_str(&routes(policy));
        page.push_str(&clients(found, index, policy));
    }
    if let Some(differences) = found.differences {
        let _infallible = writeln!(page, "\n{}", bold("Both together".to_owned()));
        for (what, count) in [
            ("both admit", differences.both_admit),
            ("only the first rejects", differences.only_first_rejects),
            ("only the second rejects", differences.only_second_rejects),
            ("both reject", differences.both_reject),
        ] {
            let _infallible = writeln!(page, "  {what:<26}{:>14}{:>11}", grouped(count), share(count, found.requests));
        }
    }
    page
}

fn log(found: &Replay) -> String {
    let read = &found.read;
    let format = read.format.map_or("", tidegate_lab::replay::Format::name);
    let mut page = format!("{} requests", grouped(found.requests));
    if let Some((from, until)) = found.span {
        let _infallible = write!(page, " from {} to {}", moment(from / 1_000_000_000), moment(until / 1_000_000_000));
    }
    let _infallible = writeln!(page, " ({format})");
    if found.is_spread {
        page.push_str("Their times are whole seconds: those of one second are spread evenly over it.\n");
    }
    if found.late > 0 {
        let _infallible = writeln!(
            page,
            "{} of them stand more than 10 s too late in the log; they are judged when they stand there.",
            grouped(found.late)
        );
    }
    let left_out = found.left_out();
    if left_out > 0 {
        let _infallible = writeln!(page, "{} more are left out, as --without says.", grouped(left_out));
    }
    if found.odd > 0 {
        let _infallible = writeln!(page, "{} more are left out: their times fit none around them.", grouped(found.odd));
    }
    if read.bad_lines > 0 {
        let _infallible = writeln!(page, "{} of {} lines can't be read:", grouped(read.bad_lines), grouped(read.lines));
        for bad in read.bad.iter().take(MOST_BAD) {
            let _infallible = writeln!(page, "  {}:{}: {}", bad.file, bad.line, bad.reason);
        }
        if read.bad_lines > MOST_BAD as u64 {
            page.push_str("  …\n");
        }
    }
    page
}

/// `2026-01-19 16:30:05 UTC`
fn moment(seconds: u64) -> String {
    let text = Utc::from_unix(seconds).with_seconds().to_string();
    format!("{} UTC", text.trim_end_matches('Z').replace('T', " "))
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let share = part as f64 / whole as f64;
    shown_share(share)
}

fn verdict(found: &Replay, index: usize, policy: &Replayed) -> String {
    let rejected = policy.totals.rejected + policy.totals.lacking;
    let mut text = format!(
        "{} would have rejected {} of {} requests ({})",
        policy.name,
        grouped(rejected),
        grouped(found.requests),
        share(rejected, found.requests)
    );
    let clients = found.clients.rejected_count(index);
    if clients > 0 {
        let least = if found.clients.are_exact() { "" } else { "at least " };
        let one = if clients == 1 { "client" } else { "clients" };
        let _infallible = write!(text, ", from {least}{} {one}", grouped(clients));
    }
    if let Some((at, offered, rejected)) = found.worst(policy) {
        let _infallible = write!(
            text,
            ", most in the {} from {} on ({} of {})",
            span(found.rows.step()),
            moment(at),
            grouped(rejected),
            grouped(offered)
        );
    }
    text
}

fn span(seconds: u64) -> String {
    match seconds {
        1 => "second".to_owned(),
        60 => "minute".to_owned(),
        3_600 => "hour".to_owned(),
        86_400 => "day".to_owned(),
        _ if seconds.is_multiple_of(86_400) => format!("{} days", seconds / 86_400),
        _ if seconds.is_multiple_of(3_600) => format!("{} hours", seconds / 3_600),
        _ if seconds.is_multiple_of(60) => format!("{} minutes", seconds / 60),
        _ => format!("{seconds} seconds"),
    }
}

/// What else became of requests.
fn rest(policy: &Replayed) -> String {
    let totals = policy.totals;
    let mut page = String::new();
    let lines = [
        (totals.lacking, "of those because a limit's key could not be built"),
        (totals.would_be_rejected, "more by limits in a dry run"),
        (totals.no_route, "have no route"),
        (totals.local, "are for the gateway itself, and not limited"),
    ];
    for (count, what) in lines.into_iter().filter(|(count, _)| *count > 0) {
        let _infallible = writeln!(page, "  {} {what}", grouped(count));
    }
    if totals.delayed > 0 {
        let seconds = totals.longest_wait.as_secs_f64();
        let _infallible = writeln!(page, "  {} kept waiting, {seconds:.3} s at most", grouped(totals.delayed));
    }
    page
}

fn limits(policy: &Replayed) -> String {
    let numbers = |index: usize| policy.limits[index].numbers.to_string().replace("algorithm=", "");
    let name = policy.limits.iter().map(|limit| limit.name.len()).max().unwrap_or(0).max(5) + 2;
    let wide = (0..policy.limits.len()).map(|index| numbers(index).len()).max().unwrap_or(0).max(7) + 2;
    let key = policy.limits.iter().map(|limit| limit.key.len()).max().unwrap_or(0).max(3) + 2;
    let mut page = format!(
        "  {:<name$}{:<wide$}{:<key$}{:>14}{:>14}{:>11}\n",
        "limit", "numbers", "key", "checked", "rejected", "share"
    );
    for (index, limit) in policy.limits.iter().enumerate() {
        let (asked, rejected) = (policy.asked[index], policy.rejected_by[index]);
        let watching = if limit.is_dry_run { "  dry run" } else { "" };
        let _infallible = writeln!(
            page,
            "  {:<name$}{:<wide$}{:<key$}{:>14}{:>14}{:>11}{watching}",
            limit.name,
            numbers(index),
            limit.key,
            grouped(asked),
            grouped(rejected),
            share(rejected, asked)
        );
    }
    page
}

/// Where there is more than one.
fn routes(policy: &Replayed) -> String {
    if policy.routes.len() < 2 {
        return String::new();
    }
    let name = policy.routes.iter().map(|(name, ..)| name.len()).max().unwrap_or(0).max(5) + 2;
    let mut page = format!("\n  {:<name$}{:>14}{:>14}{:>11}\n", "route", "requests", "rejected", "share");
    for (route, requests, rejected) in &policy.routes {
        let _infallible = writeln!(
            page,
            "  {route:<name$}{:>14}{:>14}{:>11}",
            grouped(*requests),
            grouped(*rejected),
            share(*rejected, *requests)
        );
    }
    page
}

fn clients(found: &Replay, index: usize, policy: &Replayed) -> String {
    let most = found.clients.most_rejected(index, MOST_CLIENTS);
    if most.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = most.iter().map(|(name, _)| printable(name)).collect();
    let name = shown.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(12) + 2;
    let mut page = format!(
        "\n  {:<name$}{:>12}{:>12}{:>11}  {:<16}{}\n",
        "most rejected", "requests", "rejected", "share", "limit", "from, until"
    );
    for ((_, client), shown) in most.iter().zip(&shown) {
        let rejections = client.rejections(index);
        let _infallible = writeln!(
            page,
            "  {shown:<name$}{:>12}{:>12}{:>11}  {:<16}{}, {}",
            grouped(client.requests),
            grouped(rejections.count),
            share(rejections.count, client.requests),
            policy.limits[rejections.limit].name,
            moment(rejections.first / 1_000_000_000),
            moment(rejections.last / 1_000_000_000),
        );
    }
    let more = found.clients.rejected_count(index) - most.len() as u64;
    if more > 0 {
        let _infallible = writeln!(page, "  and {} more", grouped(more));
    }
    page
}

/// What is proposed, for the first policy.
pub(super) fn suggestion(suggestion: &Suggestion, found: &Replay) -> String {
    let Some(policy) = found.policies.first() else { return String::new() };
    let name = &policy.name;
    if suggestion.limits.is_empty() {
        return format!("\nThere is nothing to propose for {name}: no request was checked against a limit.\n");
    }
    let mut page = format!(
        "\nTo reject at most {} of them, replace `limits` in {name} by this:\n\n",
        shown_share(suggestion.share)
    );
    // Not indented, so that it can be pasted.
    page.push_str(&suggestion.yaml());
    let _infallible =
        writeln!(page, "\n  With these {} would have been rejected.", shown_share(suggestion.rejected_share));
    for note in suggestion.notes(found) {
        let _infallible = writeln!(page, "  {note}");
    }
    page
}

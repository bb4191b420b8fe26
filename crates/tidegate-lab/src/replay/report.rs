//! What a replay found, as JSON. What each field means is in docs/lab.md.

use serde_json::{Value, json};

use super::suggestion::numbers_json;
use super::{Replay, Replayed, Suggestion};

/// How many clients are listed.
const MOST_CLIENTS: usize = 100;

impl Replay {
    /// For machines, and for the page. `created_at`: when it was made, as text.
    pub fn to_json(&self, files: &[String], suggestion: Option<&Suggestion>, created_at: &str) -> Value {
        let read = &self.read;
        let bad = |bad: &super::Bad| json!({"file": bad.file, "line": bad.line, "reason": bad.reason.to_string()});
        let without = |(name, count): &(String, u64)| json!({"name": name, "requests": count});
        json!({
            "format": "tidegate-lab-replay/1",
            "kind": "replay",
            "version": env!("CARGO_PKG_VERSION"),
            "createdAt": created_at,
            "log": {
                "files": files,
                "format": read.format.map(super::Format::name),
                "lines": read.lines,
                "requests": self.requests,
                "badLines": read.bad_lines,
                "bad": read.bad.iter().map(bad).collect::<Vec<_>>(),
                "late": self.late,
                "odd": self.odd,
                "without": self.without.iter().map(without).collect::<Vec<_>>(),
                "from": self.span.map(|(from, _)| seconds(from)),
                "until": self.span.map(|(_, until)| seconds(until)),
                "times": if self.is_spread { "seconds" } else { "exact" },
                "isSpread": self.is_spread,
                "lacks": self.lacks,
            },
            "step": self.rows.step(),
            "start": self.rows.start(),
            "offered": self.rows.column(0).collect::<Vec<_>>(),
            "policies": (0..self.policies.len()).map(|index| self.policy(index)).collect::<Vec<_>>(),
            "differences": self.differences.map(|found| json!({
                "bothAdmit": found.both_admit,
                "onlyFirstRefuses": found.only_first_rejects,
                "onlySecondRefuses": found.only_second_rejects,
                "bothRefuse": found.both_reject,
            })),
            "suggestion": suggestion.map(|suggestion| suggestion.to_json(self)),
        })
    }

    fn policy(&self, index: usize) -> Value {
        let policy = &self.policies[index];
        let totals = policy.totals;
        let route = |route: &(String, u64, u64)| {
            let (name, requests, rejected) = route;
            json!({"name": name, "requests": requests, "refused": rejected})
        };
        let worst = |(at, offered, rejected)| json!({"at": at, "offered": offered, "refused": rejected});
        json!({
            "name": policy.name,
            "notes": policy.notes,
            "totals": {
                "requests": self.requests,
                "admitted": totals.admitted,
                "refused": totals.rejected,
                "watched": totals.would_be_rejected,
                "noRoute": totals.no_route,
                "lacking": totals.lacking,
                "local": totals.local,
                "delayed": totals.delayed,
                "longestWait": totals.longest_wait.as_secs_f64(),
            },
            "refused": self.rows.column(policy.column).collect::<Vec<_>>(),
            "limits": (0..policy.limits.len()).map(|limit| self.limit(policy, limit)).collect::<Vec<_>>(),
            "routes": policy.routes.iter().map(route).collect::<Vec<_>>(),
            "clients": self.clients.most_rejected(index, MOST_CLIENTS).into_iter().map(|(name, client)| {
                let rejections = client.rejections(index);
                json!({
                    "client": name,
                    "requests": client.requests,
                    "refused": rejections.count,
                    "limit": policy.limits[rejections.limit].name,
                    "first": seconds(rejections.first),
                    "last": seconds(rejections.last),
                })
            }).collect::<Vec<_>>(),
            "clientsRefused": self.clients.rejected_count(index),
            "clientsAreExact": self.clients.are_exact(),
            "worst": self.worst(policy).map(worst),
        })
    }

    fn limit(&self, policy: &Replayed, index: usize) -> Value {
        let limit = &policy.limits[index];
        json!({
            "name": limit.name,
            "algorithm": limit.numbers.algorithm().name(),
            "numbers": numbers_json(&limit.numbers),
            "key": limit.key,
            "isWatching": limit.is_dry_run,
            "asked": policy.asked[index],
            "refused": policy.rejected_by[index],
            "series": self.rows.column(policy.column + 1 + index).collect::<Vec<_>>(),
        })
    }

    /// The row with the most rejections: when it begins, in seconds since 1970, what was offered and what was rejected.
    /// None without rejections.
    pub fn worst(&self, policy: &Replayed) -> Option<(u64, u64, u64)> {
        let rows = self.rows.column(0).zip(self.rows.column(policy.column)).enumerate();
        let most = rows.reduce(|most, next| if next.1.1 > most.1.1 { next } else { most });
        let (row, (offered, rejected)) = most?;
        (rejected > 0).then(|| (self.rows.start().unwrap_or(0) + row as u64 * self.rows.step(), offered, rejected))
    }
}

impl Suggestion {
    fn to_json(&self, found: &Replay) -> Value {
        let limit = |suggested: &super::Suggested| {
            json!({
                "name": suggested.limit.name,
                "key": suggested.limit.key,
                "algorithm": suggested.numbers.algorithm().name(),
                "from": numbers_json(&suggested.limit.numbers),
                "to": numbers_json(&suggested.numbers),
                "asked": suggested.asked,
                "refused": suggested.rejected,
                "share": crate::observation::ratio(suggested.rejected, suggested.asked),
            })
        };
        json!({
            "share": self.share,
            "refusedShare": self.rejected_share,
            "lacking": self.lacking,
            "untold": self.without_durations,
            "limits": self.limits.iter().map(limit).collect::<Vec<_>>(),
            "notes": self.notes(found),
            "yaml": self.yaml(),
        })
    }
}

/// Nanoseconds, in seconds.
#[expect(clippy::cast_precision_loss, reason = "for people: a microsecond is lost")]
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

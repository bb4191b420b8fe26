//! A member's side of the scripts.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use redis::{Cmd, FromRedisValue, Value};

use super::messages::{Lifetimes, MOST_MEMBERS, Overlay, Publication, Report, Standing};

/// The script of a heartbeat.
pub const HEARTBEAT: &str = concat!(include_str!("../../lua/clock.lua"), include_str!("../../lua/heartbeat.lua"));
/// The script of a member that leaves.
pub const LEAVE: &str = include_str!("../../lua/leave.lua");

/// The call of a script. Once a second it can carry its text.
pub fn command(script: &str, keys: &[String], args: &[Vec<u8>]) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(keys.len()).arg(keys).arg(args);
    command
}

/// What a member's calls begin with.
pub struct Member {
    /// 16 random bytes in hex.
    pub id: String,
    /// Counts its heartbeats: one that was delayed on an old connection is not carried out after a later one.
    turn: u64,
}

impl Member {
    /// One that nobody knows yet.
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        let random = |half: u8| RandomState::new().hash_one((std::process::id(), half));
        Self { id: format!("{:016x}{:016x}", random(0), random(1)), turn: 0 }
    }

    /// The arguments of `heartbeat.lua`; `now` in microseconds, if it is not to be Redis' own clock.
    pub fn heartbeat_args(
        &mut self,
        now: Option<u64>,
        lifetimes: &Lifetimes,
        report: &[u8],
        publication: Option<Publication<'_>>,
    ) -> Vec<Vec<u8>> {
        self.turn += 1;
        let micros = |span: Duration| number(span.as_micros() as u64); // at most a day
        let mut args = vec![
            now.map(number).unwrap_or_default(),
            self.id.clone().into_bytes(),
            number(self.turn),
            report.to_vec(),
            micros(lifetimes.lease),
            micros(lifetimes.report),
            number(MOST_MEMBERS as u64),
            number(publication.map_or(0, |publication| publication.term)),
            micros(lifetimes.overlay),
        ];
        args.extend(publication.and_then(|publication| publication.overlay).map(<[u8]>::to_vec));
        args
    }

    /// The arguments of `leave.lua`.
    pub fn leave_args(&self) -> Vec<Vec<u8>> {
        vec![self.id.clone().into_bytes()]
    }
}

fn number(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// The reply of `heartbeat.lua`; `None` if it can't be one.
pub fn standing(reply: Value) -> Option<Standing> {
    type Reply = (u64, Option<(u64, u64, u64, Vec<u8>)>, Option<Vec<(String, u64, u64, Vec<u8>)>>);
    let (term, overlay, reports) = Reply::from_redis_value(reply).ok()?;
    let overlay =
        overlay.map(|(term, version, left, bytes)| Overlay { term, version, left: Duration::from_micros(left), bytes });
    let report = |(member, age, number, bytes)| Report { member, age: Duration::from_micros(age), number, bytes };
    let reports = reports.map(|reports| reports.into_iter().map(report).collect());
    Some(Standing { term, reports, overlay })
}

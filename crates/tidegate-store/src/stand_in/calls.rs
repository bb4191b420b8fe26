//! The commands, and what carries them out.

use std::collections::HashMap;
use std::time::SystemTime;

use super::elections::{Election, Heartbeat};
use super::limits::Limits;
use super::resp::{Reply, number};
use crate::election::scripts;
use crate::script::Script;
use crate::{document, link};

/// Everything that is remembered.
#[derive(Default)]
pub(super) struct Memory {
    limits: Limits,
    /// Elections by the key of their lease.
    elections: HashMap<Vec<u8>, Election>,
    texts: HashMap<Vec<u8>, Vec<u8>>,
    /// Scripts by their digests.
    scripts: HashMap<Vec<u8>, Task>,
}

/// The most elections, documents, and scripts, of each.
const MOST: usize = 1_000;
const FULL: &str = "OOM the stand-in is full";
const ODD: &str = "ERR the stand-in does not understand these arguments";

/// What a script is for.
#[derive(Clone, Copy)]
enum Task {
    Check,
    GiveBack,
    Probe,
    Heartbeat,
    Leave,
    Replace,
}

impl Task {
    /// By its text. A preamble, as tests put before it, changes nothing here.
    fn of(text: &[u8]) -> Option<Self> {
        let tasks: [(Self, &str); 6] = [
            (Self::Check, include_str!("../../lua/exact.lua")),
            (Self::GiveBack, include_str!("../../lua/give_back.lua")),
            (Self::Probe, link::PROBE),
            (Self::Heartbeat, scripts::HEARTBEAT),
            (Self::Leave, scripts::LEAVE),
            (Self::Replace, document::REPLACE),
        ];
        tasks.into_iter().find(|(_, known)| text.ends_with(known.as_bytes())).map(|(task, _)| task)
    }
}

impl Memory {
    /// Carries a command out.
    pub(super) fn carry_out(&mut self, command: &[&[u8]]) -> Reply {
        let name = command.first().copied().unwrap_or_default().to_ascii_uppercase();
        match (&*name, command.get(1..).unwrap_or_default()) {
            (b"PING", []) => Reply::Word("PONG"),
            // What a client says of itself when it connects.
            (b"CLIENT" | b"SELECT", _) => Reply::Word("OK"),
            (b"TIME", []) => {
                let now = time(b"");
                Reply::List([now / 1_000_000, now % 1_000_000].map(|part| Reply::Bytes(part.to_string().into())).into())
            }
            (b"GETRANGE", [key, b"0", last]) => self.beginning(key, last),
            (b"SCRIPT", [load, text]) if load.eq_ignore_ascii_case(b"LOAD") => self.load(text),
            (b"EVAL", [text, count, rest @ ..]) => match Task::of(text) {
                Some(task) => {
                    self.load(text);
                    self.run(task, count, rest)
                }
                None => Reply::error("ERR the stand-in has no such script"),
            },
            (b"EVALSHA", [sha, count, rest @ ..]) => match self.scripts.get(*sha) {
                Some(task) => self.run(*task, count, rest),
                None => Reply::error("NOSCRIPT no such script"),
            },
            (other, _) => {
                let shown: String = String::from_utf8_lossy(other).chars().take(32).collect();
                Reply::error(&format!("ERR the stand-in does not know {shown:?} with these arguments"))
            }
        }
    }

    fn load(&mut self, text: &[u8]) -> Reply {
        let (Some(task), Ok(text)) = (Task::of(text), str::from_utf8(text)) else {
            return Reply::error("ERR the stand-in has no such script");
        };
        let sha = Script::of(text.to_owned()).sha.into_bytes();
        if self.scripts.len() < MOST {
            self.scripts.insert(sha.clone(), task);
        }
        Reply::Bytes(sha)
    }

    /// `keys and arguments`, the keys counted.
    fn run(&mut self, task: Task, count: &[u8], rest: &[&[u8]]) -> Reply {
        let count = number(count).and_then(|count| usize::try_from(count).ok());
        let Some((keys, args)) = count.and_then(|count| rest.split_at_checked(count)) else {
            return Reply::error("ERR Number of keys can't be greater than number of args");
        };
        let done = match (task, args) {
            (Task::Probe, []) => Ok(Reply::List(vec![Reply::Number(1)])),
            (Task::Check, [now, commit, levels @ ..]) => {
                let now = time(now);
                self.limits.check(keys, *commit == b"1", levels, now).map(|figures| numbers(now, figures))
            }
            (Task::GiveBack, [now, levels @ ..]) => {
                let now = time(now);
                self.limits.give_back(keys, levels, now).map(|()| numbers(now, Vec::new()))
            }
            (Task::Heartbeat, [now, rest @ ..]) => Heartbeat::read(rest).ok_or(ODD).and_then(|heartbeat| {
                let now = time(now);
                entry(&mut self.elections, keys).and_then(|election| election.heartbeat(&heartbeat, now))
            }),
            (Task::Leave, [member]) => entry(&mut self.elections, keys).map(|election| {
                election.leave(member);
                Reply::Number(1)
            }),
            (Task::Replace, [old, new]) => self.replace(keys, old, new),
            (
                Task::Probe | Task::Check | Task::GiveBack | Task::Heartbeat | Task::Leave | Task::Replace,
                _wrong_arguments,
            ) => Err(ODD),
        };
        done.unwrap_or_else(Reply::error)
    }

    fn beginning(&self, key: &[u8], last: &[u8]) -> Reply {
        let Some(last) = number(last).and_then(|last| usize::try_from(last).ok()) else { return Reply::error(ODD) };
        let text = self.texts.get(key).map_or(&[][..], Vec::as_slice);
        Reply::Bytes(text[..text.len().min(last.saturating_add(1))].to_vec())
    }

    fn replace(&mut self, keys: &[&[u8]], old: &[u8], new: &[u8]) -> Result<Reply, &'static str> {
        let [key] = keys else { return Err(ODD) };
        if self.texts.get(*key).map_or(&[][..], Vec::as_slice) != old {
            return Ok(Reply::Number(0));
        }
        if new.is_empty() {
            self.texts.remove(*key);
        } else {
            *entry(&mut self.texts, keys)? = new.to_vec();
        }
        Ok(Reply::Number(1))
    }
}

/// What stands under the first of the keys, made if it is not there yet.
fn entry<'a, T: Default>(all: &'a mut HashMap<Vec<u8>, T>, keys: &[&[u8]]) -> Result<&'a mut T, &'static str> {
    let key = *keys.first().ok_or(ODD)?;
    if all.len() >= MOST && !all.contains_key(key) {
        return Err(FULL);
    }
    Ok(all.entry(key.to_vec()).or_default())
}

fn numbers(now: u64, figures: Vec<i64>) -> Reply {
    let all = std::iter::once(Reply::number(now)).chain(figures.into_iter().map(Reply::Number));
    Reply::List(all.collect())
}

/// The time that the caller says it is (tests do), or else the clock's; in microseconds.
fn time(argument: &[u8]) -> u64 {
    number(argument).unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    })
}

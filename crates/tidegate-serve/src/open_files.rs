use std::{fs, io};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many files, sockets included, the process may have open; `u64::MAX` is without a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// Before it was raised.
    pub before: u64,
    /// From now on.
    pub now: u64,
}

/// Raises how many files the process may have open as far as it may without privileges. (The soft limit is 1,024 on
/// many systems, for the sake of programs that use `select`; a gateway needs two sockets for each request.)
pub fn raise_open_files() -> io::Result<OpenFiles> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    }
    let now = getrlimit(Resource::Nofile);
    Ok(OpenFiles { before: limit.current.unwrap_or(u64::MAX), now: now.current.unwrap_or(u64::MAX) })
}

/// How many files, sockets included, the process may have open at once; `u64::MAX` is without a limit.
pub fn most_open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// How many are open now.
pub fn open_files() -> io::Result<u64> {
    // Since Linux 6.2 the directory's size is their number; else they are counted, without the one that counts.
    match fs::metadata("/proc/self/fd")?.len() {
        0 => Ok(fs::read_dir("/proc/self/fd")?.count().saturating_sub(1) as u64),
        open => Ok(open),
    }
}

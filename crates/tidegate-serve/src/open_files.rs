use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many files, sockets included, the process may have open; `u64::MAX` is without a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// Before it was raised.
    pub before: u64,
    /// From now on.
    pub now: u64,
}

/// Raises how many files the process may have open as far as it may without privileges. (The soft limit is 1,024 on many
/// systems, for the sake of programs that use `select`; a gateway needs two sockets for each request.)
pub fn raise_open_files() -> io::Result<OpenFiles> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    }
    let now = getrlimit(Resource::Nofile);
    Ok(OpenFiles { before: limit.current.unwrap_or(u64::MAX), now: now.current.unwrap_or(u64::MAX) })
}

//! The built binary, and signals.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::waiting::wait_until;

/// Where the built binary is: beside the test's own executable, or where `TIDEGATE_BINARY` says.
pub fn binary() -> PathBuf {
    std::env::var_os("TIDEGATE_BINARY").map_or_else(beside_this_test, PathBuf::from)
}

/// Cargo builds a package's binary before its integration tests: `target/debug/tidegate` for `target/debug/deps/e2e-…`.
fn beside_this_test() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("tests are built into target/PROFILE/deps");
    profile.join("tidegate")
}

/// The binary with an empty environment.
pub fn tidegate() -> Command {
    let mut command = Command::new(binary());
    command.env_clear().stdin(Stdio::null());
    command
}

/// Sends a process a signal by name.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status().expect("kill runs");
    assert!(sent.success(), "no signal {name} to {pid}");
    if name == "STOP" {
        // The signal was sent: each thread stops when it gets it.
        wait_until("it stands still", || is_stopped(pid));
    }
}

/// Whether all threads of a process have stopped.
fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        let state = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // After the name, which is in parentheses.
        state.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('T'))
    })
}

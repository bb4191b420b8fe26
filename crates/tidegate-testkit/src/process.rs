//! The built binary, and signals.

use std::path::PathBuf;
use std::process::{Command, Stdio};

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
}

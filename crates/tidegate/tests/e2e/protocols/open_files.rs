//! How many file descriptors this process may have open.

use std::fs;
use std::process::Command;

/// Lets this process open `wanted` descriptors, or as many as the system allows, and says how many those are.
pub(crate) fn raise_open_files(wanted: usize) -> usize {
    let limits = || {
        let text = fs::read_to_string("/proc/self/limits").expect("limits");
        let line = text.lines().find(|line| line.starts_with("Max open files")).expect("a limit").to_owned();
        let number = |word: &str| if word == "unlimited" { usize::MAX } else { word.parse().expect("a number") };
        let words: Vec<&str> = line["Max open files".len()..].split_whitespace().collect();
        (number(words[0]), number(words[1]))
    };
    let (soft, hard) = limits();
    if soft < wanted.min(hard) {
        // Where there is no such program, what is allowed now must do.
        allow_open_files(std::process::id(), wanted.min(hard), hard);
    }
    limits().0
}

/// Sets how many descriptors a process may have open. False if that is not possible here.
pub(crate) fn allow_open_files(pid: u32, soft: usize, hard: usize) -> bool {
    let limits = format!("--nofile={soft}:{hard}");
    Command::new("prlimit").arg(format!("--pid={pid}")).arg(limits).status().is_ok_and(|status| status.success())
}

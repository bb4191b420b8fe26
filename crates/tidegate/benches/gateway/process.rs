//! Child processes: pinned to a core, and ended with their owner.

use std::ffi::OsStr;
use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::scratch::Scratch;
use crate::usage;

/// A port that is free now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

/// Moves this program to a core, with all threads that it starts from now on.
pub(crate) fn move_to(core: usize) {
    let id = std::process::id().to_string();
    let moved = Command::new("taskset").args(["-c", "-p", &core.to_string(), &id]).stdout(Stdio::null()).status();
    assert!(moved.is_ok_and(|status| status.success()), "this program can't be moved to core {core}");
}

/// A running program. What it prints is in `output`.
pub(crate) struct Process {
    name: String,
    child: Child,
    output: PathBuf,
}

impl Process {
    /// Starts a program on one core. `name` is for messages and for the file of what it prints.
    pub(crate) fn start<S: AsRef<OsStr>>(
        scratch: &Scratch,
        name: &str,
        core: usize,
        command: impl IntoIterator<Item = S>,
    ) -> Self {
        let mut launcher = Command::new("taskset");
        launcher.args(["-c", &core.to_string(), "setpriv", "--pdeathsig", "TERM"]);
        Self::launch(scratch, name, launcher, command)
    }

    /// The same on any core.
    pub(crate) fn start_unpinned<S: AsRef<OsStr>>(
        scratch: &Scratch,
        name: &str,
        command: impl IntoIterator<Item = S>,
    ) -> Self {
        let mut launcher = Command::new("setpriv");
        launcher.args(["--pdeathsig", "TERM"]);
        Self::launch(scratch, name, launcher, command)
    }

    fn launch<S: AsRef<OsStr>>(
        scratch: &Scratch,
        name: &str,
        mut launcher: Command,
        command: impl IntoIterator<Item = S>,
    ) -> Self {
        let output = scratch.join(&format!("{name}.out"));
        let file = File::create(&output).expect("the temporary directory is writable");
        let path = std::env::var("PATH").unwrap_or_default();
        // `taskset` and `setpriv` replace themselves by what they start, so its process id is the child's. `setpriv` is
        // for the end that no destructor sees: when this program is killed, the child gets a signal to stop.
        let child = launcher
            .args(command)
            .env("PATH", format!("{path}:/usr/sbin")) // nginx's place, not in everyone's PATH
            .stdin(Stdio::null())
            .stderr(file.try_clone().expect("a file can be shared"))
            .stdout(file)
            .spawn()
            .expect("taskset and setpriv (util-linux) are installed");
        Self { name: name.to_owned(), child, output }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        signal(name, self.id());
    }

    /// Sends it a signal at once, without a shell that has to start first.
    pub(crate) fn signal_now(&self, signal: Signal) {
        // It may have ended by itself.
        let _sent = rustix::process::kill_process(Pid::from_child(&self.child), signal);
    }

    /// Returns when it has ended.
    pub(crate) fn wait_for_end(&mut self) {
        assert!(self.ends_within(Duration::from_secs(30)), "{} does not end:\n{}", self.name, self.printed());
    }

    /// Returns when `port` takes connections.
    pub(crate) fn wait_for(&mut self, port: u16) {
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            self.assert_alive();
            assert!(start.elapsed() < Duration::from_secs(30), "{} does not answer:\n{}", self.name, self.printed());
            std::thread::sleep(Duration::from_millis(10));
        }
        self.assert_alive();
    }

    /// Returns what it printed, once it has ended well.
    pub(crate) fn finish(mut self) -> String {
        let status = self.child.wait().expect("it is our child");
        assert!(status.success(), "{} failed, {status}:\n{}", self.name, self.printed());
        self.printed()
    }

    fn assert_alive(&mut self) {
        let ended = self.child.try_wait().expect("it is our child");
        assert!(
            ended.is_none(),
            "{} has ended (is it installed? `make setup`), {ended:?}:\n{}",
            self.name,
            self.printed()
        );
    }

    pub(crate) fn printed(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    fn ends_within(&mut self, time: Duration) -> bool {
        let start = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            if start.elapsed() > time {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // Asked first: nginx's master takes its workers along only when it may stop by itself.
        let family = usage::family(self.id());
        signal("TERM", self.id());
        if !self.ends_within(Duration::from_secs(3)) {
            for id in family {
                signal("KILL", id);
            }
            let _status = self.child.wait();
        }
    }
}

/// The standard library can only kill; every shell can send the other signals.
fn signal(signal: &str, id: u32) {
    let _sent = Command::new("sh").args(["-c", &format!("kill -{signal} {id}")]).stderr(Stdio::null()).status();
}

//! Real servers for tests: on free ports of the loopback, ended by their process id when the test is over.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A redis-server of our own.
pub struct Server {
    pub port: u16,
    child: Child,
    arguments: Vec<String>,
    directory: PathBuf,
}

/// A port that was free a moment ago. Kept below the range where the kernel picks ports for outgoing connections, and
/// away from other tests by a counter, so that nobody takes it in between.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + ((std::process::id() * 97 + step) % 10_000) as u16;
        // A cluster's nodes also listen on a bus, 10,000 higher.
        if TcpListener::bind(("127.0.0.1", port)).is_ok() && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
}

impl Server {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_at(port: u16) -> Self {
        Self::launch(port, &[])
    }

    pub fn start_with(arguments: &[&str]) -> Self {
        Self::launch(free_port(), arguments)
    }

    fn launch(port: u16, arguments: &[&str]) -> Self {
        let directory = std::env::temp_dir().join(format!("tidegate-test-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory for the server");
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let child = spawn(port, &directory, &arguments);
        let server = Self { port, child, arguments, directory };
        server.wait_until_ready();
        server
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url()).and_then(|client| client.get_connection()).expect("a connection")
    }

    pub fn wait_until_ready(&self) {
        eventually("the server answers", || {
            let client = redis::Client::open(self.url()).expect("a url");
            client.get_connection().is_ok_and(|mut c| redis::cmd("PING").query::<String>(&mut c).is_ok())
        });
    }

    pub fn flush(&self) {
        redis::cmd("FLUSHALL").exec(&mut self.connection()).expect("flushed");
    }

    /// `kill -9`: everything that was not written down is gone, and nothing here writes anything down.
    pub fn kill(&mut self) {
        self.child.kill().expect("it was running");
        self.child.wait().expect("it has ended");
    }

    pub fn restart(&mut self) {
        self.child = spawn(self.port, &self.directory, &self.arguments);
        self.wait_until_ready();
    }

    /// SIGSTOP and SIGCONT: connections stay open, nobody responds.
    pub fn freeze(&self, frozen: bool) {
        let signal = if frozen { "-STOP" } else { "-CONT" };
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(status.expect("kill exists").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; either way it is gone now.
        let _ended = self.child.kill();
        let _status = self.child.wait();
        let _removed = std::fs::remove_dir_all(&self.directory);
    }
}

/// A sentinel that watches a master by the name `main`.
pub struct Sentinel {
    pub port: u16,
    child: Child,
    file: PathBuf,
}

impl Sentinel {
    pub fn start(master: u16) -> Self {
        Self::start_with(master, "")
    }

    /// Watches the master on this port, with more settings of its own.
    pub fn start_with(master: u16, more: &str) -> Self {
        let port = free_port();
        let file = std::env::temp_dir().join(format!("tidegate-sentinel-{}-{port}.conf", std::process::id()));
        let settings = format!(
            "port {port}\nbind 127.0.0.1\n{more}sentinel monitor main 127.0.0.1 {master} 1\n\
             sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 2000\n"
        );
        std::fs::write(&file, settings).expect("a settings file");
        let child = Command::new("redis-server").arg(&file).arg("--sentinel").stdout(Stdio::null()).spawn();
        Self { port, child: child.expect("redis-server is installed"), file }
    }

    /// What it says of `main`; nothing while it does not respond.
    pub fn ask(&self, question: &str) -> Vec<redis::Value> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).expect("a url");
        let Ok(mut connection) = client.get_connection() else { return Vec::new() };
        redis::cmd("SENTINEL").arg(question).arg("main").query(&mut connection).unwrap_or_default()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        // It may have ended already; either way it is gone now.
        let _ended = self.child.kill();
        let _status = self.child.wait();
        let _removed = std::fs::remove_file(&self.file);
    }
}

fn spawn(port: u16, directory: &std::path::Path, arguments: &[String]) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--enable-debug-command", "yes", "--dir"])
        .arg(directory)
        .args(arguments)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed: `make setup`")
}

/// Waits until `done` says so, for at most half a minute: for what other processes do in their own time.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

//! The gateway as users run it, on a free port, ended by its process id.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use crate::{Directory, PATIENCE, Response, request, signal, tidegate, wait_for_exit};

/// The gateway as users run it.
pub struct Gateway {
    pub address: SocketAddr,
    /// Where limits are changed, if that is apart.
    pub admin: Option<SocketAddr>,
    child: Child,
    lines: Arc<(Mutex<Vec<String>>, Condvar)>,
    /// Where its configuration is, to be changed and reloaded.
    pub config: PathBuf,
    pub directory: Directory,
}

impl Gateway {
    /// Starts it with this file (YAML or JSON). It listens on a free port unless the file says otherwise.
    pub fn start(config: &str) -> Self {
        Self::start_with(config, |_| {})
    }

    /// The same with other flags or environment.
    pub fn start_with(config: &str, change: impl FnOnce(&mut Command)) -> Self {
        let directory = Directory::new();
        let path = directory.file("gateway.yaml", config);
        let mut command = tidegate();
        command.arg("gateway").arg("--config").arg(&path);
        if !config.contains("listeners") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        change(&mut command);
        Self::launch(command, path, directory)
    }

    /// The common case: all requests to this upstream, one limit named `default`.
    pub fn before(upstream: SocketAddr, limit: &str) -> Self {
        Self::start(&format!("upstreams: {{app: {{url: \"http://{upstream}\"}}}}\nlimits: {{default: {limit}}}\n"))
    }

    /// Starts any command that becomes a gateway.
    pub fn launch(mut command: Command, config: PathBuf, directory: Directory) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("the binary starts");
        let lines: Arc<(Mutex<Vec<String>>, Condvar)> = Arc::default();
        let (kept, stdout) = (Arc::clone(&lines), child.stdout.take().expect("it is piped"));
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                kept.0.lock().expect("no panic").push(line);
                kept.1.notify_all();
            }
        });
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut gateway = Self { address: unknown, admin: None, child, lines, config, directory };
        let ready = gateway.wait_for_line("listening on ");
        let after = |word: &str| {
            let rest = ready.split_once(word)?.1;
            let end = rest.find([',', ';', '"']).unwrap_or(rest.len());
            rest[..end].split_once("://")?.1.parse().ok()
        };
        gateway.address = after("listening on ").expect("an address in the ready line");
        gateway.admin = after("admin on ");
        gateway
    }

    /// The first line of its log that contains `text`; waits for it.
    pub fn wait_for_line(&self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        let mut lines = self.lines.0.lock().expect("no panic");
        loop {
            if let Some(line) = lines.iter().find(|line| line.contains(text)) {
                return line.clone();
            }
            let left = until.checked_duration_since(Instant::now());
            let Some(left) = left else {
                let lines = lines.clone();
                panic!("no line with {text:?} in {lines:#?}");
            };
            lines = self.lines.1.wait_timeout(lines, left).expect("no panic").0;
        }
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal by name: TERM, HUP, STOP, CONT.
    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits until it has ended by itself, and returns whether it says it went well.
    pub fn wait_for_end(&mut self) -> bool {
        wait_for_exit(&mut self.child, PATIENCE).expect("it does not end").success()
    }

    /// A request over a connection of its own.
    pub fn get(&self, path: &str) -> Response {
        request(self.address, "GET", path, &[], b"")
    }

    /// The same with headers.
    pub fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        request(self.address, "GET", path, headers, b"")
    }

    pub fn post(&self, path: &str, body: &str) -> Response {
        request(self.address, "POST", path, &[], body.as_bytes())
    }

    /// A metric's value: `metric("ratelimiter_requests_total{decision=\"forwarded\"}")`. None if it is not there.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let page = request(self.admin.unwrap_or(self.address), "GET", "/actuator/prometheus", &[], b"");
        assert_eq!(page.status, 200);
        let text = page.text();
        let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Resident memory in bytes, by the kernel.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it has memory");
        line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).expect("a number") * 1024
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _ended = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the gateway's log: {:#?}", self.lines());
        }
    }
}

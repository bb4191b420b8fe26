//! Who runs the gateway: reads its metrics, changes its limits, has its configuration read anew and its log rotated.
//! And keeps some sockets open that don't end with a configuration.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::client::PATIENCE;
use super::site::Site;
use super::sockets;
use crate::admin;
use crate::page::Page;

/// Sockets kept open: with each reload another one is opened, and the oldest closed.
const KEPT_SOCKETS: usize = 8;

/// Changes, one after the other and again from the start. None of them makes a difference to the responses.
const CHANGES: [(&str, &str, &str); 9] = [
    ("POST", "/config/limits/address", r#"{"algorithm": "sliding", "limit": 200000, "window": 10}"#),
    ("POST", "/config/limits/everyone", r#"{"algorithm": "token", "capacity": 1000000000, "fillRate": 1000000000}"#),
    ("POST", "/config/limits/places", r#"{"algorithm": "concurrency", "limit": 2000}"#),
    ("POST", "/config/limits/leased", r#"{"algorithm": "token", "capacity": 2000000, "fillRate": 2000000}"#),
    ("POST", "/config/algorithm", r#"{"name": "search", "algorithm": "sliding"}"#),
    ("POST", "/config/limits/shared-places", r#"{"algorithm": "concurrency", "limit": 3000}"#),
    ("DELETE", "/config/limits/everyone", ""),
    ("DELETE", "/config/limits/places", ""),
    ("DELETE", "/config/limits/search", ""),
];

/// Limits that changes may have left with other numbers than the file's.
const CHANGED: [&str; 6] = ["address", "everyone", "places", "leased", "search", "shared-places"];

pub(crate) struct Operator {
    port: u16,
    log: PathBuf,
    /// Requests since the log was last begun, those that were passed on included …
    pub(crate) asked: u64,
    /// … and these alone.
    pub(crate) passed_on: u64,
    /// Lines of the logs that were rotated away since then.
    lines: u64,
    pub(crate) changes: usize,
    pub(crate) reloads: usize,
    pub(crate) faults: Vec<String>,
    sockets: VecDeque<TcpStream>,
}

impl Operator {
    pub(crate) fn new(site: &Site) -> Self {
        Self {
            port: site.port,
            log: site.access_log.clone(),
            asked: 0,
            passed_on: 0,
            lines: 0,
            changes: 0,
            reloads: 0,
            faults: Vec::new(),
            sockets: VecDeque::new(),
        }
    }

    pub(crate) fn page(&mut self) -> Page {
        Page(self.ask("GET", "/actuator/prometheus", ""))
    }

    /// How many more requests could be in flight, by the limits that count those.
    pub(crate) fn free_slots(&mut self) -> [Option<u64>; 2] {
        self.passed_on += 1;
        let response = self.ask("GET", "/slow", "");
        ["\"places\";r=", "\"shared-places\";r="].map(|limit| {
            let rest = response.split_once(limit)?.1;
            rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
        })
    }

    /// Makes the next of the changes.
    pub(crate) fn change(&mut self) {
        let (method, path, body) = CHANGES[self.changes % CHANGES.len()];
        self.changes += 1;
        self.ask(method, path, body);
    }

    /// Takes all changes back.
    pub(crate) fn restore(&mut self) {
        for limit in CHANGED {
            self.ask("DELETE", &format!("/config/limits/{limit}"), "");
        }
    }

    /// Moves the log away, has the gateway read its configuration anew, and counts what is in the old log once there is
    /// a new one.
    pub(crate) fn rotate(&mut self, site: &Site) {
        let old = self.log.with_extension("old");
        std::fs::rename(&self.log, &old).expect("the log is ours");
        self.reloads += 1;
        site.gateway.signal("HUP");
        let asked = Instant::now();
        while !self.log.exists() {
            if asked.elapsed() > PATIENCE {
                self.faults.push("there is no new log after a reload".to_owned());
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.lines += lines(&old).expect("the log is ours");
        std::fs::remove_file(old).expect("the log is ours");
    }

    /// Opens another socket and keeps it.
    pub(crate) fn open_socket(&mut self) {
        (self.asked, self.passed_on) = (self.asked + 1, self.passed_on + 1);
        match socket(self.port) {
            Ok(socket) => self.sockets.push_back(socket),
            Err(error) => self.faults.push(format!("a socket: {error}")),
        }
        if self.sockets.len() > KEPT_SOCKETS {
            self.sockets.pop_front();
        }
    }

    pub(crate) fn open_sockets(&self) -> usize {
        self.sockets.len()
    }

    pub(crate) fn close_sockets(&mut self) {
        self.sockets.clear();
    }

    /// Forgets what was asked and logged up to now.
    pub(crate) fn begin(&mut self) {
        (self.asked, self.passed_on, self.lines) = (0, 0, 0);
    }

    /// How many lines have been logged.
    pub(crate) fn logged(&self) -> u64 {
        self.lines + lines(&self.log).expect("the log is ours")
    }

    /// The response, head and body; nothing if that is not 200.
    fn ask(&mut self, method: &str, path: &str, body: &str) -> String {
        self.asked += 1;
        let response = admin::exchange(self.port, method, path, body).unwrap_or_else(|error| error.to_string());
        if response.starts_with("HTTP/1.1 200") {
            return response;
        }
        self.faults.push(format!("{method} {path}: {}", response.lines().next().unwrap_or("no answer")));
        String::new()
    }
}

/// Opens a socket, and waits until the gateway has gone over.
fn socket(port: u16) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(sockets::ASK.as_bytes())?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    if head.starts_with(b"HTTP/1.1 101") { Ok(stream) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn lines(path: &Path) -> io::Result<u64> {
    let (mut file, mut piece, mut lines) = (File::open(path)?, vec![0; 256 * 1024], 0);
    loop {
        let count = file.read(&mut piece)?;
        if count == 0 {
            return Ok(lines);
        }
        lines += piece[..count].split(|byte| *byte == b'\n').count() as u64 - 1;
    }
}

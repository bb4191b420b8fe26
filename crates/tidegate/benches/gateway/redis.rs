//! A Redis of our own, and how often it was asked.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::LOAD_CORE;
use crate::process::{Process, free_port};
use crate::scratch::Scratch;

pub(crate) struct Redis {
    _server: Process,
    pub(crate) port: u16,
}

impl Redis {
    pub(crate) fn start(scratch: &Scratch) -> Self {
        let port = free_port();
        let command = format!("redis-server --port {port} --bind 127.0.0.1 --appendonly no --save");
        let command = command.split(' ').chain([""]);
        let mut server = Process::start(scratch, "redis-server", LOAD_CORE, command);
        server.wait_for(port);
        Self { _server: server, port }
    }
}

/// How many scripts the Redis at `port` has run for its clients. Each question of a gateway is one.
pub(crate) fn scripts_run(port: u16) -> u64 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("Redis answers");
    stream.write_all(b"INFO commandstats\r\nQUIT\r\n").expect("Redis answers");
    let mut text = String::new();
    let _bytes = stream.read_to_string(&mut text).expect("Redis answers");
    ["cmdstat_eval:", "cmdstat_evalsha:", "cmdstat_fcall:"]
        .iter()
        .filter_map(|command| text.lines().find_map(|line| line.strip_prefix(command)?.strip_prefix("calls=")))
        .map(|rest| rest.split(',').next().and_then(|calls| calls.parse::<u64>().ok()).expect("a count"))
        .sum()
}

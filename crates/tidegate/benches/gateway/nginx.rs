//! Debian's nginx: the upstream of everyone, and the proxy that we are measured against.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::beside_nginx::Response;
use crate::process::{Process, free_port};
use crate::rounds::Subject;
use crate::scratch::Scratch;
use crate::{LOAD_CORE, SUBJECT_CORE};

/// The upstream's response to everything.
pub(crate) const BODY: &str = "The tide is high and the gate is open.";

pub(crate) struct Upstream {
    _server: Process,
    pub(crate) port: u16,
}

/// A server that responds to everything at once, at four addresses of the loopback.
pub(crate) fn upstream(scratch: &Scratch) -> Upstream {
    upstream_with(scratch, "")
}

/// The same with some more locations.
pub(crate) fn upstream_with(scratch: &Scratch, locations: &str) -> Upstream {
    let port = free_port();
    let http = format!(
        "access_log off;
         server {{
             listen 127.0.0.1:{port};
             listen 127.0.0.2:{port};
             listen 127.0.0.3:{port};
             listen 127.0.0.4:{port};
             {locations}
             location / {{ default_type text/plain; return 200 \"{BODY}\"; }}
         }}"
    );
    let (server, _directory) = start(scratch, "upstream", LOAD_CORE, port, &http);
    Upstream { _server: server, port }
}

/// Whether nginx writes down what happens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logs {
    /// Nothing: nginx at its fastest.
    Off,
    /// As its defaults are: a line for each request, and one for each rejection.
    On,
}

/// nginx as a gateway, running.
pub(crate) fn proxy(scratch: &Scratch, upstream: u16, response: Response, logs: Logs) -> Subject {
    let port = free_port();
    let name = if logs == Logs::On { "nginx, logs on" } else { "nginx" };
    let (server, directory) = start(scratch, name, SUBJECT_CORE, port, &proxying(port, upstream, response, logs));
    let logs = [directory.join("access.log"), directory.join("error.log")].into_iter().filter(|log| log.exists());
    Subject { name, server, port, logs: logs.collect(), redis: None }
}

/// What makes nginx a gateway with `limit_req`, which limits all clients together as ours does by default.
pub(crate) fn proxying(port: u16, upstream: u16, response: Response, logs: Logs) -> String {
    let (rate, burst) = match response {
        // It counts time in milliseconds: what comes within one needs a burst, however high the rate.
        Response::Proxied => ("1000000r/s", "burst=1000000 nodelay"),
        Response::Rejected => ("1r/m", ""),
    };
    let logging = match logs {
        Logs::Off => "access_log off; limit_req_log_level info;", // below the error log's level
        Logs::On => "access_log access.log;",
    };
    format!(
        r#"{logging}
        limit_req_zone $server_name zone=one:1m rate={rate};
        limit_req_status 429;
        upstream app {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 1000000000; }}
        server {{
            listen 127.0.0.1:{port};
            server_name bench; # the key: without one nothing would be limited
            location / {{
                limit_req zone=one {burst};
                proxy_pass http://app;
                proxy_http_version 1.1;
                proxy_set_header Connection "";
                proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                proxy_set_header X-Forwarded-Proto $scheme;
                proxy_set_header X-Forwarded-Host $http_host;
                proxy_set_header Via "1.1 nginx";
            }}
        }}"#
    )
}

fn start(scratch: &Scratch, name: &str, core: usize, port: u16, http: &str) -> (Process, PathBuf) {
    let (command, directory) = command(scratch, name, "", http);
    let mut server = Process::start(scratch, name, core, command);
    server.wait_for(port);
    (server, directory)
}

/// How nginx is started with these settings, `main` being those outside of `http`. It has one worker, and every file in
/// a directory of its own, so that any user may start it.
pub(crate) fn command(scratch: &Scratch, name: &str, main: &str, http: &str) -> (Vec<OsString>, PathBuf) {
    let directory = scratch.join(&format!("{name}.nginx").replace([' ', ','], "-"));
    std::fs::create_dir_all(&directory).expect("the temporary directory is writable");
    let config = directory.join("nginx.conf");
    std::fs::write(&config, whole_config(&directory, main, http)).expect("the temporary directory is writable");
    let arguments: [&OsStr; 7] = [
        "nginx".as_ref(),
        "-e".as_ref(),
        "stderr".as_ref(),
        "-p".as_ref(),
        directory.as_ref(),
        "-c".as_ref(),
        config.as_ref(),
    ];
    (arguments.map(OsStr::to_owned).to_vec(), directory)
}

fn whole_config(directory: &Path, main: &str, http: &str) -> String {
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {}/{kind}; ", directory.display()))
        .concat();
    // By default a connection is closed after 1,000 requests: a pause that we don't make either.
    format!(
        "daemon off;
         worker_processes 1;
         {main}
         pid {0}/nginx.pid;
         error_log {0}/error.log;
         events {{ worker_connections 1024; }}
         http {{
             {temporary}
             keepalive_requests 1000000000;
             {http}
         }}",
        directory.display()
    )
}

//! Real parts for tests: the built binary, an upstream that shows every byte it was sent, a client that sends every byte it is told to.
//! All on free ports of the loopback, ended by their process id.
#![allow(dead_code, reason = "each test target uses a part of it")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `condition` holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A directory of a test's own, gone when the test is over.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tidegate-e2e-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    /// Writes a file into it.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// The gateway as users run it.
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    /// Where limits are changed, if that is apart.
    pub(crate) admin: Option<SocketAddr>,
    child: Child,
    lines: Arc<(Mutex<Vec<String>>, Condvar)>,
    /// Where its configuration is, to be changed and reloaded.
    pub(crate) config: PathBuf,
    pub(crate) directory: Directory,
}

/// The binary, with an environment that says nothing.
pub(crate) fn tidegate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env_clear().stdin(Stdio::null());
    command
}

impl Gateway {
    /// Starts it with this file (YAML or JSON). It listens on a free port unless the file says otherwise.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_with(config, |_| {})
    }

    /// The same with other flags or environment.
    pub(crate) fn start_with(config: &str, change: impl FnOnce(&mut Command)) -> Self {
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
    pub(crate) fn before(upstream: SocketAddr, limit: &str) -> Self {
        Self::start(&format!("upstreams: {{app: {{url: \"http://{upstream}\"}}}}\nlimits: {{default: {limit}}}\n"))
    }

    /// Starts any command that becomes a gateway.
    pub(crate) fn launch(mut command: Command, config: PathBuf, directory: Directory) -> Self {
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
    pub(crate) fn wait_for_line(&self, text: &str) -> String {
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
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal by name: TERM, HUP, STOP, CONT.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits until it has ended by itself, and returns whether it says it went well.
    pub(crate) fn wait_for_end(&mut self) -> bool {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be asked") {
                return status.success();
            }
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A request over a connection of its own.
    pub(crate) fn get(&self, path: &str) -> Answer {
        request(self.address, "GET", path, &[], b"")
    }

    /// The same with headers.
    pub(crate) fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        request(self.address, "GET", path, headers, b"")
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        request(self.address, "POST", path, &[], body.as_bytes())
    }

    /// A metric's value: `metric("ratelimiter_requests_total{decision=\"forwarded\"}")`. None if it is not there.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let page = request(self.admin.unwrap_or(self.address), "GET", "/actuator/prometheus", &[], b"");
        assert_eq!(page.status, 200);
        let text = page.text();
        let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Resident memory in bytes, by the kernel.
    pub(crate) fn resident_bytes(&self) -> u64 {
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

/// Sends a process a signal by name.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status().expect("kill runs");
    assert!(sent.success(), "no signal {name} to {pid}");
}

/// An answer as it came.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case, in their order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// Sends one request over a connection of its own and reads its answer.
pub(crate) fn request(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    Client::connect(address).request(method, path, headers, body)
}

/// A connection that sends what it is told to, and reads answers strictly.
pub(crate) struct Client {
    pub(crate) stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self { stream: BufReader::new(stream) }
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).expect("it takes them");
    }

    /// Sends bytes as they are; whether they were taken is not asked.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.get_mut().write_all(bytes.as_ref()).is_ok()
    }

    /// A request over this connection, which stays open. `Host` and, where there is a body, `Content-Length` are added.
    pub(crate) fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            // The gateway's own endpoints are for those who mean this machine.
            let is_own = path.starts_with("/config") || path.starts_with("/reload");
            head.push_str(if is_own { "Host: localhost\r\n" } else { "Host: test.example\r\n" });
        }
        for (name, value) in headers {
            head.extend([*name, ": ", *value, "\r\n"]);
        }
        if !body.is_empty() {
            head.extend(["Content-Length: ", &body.len().to_string(), "\r\n"]);
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        self.send(bytes);
        self.answer_to(method)
    }

    /// Reads one answer (not to HEAD).
    pub(crate) fn answer(&mut self) -> Answer {
        self.answer_to("GET")
    }

    pub(crate) fn answer_to(&mut self, method: &str) -> Answer {
        self.try_answer_to(method).expect("an answer")
    }

    /// Reads one answer; none if the connection ends before it.
    pub(crate) fn try_answer_to(&mut self, method: &str) -> Option<Answer> {
        let (line, headers) = read_head(&mut self.stream)?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let field = |name: &str| headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
        let mut body = Vec::new();
        if method == "HEAD" || status == 204 || status == 304 || status < 200 {
            // There is none.
        } else if field("transfer-encoding").is_some_and(|coding| coding == "chunked") {
            body = read_chunks(&mut self.stream)?;
        } else if let Some(length) = field("content-length") {
            body = vec![0; length.parse().ok()?];
            self.stream.read_exact(&mut body).ok()?;
        } else {
            self.stream.read_to_end(&mut body).ok()?;
        }
        Some(Answer { status, headers, body })
    }

    /// Everything until the connection ends.
    pub(crate) fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ended = self.stream.read_to_end(&mut bytes);
        bytes
    }

    /// Whether the other side has closed the connection; waits for it.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.stream.fill_buf(), Ok([]))
            || matches!(self.stream.fill_buf(), Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset)
    }

    pub(crate) fn close(self) {
        let _closed = self.stream.get_ref().shutdown(Shutdown::Both);
    }
}

/// The first line and the headers (names in lower case); none if the connection ends before.
pub(crate) fn read_head(stream: &mut impl BufRead) -> Option<(String, Vec<(String, String)>)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end_matches(['\r', '\n']).to_owned();
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let mut lines = lines.into_iter();
    let first = lines.next()?;
    let field =
        |line: String| line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
    Some((first, lines.filter_map(field).collect()))
}

fn read_chunks(stream: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let size = usize::from_str_radix(line.trim().split(';').next()?, 16).ok()?;
        if size == 0 {
            break;
        }
        let start = body.len();
        body.resize(start + size, 0);
        stream.read_exact(&mut body[start..]).ok()?;
        stream.read_line(&mut String::new()).ok()?;
    }
    // Trailers, up to the empty line.
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 || line.trim().is_empty() {
            return Some(body);
        }
    }
}

/// A request as an upstream got it.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// Method, target and version.
    pub(crate) line: String,
    /// Names in lower case, in their order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Which connection it came over, counted from 0.
    pub(crate) connection: u32,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

type Behaviour = dyn Fn(&Received, &mut TcpStream) -> bool + Send + Sync;

/// A service behind the gateway: it keeps what it was sent, byte by byte.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    bytes: Arc<Mutex<BTreeMap<u32, Vec<u8>>>>,
    stopped: Arc<AtomicBool>,
}

/// What an upstream answers when it is not told otherwise.
pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK";

impl Upstream {
    /// Answers every request with `OK`.
    pub(crate) fn start() -> Self {
        Self::answering(|_| OK.to_vec())
    }

    /// Answers with what `answer` says, byte by byte.
    pub(crate) fn answering(answer: impl Fn(&Received) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::behaving(move |received, stream| stream.write_all(&answer(received)).is_ok())
    }

    /// Does with each request what `behaviour` says; false ends the connection.
    pub(crate) fn behaving(behaviour: impl Fn(&Received, &mut TcpStream) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Self::listening(listener, behaviour)
    }

    /// The same on a socket that is there already.
    pub(crate) fn listening(
        listener: TcpListener,
        behaviour: impl Fn(&Received, &mut TcpStream) -> bool + Send + Sync + 'static,
    ) -> Self {
        let upstream = Self {
            address: listener.local_addr().expect("an address"),
            received: Arc::default(),
            bytes: Arc::default(),
            stopped: Arc::default(),
        };
        let (received, bytes, stopped) =
            (Arc::clone(&upstream.received), Arc::clone(&upstream.bytes), Arc::clone(&upstream.stopped));
        let behaviour: Arc<Behaviour> = Arc::new(behaviour);
        std::thread::spawn(move || {
            for (connection, stream) in (0_u32..).zip(listener.incoming().map_while(Result::ok)) {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (received, bytes, behaviour) = (Arc::clone(&received), Arc::clone(&bytes), Arc::clone(&behaviour));
                std::thread::spawn(move || converse(connection, stream, &received, &bytes, &*behaviour));
            }
        });
        upstream
    }

    /// All requests so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().expect("no panic").clone()
    }

    pub(crate) fn last(&self) -> Received {
        self.received().pop().expect("a request")
    }

    pub(crate) fn count(&self) -> usize {
        self.received.lock().expect("no panic").len()
    }

    /// Every byte that came, by connection.
    pub(crate) fn bytes(&self) -> Vec<Vec<u8>> {
        self.bytes.lock().expect("no panic").values().cloned().collect()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _woken = TcpStream::connect(self.address);
    }
}

/// Keeps a copy of what is read.
struct Tapped<'a> {
    stream: TcpStream,
    connection: u32,
    bytes: &'a Mutex<BTreeMap<u32, Vec<u8>>>,
}

impl Read for Tapped<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.stream.read(buffer)?;
        // Of long bodies the beginning is enough.
        let mut all = self.bytes.lock().expect("no panic");
        let kept = all.entry(self.connection).or_default();
        if kept.len() < 1 << 20 {
            kept.extend_from_slice(&buffer[..count]);
        }
        Ok(count)
    }
}

fn converse(
    connection: u32,
    stream: TcpStream,
    received: &Mutex<Vec<Received>>,
    bytes: &Mutex<BTreeMap<u32, Vec<u8>>>,
    behaviour: &Behaviour,
) {
    let Ok(mut out) = stream.try_clone() else { return };
    let _set = out.set_nodelay(true);
    let mut stream = BufReader::new(Tapped { stream, connection, bytes });
    while let Some((line, headers)) = read_head(&mut stream) {
        let field = |name: &str| headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
        if field("expect").is_some() && out.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").is_err() {
            return;
        }
        let mut body = Vec::new();
        if field("transfer-encoding").is_some() {
            let Some(chunks) = read_chunks(&mut stream) else { return };
            body = chunks;
        } else if let Some(length) = field("content-length") {
            body = vec![0; length.parse().expect("a length")];
            if stream.read_exact(&mut body).is_err() {
                return;
            }
        }
        let request = Received { line, headers, body, connection };
        received.lock().expect("no panic").push(request.clone());
        if !behaviour(&request, &mut out) {
            let _closed = out.shutdown(Shutdown::Both);
            return;
        }
    }
}

/// A path as text, for configuration files.
pub(crate) fn text(path: &Path) -> String {
    path.display().to_string()
}

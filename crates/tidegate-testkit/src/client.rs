//! A client that sends every byte it is given, and reads responses strictly.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::PATIENCE;
use crate::message::{read_chunks, read_head};

/// A response as it came.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    /// Names in lower case, in their order.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// Sends one request over a connection of its own and reads its response.
pub fn request(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
    Client::connect(address).request(method, path, headers, body)
}

/// A connection that sends what it is given, and reads responses strictly.
pub struct Client {
    pub stream: BufReader<TcpStream>,
}

/// Connects from this address of the loopback: to a gateway, another one is another client.
pub fn connect_from(ip: [u8; 4], address: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
    // A gateway that another test starts must not have it, too: it would take one of its few descriptors.
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
    bind(&socket, &SocketAddr::from((ip, 0))).expect("an address of the loopback");
    connect(&socket, &address).expect("it listens");
    socket.into()
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).expect("it listens"))
    }

    /// Connects from this address of the loopback.
    pub fn connect_from(ip: [u8; 4], address: SocketAddr) -> Self {
        Self::over(connect_from(ip, address))
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self { stream: BufReader::new(stream) }
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).expect("it takes them");
    }

    /// Sends bytes as they are; whether they were taken is not asked.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.get_mut().write_all(bytes.as_ref()).is_ok()
    }

    /// A request over this connection, which stays open. `Host` and, where there is a body, `Content-Length` are added.
    pub fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
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
        self.response_to(method)
    }

    /// Reads one response (not to HEAD).
    pub fn response(&mut self) -> Response {
        self.response_to("GET")
    }

    pub fn response_to(&mut self, method: &str) -> Response {
        self.try_response_to(method).expect("an answer")
    }

    /// Reads one response; none if the connection ends before it.
    pub fn try_response_to(&mut self, method: &str) -> Option<Response> {
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
        Some(Response { status, headers, body })
    }

    /// Everything until the connection ends.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ended = self.stream.read_to_end(&mut bytes);
        bytes
    }

    /// Everything until the connection ends; fails if that takes longer than `most`.
    pub fn read_until_closed(&mut self, most: Duration) -> Vec<u8> {
        self.stream.get_ref().set_read_timeout(Some(most)).expect("a timeout");
        let mut bytes = Vec::new();
        match self.stream.read_to_end(&mut bytes) {
            Ok(_) => bytes,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => bytes,
            Err(error) => panic!("it stays open for {most:?}: {error}"),
        }
    }

    /// Whether a response is there already; does not wait.
    pub fn has_response(&mut self) -> bool {
        self.stream.get_ref().set_nonblocking(true).expect("a socket");
        let there = self.stream.fill_buf().is_ok();
        self.stream.get_ref().set_nonblocking(false).expect("a socket");
        there
    }

    /// Whether the other side has closed the connection; waits for it.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.stream.fill_buf(), Ok([]))
            || matches!(self.stream.fill_buf(), Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset)
    }

    pub fn close(self) {
        let _closed = self.stream.get_ref().shutdown(Shutdown::Both);
    }
}

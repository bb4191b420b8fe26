//! A Redis of our own, to be killed.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take until it responds.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A `redis-server` without a file, on loopback.
pub(super) struct Redis {
    address: SocketAddr,
    child: Child,
}

impl Redis {
    /// Starts one on a free port.
    pub(super) fn start() -> Result<Self, String> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let address = free.map_err(|error| error.to_string())?;
        let child = launch(address)?;
        Ok(Self { address, child })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it at once, as a crash would.
    pub(super) fn kill(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }

    /// Starts it again at the same address, without any data.
    pub(super) fn restart(&mut self) -> Result<(), String> {
        self.kill();
        self.child = launch(self.address)?;
        Ok(())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether Redis responds at this address.
fn responds(address: SocketAddr) -> bool {
    let ping = || -> io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut response = [0; 7];
        stream.read_exact(&mut response)?;
        Ok(&response == b"+PONG\r\n")
    };
    ping().unwrap_or(false)
}

fn launch(address: SocketAddr) -> Result<Child, String> {
    let port = address.port().to_string();
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "redis-server is not installed".to_owned(),
        _ => format!("redis-server can't be started: {error}"),
    })?;
    let until = Instant::now() + TIMEOUT;
    while !responds(address) {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("redis-server ended at once: {status}"));
        }
        if Instant::now() > until {
            let _gone = (child.kill(), child.wait());
            return Err("redis-server does not respond".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(child)
}

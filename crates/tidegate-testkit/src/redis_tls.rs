//! Servers that speak TLS, with certificates made for the test.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::authority::{Authority, Issued};
use crate::redis_server::{Server, free_port};

/// The files of an authority: its own certificate, one for servers, one for clients. Gone when the test is over.
pub struct Certificates {
    directory: PathBuf,
}

impl Certificates {
    pub fn new() -> Self {
        Self::made_out_for(&["localhost", "127.0.0.1"])
    }

    /// With other names or addresses in the servers' certificate.
    pub fn made_out_for(names: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("tidegate-tls-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let (certificates, authority) = (Self { directory }, Authority::new());
        certificates.write("ca.pem", &authority.pem());
        for (name, Issued { certificate, key }) in
            [("server", authority.issue(names)), ("client", authority.issue(&["client"]))]
        {
            certificates.write(&format!("{name}.pem"), &certificate);
            certificates.write(&format!("{name}.key"), &key);
        }
        certificates
    }

    /// A file among them: `ca.pem`, `server.pem`, `server.key`, `client.pem`, `client.key`, or one that the test has
    /// written.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// What makes a server speak TLS on this port. `clients` is whether they must show a certificate.
    pub fn arguments(&self, port: u16, clients: &str) -> Vec<String> {
        let file = |name| self.file(name).display().to_string();
        let settings = [
            ("--tls-port", port.to_string()),
            ("--tls-cert-file", file("server.pem")),
            ("--tls-key-file", file("server.key")),
            ("--tls-ca-cert-file", file("ca.pem")),
            ("--tls-auth-clients", clients.to_owned()),
        ];
        settings.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.directory);
    }
}

/// A server that speaks TLS on `port`. The test itself talks to it in the clear, on another.
pub struct SecureServer {
    pub plain: Server,
    pub port: u16,
}

impl SecureServer {
    pub fn start(certificates: &Certificates, clients: &str) -> Self {
        Self::start_with(certificates, clients, &[])
    }

    pub fn start_with(certificates: &Certificates, clients: &str, more: &[&str]) -> Self {
        let port = free_port();
        let arguments = certificates.arguments(port, clients);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Self { plain: Server::start_with(&arguments), port }
    }

    pub fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.port)
    }
}

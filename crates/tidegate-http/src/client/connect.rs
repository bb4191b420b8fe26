//! Connecting to an address, plain or with TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::trouble::Trouble;
use crate::descriptors::is_out_of_files;
use crate::stream::Stream;

/// The shortest time for one address of a name that has many.
const LEAST_SHARE: Duration = Duration::from_millis(200);

/// How an endpoint's certificate is checked.
pub struct ClientTls {
    /// Versions, ciphers and ALPN.
    pub config: Arc<ClientConfig>,
    /// The name that the certificate must have.
    pub name: ServerName<'static>,
    /// The authorities that may have signed it.
    pub roots: Arc<RootCertStore>,
}

/// Connects to the first of the addresses that accepts, in their order.
pub async fn connect_to(addresses: &[SocketAddr], tls: Option<&ClientTls>, until: Instant) -> Result<Stream, Trouble> {
    let mut failed = Trouble::Connect(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    for (address, others) in addresses.iter().zip((1..=addresses.len()).rev()) {
        // Each has its share: one that does not respond must not use up the time of the others.
        let left = until.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(others).unwrap_or(u32::MAX);
        match timeout(share.max(LEAST_SHARE).min(left), attempt(*address, tls)).await {
            Ok(Ok(stream)) => return Ok(stream),
            // There would be no descriptor for the next one either.
            Ok(Err(error)) if is_out_of_files(&error) => return Err(Trouble::Connect(error)),
            Ok(Err(error)) => failed = Trouble::Connect(error),
            Err(_) => failed = Trouble::ConnectTimeout,
        }
    }
    Err(failed)
}

async fn attempt(address: SocketAddr, tls: Option<&ClientTls>) -> io::Result<Stream> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    let Some(tls) = tls else { return Ok(Stream::Plain(tcp)) };
    let tls = TlsConnector::from(Arc::clone(&tls.config)).connect(tls.name.clone(), tcp).await?;
    Ok(Stream::Tls(Box::new(tls.into())))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
    const PATIENCE: Duration = Duration::from_secs(2);

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async { timeout(10 * PATIENCE, test).await.expect("it ends") });
    }

    async fn listening() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind(LOOPBACK).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        (listener, address)
    }

    /// A listener whose queue is full: the kernel drops new connections.
    async fn silent() -> (TcpListener, SocketAddr, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(LOOPBACK).expect("a free port");
        let listener = socket.listen(1).expect("it listens");
        let (address, mut waiting) = (listener.local_addr().expect("an address"), Vec::new());
        while let Ok(stream) = timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
            waiting.push(stream.expect("it is there"));
            assert!(waiting.len() < 100, "the queue never fills");
        }
        (listener, address, waiting)
    }

    #[test]
    fn an_address_that_does_not_respond_leaves_time_for_the_next() {
        run(async {
            let ((_listener, silent, _waiting), (_other, responds)) = (silent().await, listening().await);
            let stream = connect_to(&[silent, responds], None, Instant::now() + PATIENCE).await;
            let Ok(Stream::Plain(tcp)) = stream else { panic!("it can't be reached") };
            assert_eq!(tcp.peer_addr().expect("it is connected"), responds);
            let late = connect_to(&[silent], None, Instant::now() + LEAST_SHARE).await;
            assert!(matches!(late, Err(Trouble::ConnectTimeout)));
        });
    }

    #[test]
    fn an_address_that_has_no_tls_leaves_the_next_a_chance() {
        run(async {
            let roots = Arc::new(RootCertStore::empty());
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
            let config = config.expect("versions").with_root_certificates(Arc::clone(&roots)).with_no_client_auth();
            let name = ServerName::try_from("localhost").expect("a name");
            let tls = ClientTls { config: Arc::new(config), name, roots };
            let ((first, address), (second, other)) = (listening().await, listening().await);
            let addresses = [address, other];
            let connecting = connect_to(&addresses, Some(&tls), Instant::now() + PATIENCE);
            // Both take the connection, and close it.
            let closed = async { (first.accept().await.map(drop), second.accept().await.map(drop)) };
            let (failed, closed) = tokio::join!(connecting, closed);
            assert!(closed.0.is_ok() && closed.1.is_ok());
            assert!(matches!(failed, Err(Trouble::Connect(_))));
        });
    }
}

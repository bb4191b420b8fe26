//! Where the services of the demo listen.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Context as _, Result};
use tidegate_lab::live::ListenAddresses;

/// All four of them.
pub(super) struct Ports {
    pub(super) addresses: ListenAddresses,
    pub(super) load: SocketAddr,
}

/// How far another port is looked for: below those that the kernel gives to outgoing connections, which a run makes
/// many of.
const AWAY: u16 = 10_000;
const TRIES: u16 = 100;

impl Ports {
    /// The usual ones, and another one for each that is taken, with a sentence about it.
    pub(super) fn find() -> Result<(Self, Vec<String>)> {
        let mut taken = Vec::new();
        // All of them are held until all are found, so that no two are the same.
        let mut held = Vec::new();
        let mut find = |who: &str, wanted: u16| -> Result<SocketAddr> {
            let listener = match bind(wanted) {
                Ok(listener) => listener,
                Err(reason) => {
                    let other = another(wanted).with_context(|| format!("no port for the {who}"))?;
                    taken.push(sentence(who, wanted, &reason, other.local_addr()?));
                    other
                }
            };
            let address = listener.local_addr()?;
            held.push(listener);
            Ok(address)
        };
        let (target, gateway) = (find("target", 8081)?, find("gateway", 8082)?);
        let (forecaster, load) = (find("forecaster", 8090)?, find("load generator", 8080)?);
        Ok((Self { addresses: ListenAddresses { target, gateway, forecaster }, load }, taken))
    }
}

fn bind(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

fn another(wanted: u16) -> io::Result<TcpListener> {
    let near = (wanted + AWAY..wanted + AWAY + TRIES).find_map(|port| bind(port).ok());
    near.map_or_else(|| bind(0), Ok)
}

fn sentence(who: &str, wanted: u16, reason: &io::Error, other: SocketAddr) -> String {
    match reason.kind() {
        io::ErrorKind::AddrInUse => format!("{wanted} is taken: the {who} listens on {other}"),
        _ => format!("{wanted} can't be used ({reason}): the {who} listens on {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_reported_and_another_one_is_found() {
        // Whether 8082 was free before is of no matter: it is taken now.
        let _taken = bind(8082);
        let (ports, reported) = Ports::find().expect("there are others");
        let gateway = ports.addresses.gateway;
        assert_ne!(gateway.port(), 8082);
        let sentence = format!("8082 is taken: the gateway listens on {gateway}");
        assert!(reported.contains(&sentence), "{reported:?}");
    }
}

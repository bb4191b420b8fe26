//! A DNS server for tests: UDP and TCP on one free port of the loopback, with records that a test changes while it
//! runs. It ends when it is dropped.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::dns_message::{Query, Record, Response};
use crate::pause;

pub use crate::dns_message::RecordType;

/// What the server does with queries for a name.
#[derive(Clone, Copy, Debug, Default)]
pub enum DnsBehaviour {
    /// It sends the records.
    #[default]
    Records,
    /// NXDOMAIN.
    NoSuchName,
    /// NOERROR without records.
    Empty,
    /// SERVFAIL.
    ServerFailure,
    /// It sends the records after this time.
    Slow(Duration),
    /// It sends nothing.
    Silent,
    /// Over UDP it sends no records and says that they are too long; over TCP it sends them.
    Truncated,
    /// It sends bytes that are no message, after the right id.
    Garbage,
    /// It sends the records with the id of another query.
    WrongId,
}

/// The longest response over UDP for clients that name no other length.
const MOST_UDP_BYTES: usize = 512;

/// An alias that leads to itself must end somewhere.
const MOST_ALIASES: usize = 16;

#[derive(Default)]
struct Name {
    records: Vec<Record>,
    behaviours: BTreeMap<RecordType, DnsBehaviour>,
    queries: BTreeMap<RecordType, usize>,
}

type Names = Mutex<BTreeMap<String, Name>>;

/// A DNS server. Names that no test has set are NXDOMAIN.
pub struct DnsServer {
    pub address: SocketAddr,
    names: Arc<Names>,
    stopped: Arc<AtomicBool>,
}

impl DnsServer {
    pub fn start() -> Self {
        let (tcp, udp) = sockets();
        let address = tcp.local_addr().expect("an address");
        let server = Self { address, names: Arc::default(), stopped: Arc::default() };
        let (names, stopped) = (Arc::clone(&server.names), Arc::clone(&server.stopped));
        std::thread::spawn(move || serve_udp(&udp, &names, &stopped));
        let (names, stopped) = (Arc::clone(&server.names), Arc::clone(&server.stopped));
        std::thread::spawn(move || {
            for stream in tcp.incoming().map_while(Result::ok) {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let names = Arc::clone(&names);
                std::thread::spawn(move || serve_tcp(stream, &names));
            }
        });
        server
    }

    /// Replaces the addresses of a name: A and AAAA records. What was set by `behave` ends.
    pub fn set(&self, name: &str, ttl: u32, addresses: &[IpAddr]) {
        let records = addresses.iter().map(|address| Record::address(*address, ttl)).collect();
        self.replace(name, records);
    }

    /// Makes a name an alias of another (CNAME).
    pub fn alias(&self, name: &str, ttl: u32, target: &str) {
        self.replace(name, vec![Record::alias(target, ttl)]);
    }

    fn replace(&self, name: &str, records: Vec<Record>) {
        let mut names = lock(&self.names);
        let name = names.entry(name.to_owned()).or_default();
        name.records = records;
        name.behaviours.clear();
    }

    /// How queries of both types for a name are treated from now on.
    pub fn behave(&self, name: &str, behaviour: DnsBehaviour) {
        self.behave_for(name, RecordType::A, behaviour);
        self.behave_for(name, RecordType::Aaaa, behaviour);
    }

    /// The same for one type.
    pub fn behave_for(&self, name: &str, kind: RecordType, behaviour: DnsBehaviour) {
        lock(&self.names).entry(name.to_owned()).or_default().behaviours.insert(kind, behaviour);
    }

    /// How many queries there have been, over UDP and TCP together.
    pub fn queries(&self, name: &str, kind: RecordType) -> usize {
        lock(&self.names).get(name).and_then(|name| name.queries.get(&kind)).copied().unwrap_or(0)
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _woken = TcpStream::connect(self.address);
        let _woken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.send_to(&[], self.address));
    }
}

/// Two sockets on the same port.
fn sockets() -> (TcpListener, UdpSocket) {
    loop {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = tcp.local_addr().expect("an address");
        // Somebody else may have this port for UDP.
        if let Ok(udp) = UdpSocket::bind(address) {
            return (tcp, udp);
        }
    }
}

fn lock(names: &Names) -> MutexGuard<'_, BTreeMap<String, Name>> {
    names.lock().expect("no panic")
}

fn serve_udp(socket: &UdpSocket, names: &Names, stopped: &AtomicBool) {
    let mut buffer = [0; 4_096];
    while let Ok((length, client)) = socket.recv_from(&mut buffer) {
        if stopped.load(Ordering::Relaxed) {
            return;
        }
        let Some(reply) = Query::read(&buffer[..length]).and_then(|query| reply(&query, names, true)) else { continue };
        if reply.after.is_zero() {
            let _sent = socket.send_to(&reply.bytes, client);
        } else if let Ok(socket) = socket.try_clone() {
            // Other queries must not wait for this one.
            std::thread::spawn(move || {
                pause(reply.after);
                socket.send_to(&reply.bytes, client)
            });
        }
    }
}

/// Responds to queries on a connection, one after the other.
fn serve_tcp(mut stream: TcpStream, names: &Names) {
    let mut length = [0; 2];
    while stream.read_exact(&mut length).is_ok() {
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut query).is_err() {
            return;
        }
        let Some(reply) = Query::read(&query).and_then(|query| reply(&query, names, false)) else { continue };
        pause(reply.after);
        let length = u16::try_from(reply.bytes.len()).expect("a test has few records");
        if stream.write_all(&[&length.to_be_bytes()[..], &reply.bytes].concat()).is_err() {
            return;
        }
    }
}

struct Reply {
    bytes: Vec<u8>,
    after: Duration,
}

/// Counts a query and does with it what the test has set. None if nothing is sent.
fn reply(query: &Query, names: &Names, is_udp: bool) -> Option<Reply> {
    let mut names = lock(names);
    let name = names.entry(query.name.clone()).or_default();
    *name.queries.entry(query.kind).or_default() += 1;
    let behaviour = name.behaviours.get(&query.kind).copied().unwrap_or_default();
    let mut response = Response { records: chain(query, &names), ..Response::default() };
    let mut after = Duration::ZERO;
    match behaviour {
        // What was never set has no records of any type.
        DnsBehaviour::Records => response.code = if names[&query.name].records.is_empty() { NXDOMAIN } else { NOERROR },
        DnsBehaviour::NoSuchName => response = Response { code: NXDOMAIN, ..Response::default() },
        DnsBehaviour::Empty => response = Response::default(),
        DnsBehaviour::ServerFailure => response = Response { code: SERVFAIL, ..Response::default() },
        DnsBehaviour::Slow(time) => after = time,
        DnsBehaviour::Silent => return None,
        DnsBehaviour::Truncated => response.is_truncated = is_udp,
        DnsBehaviour::Garbage => return Some(Reply { bytes: query.garbage(), after }),
        DnsBehaviour::WrongId => response.has_wrong_id = true,
    }
    let whole = response.write(query);
    if !is_udp || whole.len() <= MOST_UDP_BYTES {
        return Some(Reply { bytes: whole, after });
    }
    response.is_truncated = true;
    Some(Reply { bytes: response.write(query), after })
}

const NOERROR: u8 = 0;
const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;

/// The records of a name, and of those that it is an alias of.
fn chain(query: &Query, names: &BTreeMap<String, Name>) -> Vec<(String, Record)> {
    let mut found = Vec::new();
    let mut name = query.name.clone();
    for _ in 0..MOST_ALIASES {
        let records = names.get(&name).map_or(&[][..], |name| &name.records);
        let of_type = records.iter().filter(|record| record.is(query.kind) || record.target().is_some());
        found.extend(of_type.map(|record| (name.clone(), record.clone())));
        let Some(target) = records.iter().find_map(Record::target) else { break };
        target.clone_into(&mut name);
    }
    found
}

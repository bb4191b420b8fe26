//! The wire format of DNS, as far as the server for tests needs it.

use std::net::IpAddr;

/// The types of records that have addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordType {
    A = 1,
    Aaaa = 28,
}

const CNAME: u16 = 5;
/// The class of the internet.
const IN: u16 = 1;
const HEADER_BYTES: usize = 12;

/// A query for one name.
pub(crate) struct Query {
    id: [u8; 2],
    /// In lower case, without the dot at the end.
    pub(crate) name: String,
    pub(crate) kind: RecordType,
    /// The question as it came; a response repeats it.
    question: Vec<u8>,
}

impl Query {
    /// None if it is not a query for addresses.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.get(HEADER_BYTES..)?;
        let mut labels = Vec::new();
        loop {
            let length = usize::from(*rest.first()?);
            let label = rest.get(1..=length)?;
            rest = &rest[1 + length..];
            if length == 0 {
                break;
            }
            labels.push(String::from_utf8_lossy(label).to_lowercase());
        }
        let kind = match u16::from_be_bytes([*rest.first()?, *rest.get(1)?]) {
            1 => RecordType::A,
            28 => RecordType::Aaaa,
            _ => return None,
        };
        let end = bytes.len() - rest.len() + 4;
        let question = bytes.get(HEADER_BYTES..end)?.to_vec();
        Some(Self { id: [bytes[0], bytes[1]], name: labels.join("."), kind, question })
    }
}

impl Query {
    /// The right id, and then bytes that are no message.
    pub(crate) fn garbage(&self) -> Vec<u8> {
        [&self.id[..], &[0xA5; 40]].concat()
    }
}

/// A record, without the name that it belongs to.
#[derive(Clone)]
pub(crate) struct Record {
    ttl: u32,
    data: Data,
}

#[derive(Clone)]
enum Data {
    Address(IpAddr),
    Alias(String),
}

impl Record {
    pub(crate) fn address(address: IpAddr, ttl: u32) -> Self {
        Self { ttl, data: Data::Address(address) }
    }

    pub(crate) fn alias(target: &str, ttl: u32) -> Self {
        Self { ttl, data: Data::Alias(target.to_owned()) }
    }

    /// Whether it is an address of this type.
    pub(crate) fn is(&self, kind: RecordType) -> bool {
        match &self.data {
            Data::Address(address) => address.is_ipv4() == (kind == RecordType::A),
            Data::Alias(_) => false,
        }
    }

    /// The name that an alias leads to.
    pub(crate) fn target(&self) -> Option<&str> {
        match &self.data {
            Data::Address(_) => None,
            Data::Alias(target) => Some(target),
        }
    }

    fn write(&self, name: &str, out: &mut Vec<u8>) {
        let (kind, data) = match &self.data {
            Data::Address(IpAddr::V4(address)) => (RecordType::A as u16, address.octets().to_vec()),
            Data::Address(IpAddr::V6(address)) => (RecordType::Aaaa as u16, address.octets().to_vec()),
            Data::Alias(target) => (CNAME, encoded(target)),
        };
        out.extend(encoded(name));
        out.extend(kind.to_be_bytes());
        out.extend(IN.to_be_bytes());
        out.extend(self.ttl.to_be_bytes());
        out.extend(u16::try_from(data.len()).expect("a short name").to_be_bytes());
        out.extend(data);
    }
}

/// A name as labels with their lengths.
fn encoded(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).expect("a short label"));
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// A response to a query.
#[derive(Default)]
pub(crate) struct Response {
    pub(crate) code: u8,
    /// Records with their names.
    pub(crate) records: Vec<(String, Record)>,
    /// Leaves the records out and says so.
    pub(crate) is_truncated: bool,
    pub(crate) has_wrong_id: bool,
}

impl Response {
    pub(crate) fn write(&self, query: &Query) -> Vec<u8> {
        const IS_RESPONSE: u8 = 0x80;
        const TRUNCATED: u8 = 0x02;
        const RECURSION_DESIRED: u8 = 0x01;
        const RECURSION_AVAILABLE: u8 = 0x80;
        let records = if self.is_truncated { &[][..] } else { &self.records };
        let [high, low] = query.id;
        let truncated = if self.is_truncated { TRUNCATED } else { 0 };
        let mut out = vec![high, if self.has_wrong_id { !low } else { low }];
        out.extend([IS_RESPONSE | truncated | RECURSION_DESIRED, RECURSION_AVAILABLE | self.code]);
        out.extend([0, 1]);
        out.extend(u16::try_from(records.len()).expect("a test has few records").to_be_bytes());
        out.extend([0; 4]);
        out.extend(&query.question);
        for (name, record) in records {
            record.write(name, &mut out);
        }
        out
    }
}

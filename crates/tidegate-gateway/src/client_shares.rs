//! What client addresses hold of the gateway: connections and HTTP/2 requests. Trusted proxies are not counted, because
//! they send requests of many clients.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_http::share::{AddressShare, MostHeld};

use crate::client_address::ClientAddress;
use crate::cuts::Cut;

/// What all client addresses hold. Shared by all workers.
#[derive(Debug, Default)]
pub(crate) struct ClientShares {
    /// Only addresses with open connections.
    addresses: Mutex<HashMap<ClientAddress, Arc<AddressShare>>>,
    /// HTTP/2 requests under way, of all clients.
    streams: AtomicUsize,
}

impl ClientShares {
    fn addresses(&self) -> MutexGuard<'_, HashMap<ClientAddress, Arc<AddressShare>>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection of an address, while so many more could have requests under way. None if the address has its
    /// share of those.
    pub(crate) fn connect(self: &Arc<Self>, ip: IpAddr, most: MostHeld, free: usize) -> Option<CountedConnection> {
        let address = ClientAddress::of(ip);
        let mut addresses = self.addresses();
        let share = Arc::clone(addresses.entry(address).or_default());
        // An address without connections holds nothing, so no entry is left behind.
        if !most.permits(share.busy.load(Ordering::Relaxed), free) && share.connections.load(Ordering::Relaxed) > 0 {
            return None;
        }
        share.connections.fetch_add(1, Ordering::Relaxed);
        Some(CountedConnection { shares: Arc::clone(self), address, share })
    }

    /// Counts an HTTP/2 request. At most `most_streams` may be in flight at once.
    pub(crate) fn begin_stream(
        self: &Arc<Self>,
        share: Option<&Arc<AddressShare>>,
        most: MostHeld,
        most_streams: usize,
    ) -> Result<CountedStream, NoStream> {
        let others = self.streams.fetch_add(1, Ordering::Relaxed);
        let counted = CountedStream { shares: Arc::clone(self), share: share.cloned() };
        let held = share.map_or(0, |share| share.streams.fetch_add(1, Ordering::Relaxed));
        if others >= most_streams {
            return Err(NoStream::AllTaken);
        }
        if share.is_some() && !most.permits(held, most_streams - others) {
            return Err(NoStream::Share);
        }
        Ok(counted)
    }

    /// HTTP/2 requests under way.
    pub(crate) fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }
}

/// The word for a request that would make its client's address hold more than its share of connections …
pub(crate) const CONNECTION_SHARE: &str = "connection_share";
/// … and the detail of the response.
pub(crate) const CONNECTION_SHARE_DETAIL: &str =
    "the client's address holds its share of connections with requests under way";

/// Why there is no room for an HTTP/2 request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoStream {
    /// All clients together have as many as there may be.
    AllTaken,
    /// The client's address has its share.
    Share,
    /// The client does not take the responses that it has.
    Untaken,
    /// The client's address has its share of connections with requests under way.
    Connections,
}

impl NoStream {
    /// Why the client is cut off.
    pub(crate) fn cut(self) -> Cut {
        match self {
            Self::AllTaken => Cut::StreamTotal,
            Self::Share => Cut::StreamShare,
            Self::Untaken => Cut::UntakenStreams,
            Self::Connections => Cut::ConnectionShare,
        }
    }

    /// The word for it in the response.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::AllTaken | Self::Share | Self::Untaken => "too_many_streams",
            Self::Connections => CONNECTION_SHARE,
        }
    }

    /// The detail of the response.
    pub(crate) fn detail(self) -> &'static str {
        match self {
            Self::AllTaken => "too many HTTP/2 requests are under way",
            Self::Share => "the client's address holds its share of HTTP/2 requests under way",
            Self::Untaken => "the client does not take the responses on this connection",
            Self::Connections => CONNECTION_SHARE_DETAIL,
        }
    }
}

/// A connection that is counted as long as this exists.
pub(crate) struct CountedConnection {
    shares: Arc<ClientShares>,
    address: ClientAddress,
    pub(crate) share: Arc<AddressShare>,
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut addresses = self.shares.addresses();
        if self.share.connections.fetch_sub(1, Ordering::Relaxed) == 1 {
            addresses.remove(&self.address);
        }
    }
}

/// An HTTP/2 request that is counted as long as this exists.
#[derive(Debug)]
pub(crate) struct CountedStream {
    shares: Arc<ClientShares>,
    share: Option<Arc<AddressShare>>,
}

impl Drop for CountedStream {
    fn drop(&mut self) {
        self.shares.streams.fetch_sub(1, Ordering::Relaxed);
        if let Some(share) = &self.share {
            share.streams.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn an_address_is_forgotten_with_its_last_connection() {
        let shares = Arc::new(ClientShares::default());
        let connect = |last| shares.connect(ip(last), MostHeld::ALL, 10).expect("there is room");
        let (first, second, other) = (connect(1), connect(1), connect(2));
        assert!(Arc::ptr_eq(&first.share, &second.share) && !Arc::ptr_eq(&first.share, &other.share));
        assert_eq!(first.share.connections.load(Ordering::Relaxed), 2);
        drop(first);
        assert_eq!(shares.addresses().len(), 2);
        drop((second, other));
        assert!(shares.addresses().is_empty());
    }

    #[test]
    fn an_address_whose_connections_are_busy_gets_no_more_than_its_share() {
        let shares = Arc::new(ClientShares::default());
        let half = MostHeld::new(0.5);
        let connection = shares.connect(ip(1), half, 10).expect("the first one");
        connection.share.busy.store(4, Ordering::Relaxed);
        assert!(shares.connect(ip(1), half, 6).is_some());
        connection.share.busy.store(5, Ordering::Relaxed);
        assert!(shares.connect(ip(1), half, 5).is_none());
        assert!(shares.connect(ip(2), half, 5).is_some());
        assert_eq!(shares.addresses().len(), 1, "the other one has gone");
    }

    #[test]
    fn streams_are_bounded_in_all_and_for_each_address() {
        let shares = Arc::new(ClientShares::default());
        let connection = shares.connect(ip(1), MostHeld::ALL, 10).expect("there is room");
        let half = MostHeld::new(0.5);
        let begin = |share| shares.begin_stream(share, half, 10);
        let mut streams: Vec<_> = (0..5).map(|_| begin(Some(&connection.share)).expect("its share")).collect();
        assert_eq!(begin(Some(&connection.share)).err(), Some(NoStream::Share));
        streams.extend((0..5).map(|_| begin(None).expect("a trusted proxy has no share")));
        assert_eq!(begin(None).err(), Some(NoStream::AllTaken));
        assert_eq!(shares.streams(), 10);
        drop(streams);
        assert_eq!((shares.streams(), connection.share.streams.load(Ordering::Relaxed)), (0, 0));
    }
}

#![doc = include_str!("../README.md")]

mod charge;
mod config;
mod document;
pub mod election;
mod exact;
mod key;
mod lease;
mod leased;
mod limit;
mod link;
mod local;
mod numbers;
mod owed;
mod script;
mod session;
mod stand_in;
mod store;
mod tls;
mod topology;
mod verdict;

/// For the tests of this crate alone, which run scripts and leases with a clock of their own. It may change at any
/// time.
#[doc(hidden)]
pub mod internals {
    /// The scripts of an election.
    pub mod election {
        pub use crate::election::scripts::{HEARTBEAT, LEAVE, Member, command, standing};
    }
    pub use crate::lease::{Ask, Grant, Lease, LeaseState};
    pub use crate::script::{Script, Task};
}

pub use charge::Charged;
pub use config::{InvalidConfig, StoreConfig};
pub use document::{Document, DocumentFault};
pub use key::{InvalidName, Key, Name};
pub use lease::LeaseTerms;
pub use limit::{SharedLevel, SharedLimit, Sharing};
pub use link::{Observer, StoreEvent};
pub use numbers::Unshareable;
pub use stand_in::StandIn;
pub use store::Store;
pub use tls::{InvalidTls, TlsFiles};
pub use topology::{InvalidAddress, Topology};
pub use verdict::{FailureMode, Source, Verdict};

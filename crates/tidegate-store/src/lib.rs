//! Limiter state shared by several processes through Redis.
//!
//! *Exact*: one script call a request, for all its limits, by Redis' own clock. *Leased*: tokens are taken in advance and spent locally;
//! the limit is never exceeded, and a hot key costs Redis next to nothing. When Redis is away a [`FailureMode`] decides, at once: no
//! request waits longer than its budget.
//!
//! **By default requests pass unlimited while Redis is away**, or can't be used for a wrong address, password or certificate, and nobody is
//! told: set [`StoreConfig::on_failure`] and [`StoreConfig::observer`], and look at [`Store::is_down`].
//!
//! It works on a single server, behind Sentinel and on Redis Cluster, in the clear or over TLS ([`Topology`]). The algorithms are those of
//! `tidegate-policy`; each exists a second time as a Lua file here, and a test feeds both the same steps.
//!
//! ```no_run
//! use std::num::NonZeroUsize;
//! use std::sync::Arc;
//! use std::time::Duration;
//! use tidegate_policy::{Cost, Gcra, Rate, Timestamp};
//! use tidegate_store::{FailureMode, Key, Name, SharedLevel, Sharing, Store, StoreConfig, StoreEvent};
//!
//! // `now` comes from `tidegate_wait::Clock`.
//! # async fn example(now: Timestamp) -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = StoreConfig::new("redis://127.0.0.1:6379".parse()?, Name::new("shop")?);
//! config.on_failure = FailureMode::Local;
//! config.observer = Arc::new(|event| match event {
//!     StoreEvent::Unreached { error } => eprintln!("Redis could not be reached: {error}"),
//!     StoreEvent::Reached { after } => eprintln!("Redis was reached after {after:?}"),
//!     StoreEvent::Down { error } => eprintln!("Redis is away: {error}"),
//!     StoreEvent::Up { after } => eprintln!("Redis is back after {after:?}"),
//!     StoreEvent::Call { .. } | StoreEvent::StillDown { .. } | StoreEvent::PlacesLost { .. } => {} // for metrics
//! });
//! let store = Store::connect(config).await?;
//! let rule = Gcra::new(Rate::new(1_000, Duration::from_secs(60))?, 100)?;
//! let per_user = store.limit(Name::new("user")?, rule, Sharing::Exact, NonZeroUsize::new(100_000).ok_or("zero")?)?;
//!
//! let ann = SharedLevel { limit: &per_user, key: Key::of(&["ann"]), cost: Cost::ONE };
//! let verdict = store.check(&[ann], now).await;
//! if !verdict.admitted {
//!     println!("refused: {:?}", verdict.refused_by);
//! }
//! # Ok(())
//! # }
//! ```

#[doc(hidden)] // public for the laws of councils, which meet at times of their own
pub mod council;
mod document;
mod exact;
mod key;
#[doc(hidden)] // public for the laws of leases, which run the holder's side with a clock of their own
pub mod lease;
mod leased;
mod limit;
mod link;
mod local;
mod numbers;
mod owed;
#[doc(hidden)] // public for the differential test, which runs the scripts with a clock of its own
pub mod script;
mod stand_in;
mod store;
mod tls;
mod topology;

pub use council::{Council, CouncilFault, CouncilTerms, Decree, Meeting, Overlay, Report};
pub use document::{Document, DocumentFault};
pub use key::{InvalidName, Key, Name};
pub use lease::LeaseTerms;
pub use limit::{SharedLevel, SharedLimit, Sharing};
pub use link::{Observer, StoreEvent};
pub use numbers::Unshareable;
pub use stand_in::StandIn;
pub use store::{Charged, FailureMode, InvalidConfig, Source, Store, StoreConfig, Verdict};
pub use tls::{InvalidTls, TlsFiles};
pub use topology::{InvalidAddress, Topology};

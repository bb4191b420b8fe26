//! Redis, as written.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_store::{FailureMode, LeaseTerms, StoreConfig};

use crate::config::secret::Secret;
use crate::config::section::section;
use crate::config::span::Span;
use crate::config::words;

section! {
    /// Redis, for limits that several gateways share. Its files are read when the gateway starts.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct Redis {
        /// `redis://[user:password@]host[:port][/db]`, `redis+sentinel://host:port,…/master`,
        /// `redis+cluster://host:port,…`; the same with `rediss` for TLS, to sentinels and nodes alike.
        pub url: Secret;
        /// PEM file with the authorities to trust for TLS. Default: the system's.
        pub ca: Option<PathBuf>;
        /// PEM file with the gateway's own certificate and its chain, for a Redis with `tls-auth-clients`. Default:
        /// none.
        pub certificate: Option<PathBuf>;
        /// PEM file with the private key of `certificate`.
        pub key: Option<PathBuf>;
        /// Gateways with the same namespace share their limits.
        pub namespace: Option<String>, else "ratelimiter".to_owned();
        /// The longest time that a request waits for Redis.
        pub budget: Option<Span>, else Span::from_millis(20), in spans(&StoreConfig::BUDGET);
        /// The failure mode: what happens while Redis is unavailable.
        #[serde(default, deserialize_with = "words::read", serialize_with = "words::write")]
        #[schemars(schema_with = "words::schema::<FailureMode>")]
        pub on_failure: FailureMode;
        /// Tokens taken in advance by limits with `state: leased`.
        pub lease_tokens: Option<u32>, else LeaseTerms::default().tokens, in LeaseTerms::TOKENS;
        /// How long a lease lasts.
        pub lease_span: Option<Span>, else span(&LeaseTerms::default().span), in spans(&LeaseTerms::SPAN);
    }
}

impl Redis {
    /// A server at `url`, with the default settings.
    pub fn at(url: String) -> Self {
        Self { url: Secret::new(url), ..Self::default() }
    }
}

/// A time of the store, as the file has it.
fn span(duration: &Duration) -> Span {
    Span::seconds(duration.as_secs_f64()).expect("the store's times are short")
}

fn spans(range: &RangeInclusive<Duration>) -> RangeInclusive<Span> {
    span(range.start())..=span(range.end())
}

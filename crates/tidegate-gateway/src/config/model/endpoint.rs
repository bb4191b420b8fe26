//! The endpoints of an upstream, as written: which ones, how requests are spread, how their health is found out.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use tidegate_input::Problems;

use super::HOUR;
use crate::config::ranges::RangeCheck;
use crate::config::section::section;
use crate::config::span::Span;

/// An endpoint: its URL, or its URL and its weight.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Endpoint {
    /// A URL: `http://host[:port][/base]` or `https://…`.
    Url(String),
    /// A URL and a weight.
    Weighted(WeightedEndpoint),
}

section! {
    /// An endpoint with its weight.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct WeightedEndpoint {
        /// `http://host[:port][/base]` or `https://…`. A host name with several addresses is as many endpoints.
        pub url: String;
        /// Its share of requests, relative to the weights of the others. 0: only if no other is available.
        pub weight: Option<u32>, else 1, in 0..=1_000_000;
    }
}

impl Endpoint {
    /// Its URL.
    pub(crate) fn url(&self) -> &str {
        match self {
            Self::Url(url) => url,
            Self::Weighted(endpoint) => &endpoint.url,
        }
    }

    /// Its weight.
    pub(crate) fn weight(&self) -> u32 {
        match self {
            Self::Url(_) => 1,
            Self::Weighted(endpoint) => endpoint.weight(),
        }
    }
}

impl RangeCheck for Endpoint {
    fn check_ranges(&self, path: &str, problems: &Problems) {
        match self {
            Self::Url(_) => {}
            Self::Weighted(endpoint) => endpoint.check_ranges(path, problems),
        }
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EndpointVisitor)
    }
}

/// Not derived: for a mistake in the section a derived implementation would only report that no variant matches.
struct EndpointVisitor;

impl<'de> Visitor<'de> for EndpointVisitor {
    type Value = Endpoint;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a URL, or a section with `url` and `weight`")
    }

    fn visit_str<E: de::Error>(self, url: &str) -> Result<Endpoint, E> {
        Ok(Endpoint::Url(url.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Endpoint, A::Error> {
        WeightedEndpoint::deserialize(MapAccessDeserializer::new(map)).map(Endpoint::Weighted)
    }
}

section! {
    /// Checks that the gateway makes of each endpoint. One that fails them gets no requests.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct HealthCheck {
        /// The path to request, with its query. Default: none; a check only connects (with TLS for `https`).
        pub path: Option<String>;
        /// The method of the request: `GET`, `HEAD` or `OPTIONS`.
        pub method: Option<String>, else "GET".to_owned();
        /// The statuses of a healthy endpoint. Default: 200 to 299.
        pub statuses: Option<Vec<u64>>;
        /// The time from the start of one check to the next.
        pub interval: Span = Span::from_secs(5), in Span::from_millis(100)..=HOUR;
        /// The longest time of a check, from connecting to the head of the response.
        pub timeout: Span = Span::from_secs(1), in Span::from_millis(20)..=HOUR;
        /// Checks in a row that must pass until an endpoint gets requests again.
        pub healthy: u32 = 2, in 1..=100;
        /// Checks in a row that must fail until an endpoint gets no more requests. The very first check decides alone.
        pub unhealthy: u32 = 3, in 1..=100;
    }
}

section! {
    /// When an endpoint gets no requests for a while because of how it responds to requests. What clients cause never
    /// counts. The last available endpoint is never ejected.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Ejection {
        /// Failures in a row that eject an endpoint: no connection, no response in time, a broken one, or one of
        /// `statuses`. 0: never.
        pub consecutive_failures: u32 = 5, in 0..=1_000_000;
        /// Whether an endpoint is ejected whose success rate in an interval is far below that of the others: at least 5
        /// endpoints with 100 requests each, and 1.9 standard deviations.
        pub success_rate: bool = true;
        /// The statuses that count as failures.
        pub statuses: Vec<u64> = vec![502, 503, 504];
        /// The interval of success rates.
        pub interval: Span = Span::from_secs(10), in Span::from_secs(1)..=HOUR;
        /// How long the first ejection lasts. The second in a row lasts twice as long, and so on.
        pub time: Span = Span::from_secs(30), in Span::from_millis(100)..=HOUR;
        /// The longest ejection.
        pub max_time: Span = Span::from_secs(300), in Span::from_millis(100)..=Span::from_secs(86_400);
        /// The most endpoints that are out when another is ejected, as a share of all, whatever took them out. One may
        /// be ejected in any case, but never the last one that is up.
        pub max_share: f64 = 0.5, in 0.0..=1.0;
    }
}

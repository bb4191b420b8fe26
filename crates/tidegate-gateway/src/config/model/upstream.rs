//! Upstreams and routes, as written.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use tidegate_policy::endpoints::Balance;

use super::{DAY, Ejection, Endpoint, HealthCheck, TICK};
use crate::config::section::section;
use crate::config::span::Span;
use crate::config::words;

section! {
    /// An upstream: a service that the gateway protects.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(extend("anyOf" = [{"required": ["url"]}, {"required": ["endpoints"]}]))]
    pub struct Upstream {
        /// `http://host[:port][/base]` or `https://…`: the request's path and query are appended. Short for `endpoints`
        /// with this one.
        pub url: Option<String>;
        /// The addresses of the service, with their weights. A host name stands for all its addresses, which are
        /// looked up again by the TTL of their records.
        pub endpoints: Option<Vec<Endpoint>>;
        /// How requests are spread over the endpoints.
        #[serde(default, deserialize_with = "words::read", serialize_with = "words::write")]
        #[schemars(schema_with = "words::schema::<Balance>")]
        pub balance: Balance;
        /// What `balance: hash` hashes: a key as limits have it.
        pub hash_key: Option<String>, else "ip".to_owned();
        /// How long the share of an endpoint that has just become available grows from a tenth to the whole. 0: it has
        /// the whole at once. Not with `balance: hash`.
        pub slow_start: Option<Span>, else Span::from_secs(10), in Span::from_secs(0)..=DAY;
        /// Checks of the endpoints. Default: none.
        pub health_check: Option<HealthCheck>;
        /// When an endpoint is ejected because of how it responds.
        #[serde(default)]
        pub ejection: Ejection;
        /// The longest time to connect, including TLS.
        pub connect_timeout: Option<Span>, else Span::from_secs(2), in TICK..=DAY;
        /// The longest time from the request's last byte to the response's head.
        pub answer_timeout: Option<Span>, else Span::from_secs(60), in TICK..=DAY;
        /// The longest pause in the response's body, and while the upstream takes the request's body.
        pub body_timeout: Option<Span>, else Span::from_secs(60), in TICK..=DAY;
        /// How long an idle connection is kept.
        pub idle_timeout: Option<Span>, else Span::from_secs(55), in TICK..=DAY;
        /// The most idle connections to each endpoint that each worker keeps.
        pub max_idle: Option<usize>, else 64, in 0..=100_000;
        /// The most connections to each endpoint, of all workers together; requests beyond it get 503.
        pub max_connections: Option<usize>, else 4_096, in 1..=1_000_000;
        /// The largest head of a response in bytes; for a larger one the client gets 502.
        pub max_head_bytes: Option<usize>, else 65_536, in 1_024..=1_048_576;
        /// How much of a request's body is read before the request takes a connection, in bytes: the whole of a shorter
        /// body. 0: none, the body is sent on as it comes.
        pub request_buffer_bytes: Option<usize>, else 65_536, in 0..=16_777_216;
        /// How much of a response is read ahead of a client that takes it slowly, in bytes. A shorter response frees
        /// its connection at once.
        pub response_buffer_bytes: Option<usize>, else 65_536, in 0..=16_777_216;
        /// Whether the upstream gets the client's `Host` instead of the one from `url`.
        #[serde(default)]
        pub preserve_host: bool;
        /// PEM file with the authorities to trust for `https`. Default: the system's.
        pub ca: Option<PathBuf>;
        /// The name that its certificate must have. Default: the host in `url`.
        pub server_name: Option<String>;
        /// Limits on requests to it from all clients together; they reject with 503.
        #[serde(default)]
        pub limits: Vec<String>;
        /// Name of the policy for requests to it. Default: none.
        pub policy: Option<String>;
    }
}

impl Upstream {
    /// An upstream at `url`, with the default settings.
    pub fn at(url: &str) -> Self {
        Self { url: Some(url.to_owned()), ..Self::default() }
    }
}

section! {
    /// A route: which requests go to which upstream, under which limits.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Route {
        /// Its name, in metrics and as `endpoint` in keys. Default: `route-N`, counted from 1.
        pub name: Option<String>;
        /// Host to match, without port: `api.example.com` or `*.example.com`. Default: any.
        pub host: Option<String>;
        /// Exact path to match.
        pub path: Option<String>;
        /// Path and everything below it: `/api` matches `/api` and `/api/x`, not `/apis`.
        pub prefix: Option<String>;
        /// Segments: `{name}` or `*` matches one, `**` at the end the rest: `/users/{id}/orders/**`.
        pub pattern: Option<String>;
        /// Methods to match, in any case; `GET` includes `HEAD`. (Requests whose method is not in capitals are
        /// rejected.) Default: any.
        pub methods: Vec<String>;
        /// Name of the upstream. Default: the only one.
        pub upstream: Option<String>;
        /// Names of limits, besides `common_limits`.
        pub limits: Vec<String>;
        /// Name of the policy for its requests. Default: that of the upstream.
        pub policy: Option<String>;
    }
}

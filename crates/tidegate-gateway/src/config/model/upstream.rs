//! Upstreams and routes, as they are written.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DAY, TICK};
use crate::config::section::section;
use crate::config::span::Span;

section! {
    /// A service behind the gateway.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct Upstream {
        /// `http://host[:port][/base]` or `https://…`: the request's path and query are appended.
        pub url: String;
        /// To connect, TLS included.
        pub connect_timeout: Option<Span>, else Span::from_secs(2), in TICK..=DAY;
        /// From the request's last byte to the response's head.
        pub answer_timeout: Option<Span>, else Span::from_secs(60), in TICK..=DAY;
        /// The longest pause in the response's body, and in taking the request's.
        pub body_timeout: Option<Span>, else Span::from_secs(60), in TICK..=DAY;
        /// A kept connection without requests.
        pub idle_timeout: Option<Span>, else Span::from_secs(55), in TICK..=DAY;
        /// Idle connections kept by each worker.
        pub max_idle: Option<usize>, else 64, in 0..=100_000;
        /// Connections at once, all workers together; beyond it 503.
        pub max_connections: Option<usize>, else 4_096, in 1..=1_000_000;
        /// Bytes of a response's head; a longer one gets 502.
        pub max_head_bytes: Option<usize>, else 65_536, in 1_024..=1_048_576;
        /// Whether the upstream gets the client's `Host`; otherwise its own from `url`.
        #[serde(default)]
        pub preserve_host: bool;
        /// PEM file with the authorities to trust for `https`. Default: the system's.
        pub ca: Option<PathBuf>;
        /// The name its certificate must have. Default: the host in `url`.
        pub server_name: Option<String>;
        /// Limits on what reaches it, from all clients together; rejected with 503.
        #[serde(default)]
        pub limits: Vec<String>;
    }
}

impl Upstream {
    /// An upstream at `url`, with the default settings.
    pub fn at(url: &str) -> Self {
        Self { url: url.to_owned(), ..Self::default() }
    }
}

section! {
    /// Which requests go where.
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
        /// Where to send it. Default: the only upstream.
        pub upstream: Option<String>;
        /// Limits besides `common_limits`.
        pub limits: Vec<String>;
    }
}

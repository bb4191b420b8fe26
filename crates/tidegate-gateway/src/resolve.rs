//! Resolves a request: its caller, its route, its limits. The handler and replay use the same code.

use std::net::IpAddr;
use std::sync::Arc;

use http::Method;
use tidegate_http::headers::Headers;

use crate::config::model::Missing;
use crate::facts::Facts;
use crate::identity::Caller;
use crate::interaction::Interaction;
use crate::key::RequestKey;
use crate::plan::{Found, RouteLimits, RoutePlan, Site};
use crate::stages::Side;
use crate::upstream::Upstream;

/// A request whose route is not known yet.
pub(crate) struct Unresolved<'a> {
    /// The client's address, IPv4-mapped ones as IPv4.
    pub(crate) ip: IpAddr,
    pub(crate) caller: Arc<Caller>,
    /// Whether the credentials are right. If not, `caller` is anonymous.
    pub(crate) is_identified: bool,
    /// Without port, in lower case.
    pub(crate) host: &'a [u8],
    pub(crate) method: &'a Method,
    /// Without the query.
    pub(crate) path: &'a str,
    pub(crate) headers: &'a Headers,
}

/// A request whose route is known.
pub(crate) struct Resolved<'a> {
    request: Unresolved<'a>,
    site: &'a Site,
    found: Found<'a>,
}

/// Finds a request's route. `None`: no route matches.
pub(crate) fn resolve<'a>(site: &'a Site, request: Unresolved<'a>) -> Option<Resolved<'a>> {
    let found = site.find(request.host, request.method, request.path)?;
    Some(Resolved { request, site, found })
}

impl<'a> Resolved<'a> {
    /// The index of the route.
    pub(crate) fn route_index(&self) -> usize {
        self.found.route
    }

    pub(crate) fn route(&self) -> &'a RoutePlan {
        &self.site.routes[self.found.route]
    }

    pub(crate) fn upstream(&self) -> &'a Arc<Upstream> {
        &self.site.upstreams[self.route().upstream]
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.request.caller
    }

    /// The caller's tier, or the default one.
    pub(crate) fn tier(&self) -> &str {
        self.request.caller.tier.as_deref().unwrap_or(&self.site.default_tier)
    }

    /// Whether the credentials are right. If not, limits that count by caller are left out.
    pub(crate) fn is_identified(&self) -> bool {
        self.request.is_identified
    }

    /// What limits' keys are made of.
    pub(crate) fn facts(&self) -> Facts<'_> {
        Facts {
            ip: self.request.ip,
            caller: &self.request.caller,
            tier: self.tier(),
            route: &self.route().name,
            path: &self.found.path,
            upstream: &self.upstream().name,
            method: self.request.method.as_str(),
            host: self.request.host,
            headers: self.request.headers,
        }
    }

    /// What decides the endpoint of a request whose upstream spreads requests by a key. None: chance does.
    #[inline]
    pub(crate) fn endpoint_hash(&self) -> Option<u64> {
        let key = self.upstream().hash_key.as_ref()?;
        match key.of_request(&self.facts(), Missing::Skip) {
            RequestKey::Value(key) => Some(key.short_hash()),
            RequestKey::Exempt | RequestKey::Missing(_) => None,
        }
    }

    /// The route's policy, for its upstream.
    pub(crate) fn interaction(&self) -> Option<&'a Interaction> {
        self.route().interaction.as_deref()
    }

    /// Whether the upstream has limits.
    pub(crate) fn has_upstream_limits(&self) -> bool {
        !self.upstream().limits.is_empty()
    }

    /// The limits of one side: those of its route, and of other routes if its path can be read in several ways.
    pub(crate) fn limits(&self, side: Side) -> (RouteLimits<'_>, impl Iterator<Item = RouteLimits<'_>>) {
        let (first, others) = match side {
            Side::Client => (self.route().limits(), self.found.others()),
            Side::Upstream => {
                let limits = &self.upstream().limits;
                (RouteLimits { route: &self.route().name, limits }, &[][..])
            }
        };
        (first, others.iter().map(|route| self.site.routes[*route].limits()))
    }
}

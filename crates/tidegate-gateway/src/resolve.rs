//! What a request is, as far as policy is concerned: from whom, for which route, under which limits. The handler and
//! replay resolve their requests here.

use std::net::IpAddr;
use std::sync::Arc;

use http::Method;
use tidegate_http::headers::Headers;

use crate::facts::Facts;
use crate::identity::Caller;
use crate::plan::{Found, RouteLimits, RoutePlan, Site};
use crate::stages::Side;
use crate::upstream::Upstream;

/// What is known of a request before its route.
pub(crate) struct Asking<'a> {
    /// The client's address, IPv4-mapped ones as IPv4.
    pub(crate) ip: IpAddr,
    pub(crate) caller: Arc<Caller>,
    /// Whether the caller is who it says it is. If not, `caller` is anonymous.
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
    asking: Asking<'a>,
    site: &'a Site,
    found: Found<'a>,
}

/// Finds a request's route. `None`: no route is for it.
pub(crate) fn resolve<'a>(site: &'a Site, asking: Asking<'a>) -> Option<Resolved<'a>> {
    let found = site.find(asking.host, asking.method, asking.path)?;
    Some(Resolved { asking, site, found })
}

impl<'a> Resolved<'a> {
    /// The index of its route.
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
        &self.asking.caller
    }

    /// The caller's tier, or the default one.
    pub(crate) fn tier(&self) -> &str {
        self.asking.caller.tier.as_deref().unwrap_or(&self.site.default_tier)
    }

    /// Whether limits that need to know the caller are left out: the caller's credentials are wrong.
    pub(crate) fn is_identified(&self) -> bool {
        self.asking.is_identified
    }

    /// What limits' keys are made of.
    pub(crate) fn facts(&self) -> Facts<'_> {
        Facts {
            ip: self.asking.ip,
            caller: &self.asking.caller,
            tier: self.tier(),
            route: &self.route().name,
            path: &self.found.path,
            upstream: &self.upstream().name,
            method: self.asking.method.as_str(),
            host: self.asking.host,
            headers: self.asking.headers,
        }
    }

    /// Whether its upstream has limits.
    pub(crate) fn has_upstream_limits(&self) -> bool {
        !self.upstream().limits.is_empty()
    }

    /// The limits that it falls under: its route's, and those of other routes if its path can be read in several ways.
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

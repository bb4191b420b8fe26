//! The roles of fields in a JSON line, or of columns in a CSV file. Many programs write logs, each with its own names.

use std::collections::HashMap;

use tidegate_input::duration::{DAY, LOG, SECOND};
use tidegate_input::log_times::fraction_nanos;

/// What a field can record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// When the request came, or when its response ended if the line has a duration.
    Time,
    /// When the request came, also in a line with a duration.
    Start,
    /// The same as Envoy names it, whose durations are whole milliseconds.
    StartEnvoy,
    /// The same as Traefik names it, whose durations are nanoseconds.
    StartTraefik,
    /// How long it took, in seconds unless a unit follows or the name of the start implies another one.
    Took,
    /// The same in milliseconds.
    TookMillis,
    /// The same in nanoseconds.
    TookNanos,
    /// The client, or a proxy before it.
    Client,
    /// The client itself.
    RealClient,
    Method,
    Host,
    /// Path and query, or a URL.
    Target,
    /// `GET /path HTTP/1.1`
    Request,
    User,
    Tier,
}

/// Names that are known, in lower case: those of Tidegate, nginx, Apache, Caddy, Traefik, Envoy and others.
const NAMES: &[(&str, Role)] = &[
    ("time", Role::Time),
    ("timestamp", Role::Time),
    ("@timestamp", Role::Time),
    ("ts", Role::Time),
    ("date", Role::Time),
    ("datetime", Role::Time),
    ("time_iso8601", Role::Time),
    ("time_local", Role::Time),
    ("msec", Role::Time),
    ("start", Role::Start),
    ("start_time", Role::StartEnvoy),
    ("startutc", Role::StartTraefik),
    ("request_creation_time", Role::Start),
    ("duration", Role::Took),
    ("duration_seconds", Role::Took),
    ("request_time", Role::Took),
    ("took", Role::Took),
    ("took_ms", Role::TookMillis),
    ("took_ns", Role::TookNanos),
    ("duration_ms", Role::TookMillis),
    ("latency_ms", Role::TookMillis),
    ("response_time_ms", Role::TookMillis),
    ("ip", Role::Client),
    ("client", Role::Client),
    ("client_ip", Role::RealClient),
    ("clientip", Role::RealClient),
    ("clienthost", Role::Client),
    ("remote_addr", Role::Client),
    ("remote_ip", Role::Client),
    ("remote_host", Role::Client),
    ("downstream_remote_address", Role::Client),
    ("method", Role::Method),
    ("request_method", Role::Method),
    ("requestmethod", Role::Method),
    ("verb", Role::Method),
    ("host", Role::Host),
    ("http_host", Role::Host),
    ("requesthost", Role::Host),
    ("authority", Role::Host),
    ("path", Role::Target),
    ("uri", Role::Target),
    ("url", Role::Target),
    ("target", Role::Target),
    ("request_uri", Role::Target),
    ("requestpath", Role::Target),
    ("request", Role::Request),
    ("user", Role::User),
    ("user_id", Role::User),
    ("remote_user", Role::User),
    ("clientusername", Role::User),
    ("auth", Role::User),
    ("tier", Role::Tier),
    ("plan", Role::Tier),
];

/// The roles that `--field` can declare, by their names there.
const ROLES: [(&str, Role); 12] = [
    ("time", Role::Time),
    ("start", Role::Start),
    ("took", Role::Took),
    ("took_ms", Role::TookMillis),
    ("took_ns", Role::TookNanos),
    ("client", Role::RealClient),
    ("method", Role::Method),
    ("host", Role::Host),
    ("path", Role::Target),
    ("request", Role::Request),
    ("user", Role::User),
    ("tier", Role::Tier),
];

/// Whether one role replaces the other.
fn is_same(one: Role, other: Role) -> bool {
    let kind = |role: Role| match role {
        Role::Start | Role::StartEnvoy | Role::StartTraefik => Role::Start,
        Role::Took | Role::TookMillis | Role::TookNanos => Role::Took,
        Role::Client | Role::RealClient => Role::Client,
        Role::Time | Role::Method | Role::Host | Role::Target | Role::Request | Role::User | Role::Tier => role,
    };
    kind(one) == kind(other)
}

/// The roles of fields by their names.
#[derive(Clone, Debug)]
pub struct Names {
    known: HashMap<Box<str>, Role>,
    headers: Vec<(Box<str>, Box<str>)>,
    /// Names that `--field` declared.
    declared: Vec<Box<str>>,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            known: NAMES.iter().map(|(name, role)| ((*name).into(), *role)).collect(),
            headers: Vec::new(),
            declared: Vec::new(),
        }
    }
}

impl Names {
    /// Declares by `ROLE=NAME` that the field of this name has this role, and no other. `header:x-tenant=tenant`
    /// declares a header.
    pub fn declare(&mut self, text: &str) -> Result<(), String> {
        let (role, name) = text.split_once('=').ok_or_else(|| wrong(text))?;
        let name = name.trim().to_ascii_lowercase();
        if name.is_empty() {
            return Err(wrong(text));
        }
        self.declared.push(name.as_str().into());
        if let Some(header) = role.strip_prefix("header:") {
            let header = header.to_ascii_lowercase();
            http::HeaderName::try_from(&header).map_err(|_| format!("invalid header name {header:?}"))?;
            if self.headers.len() == MOST_HEADERS {
                return Err(format!("at most {MOST_HEADERS} headers can be declared"));
            }
            self.headers.push((header.into(), name.into()));
            return Ok(());
        }
        let (_, role) = ROLES.iter().find(|(known, _)| *known == role).ok_or_else(|| wrong(text))?;
        self.known.retain(|_, known| !is_same(*known, *role));
        self.known.insert(name.into(), *role);
        Ok(())
    }

    /// The role of a field with this name. Names are compared without regard to case.
    pub fn role(&self, name: &str) -> Option<Role> {
        if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return self.known.get(name.to_ascii_lowercase().as_str()).copied();
        }
        self.known.get(name).copied()
    }

    /// The index of the header that a field with this name holds.
    pub fn header(&self, name: &str) -> Option<usize> {
        self.headers.iter().position(|(_, field)| field.eq_ignore_ascii_case(name))
    }

    /// A declared name that is not among these.
    pub(super) fn declared_but_not_in(&self, there: &[&str]) -> Option<&str> {
        let is_there = |name: &str| there.iter().any(|it| it.trim().eq_ignore_ascii_case(name));
        self.declared.iter().map(|name| &**name).find(|name| !is_there(name))
    }

    /// The headers, in the order in which they were declared.
    pub fn headers(&self) -> impl Iterator<Item = &str> {
        self.headers.iter().map(|(header, _)| &**header)
    }
}

/// The most headers that a log can have.
pub(super) const MOST_HEADERS: usize = 4;

fn wrong(text: &str) -> String {
    let roles: Vec<&str> = ROLES.iter().map(|(name, _)| *name).collect();
    format!("must be ROLE=NAME, where ROLE is one of {}, header:NAME, got {text:?}", roles.join(", "))
}

/// `0.125`, as most logs have it, without a detour through binary fractions.
fn seconds(text: &str) -> Option<u64> {
    let [whole @ b'0'..=b'9', b'.', digits @ ..] = text.as_bytes() else { return None };
    let fraction = fraction_nanos(digits)?;
    Some(u64::from(whole - b'0') * 1_000_000_000 + fraction)
}

/// The nanoseconds of `0.25` in this unit (itself in nanoseconds; seconds if there is none), or of `250ms`, with a unit
/// of its own.
pub(super) fn span(text: &str, unit: Option<f64>) -> Option<u64> {
    if unit.is_none()
        && let Some(nanos) = seconds(text)
    {
        return Some(nanos);
    }
    let nanos = LOG.nanos(text.trim(), Some(unit.unwrap_or(SECOND)))?;
    // A day is more than any response takes.
    (0.0..=DAY).contains(&nanos).then_some(nanos as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_known_by_usual_names_or_by_declaration() {
        let mut names = Names::default();
        assert_eq!((names.role("Remote_Addr"), names.role("elsewhere")), (Some(Role::Client), None));
        assert_eq!(names.declared_but_not_in(&["x"]), None);
        names.declare("client=Elsewhere").expect("a declaration");
        assert_eq!((names.role("remote_addr"), names.role("elsewhere")), (None, Some(Role::RealClient)));
        assert_eq!(names.declared_but_not_in(&["x"]), Some("elsewhere"));
        assert_eq!(names.declared_but_not_in(&["ELSEWHERE "]), None);
        names.declare("header:X-Tenant=tenant").expect("a declaration");
        assert_eq!((names.header("Tenant"), names.headers().next()), (Some(0), Some("x-tenant")));
        for wrong in ["client", "who=x", "client=", "header:=x", "header:a b=x"] {
            assert!(names.declare(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn spans_have_units_or_are_seconds() {
        for (text, nanos) in [
            ("0.25", 250_000_000),
            ("250ms", 250_000_000),
            ("3 us", 3_000),
            ("7ns", 7),
            ("0", 0),
            ("0.000929675", 929_675),
            ("12.5", 12_500_000_000),
        ] {
            assert_eq!(span(text, None), Some(nanos), "{text}");
        }
        for text in ["", "-1", "x", "1h", "NaN", "1e300", "90000"] {
            assert_eq!(span(text, None), None, "{text}");
        }
        assert_eq!(span("12", Some(1e6)), Some(12_000_000));
    }
}

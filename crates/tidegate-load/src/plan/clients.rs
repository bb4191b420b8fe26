//! Who the requests come from.

use std::collections::HashSet;
use std::net::IpAddr;

use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue};
use serde_json::Value;
use tidegate_input::object::{Allowed, Object};

use super::comeback::{self, Comeback};
use super::request::is_ours;

/// The most groups of a plan: each has histograms of its own.
pub(crate) const MOST_GROUPS: usize = 100;
/// The most characters of a group's name.
pub(crate) const LONGEST_NAME: usize = 60;

/// Whether a group may be called so: it stands in tables, on terminals too.
pub(crate) fn is_name(text: &str) -> bool {
    (1..=LONGEST_NAME).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

/// Whether a client means well, so that results can be kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Class {
    /// Those for whom the service is there.
    #[default]
    Honest,
    /// Those it must be protected from.
    Attacker,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Honest, Self::Attacker];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Attacker => "attacker",
        }
    }
}

/// Clients of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name in results.
    pub name: String,
    /// What they are.
    pub class: Class,
    /// How many there are.
    pub count: u64,
    /// How many of all requests are theirs, relative to the other groups.
    pub weight: f64,
    /// Whether and how they send a request again.
    pub comeback: Option<Comeback>,
    /// Path and query of what they request, instead of those of the URL.
    pub path: Option<String>,
    pub(crate) headers: Vec<(HeaderName, Template)>,
}

impl Default for Group {
    fn default() -> Self {
        let (name, class) = ("all".to_owned(), Class::Honest);
        Self { name, class, count: 1, weight: 1.0, comeback: None, path: None, headers: Vec::new() }
    }
}

impl Group {
    /// The address of a client, if the group's clients have addresses of their own.
    pub fn address(&self, client: u64) -> Option<IpAddr> {
        self.headers.iter().find_map(|(_, template)| match template {
            Template::Address(first) => Some(following(*first, client)),
            Template::Text(_) | Template::Numbered(..) => None,
        })
    }

    /// The headers of a client's requests, but for its address. Values that are no text are left out.
    pub fn headers_of(&self, client: u64) -> impl Iterator<Item = (&str, String)> {
        let others = self.headers.iter().filter(|(_, template)| !matches!(template, Template::Address(_)));
        others.filter_map(move |(name, template)| {
            let mut value = Vec::new();
            template.write(client, &mut value);
            Some((name.as_str(), String::from_utf8(value).ok()?))
        })
    }
}

/// A header's value, which may differ from client to client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Template {
    Text(HeaderValue),
    /// What stands before and after the client's number.
    Numbered(HeaderValue, HeaderValue),
    /// The client's address: this one and those that follow.
    Address(IpAddr),
}

impl Template {
    fn read(text: &str) -> Option<Self> {
        let value = |text: &str| HeaderValue::from_str(text).ok();
        match text.split_once("{n}") {
            None => value(text).map(Self::Text),
            Some((before, after)) => Some(Self::Numbered(value(before)?, value(after)?)),
        }
    }

    pub(crate) fn write(&self, client: u64, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => out.extend_from_slice(text.as_bytes()),
            Self::Numbered(before, after) => {
                out.extend_from_slice(before.as_bytes());
                out.extend_from_slice(itoa::Buffer::new().format(client).as_bytes());
                out.extend_from_slice(after.as_bytes());
            }
            Self::Address(first) => out.extend_from_slice(following(*first, client).to_string().as_bytes()),
        }
    }
}

/// The address so many after this one.
fn following(first: IpAddr, count: u64) -> IpAddr {
    match first {
        IpAddr::V4(first) => IpAddr::V4(u32::from(first).wrapping_add(count as u32).into()),
        IpAddr::V6(first) => IpAddr::V6(u128::from(first).wrapping_add(count.into()).into()),
    }
}

const WEIGHT: Allowed = Allowed::new(1e-9..=1e9, "a weight");
/// The longest path of a group.
const LONGEST_PATH: usize = 2_048;

/// Reads a group of clients.
pub(super) fn read(mut group: Object<'_>) -> Option<Group> {
    let usual = Group::default();
    let name = group.text("name");
    let class = match group.text("class").as_deref() {
        None | Some("honest") => Some(Class::Honest),
        Some("attacker") => Some(Class::Attacker),
        Some(other) => {
            group.wrong("class", format!("must be `honest` or `attacker`, got {other:?}"));
            None
        }
    };
    let count = group.whole_or("count", 1..=10_000_000, usual.count);
    let weight = group.number_or("weight", &WEIGHT, usual.weight);
    let comeback = comeback::read(&mut group);
    let path = path(&mut group);
    let mut headers = Vec::new();
    for (name, value) in group.texts("headers") {
        add(&group, &mut headers, "headers", &name, &value);
    }
    for (field, name) in [("apiKey", "x-api-key"), ("user", "x-user"), ("tier", "x-user-tier")] {
        if let Some(value) = group.text(field) {
            add(&group, &mut headers, field, name, &value);
        }
    }
    if let Some(text) = group.text("forwardedFor") {
        match text.parse::<IpAddr>() {
            Ok(first) if count.is_some_and(|count| !has_room(first, count)) => {
                group.wrong("forwardedFor", format!("must leave room for `count` addresses, got {text:?}"));
            }
            Ok(first) => headers.push((HeaderName::from_static("x-forwarded-for"), Template::Address(first))),
            Err(_) => group.wrong("forwardedFor", format!("must be an address, the first client's, got {text:?}")),
        }
    }
    if name.as_deref().is_some_and(|name| !is_name(name)) {
        group.wrong("name", format!("must be 1 to {LONGEST_NAME} printable characters"));
    }
    group.end();
    // Those without a name get one when it is known what the others are called.
    let name = name.unwrap_or_default();
    Some(Group { name, class: class?, count: count?, weight: weight?, comeback: comeback?, path: path?, headers })
}

/// Whether so many addresses, from this one on, are there.
fn has_room(first: IpAddr, count: u64) -> bool {
    let after = count.saturating_sub(1);
    match first {
        IpAddr::V4(first) => u32::try_from(u64::from(u32::from(first)) + after).is_ok(),
        IpAddr::V6(first) => u128::from(first).checked_add(after.into()).is_some(),
    }
}

/// Reports groups that have another's name.
pub(super) fn report_duplicate_names(groups: &[Value], wrong: impl Fn(usize, String)) {
    let mut taken = HashSet::new();
    for (index, group) in groups.iter().enumerate() {
        if let Some(name) = group["name"].as_str().filter(|name| is_name(name) && !taken.insert(*name)) {
            wrong(index, format!("must differ from the other groups' names, got {name:?} again"));
        }
    }
}

/// Calls those without a name by their class.
pub(super) fn name(groups: &mut [Group]) {
    let mut taken: HashSet<String> = groups.iter().map(|group| group.name.clone()).collect();
    for group in groups {
        let class = group.class.name();
        let mut names = (1..).map(|number| if number == 1 { class.to_owned() } else { format!("{class} {number}") });
        if group.name.is_empty() {
            // There are more numbers than groups.
            group.name = names.find(|name| taken.insert(name.clone())).unwrap_or_default();
        }
    }
}

fn add(group: &Object<'_>, headers: &mut Vec<(HeaderName, Template)>, field: &str, name: &str, value: &str) {
    match (HeaderName::from_bytes(name.as_bytes()), Template::read(value)) {
        (Ok(name), _) if is_ours(&name) => {
            group.wrong(field, format!("must not have {name:?}: it is set automatically"));
        }
        (Ok(name), Some(template)) => headers.push((name, template)),
        _ => group.wrong(field, format!("{name:?} must be a valid header name with a valid value")),
    }
}

/// The path of a group's requests. The outer `None` is a problem.
#[expect(clippy::option_option, reason = "a problem is not the absence of a path")]
fn path(group: &mut Object<'_>) -> Option<Option<String>> {
    let Some(path) = group.text("path") else { return Some(None) };
    let is_path = path.starts_with('/') && path.len() <= LONGEST_PATH && path.parse::<PathAndQuery>().is_ok();
    if !is_path {
        let message = format!("must begin with `/` and be a valid path of at most {LONGEST_PATH} characters, got");
        group.wrong("path", format!("{message} {:?}", tidegate_input::shortened(&path)));
    }
    is_path.then_some(Some(path))
}

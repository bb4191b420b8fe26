//! Finds routes that no request reaches, because earlier routes match all that they match.
//!
//! The matcher itself decides, by witnesses: requests that a route matches and that as few other routes as possible
//! match. Where the route matches any word, a witness has a word that is in no route. Every other request of the route
//! with the same method (if the route names methods), as many segments and the same end is matched by at least the same
//! earlier routes. So a route is hidden exactly if an earlier one matches each of its witnesses.

use std::collections::BTreeSet;

use http::Method;

use super::{Host, Matcher, PathMatcher, Segment, resolved, without_end};

/// A route that no request reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hidden {
    /// Its index.
    pub(crate) route: usize,
    /// The earlier routes that match its requests: one if that one matches them all. Empty if it matches no path.
    pub(crate) by: Vec<usize>,
}

/// All routes that no request reaches. The first match counts.
pub(crate) fn hidden(routes: &[&Matcher]) -> Vec<Hidden> {
    let word = unused_word(routes);
    let found = routes.iter().enumerate().filter_map(|(index, route)| {
        let by = hidden_by(route, &routes[..index], &word)?;
        Some(Hidden { route: index, by })
    });
    found.collect()
}

/// The earlier routes that match the witnesses of a route; `None` if they miss one.
fn hidden_by(route: &Matcher, earlier: &[&Matcher], word: &str) -> Option<Vec<usize>> {
    let depths: BTreeSet<usize> = earlier.iter().map(|other| other.path.depth()).collect();
    let (host, methods, paths) =
        (route.host.witness(word), route.method_witnesses(word), route.path.witnesses(word, &depths));
    let witnesses = || methods.iter().flat_map(|method| paths.iter().map(move |path| (method, path)));
    let mut by = BTreeSet::new();
    for (method, path) in witnesses() {
        by.insert(earlier.iter().position(|other| other.matches(host.as_bytes(), method, path))?);
    }
    let matches_all = |other: &&Matcher| witnesses().all(|(method, path)| other.matches(host.as_bytes(), method, path));
    // Without a witness, every route would match all of them.
    let alone = if by.is_empty() { None } else { earlier.iter().position(matches_all) };
    Some(alone.map_or_else(|| by.into_iter().collect(), |one| vec![one]))
}

/// A word that is in no route.
fn unused_word(routes: &[&Matcher]) -> String {
    let texts: Vec<String> = routes.iter().flat_map(|route| route.texts()).map(str::to_ascii_lowercase).collect();
    let mut word = "other".to_owned();
    // Ends when it is longer than all of them.
    while texts.iter().any(|text| text.contains(&word)) {
        word.push('x');
    }
    word
}

impl Matcher {
    /// All words that it compares with.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let host = match &self.host {
            Host::Any => "",
            Host::Exact(name) | Host::Below(name) => name,
        };
        [host].into_iter().chain(self.path.texts()).chain(self.methods.iter().map(Method::as_str))
    }

    fn method_witnesses(&self, word: &str) -> Vec<Method> {
        if !self.methods.is_empty() {
            return self.methods.clone();
        }
        // A word of letters is a method.
        Method::from_bytes(word.to_ascii_uppercase().as_bytes()).into_iter().collect()
    }
}

impl Host {
    fn witness(&self, word: &str) -> String {
        match self {
            Self::Any => word.to_owned(),
            Self::Exact(name) => name.to_string(),
            Self::Below(end) => format!("{word}{end}"),
        }
    }
}

impl PathMatcher {
    fn texts(&self) -> impl Iterator<Item = &str> {
        let (whole, segments) = match self {
            Self::Any => ("", &[][..]),
            Self::Exact(path) | Self::Prefix(path) => (&**path, &[][..]),
            Self::Pattern { segments, .. } => ("", &segments[..]),
        };
        let texts = segments.iter().map(|segment| match segment {
            Segment::One => "",
            Segment::Text(text) => text,
        });
        [whole].into_iter().chain(texts)
    }

    /// How many segments it compares, one after its last slash included.
    fn depth(&self) -> usize {
        match self {
            Self::Any => 0,
            Self::Exact(path) | Self::Prefix(path) => path.matches('/').count(),
            Self::Pattern { segments, .. } => segments.len(),
        }
    }

    /// Paths in normal form that it matches. `depths` are how many segments other routes compare. Longer and shorter
    /// paths than those made here are matched by the same routes as one of these.
    fn witnesses(&self, word: &str, depths: &BTreeSet<usize>) -> Vec<String> {
        let (start, is_open_ended) = match self {
            Self::Any => (String::new(), true),
            Self::Exact(path) => (without_end(path).to_owned(), false),
            Self::Prefix(path) => (path.to_string(), true),
            Self::Pattern { segments, open_ended } => {
                let text = |segment: &Segment| match segment {
                    Segment::One => format!("/{word}"),
                    Segment::Text(text) => format!("/{text}"),
                };
                (segments.iter().map(text).collect(), *open_ended)
            }
        };
        let own = self.depth();
        let mut more = BTreeSet::from([0]);
        if is_open_ended {
            let near = depths.iter().chain([&own]).flat_map(|depth| [depth.saturating_sub(1), *depth, depth + 1]);
            more.extend(near.filter_map(|depth| depth.checked_sub(own)));
        }
        let paths = more.into_iter().map(|more| format!("{start}{}", format!("/{word}").repeat(more)));
        let paths = paths.flat_map(|path| [format!("{path}/"), path]);
        paths.filter(|path| is_normal(path) && self.matches(path)).collect()
    }
}

/// Whether a path is in the form that requests are matched by.
fn is_normal(path: &str) -> bool {
    !path.contains('\\') && resolved(path) == path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::model;
    use crate::routes::readings;

    fn matchers(routes: &[model::Route]) -> Vec<Matcher> {
        routes.iter().map(|route| Matcher::new(route).expect("a valid route")).collect()
    }

    fn hidden_of(routes: &[model::Route]) -> Vec<(usize, Vec<usize>)> {
        let matchers = matchers(routes);
        hidden(&matchers.iter().collect::<Vec<_>>()).into_iter().map(|found| (found.route, found.by)).collect()
    }

    fn prefix(prefix: &str) -> model::Route {
        model::Route { prefix: Some(prefix.to_owned()), ..Default::default() }
    }

    fn path(path: &str) -> model::Route {
        model::Route { path: Some(path.to_owned()), ..Default::default() }
    }

    fn pattern(pattern: &str) -> model::Route {
        model::Route { pattern: Some(pattern.to_owned()), ..Default::default() }
    }

    fn at(host: &str, route: model::Route) -> model::Route {
        model::Route { host: Some(host.to_owned()), ..route }
    }

    fn by(methods: &[&str], route: model::Route) -> model::Route {
        model::Route { methods: methods.iter().map(ToString::to_string).collect(), ..route }
    }

    /// `/api` before `/api/search` was accepted without a warning: the limits of the second route never applied.
    #[test]
    fn a_narrower_prefix_behind_a_wider_one_is_hidden() {
        assert_eq!(hidden_of(&[prefix("/api"), prefix("/api/search")]), [(1, vec![0])]);
        assert_eq!(hidden_of(&[prefix("/api/search"), prefix("/api")]), []);
        assert_eq!(hidden_of(&[prefix("/api"), prefix("/apis"), path("/ap")]), []);
    }

    #[test]
    fn hosts_methods_and_every_kind_of_path_are_compared() {
        let any = model::Route::default();
        for (earlier, later, is_hidden) in [
            (any.clone(), path("/a"), true),
            (prefix("/"), any.clone(), true),
            (pattern("/**"), any.clone(), true),
            (path("/a"), path("/a/"), true),
            (prefix("/a"), path("/a"), true),
            (path("/a"), prefix("/a"), false),
            (prefix("/a"), pattern("/a/*"), true),
            (prefix("/a"), pattern("/*/a"), false),
            (pattern("/a/**"), prefix("/a"), true),
            (pattern("/a/*/**"), prefix("/a"), false),
            (pattern("/a/*/**"), prefix("/a/b"), true),
            (pattern("/a/*"), pattern("/a/{id}"), true),
            (pattern("/a/*"), path("/a/b"), true),
            (pattern("/a/*"), prefix("/a/b"), false),
            // With its slash at the end it matches paths with one alone.
            (pattern("/a/"), path("/a"), false),
            (path("/a"), pattern("/a/"), true),
            (at("*.b.c", any.clone()), at("a.b.c", any.clone()), true),
            (at("*.b.c", any.clone()), at("*.a.b.c", any.clone()), true),
            (at("*.b.c", any.clone()), at("b.c", any.clone()), false),
            (at("*.a.b.c", any.clone()), at("*.b.c", any.clone()), false),
            (at("a.b.c", any.clone()), any.clone(), false),
            (at("A.b.c", any.clone()), at("a.B.c", path("/x")), true),
            (by(&["GET"], any.clone()), by(&["head"], any.clone()), true),
            (by(&["HEAD"], any.clone()), by(&["GET"], any.clone()), false),
            (by(&["GET", "POST"], any.clone()), by(&["POST"], any.clone()), true),
            (by(&["GET", "POST"], any.clone()), any.clone(), false),
            (any.clone(), by(&["GET"], at("a.b", path("/a"))), true),
        ] {
            let found = hidden_of(&[earlier.clone(), later.clone()]);
            assert_eq!(found, if is_hidden { vec![(1, vec![0])] } else { vec![] }, "{earlier:?}\n{later:?}");
        }
    }

    #[test]
    fn several_routes_can_hide_one_together() {
        let any = model::Route::default();
        let methods = [by(&["GET"], prefix("/a")), by(&["POST"], prefix("/a")), by(&["GET", "POST"], prefix("/a/b"))];
        assert_eq!(hidden_of(&methods), [(2, vec![0, 1])]);
        let paths = [path("/"), path("/a"), pattern("/*/**"), any.clone()];
        assert_eq!(hidden_of(&paths), [(3, vec![0, 2])]);
        let with_a_gap = [path("/"), pattern("/*/*/**"), any];
        assert_eq!(hidden_of(&with_a_gap), [], "/a is missed");
    }

    #[test]
    fn a_path_that_no_request_has_is_hidden_by_nothing() {
        for route in [prefix("/a//b"), path("/a/../b"), path("/a;x"), prefix("/a\\b"), pattern("/./*"), path("/a//")] {
            assert_eq!(hidden_of(&[path("/c"), route.clone()]), [(1, vec![])], "{route:?}");
        }
        for route in [prefix("/a//"), path("/.well-known/x"), path("/a b"), path("/%41"), path("/é"), pattern("/")] {
            assert_eq!(hidden_of(&[path("/c"), route.clone()]), [], "{route:?}");
        }
    }

    /// Paths of many segments cost no more than they are long.
    #[test]
    fn long_paths_and_many_routes_are_compared_in_time() {
        let long = "/a".repeat(2_000);
        let mut routes: Vec<model::Route> = (0..500).map(|number| prefix(&format!("/{number}"))).collect();
        routes.extend([path(&long), prefix("/7/x"), model::Route::default(), prefix(&long)]);
        assert_eq!(hidden_of(&routes), [(501, vec![7]), (503, vec![502])]);
    }

    /// The law: a route is reported as hidden exactly if the real matcher never chooses it, for any request.
    #[test]
    fn hidden_is_what_no_request_reaches() {
        let mut random = fastrand::Rng::with_seed(5);
        let requests = every_request();
        let (mut hidden_routes, mut together) = (0, 0);
        for _ in 0..1_500 {
            let routes: Vec<model::Route> = (0..random.usize(2..12)).map(|_| any_route(&mut random)).collect();
            let matchers = matchers(&routes);
            let mut is_reached = vec![false; matchers.len()];
            for (host, method, path) in &requests {
                let chosen = matchers.iter().position(|route| route.matches(host.as_bytes(), method, path));
                is_reached[chosen.unwrap_or(0)] |= chosen.is_some();
            }
            let found = hidden(&matchers.iter().collect::<Vec<_>>());
            for (index, is_reached) in is_reached.into_iter().enumerate() {
                let reported = found.iter().find(|found| found.route == index);
                assert_eq!(reported.is_none(), is_reached, "routes[{index}]: {reported:?}\n{routes:#?}");
            }
            hidden_routes += found.len();
            together += found.iter().filter(|found| found.by.len() > 1).count();
        }
        assert!(hidden_routes > 1_000 && together > 5, "{hidden_routes} {together}");
    }

    /// However a path is written: encoded, with dots, with parameters.
    #[test]
    fn no_spelling_of_a_path_reaches_a_hidden_route() {
        let mut random = fastrand::Rng::with_seed(6);
        for _ in 0..300 {
            let routes: Vec<model::Route> = (0..random.usize(2..6)).map(|_| any_route(&mut random)).collect();
            let matchers = matchers(&routes);
            let found = hidden(&matchers.iter().collect::<Vec<_>>());
            for _ in 0..200 {
                let pieces = ["/", "a", "b", "%61", "%2F", "..", ".", ";x", "\\", "%", "//", "é"];
                let rest: String = (0..random.usize(..8)).map(|_| pieces[random.usize(..pieces.len())]).collect();
                let written = format!("/{rest}");
                let (host, method) = (any_of(&mut random, &HOSTS), any_of(&mut random, &METHODS));
                let method = Method::from_bytes(method.as_bytes()).expect("a method");
                let path = readings(&written).0;
                let chosen = matchers.iter().position(|route| route.matches(host.as_bytes(), &method, &path));
                assert!(
                    !found.iter().any(|found| Some(found.route) == chosen),
                    "{host} {method} {written}\n{routes:#?}"
                );
            }
        }
    }

    /// A prefix or an exact path that is not reported as hidden is reached by a request that is made from it.
    #[test]
    fn a_route_that_is_not_reported_as_hidden_is_reached() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut reached = 0;
        for _ in 0..2_000 {
            let segments = |random: &mut fastrand::Rng| {
                let words: Vec<&str> = (0..random.usize(1..4)).map(|_| any_of(random, &["a", "b", "c"])).collect();
                format!("/{}", words.join("/"))
            };
            let routes: Vec<(bool, String)> =
                (0..random.usize(2..8)).map(|_| (random.bool(), segments(&mut random))).collect();
            let written: Vec<model::Route> =
                routes.iter().map(|(is_prefix, text)| if *is_prefix { prefix(text) } else { path(text) }).collect();
            let matchers = matchers(&written);
            let found = hidden(&matchers.iter().collect::<Vec<_>>());
            for (index, (is_prefix, text)) in routes.iter().enumerate() {
                if found.iter().any(|found| found.route == index) {
                    continue;
                }
                // Below a prefix is a name that no route has.
                let path = if *is_prefix { format!("{text}/unheard-of") } else { text.clone() };
                let chosen = matchers.iter().position(|route| route.matches(b"any.host", &Method::GET, &path));
                assert_eq!(chosen, Some(index), "{path}\n{routes:?}");
                reached += 1;
            }
        }
        assert!(reached > 4_000, "{reached}");
    }

    const HOSTS: [&str; 6] = ["", "h", "w.h", "v.w.h", "q.h", "q"];
    const METHODS: [&str; 5] = ["GET", "HEAD", "POST", "PUT", "Q"];

    fn any_of<'a>(random: &mut fastrand::Rng, choices: &[&'a str]) -> &'a str {
        choices[random.usize(..choices.len())]
    }

    /// All requests for paths of up to five segments, of words that routes have and one that none has.
    fn every_request() -> Vec<(&'static str, Method, String)> {
        let mut paths = vec![String::new()];
        let mut from = 0;
        for _ in 0..5 {
            let until = paths.len();
            for index in from..until {
                let longer: Vec<String> =
                    ["a", "b", "q"].iter().map(|word| format!("{}/{word}", paths[index])).collect();
                paths.extend(longer);
            }
            from = until;
        }
        let paths: Vec<String> = paths.iter().flat_map(|path| [format!("{path}/"), path.clone()]).collect();
        let mut requests = Vec::new();
        for host in HOSTS {
            for method in METHODS {
                let method = Method::from_bytes(method.as_bytes()).expect("a method");
                let paths = paths.iter().filter(|path| !path.is_empty());
                requests.extend(paths.map(|path| (host, method.clone(), path.clone())));
            }
        }
        requests
    }

    fn any_route(random: &mut fastrand::Rng) -> model::Route {
        let mut route = model::Route::default();
        let words = |random: &mut fastrand::Rng, choices: &[&'static str]| {
            (0..random.usize(..4)).flat_map(|_| ["/", any_of(random, choices)]).collect::<String>()
        };
        let slash = if random.u8(..4) == 0 { "/" } else { "" };
        match random.u8(..5) {
            0 => {}
            1 => route.path = Some(format!("/{}{slash}", words(random, &["a", "b"]).trim_start_matches('/'))),
            2 => route.prefix = Some(format!("/{}{slash}", words(random, &["a", "b"]).trim_start_matches('/'))),
            3 => route.pattern = Some(format!("{}{slash}/**", words(random, &["a", "b", "*"])).replace("//", "/")),
            _ => {
                let start = words(random, &["a", "*", "{id}"]);
                route.pattern = Some(if start.is_empty() { "/".to_owned() } else { format!("{start}{slash}") });
            }
        }
        if random.u8(..3) == 0 {
            route.host = Some(any_of(random, &["h", "w.h", "*.h", "*.w.h"]).to_owned());
        }
        if random.u8(..3) == 0 {
            let count = random.usize(1..3);
            route.methods = (0..count).map(|_| any_of(random, &METHODS[..4]).to_owned()).collect();
        }
        route
    }
}

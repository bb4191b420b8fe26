//! Reloading the configuration while the gateway runs.

use std::collections::{BTreeMap, BTreeSet};

use crate::control::{Control, NotChanged};
use crate::gateway::Gateway;

/// Reopens the access log's file, which may have been renamed or removed.
pub(crate) fn reopen_logs(gateway: &Gateway) {
    if let Some(log) = gateway.access_log() {
        log.sink.reopen();
    }
}

/// Reloads the configuration, and reports the result.
pub(crate) async fn reload(gateway: &Gateway, control: &Control) -> Result<(), NotChanged> {
    // Even if the configuration turns out to be invalid: the log may have been rotated.
    reopen_logs(gateway);
    let before = EndpointUrls::of(gateway);
    let reloaded = control.reload(gateway).await;
    match &reloaded {
        Ok(()) => {
            gateway.metrics.reloads.inc();
            gateway.log.info("ConfigController", "Reloaded the configuration");
            for line in before.changes(&EndpointUrls::of(gateway)) {
                gateway.log.info("ConfigController", line);
            }
        }
        Err(error) => {
            gateway.metrics.failed_reloads.inc();
            gateway.log.error(
                "ConfigController",
                format_args!("the configuration was not reloaded, nothing has changed: {error}"),
            );
        }
    }
    reloaded
}

/// The most endpoints that a line of the log names.
const MOST_NAMED: usize = 10;

/// The endpoints of each upstream, as configured.
struct EndpointUrls(BTreeMap<Box<str>, BTreeSet<String>>);

impl EndpointUrls {
    fn of(gateway: &Gateway) -> Self {
        let plan = gateway.plan();
        let urls = plan.site.upstreams.iter().map(|upstream| {
            let urls = upstream.endpoints.entries().iter().map(|entry| entry.url());
            (upstream.name.clone(), urls.collect())
        });
        Self(urls.collect())
    }

    /// A line for each upstream whose endpoints are others now.
    fn changes(&self, now: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, before) in &self.0 {
            let Some(now) = now.0.get(name) else { continue };
            let parts = [("added", named(now.difference(before))), ("removed", named(before.difference(now)))];
            let parts: Vec<String> =
                parts.into_iter().filter_map(|(word, urls)| Some(format!("{word} {}", urls?))).collect();
            if !parts.is_empty() {
                lines.push(format!("upstream {name}: endpoints {}", parts.join("; ")));
            }
        }
        lines
    }
}

/// The first of these URLs, and how many more there are. None if there are none.
fn named<'a>(urls: impl Iterator<Item = &'a String>) -> Option<String> {
    let urls: Vec<&str> = urls.map(String::as_str).collect();
    let first = urls.get(..MOST_NAMED).unwrap_or(&urls).join(", ");
    match urls.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        _ if urls.is_empty() => None,
        None => Some(first),
        Some(more) => Some(format!("{first} and {more} more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_a_reload_adds_and_removes_are_named() {
        let urls = |upstreams: &[(&str, &[&str])]| {
            let urls = |urls: &[&str]| urls.iter().map(|url| (*url).to_owned()).collect();
            EndpointUrls(upstreams.iter().map(|(name, all)| ((*name).into(), urls(all))).collect())
        };
        let before = urls(&[("shop", &["a", "b"]), ("same", &["x"]), ("gone", &["y"])]);
        let many: Vec<String> = (10..30).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).chain(["b"]).collect();
        let after = urls(&[("shop", &["b", "c"]), ("same", &["x"]), ("new", &["z"])]);
        assert_eq!(before.changes(&after), ["upstream shop: endpoints added c; removed a"]);
        assert_eq!(
            before.changes(&urls(&[("shop", &many)])),
            ["upstream shop: endpoints added 10, 11, 12, 13, 14, 15, 16, 17, 18, 19 and 10 more; removed a"]
        );
        assert!(before.changes(&before).is_empty());
    }
}

//! Log lines about names.

use std::net::IpAddr;

use tidegate_serve::Log;

use super::schedule::{Change, MOST_ADDRESSES};

const COMPONENT: &str = "Names";

/// The most addresses in one log line.
const MOST_SHOWN: usize = 8;

/// Reports a change. `addresses` are those in use after it; `is_first`: there were none before it.
pub(super) fn report(log: &Log, host: &str, change: &Change, addresses: &[IpAddr], is_first: bool) {
    let text = text(host, change, addresses, is_first);
    match change {
        Change::Addresses { .. } | Change::Recovered { .. } => log.info(COMPONENT, text),
        Change::TooMany { .. } | Change::Failing { .. } => log.warn(COMPONENT, text),
    }
}

fn text(host: &str, change: &Change, addresses: &[IpAddr], is_first: bool) -> String {
    match change {
        Change::Addresses { added, .. } if is_first => format!("{host} resolved to {}", list(added)),
        Change::Addresses { added, removed } => {
            let changes = [("added", added), ("removed", removed)].into_iter().filter(|(_, list)| !list.is_empty());
            let changes: Vec<String> = changes.map(|(word, addresses)| format!("{word} {}", list(addresses))).collect();
            format!("The addresses of {host} have changed: {}", changes.join("; "))
        }
        Change::TooMany { found } => {
            format!("{host} has {found} addresses; only the first {MOST_ADDRESSES} are used")
        }
        Change::Failing { error } if addresses.is_empty() => format!("Can't resolve {host}, trying again: {error}"),
        Change::Failing { error } => {
            format!("Can't resolve {host}, trying again and still using {}: {error}", list(addresses))
        }
        Change::Recovered { after } if is_first => {
            format!("{host} can be resolved, after {:.1} s", after.as_secs_f64())
        }
        Change::Recovered { after } => {
            format!("{host} can be resolved again (after {:.1} s)", after.as_secs_f64())
        }
    }
}

fn list(addresses: &[IpAddr]) -> String {
    let shown: Vec<String> = addresses.iter().take(MOST_SHOWN).map(IpAddr::to_string).collect();
    let shown = shown.join(", ");
    match addresses.len().saturating_sub(MOST_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::names::lookup_error::LookupError;

    #[test]
    fn a_line_says_what_happened_to_which_name_and_which_addresses() {
        let ips: Vec<IpAddr> = (1..=10).map(|last| IpAddr::from([10, 0, 0, last])).collect();
        let added = |count: usize| Change::Addresses { added: ips[..count].to_vec(), removed: Vec::new() };
        let swapped = Change::Addresses { added: ips[2..3].to_vec(), removed: ips[..2].to_vec() };
        let timeout = || Change::Failing { error: LookupError::Timeout(Duration::from_millis(1_500)) };
        let missing = Change::Failing { error: LookupError::NoSuchName };
        for (change, addresses, is_first, wanted) in [
            (added(2), &ips[..2], true, "app resolved to 10.0.0.1, 10.0.0.2"),
            (added(1), &ips[..1], false, "The addresses of app have changed: added 10.0.0.1"),
            (
                swapped,
                &ips[2..3],
                false,
                "The addresses of app have changed: added 10.0.0.3; removed 10.0.0.1, 10.0.0.2",
            ),
            (timeout(), &[], true, "Can't resolve app, trying again: no name server responded within 1.5 s"),
            (
                missing,
                &ips[..1],
                false,
                "Can't resolve app, trying again and still using 10.0.0.1: the name does not exist (NXDOMAIN)",
            ),
            (
                Change::Recovered { after: Duration::from_millis(1_250) },
                &ips[..1],
                false,
                "app can be resolved again (after 1.2 s)",
            ),
            (
                Change::Recovered { after: Duration::from_millis(1_250) },
                &ips[..1],
                true,
                "app can be resolved, after 1.2 s",
            ),
            (Change::TooMany { found: 1_000 }, &[], true, "app has 1000 addresses; only the first 64 are used"),
        ] {
            assert_eq!(text("app", &change, addresses, is_first), wanted);
        }
        assert!(text("app", &added(10), &ips, true).ends_with("10.0.0.8 and 2 more"));
    }
}

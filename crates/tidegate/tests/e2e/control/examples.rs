//! The configurations in `examples/config` run, and do what they say.

use std::path::{Path, PathBuf};

use crate::control::limit_headers::limit_headers;
use tidegate_testkit::command::run;
use tidegate_testkit::{Client, Directory, Gateway, Response, Upstream, tidegate};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/config")
}

/// An example as it stands, but for where its upstream and its listener are.
fn start(name: &str, upstream: &Upstream) -> Gateway {
    let text = std::fs::read_to_string(examples().join(name)).expect("the example is there");
    let usual = "http://127.0.0.1:8081";
    assert!(text.contains(usual), "{name} has the usual upstream");
    let directory = Directory::new();
    let path = directory.file(name, &text.replace(usual, &format!("http://{}", upstream.address)));
    let mut command = tidegate();
    command.arg("gateway").arg("--config").arg(&path).args(["--listen", "127.0.0.1:0"]);
    Gateway::launch(command, path, directory)
}

/// How many of `sent` requests pass. Those of a window's other half may add one: a sliding counter forgets a little as
/// time goes by.
fn passed(gateway: &Gateway, path: &str, headers: &[(&str, &str)], sent: usize) -> (usize, Response) {
    let mut client = Client::connect(gateway.address);
    let responses: Vec<Response> = (0..sent).map(|_| client.request("GET", path, headers, b"")).collect();
    let passed = responses.iter().filter(|response| response.status == 200).count();
    (passed, responses.into_iter().next_back().expect("one was sent"))
}

#[test]
fn all_of_them_are_valid() {
    let mut count = 0;
    for entry in std::fs::read_dir(examples()).expect("there are examples") {
        let path = entry.expect("it can be read").path();
        let outcome = run(&["check", &path.display().to_string()], &[]);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        assert!(outcome.out.contains("ok"), "{outcome:?}");
        count += 1;
    }
    assert!(count >= 4, "{count} examples");
}

#[test]
fn by_client() {
    let upstream = Upstream::start();
    let gateway = start("by-client.yaml", &upstream);
    let (count, rejected) = passed(&gateway, "/", &[], 30);
    assert!((10..=25).contains(&count), "ten at once, and what a slow machine lets come back: {count}");
    assert_eq!((rejected.status, rejected.header("x-tidegate-refused-by")), (429, Some("per-client")));
}

#[test]
fn levels() {
    let upstream = Upstream::start();
    let gateway = start("levels.yaml", &upstream);
    let (search, rejected) = passed(&gateway, "/api/search", &[], 30);
    assert!((20..=21).contains(&search), "{search}");
    assert_eq!((rejected.status, rejected.header("x-tidegate-refused-by")), (429, Some("search")));
    let (export, rejected) = passed(&gateway, "/api/export", &[], 10);
    assert_eq!((export, rejected.header("x-tidegate-refused-by")), (5, Some("export")));
    let (rest, rejected) = passed(&gateway, "/", &[], 100);
    assert!((74..=78).contains(&rest), "100 an address, of which 25 were used: {rest}");
    assert_eq!(rejected.header("x-tidegate-refused-by"), Some("address"));
    let headers = limit_headers(&rejected);
    let everyone = headers.policies.iter().find(|policy| policy.name == "everyone").expect("it is reported");
    assert_eq!((everyone.integer("q"), everyone.integer("w")), (Some(1_000_000), Some(60)));
    assert_eq!(gateway.get("/config/limits/user").json()["limit"], 1_000);
}

#[test]
fn hourly() {
    let upstream = Upstream::start();
    let gateway = start("hourly.yaml", &upstream);
    let ann = [("X-Api-Key", "change-me-ann")];
    let (export, rejected) = passed(&gateway, "/api/export/all", &ann, 15);
    assert_eq!((export, rejected.header("x-tidegate-refused-by")), (10, Some("export")));
    let (search, rejected) = passed(&gateway, "/api/search/books?q=x", &ann, 120);
    assert!((100..=104).contains(&search), "{search}");
    assert_eq!(rejected.header("x-tidegate-refused-by"), Some("search"));
    let mut quotas: Vec<_> =
        limit_headers(&rejected).policies.iter().map(|policy| (policy.name.clone(), policy.integer("q"))).collect();
    quotas.sort_unstable();
    let expected = [("address", 1_000), ("api-key", 10_000), ("search", 100), ("user", 5_000)];
    assert_eq!(quotas, expected.map(|(name, quota)| (name.to_owned(), Some(quota))));
    assert_eq!(gateway.get_with("/", &[("X-Api-Key", "stolen")]).status, 401);
}

#[test]
fn tiers() {
    let upstream = Upstream::start();
    let gateway = start("tiers.yaml", &upstream);
    let (free, _) = passed(&gateway, "/", &[("X-Api-Key", "change-me-fay")], 110);
    assert!((100..=104).contains(&free), "{free}");
    let pro = [("X-Api-Key", "change-me-pat")];
    let (passed_pro, response) = passed(&gateway, "/", &pro, 110);
    assert_eq!((passed_pro, limit_headers(&response).limit), (110, 1_000));
    let (enterprise, response) = passed(&gateway, "/", &[("X-Api-Key", "change-me-eve")], 110);
    assert_eq!((enterprise, response.header("ratelimit")), (110, None));
    let (anonymous, _) = passed(&gateway, "/", &[], 110);
    assert!((100..=104).contains(&anonymous), "by address, apart from fay's: {anonymous}");
}

#[test]
fn providers() {
    let upstream = Upstream::start();
    let gateway = start("providers.yaml", &upstream);
    let (shop, desk) = ([("X-Api-Key", "change-me-shop")], [("X-Api-Key", "change-me-desk")]);
    let (bank, rejected) = passed(&gateway, "/bank", &shop, 18);
    assert!(bank >= 15, "{bank}");
    assert_eq!(
        (rejected.status, rejected.header("x-tidegate-refused-by")),
        (503, Some("provider")),
        "{}",
        rejected.text()
    );
    assert_eq!(gateway.get_with("/cards", &desk).status, 200, "another provider");
    assert_eq!(gateway.get("/cards").status, 400, "a caller that nobody knows");
}

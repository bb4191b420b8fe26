//! Other numbers for other tiers.

use serde_json::json;

use crate::control::limit_headers::limit_headers;
use crate::control::setting::before;
use tidegate_testkit::{Gateway, Response, Upstream};

const TIERS: &str = "
identity:
  default_tier: free
  api_keys:
    keys:
      - {key: key-of-fay, user: fay, tier: free}
      - {key: key-of-fox, user: fox, tier: free}
      - {key: key-of-pat, user: pat, tier: pro}
      - {key: key-of-eve, user: eve, tier: enterprise}
      - {key: key-of-gus, user: gus, tier: gold}
limits:
  plan:
    algorithm: fixed
    limit: 2
    window: 30d
    key: user
    tiers:
      pro: {limit: 4, window: 30d}
      gold: {algorithm: token, capacity: 3, fillRate: 0.001}
      enterprise: unlimited
common_limits: [plan]
";

fn send(gateway: &Gateway, user: &str) -> Response {
    gateway.get_with("/", &[("X-Api-Key", &format!("key-of-{user}"))])
}

fn passed(gateway: &Gateway, user: &str) -> usize {
    (0..10).filter(|_| send(gateway, user).status == 200).count()
}

#[test]
fn each_tier_has_its_own_numbers_and_some_have_none() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&before(&upstream, TIERS));
    let limits = ["fay", "pat", "gus"].map(|user| limit_headers(&send(&gateway, user)).limit);
    assert_eq!(limits, [2, 4, 3]);
    assert_eq!(send(&gateway, "eve").header("ratelimit"), None, "unlimited is no limit");
    assert_eq!(["fay", "fox", "pat", "gus", "eve"].map(|user| passed(&gateway, user)), [1, 2, 3, 2, 10]);
    let anonymous = (0..5).filter(|_| gateway.get("/").status == 200).count();
    assert_eq!(anonymous, 2, "who has no tier has the default one");
}

#[test]
fn a_rejection_names_the_limit_of_the_tier() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&before(&upstream, TIERS));
    passed(&gateway, "pat");
    let rejected = send(&gateway, "pat");
    assert_eq!((rejected.status, rejected.header("x-tidegate-refused-by")), (429, Some("plan.pro")));
    assert_eq!(rejected.json()["limit"]["quota"], 4);
    passed(&gateway, "fay");
    assert_eq!(send(&gateway, "fay").header("x-tidegate-refused-by"), Some("plan"));
}

#[test]
fn the_limit_of_a_tier_can_be_changed_alone() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&before(&upstream, TIERS));
    assert_eq!(gateway.get("/config/limits/plan.pro").json()["limit"], 4);
    let response = gateway.post("/config/limits/plan.pro", r#"{"algorithm": "fixed", "limit": 6, "window": 2592000}"#);
    assert_eq!((response.status, &response.json()["limit"]), (200, &json!(6)));
    assert_eq!(["pat", "fay"].map(|user| passed(&gateway, user)), [6, 2]);
}

#[test]
fn rejections_are_counted_by_route_and_tier() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&before(&upstream, TIERS));
    assert_eq!(["fay", "pat"].map(|user| passed(&gateway, user)), [2, 4]);
    let exceeded =
        |tier: &str| gateway.metric(&format!("rate_limit_exceeded_total{{endpoint=\"default\",user_tier=\"{tier}\"}}"));
    assert_eq!((exceeded("free"), exceeded("pro"), exceeded("enterprise")), (Some(8.0), Some(6.0), Some(0.0)));
}

//! `ratelimiter:config`: the numbers that all gateways follow.

mod odd_documents;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::shared::setup::{FIVE, PLENTY, STRICT, admitted, config, without_limits};
use tidegate_testkit::redis_server::Server;
use tidegate_testkit::{Client, Gateway, Upstream, request, timing, wait_until};

const KEY: &str = "ratelimiter:config";

/// Higher ones count as none.
const HIGHEST_VERSION: u64 = 1 << 53;

/// A change is to be followed within so much.
const SOON: Duration = Duration::from_secs(2);

fn limits(gateway: &Gateway) -> Value {
    let response = gateway.get("/config/limits");
    assert_eq!(response.status, 200);
    response.json()
}

/// What stands in Redis.
fn document(server: &Server) -> Value {
    let text: String = redis::cmd("GET").arg(KEY).query(&mut server.connection()).expect("a text");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn version(document: &Value) -> u64 {
    document["version"].as_u64().unwrap_or_else(|| panic!("no version: {document}"))
}

/// Writes by hand what stands in Redis.
fn write(server: &Server, text: &str) {
    redis::cmd("SET").arg(KEY).arg(text).exec(&mut server.connection()).expect("set");
}

fn wait_soon(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    wait_until(what, &mut condition);
    timing::assert_within(SOON, start, what);
}

fn delete(gateway: &Gateway, path: &str) -> u16 {
    request(gateway.address, "DELETE", path, &[], b"").status
}

/// Waits until the log has so many lines with this text, and returns them.
fn lines_with(gateway: &Gateway, text: &str, count: usize) -> Vec<String> {
    let lines = || gateway.lines().into_iter().filter(|line| line.contains(text)).collect::<Vec<String>>();
    wait_until(text, || lines().len() >= count);
    lines()
}

#[test]
fn what_is_posted_to_one_gateway_is_followed_by_the_other_and_enforced_by_both() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let text = config(upstream.address, &server.url(), STRICT, PLENTY);
    let (one, other) = (Gateway::start(&text), Gateway::start(&text));
    let posted = one.post("/config/limits", r#"{"algorithm": "sliding_log", "limit": 7, "window": 2592000}"#);
    assert_eq!(posted.status, 200, "{posted:?}");
    assert_eq!(limits(&one)["limit"], 7, "at once where it was posted");
    wait_soon("the other follows", || limits(&other)["limit"] == 7);
    assert_eq!(limits(&other)["algorithm"], "sliding_log");
    other.wait_for_line("Applied new config: algorithm=sliding_log, limit=7, window=2592000");
    other.wait_for_line("Switched rate-limiting algorithm from fixed to sliding_log");
    assert_eq!(admitted(&one, "/", 4) + admitted(&other, "/", 10), 7);
    assert_eq!(admitted(&one, "/", 4), 0);
    assert_eq!(other.metric("ratelimiter_current_limit"), Some(7.0));

    // Back to the first one from the other: they are equals.
    let algorithm = other.post("/config/algorithm?algorithm=fixed", "");
    assert_eq!(algorithm.status, 200, "{algorithm:?}");
    wait_soon("the first follows", || limits(&one)["algorithm"] == "fixed");
    assert_eq!(limits(&one)["limit"], 7, "with the numbers set before");
}

#[test]
fn the_document_is_json_as_the_seed_has_it_and_its_version_grows() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let text = config(upstream.address, &server.url(), STRICT, FIVE);
    let gateways = [Gateway::start(&text), Gateway::start(&text)];
    let mut versions = Vec::new();
    for (round, limit) in (10..14).enumerate() {
        let body = json!({ "algorithm": "sliding", "limit": limit, "window": 60 }).to_string();
        let posted = gateways[round % 2].post("/config/limits", &body);
        assert_eq!(posted.status, 200, "{posted:?}");
        let document = document(&server);
        let field = |name: &str| document[name].clone();
        assert_eq!((field("algorithm"), field("limit"), field("window")), (json!("sliding"), json!(limit), json!(60)));
        assert_eq!(posted.json()["version"], document["version"], "the answer tells the version");
        versions.push(document["version"].as_u64().expect("a number"));
    }
    assert!(versions.is_sorted_by(|one, next| one < next), "{versions:?}");
    assert!(versions[0] > 0);
    let last = *versions.last().expect("four of them");
    wait_soon("the first follows", || limits(&gateways[0])["version"] == last);
    let keys: Vec<String> = redis::cmd("KEYS").arg("*config*").query(&mut server.connection()).expect("keys");
    assert_eq!(keys, [KEY]);
}

#[test]
fn a_new_gateway_reads_the_document_at_its_start_and_over_its_file() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let text = config(upstream.address, &server.url(), STRICT, FIVE);
    let mut first = Gateway::start(&text);
    let posted = first.post("/config/limits", r#"{"algorithm": "fixed", "limit": 9, "window": 2592000}"#);
    assert_eq!(posted.status, 200, "{posted:?}");
    first.signal("TERM");
    assert!(first.wait_for_end());

    let second = Gateway::start(&text);
    let start = second.wait_for_line("starts; ");
    assert!(start.contains("limit=9"), "{start}");
    let (now, before) = (limits(&second), posted.json());
    assert_eq!(now["limit"], 9);
    assert_eq!(now["version"], before["version"]);
    assert_eq!(now["limits"]["default"]["set_by"], "api");
    assert_eq!(admitted(&second, "/", 20), 9);
    assert_eq!(second.metric("tidegate_config_version"), now["version"].as_f64());
}

#[test]
fn a_document_written_by_hand_in_the_seeds_form_is_followed() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&config(upstream.address, &server.url(), STRICT, FIVE));
    write(&server, r#"{"algorithm":"sliding","limit":7,"window":60}"#);
    wait_soon("it follows", || limits(&gateway)["limit"] == 7);
    let now = limits(&gateway);
    assert_eq!((&now["algorithm"], &now["window"]), (&json!("sliding"), &json!(60)));
    assert_eq!(gateway.get("/").header("x-ratelimit-limit"), Some("7"));

    write(&server, r#"{"algorithm":"token","limit":100,"window":60,"capacity":50,"fillRate":5}"#);
    wait_soon("it follows", || limits(&gateway)["algorithm"] == "token");
    let now = limits(&gateway);
    assert_eq!((now["capacity"].as_u64(), now["fillRate"].as_f64()), (Some(50), Some(5.0)));

    write(&server, "{}");
    wait_soon("the file counts again", || limits(&gateway)["limit"] == 5);
    assert_eq!(limits(&gateway)["algorithm"], "fixed");
}

#[test]
fn what_was_set_can_be_taken_back_and_the_files_numbers_count_everywhere() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let text = |limit: u32| {
        config(upstream.address, &server.url(), STRICT, &format!("{{algorithm: fixed, limit: {limit}, window: 30d}}"))
    };
    let (one, other) = (Gateway::start(&text(5)), Gateway::start(&text(6)));
    let posted = one.post("/config/limits", r#"{"algorithm": "gcra", "capacity": 9, "fillRate": 1}"#);
    assert_eq!(posted.status, 200, "{posted:?}");
    wait_soon("the other follows", || limits(&other)["algorithm"] == "gcra");
    let set = limits(&other)["version"].as_u64();

    assert_eq!(delete(&other, "/config/limits/default"), 200);
    assert_eq!(limits(&other)["limit"], 6, "each has its own file");
    wait_soon("the first follows", || limits(&one)["algorithm"] == "fixed");
    let now = limits(&one);
    assert_eq!((&now["limit"], &now["limits"]["default"]["set_by"]), (&json!(5), &json!("file")));
    assert!(now["version"].as_u64() > set, "{now}");
    assert_eq!(document(&server).get("algorithm"), None);
    assert_eq!(delete(&one, "/config/limits/nobody"), 404);

    // It stays so for who comes later.
    assert_eq!(limits(&Gateway::start(&text(7)))["limit"], 7);
}

/// Two limits besides `default`.
fn three_limits(upstream: &Upstream, server: &Server) -> String {
    without_limits(upstream.address, &server.url(), STRICT)
        + "limits:\n  default: {algorithm: fixed, limit: 1000, window: 30d}\n  \
           search: {algorithm: fixed, limit: 100, window: 30d}\n  \
           export: {algorithm: fixed, limit: 100, window: 30d}\n\
           routes: [{prefix: /search, limits: [search]}, {prefix: /export, limits: [export]}, {prefix: /}]\n"
}

#[test]
fn limits_of_other_names_stand_below_and_are_followed_too() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let text = three_limits(&upstream, &server);
    let (one, other) = (Gateway::start(&text), Gateway::start(&text));
    let posted = one.post("/config/limits/search", r#"{"algorithm": "fixed", "limit": 3, "window": 2592000}"#);
    assert_eq!(posted.status, 200, "{posted:?}");
    assert_eq!(document(&server)["limits"]["search"]["limit"], 3);
    assert_eq!(document(&server).get("algorithm"), None, "`default` was not set");
    wait_soon("the other follows", || limits(&other)["limits"]["search"]["limit"] == 3);
    assert_eq!(admitted(&other, "/search", 10), 3);
    assert_eq!(limits(&other)["limit"], 1000);

    write(
        &server,
        concat!(
            r#"{"algorithm":"fixed","limit":2000,"window":2592000,"#,
            r#""limits":{"export":{"algorithm":"fixed","limit":4,"window":2592000}}}"#
        ),
    );
    wait_soon("both follow what was written by hand", || {
        [&one, &other].iter().all(|gateway| limits(gateway)["limits"]["export"]["limit"] == 4)
    });
    let now = limits(&one);
    assert_eq!((&now["limit"], &now["limits"]["search"]["limit"]), (&json!(2000), &json!(100)));
    assert_eq!(admitted(&one, "/export", 10), 4);
}

/// Gateways of one platform need not have the same file, least of all while a new one is rolled out: what one of them
/// can't use is somebody else's word, and must outlive a change made through it.
#[test]
fn a_change_keeps_what_the_document_says_of_limits_that_this_gateway_does_not_have() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let narrow = Gateway::start(&config(upstream.address, &server.url(), STRICT, FIVE));
    let wide = Gateway::start(&three_limits(&upstream, &server));
    let posted = wide.post("/config/limits/search", r#"{"algorithm": "fixed", "limit": 3, "window": 2592000}"#);
    assert_eq!(posted.status, 200, "{posted:?}");
    let posted = narrow.post("/config/limits", r#"{"algorithm": "fixed", "limit": 9, "window": 2592000}"#);
    assert_eq!(posted.status, 200, "{posted:?}");
    wait_soon("the one with more limits follows", || limits(&wide)["limit"] == 9);
    assert_eq!(limits(&wide)["limits"]["search"]["limit"], 3);
    assert_eq!(document(&server)["limits"]["search"]["limit"], 3);
}

#[test]
fn of_changes_to_two_limits_by_two_gateways_at_once_none_is_lost() {
    const ROUNDS: u32 = 25;
    let (server, upstream) = (Server::start(), Upstream::start());
    let text = three_limits(&upstream, &server);
    let gateways = [Gateway::start(&text), Gateway::start(&text)];
    std::thread::scope(|scope| {
        for (gateway, name) in gateways.iter().zip(["search", "export"]) {
            scope.spawn(move || {
                let mut before = 0;
                for round in 1..=ROUNDS {
                    let body = json!({ "algorithm": "fixed", "limit": 100 + round, "window": 60 }).to_string();
                    // 409 says that nothing was changed: others were quicker again and again.
                    wait_until("it is changed", || {
                        let posted = gateway.post(&format!("/config/limits/{name}"), &body);
                        assert!(matches!(posted.status, 200 | 409), "{posted:?}");
                        posted.status == 200
                    });
                    let now = version(&limits(gateway));
                    assert!(now > before, "each change has a higher version: {now} after {before}");
                    before = now;
                }
            });
        }
    });
    let document = document(&server);
    for name in ["search", "export"] {
        assert_eq!(document["limits"][name]["limit"], 100 + ROUNDS, "{name} in {document}");
        for gateway in &gateways {
            wait_soon("it follows", || limits(gateway)["limits"][name]["limit"] == 100 + ROUNDS);
        }
    }
    for gateway in &gateways {
        assert_eq!(limits(gateway)["version"], document["version"]);
    }
}

#[test]
fn while_redis_is_away_a_change_is_responded_with_503_and_changes_nothing() {
    let (mut server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&config(upstream.address, &server.url(), "budget: 200ms", FIVE));
    let posted = gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 9, "window": 2592000}"#);
    assert_eq!(posted.status, 200, "{posted:?}");
    let before = limits(&gateway);
    let rejects = |what: &str| {
        let posted = gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 50, "window": 60}"#);
        assert_eq!((posted.status, &posted.json()["error"]), (503, &json!("store_away")), "{what}");
        assert_eq!(gateway.post("/config/algorithm?algorithm=gcra", "").status, 503, "{what}");
        assert_eq!(delete(&gateway, "/config/limits/default"), 503, "{what}");
        assert_eq!(limits(&gateway), before, "{what}");
    };
    server.freeze(true);
    rejects("frozen");
    server.freeze(false);
    wait_until("Redis is back", || gateway.metric("ratelimiter_redis_connected") == Some(1.0));
    assert_eq!(limits(&gateway), before);
    assert_eq!(document(&server)["limit"], 9, "nor did anything arrive in Redis behind it");
    server.kill();
    rejects("killed");
}

fn calls(gateway: &Gateway) -> f64 {
    gateway.metric("ratelimiter_redis_request_duration_seconds_count").expect("it is counted")
}

fn pause_writes(server: &Server, time: Duration) {
    let millis = time.as_millis().to_string();
    redis::cmd("CLIENT").arg(&["PAUSE", &millis, "WRITE"]).exec(&mut server.connection()).expect("paused");
}

/// The budget is for requests; an operator can wait.
#[test]
fn a_change_may_take_longer_than_a_request() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&config(upstream.address, &server.url(), "budget: 20ms", FIVE));
    pause_writes(&server, Duration::from_millis(300));
    let posted = gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 77, "window": 60}"#);
    assert_eq!((posted.status, &posted.json()["limit"]), (200, &json!(77)), "{posted:?}");
    assert_eq!(document(&server)["limit"], 77);
    assert!(!gateway.lines().iter().any(|line| line.contains("Redis connection lost")), "it was no outage");
}

/// "Nothing was changed" used to be said of changes that then happened.
#[test]
fn a_change_without_a_response_is_not_reported_as_not_made() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&config(upstream.address, &server.url(), STRICT, FIVE));
    pause_writes(&server, Duration::from_secs(60));
    let body = br#"{"algorithm": "fixed", "limit": 77, "window": 60}"#;
    let mut operator = Client::connect(gateway.address);
    let before = calls(&gateway);
    let head = format!("POST /config/limits HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    operator.send([head.as_bytes(), body].concat());
    wait_until("it has read what is there", || calls(&gateway) > before);
    // Metrics and limits can be looked at meanwhile: whoever changes something keeps nobody waiting.
    assert_eq!(limits(&gateway)["limit"], 5);
    operator.stream.get_ref().set_nonblocking(true).expect("set");
    let peeked = operator.stream.get_ref().peek(&mut [0]).map_err(|error| error.kind());
    assert_eq!(peeked, Err(std::io::ErrorKind::WouldBlock), "the change has not been answered yet");
    operator.stream.get_ref().set_nonblocking(false).expect("set");

    let posted = operator.response_to("POST");
    assert_eq!((posted.status, &posted.json()["error"]), (503, &json!("change_unknown")), "{posted:?}");
    redis::cmd("CLIENT").arg("UNPAUSE").exec(&mut server.connection()).expect("goes on");
    wait_soon("it happens after all", || limits(&gateway)["limit"] == 77);
}

/// A reload that failed used to remember what it had read in Redis, and nobody followed it any more.
#[test]
fn a_reload_that_fails_hides_no_change_of_others() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let good = config(upstream.address, &server.url(), STRICT, FIVE);
    let gateway = Gateway::start(&good);
    let unshareable = "  more: {algorithm: sliding_log, limit: 20000, window: 60}\ncommon_limits: [default, more]\n";
    let bad =
        without_limits(upstream.address, &server.url(), STRICT) + &format!("limits:\n  default: {FIVE}\n{unshareable}");
    std::fs::write(&gateway.config, bad).expect("written");
    for limit in 10..15 {
        write(&server, &json!({ "algorithm": "fixed", "limit": limit, "window": 60 }).to_string());
        assert_eq!(gateway.post("/reload", "").status, 400);
        wait_soon("it follows", || limits(&gateway)["limit"] == limit);
    }
}

#[test]
fn while_redis_is_away_the_file_can_be_reloaded_and_what_was_set_stays() {
    let (mut server, upstream) = (Server::start(), Upstream::start());
    let file = |more: &str| config(upstream.address, &server.url(), "budget: 200ms", FIVE) + more;
    let (one, other) = (file(""), file("routes: [{path: /new}]\n"));
    let gateway = Gateway::start(&one);
    let posted = gateway.post("/config/limits", r#"{"algorithm": "fixed", "limit": 9, "window": 2592000}"#);
    assert_eq!(posted.status, 200, "{posted:?}");
    server.kill();
    gateway.wait_for_line("Redis connection lost");
    std::fs::write(&gateway.config, other).expect("written");
    let reloaded = gateway.post("/reload", "");
    assert_eq!((reloaded.status, &reloaded.json()["limit"]), (200, &json!(9)), "{reloaded:?}");
    assert_eq!(reloaded.json()["limits"]["default"]["set_by"], "api");
    assert_eq!((gateway.get("/").status, gateway.get("/new").status), (404, 200));
    gateway.wait_for_line("Reloaded the configuration");
    // That Redis is away has been said.
    assert!(!gateway.lines().iter().any(|line| line.contains("can't be used")), "{:#?}", gateway.lines());
}

/// Both responded with 200, and the first change was gone: the second was computed from numbers of half a second ago.
#[test]
fn a_switch_through_one_gateway_keeps_what_was_set_through_another_a_moment_before() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let text = config(upstream.address, &server.url(), STRICT, "{algorithm: fixed, limit: 100, window: 60}");
    let gateways = [Gateway::start(&text), Gateway::start(&text)];
    for round in 0..6 {
        let (one, other) = (&gateways[round % 2], &gateways[(round + 1) % 2]);
        let capacity = 50 + round;
        let body = json!({ "algorithm": "token", "capacity": capacity, "fillRate": 5 }).to_string();
        assert_eq!(one.post("/config/limits", &body).status, 200);
        let switched = other.post("/config/algorithm?algorithm=gcra", "");
        assert_eq!((switched.status, &switched.json()["capacity"]), (200, &json!(capacity)), "{switched:?}");
        assert_eq!(
            (&document(&server)["algorithm"], &document(&server)["capacity"]),
            (&json!("gcra"), &json!(capacity))
        );

        // Those that are remembered for a later switch, too.
        let fixed = json!({ "algorithm": "fixed", "limit": 7 + round, "window": 60 }).to_string();
        assert_eq!(one.post("/config/limits", &fixed).status, 200);
        assert_eq!(document(&server)["capacity"], json!(capacity), "{}", document(&server));
    }
}

/// Redis counts up to 2^53 where memory counts further. The finest rate was taken, and rejected.
#[test]
fn a_large_limit_in_redis_can_be_switched_too() {
    let (server, upstream) = (Server::start(), Upstream::start());
    for (limit, window) in [(8_000, 86_400), (5_000_000, 60)] {
        let file = format!("{{algorithm: fixed, limit: {limit}, window: {window}}}");
        for algorithm in ["token", "gcra", "leaky"] {
            server.flush();
            let gateway = Gateway::start(&config(upstream.address, &server.url(), STRICT, &file));
            let response = gateway.post(&format!("/config/algorithm?algorithm={algorithm}"), "");
            assert_eq!(response.status, 200, "{algorithm} from {file}: {}", response.text());
            let (wanted, got) = (f64::from(limit) / f64::from(window), response.json()["fillRate"].as_f64());
            assert!((got.unwrap_or_default() / wanted - 1.0).abs() < 0.05, "{algorithm}: {got:?} for {wanted}");
        }
    }
}

//! Redis comes back empty, or with an older document: what an operator has set stays in force, and is written back.

use serde_json::{Value, json};

use crate::shared::setup::{FIVE, STRICT, admitted, config, without_limits};
use tidegate_testkit::redis_server::Server;
use tidegate_testkit::{Gateway, Upstream, request, wait_until};

const KEY: &str = "ratelimiter:config";
const NINE: &str = r#"{"algorithm": "fixed", "limit": 9, "window": 2592000}"#;
const TWELVE: &str = r#"{"algorithm": "fixed", "limit": 12, "window": 2592000}"#;
const MISSING: &str = "WARN ConfigController - the limits set while running were missing from Redis; wrote them back";
const OLDER: &str = "WARN ConfigController - Redis held older limits";

fn limits(gateway: &Gateway) -> Value {
    gateway.get("/config/limits").json()
}

/// Sets a limit, and returns the version that this got.
fn set(gateway: &Gateway, path: &str, body: &str) -> u64 {
    let posted = gateway.post(path, body);
    assert_eq!(posted.status, 200, "{posted:?}");
    version(&posted.json())
}

fn version(document: &Value) -> u64 {
    document["version"].as_u64().unwrap_or_else(|| panic!("no version: {document}"))
}

/// What stands in Redis, if there is anything.
fn text(server: &Server) -> Option<String> {
    redis::cmd("GET").arg(KEY).query(&mut server.connection()).expect("an answer")
}

fn document(server: &Server) -> Option<Value> {
    text(server).map(|text| serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

fn write(server: &Server, text: &str) {
    redis::cmd("SET").arg(KEY).arg(text).exec(&mut server.connection()).expect("set");
}

fn has_line(gateway: &Gateway, text: &str) -> bool {
    gateway.lines().iter().any(|line| line.contains(text))
}

/// Stops a gateway where it is: it neither looks into Redis nor writes there.
fn freeze(gateway: &Gateway) {
    gateway.signal("STOP");
    wait_until("it stands still", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).expect("it is there");
        status.lines().any(|line| line.starts_with("State:\tT"))
    });
}

fn thaw(gateway: &Gateway) {
    gateway.signal("CONT");
}

/// Waits until it has looked into Redis several times more.
fn has_looked(gateway: &Gateway) {
    let calls = || gateway.metric("ratelimiter_redis_request_duration_seconds_count").expect("it is counted");
    let before = calls();
    wait_until("it has looked again", || calls() >= before + 3.0);
}

/// So many gateways, other numbers set through one of them, and a Redis that is killed and comes back empty.
fn survives_a_restart(mode: &str, state: &str, count: usize) {
    let (mut server, upstream) = (Server::start(), Upstream::start());
    let limit = format!("{{algorithm: fixed, limit: 5, window: 30d, state: {state}}}");
    let redis = format!("budget: 1s, on_failure: {mode}");
    let file = config(upstream.address, &server.url(), &redis, &limit);
    let gateways: Vec<Gateway> = (0..count).map(|_| Gateway::start(&file)).collect();
    set(&gateways[0], "/config/limits", NINE);
    let all_have_it = || gateways.iter().all(|gateway| limits(gateway)["limit"] == 9);
    wait_until("all follow", all_have_it);
    let before = document(&server);
    server.kill();
    for gateway in &gateways {
        gateway.wait_for_line("Redis connection lost");
    }
    server.restart();
    for gateway in &gateways {
        gateway.wait_for_line("Redis reconnected");
        has_looked(gateway);
    }
    let what = format!("{mode} {state} {count}");
    assert_eq!(document(&server), before, "{what}");
    assert!(all_have_it(), "{what}");
    let version_in_force = |gateway: &Gateway| Some(limits(gateway)["version"].clone());
    let expected = before.map(|before| before["version"].clone());
    assert!(gateways.iter().all(|gateway| version_in_force(gateway) == expected), "{what}");
    assert!(gateways.iter().any(|gateway| has_line(gateway, MISSING)), "one of them has written it back: {what}");
    assert_eq!(gateways.iter().map(|gateway| admitted(gateway, "/", 10)).sum::<usize>(), 9, "{what}");
}

/// Redis was restarted without persistence, and every gateway returned to its file's numbers without a warning: the
/// operator's change was gone, in every failure mode, for exact and leased limits, with one gateway and with two.
#[test]
fn what_an_operator_has_set_survives_a_restart_of_redis() {
    let kinds = [("exact", 1), ("exact", 2), ("leased", 1), ("leased", 2)];
    for mode in ["open", "closed", "local"] {
        std::thread::scope(|scope| {
            for (state, count) in kinds {
                scope.spawn(move || survives_a_restart(mode, state, count));
            }
        });
    }
}

/// No connection is lost then: the document just disappears.
#[test]
fn a_document_that_was_flushed_deleted_or_has_expired_is_written_back() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&config(upstream.address, &server.url(), STRICT, FIVE));
    let version = set(&gateway, "/config/limits", NINE);
    let before = text(&server).expect("a document");
    let ways: [&[&str]; 3] = [&["FLUSHALL"], &["DEL", KEY], &["PEXPIRE", KEY, "1"]];
    for (round, way) in ways.iter().enumerate() {
        redis::cmd(way[0]).arg(&way[1..]).exec(&mut server.connection()).expect("done");
        let warnings = || gateway.lines().iter().filter(|line| line.contains(MISSING)).count();
        wait_until("it is written back", || warnings() == round + 1);
        assert_eq!(text(&server).as_ref(), Some(&before), "{way:?}");
        let ttl: i64 = redis::cmd("TTL").arg(KEY).query(&mut server.connection()).expect("an answer");
        assert_eq!((ttl, &limits(&gateway)["limit"]), (-1, &json!(9)), "{way:?}");
    }
    let warning = gateway.wait_for_line(MISSING);
    assert!(warning.ends_with(&format!("(`ratelimiter:config`, version {version})")), "{warning}");
    assert!(!has_line(&gateway, "Applied new config: algorithm=fixed, limit=5"), "{:#?}", gateway.lines());
}

/// One of them missed the last change, and is there first when Redis is back.
#[test]
fn the_highest_version_wins_whichever_gateway_writes_back_first() {
    let (mut server, upstream) = (Server::start(), Upstream::start());
    let file = config(upstream.address, &server.url(), STRICT, FIVE);
    let (ahead, behind) = (Gateway::start(&file), Gateway::start(&file));
    let older = set(&ahead, "/config/limits", NINE);
    wait_until("the other follows", || limits(&behind)["limit"] == 9);
    freeze(&behind);
    let newer = set(&ahead, "/config/limits", TWELVE);
    freeze(&ahead);
    server.kill();
    server.restart();
    thaw(&behind);
    wait_until("the older one is written back", || document(&server).is_some_and(|now| now["version"] == older));
    assert_eq!(limits(&behind)["limit"], 9);
    thaw(&ahead);
    wait_until("the newer one takes its place", || document(&server).is_some_and(|now| now["version"] == newer));
    assert!(ahead.wait_for_line(OLDER).contains(&format!("(version {older}); wrote back the newer ones")));
    wait_until("the one behind follows", || limits(&behind)["limit"] == 12);
    assert_eq!(limits(&ahead)["limit"], 12);
    has_looked(&ahead);
    has_looked(&behind);
    assert_eq!(document(&server).map(|now| version(&now)), Some(newer), "and that is where it ends");
}

/// A file is no operator's change: a gateway that starts on an empty Redis has nothing to say.
#[test]
fn a_gateway_that_has_only_its_file_writes_nothing_and_follows_what_others_write_back() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let file = config(upstream.address, &server.url(), STRICT, FIVE);
    let first = Gateway::start(&file);
    let version = set(&first, "/config/limits", NINE);
    freeze(&first);
    server.flush();
    let newcomer = Gateway::start(&file);
    has_looked(&newcomer);
    assert_eq!(newcomer.post("/reload", "").status, 200);
    assert_eq!((limits(&newcomer)["limit"].clone(), text(&server)), (json!(5), None));
    thaw(&first);
    wait_until("the newcomer follows", || limits(&newcomer)["limit"] == 9);
    assert_eq!((&limits(&newcomer)["version"], &limits(&first)["limit"]), (&json!(version), &json!(9)));
    first.wait_for_line(MISSING);
    assert!(!has_line(&newcomer, MISSING), "{:#?}", newcomer.lines());
}

/// A snapshot is older than what was set since.
#[test]
fn a_redis_restored_from_an_old_snapshot_gets_the_newer_document() {
    let (mut server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&config(upstream.address, &server.url(), STRICT, FIVE));
    let saved = set(&gateway, "/config/limits", NINE);
    redis::cmd("SAVE").exec(&mut server.connection()).expect("saved");
    let newer = set(&gateway, "/config/limits", TWELVE);
    let newest = text(&server);
    server.kill();
    server.restart();
    let expected = format!("(version {saved}); wrote back the newer ones (`ratelimiter:config`, version {newer})");
    let warning = gateway.wait_for_line(OLDER);
    assert!(warning.ends_with(&expected), "{warning}");
    assert_eq!((text(&server), &limits(&gateway)["limit"]), (newest, &json!(12)));
}

/// The change was made on top of nothing, and took all others with it.
#[test]
fn a_change_on_a_redis_that_has_forgotten_everything_keeps_what_was_set_before() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let file = without_limits(upstream.address, &server.url(), STRICT)
        + "limits:\n  default: {algorithm: fixed, limit: 5, window: 30d}\n  \
           search: {algorithm: fixed, limit: 100, window: 30d}\n\
           routes: [{prefix: /search, limits: [search]}, {prefix: /}]\n";
    let gateway = Gateway::start(&file);
    let mut before = set(&gateway, "/config/limits", NINE);
    for round in 0..5 {
        server.flush();
        // At once: whether it has looked in between is a matter of chance, and makes no difference.
        let body = json!({ "algorithm": "fixed", "limit": 20 + round, "window": 60 }).to_string();
        let changed = gateway.post("/config/limits/search", &body);
        assert_eq!(changed.status, 200, "{changed:?}");
        let now = document(&server).expect("a document");
        assert_eq!((&now["limit"], &now["limits"]["search"]["limit"]), (&json!(9), &json!(20 + round)), "{now}");
        assert_eq!((&now["version"], &limits(&gateway)["limit"]), (&limits(&gateway)["version"], &json!(9)), "{now}");
        assert!(version(&now) > before, "{now}");
        before = version(&now);
    }
    gateway.wait_for_line(MISSING);
}

#[test]
fn a_reload_on_an_empty_redis_writes_back_what_was_set() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&config(upstream.address, &server.url(), STRICT, FIVE));
    set(&gateway, "/config/limits", NINE);
    for _ in 0..5 {
        server.flush();
        let reloaded = gateway.post("/reload", "");
        assert_eq!((reloaded.status, &reloaded.json()["limit"]), (200, &json!(9)), "{reloaded:?}");
        assert_eq!(document(&server).map(|now| now["limit"].clone()), Some(json!(9)));
    }
}

/// Deleting the key used to be the way back to the file. It looks the same as a restart: an empty document does not.
#[test]
fn an_empty_document_or_a_delete_returns_to_the_file_and_that_survives_too() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&config(upstream.address, &server.url(), STRICT, FIVE));
    let is_of_file = || limits(&gateway)["limits"]["default"]["set_by"] == "file";
    let by_hand = || write(&server, "{}");
    let by_api = || {
        let deleted = request(gateway.address, "DELETE", "/config/limits/default", &[], b"");
        assert_eq!(deleted.status, 200, "{deleted:?}");
    };
    for return_to_file in [&by_hand as &dyn Fn(), &by_api] {
        let before = set(&gateway, "/config/limits", NINE);
        return_to_file();
        wait_until("the file counts", is_of_file);
        let version = version(&limits(&gateway));
        assert!(version > before, "{version} after {before}");
        server.flush();
        wait_until("that is written back", || text(&server).is_some());
        assert_eq!(document(&server), Some(json!({ "version": version })));
        has_looked(&gateway);
        assert!(is_of_file());
    }
}

/// It counts over what was set before, and so it must have the next version: a gateway that starts later would give its
/// first change a lower one than others have in force.
#[test]
fn a_document_written_by_hand_without_a_version_gets_the_next_one_and_survives() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let file = config(upstream.address, &server.url(), STRICT, FIVE);
    let gateway = Gateway::start(&file);
    let next = set(&gateway, "/config/limits", NINE) + 1;
    write(&server, r#"{"algorithm":"fixed","limit":7,"window":2592000,"reason":"night"}"#);
    wait_until("it follows", || limits(&gateway)["limit"] == 7);
    let expected = json!({ "algorithm": "fixed", "limit": 7, "window": 2_592_000, "reason": "night", "version": next });
    wait_until("it has a version", || document(&server).as_ref() == Some(&expected));
    assert_eq!(limits(&gateway)["version"], next);
    server.flush();
    wait_until("it is written back", || document(&server).as_ref() == Some(&expected));

    let newcomer = Gateway::start(&file);
    let last = set(&newcomer, "/config/limits", NINE);
    wait_until("the first follows", || limits(&gateway)["limit"] == 9);
    assert!(last > next, "{last} after {next}");
    assert_eq!(limits(&gateway)["version"], last);
}

/// Versions were counted. A gateway that had been cut off while Redis was emptied had counted further than the
/// newcomer, and its old numbers replaced the new ones.
#[test]
fn the_later_change_wins_over_a_gateway_that_missed_it_and_knows_more_changes() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let file = config(upstream.address, &server.url(), STRICT, FIVE);
    let cut_off = Gateway::start(&file);
    for _ in 0..5 {
        set(&cut_off, "/config/limits", NINE);
    }
    freeze(&cut_off);
    server.flush();
    let newcomer = Gateway::start(&file);
    let newer = set(&newcomer, "/config/limits", TWELVE);
    thaw(&cut_off);
    wait_until("the one that was cut off follows", || limits(&cut_off)["limit"] == 12);
    has_looked(&newcomer);
    assert_eq!((version(&limits(&cut_off)), &limits(&newcomer)["limit"]), (newer, &json!(12)));
    assert_eq!(document(&server).map(|now| version(&now)), Some(newer));
}

/// As after a split, when both sides had gone on from the same document.
#[test]
fn other_numbers_under_the_same_version_are_followed_with_a_warning() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&config(upstream.address, &server.url(), STRICT, FIVE));
    let version = set(&gateway, "/config/limits", NINE);
    let other = json!({ "algorithm": "fixed", "limit": 7, "window": 2_592_000, "version": version }).to_string();
    write(&server, &other);
    wait_until("it follows", || limits(&gateway)["limit"] == 7);
    let expected = "WARN ConfigController - Redis holds other limits than those in force under the same version";
    let warning = gateway.wait_for_line(expected);
    assert!(warning.ends_with(&format!("following Redis (`ratelimiter:config`, version {version})")), "{warning}");
    assert_eq!(text(&server), Some(other));
}

/// Where nobody has a version, there is none to compare.
#[test]
fn a_document_without_a_version_is_written_back_where_nothing_else_is_known() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&config(upstream.address, &server.url(), STRICT, FIVE));
    let by_hand = r#"{"algorithm":"fixed","limit":7,"window":2592000}"#;
    write(&server, by_hand);
    wait_until("it follows", || limits(&gateway)["limit"] == 7);
    server.flush();
    let warning = gateway.wait_for_line(MISSING);
    assert!(warning.ends_with("(`ratelimiter:config`)"), "{warning}");
    assert_eq!((text(&server).as_deref(), &limits(&gateway)["limit"]), (Some(by_hand), &json!(7)));
}

#[test]
fn an_unreadable_document_is_left_as_it_is_and_what_it_replaced_is_written_back_when_it_is_gone() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let gateway = Gateway::start(&config(upstream.address, &server.url(), STRICT, FIVE));
    set(&gateway, "/config/limits", NINE);
    for bad in ["many", r#"{"limits":5,"version":0}"#] {
        write(&server, bad);
        has_looked(&gateway);
        assert_eq!((text(&server).as_deref(), &limits(&gateway)["limit"]), (Some(bad), &json!(9)));
    }
    server.flush();
    gateway.wait_for_line(MISSING);
    assert_eq!(document(&server).map(|now| now["limit"].clone()), Some(json!(9)));
}

/// A user of Redis that may read the document and not write it, and an operator who may change that.
struct ReadOnly {
    operator: redis::Connection,
    url: String,
}

impl ReadOnly {
    fn new(server: &Server) -> Self {
        let url = format!("redis://gw:secret@127.0.0.1:{}", server.port);
        let mut user = Self { operator: server.connection(), url };
        user.order(&["on", ">secret", "~*", "+@all"]);
        user
    }

    fn order(&mut self, rules: &[&str]) {
        redis::cmd("ACL").arg("SETUSER").arg("gw").arg(rules).exec(&mut self.operator).expect("it obeys");
    }

    fn forbid_writing(&mut self) {
        self.order(&["resetkeys", "~tidegate:*", "%R~ratelimiter:*"]);
    }

    fn allow_writing(&mut self) {
        self.order(&["~*"]);
    }
}

const UNWRITTEN: &str = "WARN ConfigController - could not write the limits in force to Redis (`ratelimiter:config`): ";

fn count_lines(gateway: &Gateway, text: &str) -> usize {
    gateway.lines().iter().filter(|line| line.contains(text)).count()
}

/// It can only keep its own numbers then, and others may write them back.
#[test]
fn a_gateway_that_may_not_write_the_document_says_so_once_and_keeps_its_numbers() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let mut user = ReadOnly::new(&server);
    let gateway = Gateway::start(&config(upstream.address, &user.url, STRICT, FIVE));
    set(&gateway, "/config/limits", NINE);
    user.forbid_writing();
    server.flush();
    let warning = gateway.wait_for_line(UNWRITTEN);
    assert!(warning.to_uppercase().contains("PERM") && warning.ends_with("; retrying"), "{warning}");
    has_looked(&gateway);
    assert_eq!((count_lines(&gateway, UNWRITTEN), text(&server), &limits(&gateway)["limit"]), (1, None, &json!(9)));
    assert!(!has_line(&gateway, "can't be used"), "{:#?}", gateway.lines());
    assert_eq!(gateway.metric("ratelimiter_redis_connected"), Some(1.0), "it is no outage");
    user.allow_writing();
    gateway.wait_for_line(MISSING);
    assert_eq!(document(&server).map(|now| now["limit"].clone()), Some(json!(9)));
}

/// The version of a document written by hand could not be written: that was never said nor tried again, and the
/// document stayed without one. A change through a newly started gateway got a lower version, and was reverted.
#[test]
fn a_version_that_could_not_be_written_is_written_later_and_a_newcomers_change_survives() {
    let (server, upstream) = (Server::start(), Upstream::start());
    let mut user = ReadOnly::new(&server);
    let gateway = Gateway::start(&config(upstream.address, &user.url, STRICT, FIVE));
    let next = set(&gateway, "/config/limits", NINE) + 1;
    user.forbid_writing();
    let by_hand = r#"{"algorithm":"fixed","limit":7,"window":2592000}"#;
    write(&server, by_hand);
    wait_until("it follows", || limits(&gateway)["limit"] == 7);
    gateway.wait_for_line(UNWRITTEN);
    has_looked(&gateway);
    assert_eq!((text(&server).as_deref(), version(&limits(&gateway))), (Some(by_hand), next));
    assert_eq!(count_lines(&gateway, UNWRITTEN), 1, "it is said once");
    user.allow_writing();
    wait_until("it has a version", || document(&server).is_some_and(|now| now["version"] == next));
    assert_eq!(version(&limits(&gateway)), next);

    let newcomer = Gateway::start(&config(upstream.address, &server.url(), STRICT, FIVE));
    let newer = set(&newcomer, "/config/limits", TWELVE);
    wait_until("the first follows", || limits(&gateway)["limit"] == 12);
    has_looked(&gateway);
    assert_eq!(document(&server).map(|now| (version(&now), now["limit"].clone())), Some((newer, json!(12))));
}

/// A leased limit that was used up when Redis died was rejected with 429 for as long as its window lasts: in open mode
/// too, and also after Redis was back, empty.
#[test]
fn a_leased_limit_that_was_used_up_follows_the_mode_and_works_anew_when_redis_is_back() {
    for (mode, status, passing) in [("open", 200, 20), ("closed", 503, 0), ("local", 429, 5)] {
        let (mut server, upstream) = (Server::start(), Upstream::start());
        let limit = "{algorithm: fixed, limit: 5, window: 30d, state: leased}";
        let redis = format!("budget: 1s, on_failure: {mode}");
        let gateway = Gateway::start(&config(upstream.address, &server.url(), &redis, limit));
        wait_until("it is used up", || gateway.get("/").status == 429);
        server.kill();
        gateway.wait_for_line("Redis connection lost");
        let statuses: Vec<u16> = (0..20).map(|_| gateway.get("/").status).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), passing, "{mode}: {statuses:?}");
        assert_eq!(statuses.last(), Some(&status), "{mode}: {statuses:?}");
        server.restart();
        gateway.wait_for_line("Redis reconnected");
        assert_eq!(admitted(&gateway, "/", 10), 5, "{mode}: this Redis knows of nothing");
    }
}

/// The same with a Redis that hangs: its connection stays, and no request asked it any more.
#[test]
fn a_leased_limit_that_was_used_up_follows_the_mode_while_redis_hangs() {
    std::thread::scope(|scope| {
        for (mode, status, passing) in [("open", 200, 20), ("closed", 503, 0), ("local", 429, 5)] {
            scope.spawn(move || {
                let (server, upstream) = (Server::start(), Upstream::start());
                let limit = "{algorithm: fixed, limit: 5, window: 30d, state: leased}";
                let redis = format!("budget: 2s, on_failure: {mode}");
                let gateway = Gateway::start(&config(upstream.address, &server.url(), &redis, limit));
                wait_until("it is used up", || gateway.get("/").status == 429);
                server.freeze(true);
                wait_until("it is given up", || {
                    gateway.get("/");
                    has_line(&gateway, "Redis connection lost")
                });
                let statuses: Vec<u16> = (0..20).map(|_| gateway.get("/").status).collect();
                assert!(statuses.iter().filter(|status| **status == 200).count() <= passing, "{mode}: {statuses:?}");
                assert_eq!(statuses.last(), Some(&status), "{mode}: {statuses:?}");
                server.freeze(false);
                gateway.wait_for_line("Redis reconnected");
                assert_eq!(admitted(&gateway, "/", 10), 0, "{mode}: this Redis knows what was used");
            });
        }
    });
}

/// The other order: tokens are in hand when Redis dies.
#[test]
fn leases_in_hand_when_redis_dies_are_spent_and_then_the_mode_decides() {
    for (mode, status) in [("open", 200), ("closed", 503), ("local", 429)] {
        let (mut server, upstream) = (Server::start(), Upstream::start());
        let limit = "{algorithm: fixed, limit: 50, window: 30d, state: leased}";
        let redis = format!("budget: 1s, on_failure: {mode}, lease_tokens: 8, lease_span: 1h");
        let gateway = Gateway::start(&config(upstream.address, &server.url(), &redis, limit));
        assert_eq!(admitted(&gateway, "/", 8), 8);
        server.kill();
        gateway.wait_for_line("Redis connection lost");
        assert_eq!(gateway.get("/").status, 200, "{mode}: from what is in hand");
        let statuses: Vec<u16> = (0..100).map(|_| gateway.get("/").status).collect();
        assert_eq!(statuses.last(), Some(&status), "{mode}: {statuses:?}");
        server.restart();
        gateway.wait_for_line("Redis reconnected");
        assert_eq!(admitted(&gateway, "/", 100), 50, "{mode}");
    }
}

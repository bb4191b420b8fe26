//! `tidegate check`: settings of Redis.

use tidegate_testkit::command::run;
use tidegate_testkit::{Directory, text};

use super::check_command::check;

/// What is wrong with TLS to Redis is reported before anyone connects.
#[test]
fn files_for_redis_that_can_not_be_used_are_reported_by_their_field() {
    let directory = Directory::new();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let good = text(&directory.file("good.pem", &pair.cert.pem()));
    let key = text(&directory.file("good.key", &pair.signing_key.serialize_pem()));
    let other = rcgen::KeyPair::generate().expect("a key").serialize_pem();
    let other = text(&directory.file("other.key", &other));
    let bad = text(&directory.file("bad.pem", "no certificate"));
    for (url, files, path, reason) in [
        ("rediss://h:1", "ca: /nonexistent".to_owned(), "redis.ca", "/nonexistent: No such file"),
        ("rediss://h:1", format!("ca: \"{bad}\""), "redis.ca", "bad.pem: holds no certificate"),
        ("rediss://h:1", format!("ca: \"{good}\", certificate: \"{good}\""), "redis.key", "is missing"),
        ("rediss://h:1", format!("ca: \"{good}\", key: \"{key}\""), "redis.certificate", "is missing"),
        (
            "rediss+cluster://h:1,h:2",
            format!("ca: \"{good}\", certificate: \"{good}\", key: \"{other}\""),
            "redis.key",
            "other.key: can't be used with `certificate`",
        ),
        ("redis://h:1", format!("ca: \"{good}\""), "redis.ca", "is for TLS"),
        ("redis+sentinel://h:1/main", format!("certificate: \"{good}\""), "redis.certificate", "is for TLS"),
        ("rediss://h:1/#insecure", format!("ca: \"{good}\""), "redis.url", "`#insecure`"),
    ] {
        let config = format!("redis: {{url: \"{url}\", {files}}}\n");
        let outcome = check(&config);
        assert_eq!(outcome.code, 2, "{config}: {outcome:?}");
        assert!(outcome.out.contains(&format!("gateway.yaml: {path}: ")), "{config}: {outcome:?}");
        assert!(outcome.out.contains(reason), "{config}: {outcome:?}");
        let file = directory.file("gateway.yaml", &config);
        let start = run(&["gateway", "--listen", "127.0.0.1:0", "--config", &text(&file)], &[]);
        assert!(start.code == 2 && start.err.contains(&format!("{path}: ")), "{config}: {start:?}");
    }
}

/// The system's authorities are read at every connection, so they must be readable.
#[test]
fn a_system_without_readable_authorities_is_reported() {
    let directory = Directory::new();
    let file = text(&directory.file("gateway.yaml", "redis: {url: \"rediss://h:1\"}\n"));
    let nothing = text(&directory.file("nothing.pem", ""));
    for (authorities, reason) in [("/nonexistent", "/nonexistent"), (nothing.as_str(), "no trusted authorities")] {
        let outcome = run(&["check", &file], &[("SSL_CERT_FILE", authorities)]);
        assert_eq!(outcome.code, 2, "{outcome:?}");
        assert!(outcome.out.contains("gateway.yaml: redis.ca: ") && outcome.out.contains(reason), "{outcome:?}");
    }
}

/// The gateway rejected them only when it met Redis, one at a time.
#[test]
fn numbers_that_redis_can_not_hold_are_reported_all_at_once_and_by_the_gateway_alike() {
    let directory = Directory::new();
    let config = "redis: {url: \"redis://127.0.0.1:1\"}
limits:
  long: {algorithm: sliding_log, limit: 20000, window: 60}
  held: {algorithm: concurrency, limit: 1, tiers: {pro: {limit: 10001}}}
  fine: {algorithm: sliding, limit: 10000000, window: 60d}
  queue: {algorithm: leaky, capacity: 1, fill_rate: 1, state: leased}
  tiered:
    {algorithm: fixed, limit: 1, window: 1, state: leased, tiers: {pro: {algorithm: leaky, capacity: 1, fillRate: 1}}}
  local: {algorithm: sliding_log, limit: 20000, window: 60, state: memory}
common_limits: [long, held, fine, queue, tiered, local]
";
    let file = text(&directory.file("gateway.yaml", config));
    let paths = [
        "limits.fine",
        "limits.long.limit",
        "limits.queue.state",
        "limits.held.tiers.pro.limit",
        "limits.tiered.tiers.pro.algorithm",
    ];
    let checked = run(&["check", &file], &[]);
    let reported: Vec<&str> = checked.out.lines().filter_map(|line| line.split(": ").nth(1)).collect();
    assert_eq!((checked.code, reported), (2, paths.to_vec()), "{checked:?}");
    let started = run(&["gateway", "--listen", "127.0.0.1:0", "--config", &file], &[]);
    assert_eq!(started.code, 2, "{started:?}");
    assert!(paths.iter().all(|path| started.err.contains(&format!("{path}: "))), "{started:?}");
}

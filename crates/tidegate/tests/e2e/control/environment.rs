//! Flags win over the environment, the environment over the file.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::control::setting::once;
use tidegate_testkit::command::{finish, run};
use tidegate_testkit::{Directory, Gateway, Upstream, text, tidegate, wait_until};

/// A gateway with this file, environment and flags, and nothing else.
fn start(config: &str, environment: &[(&str, &str)], flags: &[&str]) -> Gateway {
    let directory = Directory::new();
    let path = directory.file("gateway.yaml", config);
    let mut command = tidegate();
    command.arg("gateway").arg("--config").arg(&path).args(flags).envs(environment.iter().copied());
    Gateway::launch(command, path, directory)
}

const FREE: [&str; 2] = ["--listen", "127.0.0.1:0"];

/// Limits are kept in a Redis that is away.
const NO_REDIS: (&str, &str) = ("REDIS_HOST", "nowhere.invalid");

/// A port for a gateway. It is bound, so that nobody else is given it, and can be listened on all the same: neither
/// side minds sharing it, and nobody listens yet.
struct Port {
    _socket: tokio::net::TcpSocket,
    number: u16,
}

fn free_port() -> Port {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("it can be shared");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    Port { number: socket.local_addr().expect("an address").port(), _socket: socket }
}

#[test]
fn the_port() {
    let ports = [(); 4].map(|()| free_port());
    let [file, port, server_port, flag] = ports.each_ref().map(|port| port.number);
    let config = format!("listeners: [{{address: \"127.0.0.1:{file}\"}}]\n");
    let (port_text, server_text) = (port.to_string(), server_port.to_string());
    let both = [("PORT", port_text.as_str()), ("SERVER_PORT", server_text.as_str())];
    let listen = format!("127.0.0.1:{flag}");
    for (environment, flags, expected) in [
        (&[][..], &[][..], file),
        (&both[1..], &[], server_port),
        (&both[..1], &[], port),
        (&both, &[], port),
        (&both, &["--listen", &listen], flag),
    ] {
        let gateway = start(&config, environment, flags);
        assert_eq!(gateway.address.port(), expected, "{environment:?} {flags:?}");
        assert_eq!(gateway.get("/actuator/health").status, 200);
    }
    let without_file = start("", &both[1..], &[]);
    assert_eq!(
        without_file.address,
        SocketAddr::from(([127, 0, 0, 1], server_port)),
        "the loopback, unless told otherwise"
    );
}

/// The address of the file stays: in a container the service is reached from outside.
#[test]
fn the_port_of_the_environment_leaves_the_address_alone() {
    let free = free_port();
    let port = free.number.to_string();
    let gateway = start("listeners: [{address: \"0.0.0.0:1\"}]\n", &[("PORT", &port)], &[]);
    assert_eq!(gateway.address.to_string(), format!("0.0.0.0:{port}"));
}

#[test]
fn the_target() {
    let named = |name: &'static str| {
        Upstream::responding(move |_| {
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len()).into_bytes()
        })
    };
    let (file, environment, flag) = (named("file"), named("environment"), named("flag"));
    let url = |upstream: &Upstream| format!("http://{}", upstream.address);
    let config = format!("upstreams: {{app: {{url: \"{}\"}}}}\n", url(&file));
    let (in_environment, in_flag) = (url(&environment), url(&flag));
    assert_eq!(start(&config, &[], &FREE).get("/").text(), "file");
    assert_eq!(start(&config, &[("TARGET_URL", "")], &FREE).get("/").text(), "file", "empty is not set");
    assert_eq!(start(&config, &[("TARGET_URL", &in_environment)], &FREE).get("/").text(), "environment");
    assert_eq!(start("", &[("TARGET_URL", &in_environment)], &FREE).get("/").text(), "environment");
    let flags = [&FREE[..], &["--target-url", &in_flag]].concat();
    assert_eq!(start(&config, &[("TARGET_URL", &in_environment)], &flags).get("/").text(), "flag");
}

#[test]
fn a_target_for_several_upstreams_is_rejected() {
    let directory = Directory::new();
    let file = directory
        .file("gateway.yaml", "upstreams: {a: {url: \"http://a\"}, b: {url: \"http://b\"}}\nroutes: [{upstream: a}]\n");
    let path = file.display().to_string();
    let outcome = run(&["gateway", "--listen", "127.0.0.1:0", "--config", &path], &[("TARGET_URL", "http://c")]);
    assert!(outcome.code != 0 && outcome.err.contains("target URL"), "{outcome:?}");
}

fn limits(gateway: &Gateway) -> Value {
    gateway.get("/config/limits").json()
}

#[test]
fn the_first_limits() {
    let file = format!("limits: {{default: {}}}\n", once(10));
    let fixed = limits(&start(&file, &[("RATE_LIMIT_LIMIT", "7")], &FREE));
    assert_eq!(
        (&fixed["algorithm"], &fixed["limit"], &fixed["window"]),
        (&"fixed".into(), &7.into(), &2_592_000.into())
    );
    let window = limits(&start(&file, &[("RATE_LIMIT_WINDOW", "30")], &FREE));
    assert_eq!((&window["limit"], &window["window"]), (&10.into(), &30.into()));
    let sliding = limits(&start(&file, &[("RATE_LIMIT_ALGORITHM", "sliding")], &FREE));
    assert_eq!((&sliding["algorithm"], &sliding["limit"]), (&"sliding".into(), &10.into()));
    let token = [("RATE_LIMIT_ALGORITHM", "token"), ("RATE_LIMIT_CAPACITY", "50"), ("RATE_LIMIT_FILL_RATE", "2.5")];
    for config in [file.as_str(), ""] {
        let token = limits(&start(config, &token, &FREE));
        assert_eq!(
            (&token["algorithm"], &token["capacity"], &token["fillRate"]),
            (&"token".into(), &50.into(), &2.5.into())
        );
    }
    let closest = limits(&start("", &[("RATE_LIMIT_ALGORITHM", "token")], &FREE));
    assert_eq!((&closest["capacity"], &closest["fillRate"]), (&100.into(), &1.667.into()));
    // Numbers that Redis can count, where it shall: with one decimal more it could not, and the gateway did not start.
    let large =
        [("RATE_LIMIT_ALGORITHM", "token"), ("RATE_LIMIT_LIMIT", "8000"), ("RATE_LIMIT_WINDOW", "86400"), NO_REDIS];
    let large = limits(&start("", &large, &FREE));
    assert_eq!((&large["algorithm"], &large["capacity"]), (&"token".into(), &8_000.into()));
    let alone = limits(&start("", &[("RATE_LIMIT_LIMIT", "7")], &FREE));
    assert_eq!((&alone["algorithm"], &alone["limit"], &alone["window"]), (&"fixed".into(), &7.into(), &60.into()));
    let nothing = limits(&start("", &[], &FREE));
    assert_eq!(
        (&nothing["algorithm"], &nothing["limit"], &nothing["window"]),
        (&"fixed".into(), &100.into(), &60.into())
    );
}

#[test]
fn the_log_format_and_the_workers() {
    let gateway = start(
        "workers: 1\nlog: {format: json}\n",
        &[],
        &[&FREE[..], &["--log-format", "text", "--workers", "3"]].concat(),
    );
    let first = gateway.lines().remove(0);
    assert!(first.starts_with('[') && first.contains("workers: 3"), "{first}");
}

/// A server that never responds, and keeps what it got first.
fn silent_redis() -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let reported: Arc<Mutex<Vec<u8>>> = Arc::default();
    let kept = Arc::clone(&reported);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || {
                let mut buffer = [0; 4_096];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    kept.lock().expect("no panic").extend_from_slice(&buffer[..count]);
                    let _rejected = stream.write_all(b"-ERR not here\r\n");
                }
            });
        }
    });
    (address, reported)
}

fn was_asked(reported: &Mutex<Vec<u8>>) -> bool {
    !reported.lock().expect("no panic").is_empty()
}

#[test]
fn redis() {
    let ((file, in_file), (environment, in_environment), (flag, in_flag)) =
        (silent_redis(), silent_redis(), silent_redis());
    let config = format!("redis: {{url: \"redis://{file}\", budget: 100ms}}\n");
    {
        let _by_file = start(&config, &[], &FREE);
        wait_until("the file's is asked", || was_asked(&in_file));
    }
    in_file.lock().expect("no panic").clear();

    let port = environment.port().to_string();
    let password = "p@ss w:rd/%é";
    let variables = [("REDIS_HOST", "127.0.0.1"), ("REDIS_PORT", port.as_str()), ("REDIS_PASSWORD", password)];
    {
        let gateway = start(&config, &variables, &FREE);
        let found =
            |needle: &[u8]| in_environment.lock().expect("no panic").windows(needle.len()).any(|part| part == needle);
        wait_until("the environment's is asked, with the password as it is", || found(password.as_bytes()));
        assert!(found(b"AUTH"));
        assert!(
            !gateway.lines().iter().any(|line| line.contains("p@ss") || line.contains("p%40ss")),
            "the log holds no secret"
        );
        assert_eq!(gateway.get("/actuator/health").json()["store"]["type"], "redis");
    }
    in_environment.lock().expect("no panic").clear();
    let url = format!("redis://{flag}");
    let _by_flag = start(&config, &variables, &[&FREE[..], &["--redis", &url]].concat());
    wait_until("the flag's is asked", || was_asked(&in_flag));
    assert!(!was_asked(&in_environment) && !was_asked(&in_file), "and no other");
}

/// What was reported, once all of these are in it.
fn wait_for_report(reported: &Mutex<Vec<u8>>, needles: &[&str]) {
    wait_until("it is told", || {
        let reported = String::from_utf8_lossy(&reported.lock().expect("no panic")).into_owned();
        needles.iter().all(|needle| reported.contains(&format!("\r\n{needle}\r\n")))
    });
}

/// Each variable replaces its own part, and the rest stays.
#[test]
fn parts_of_the_address_of_redis() {
    let (redis, reported) = silent_redis();
    let port = redis.port().to_string();
    for (url, variables, flags, needles) in [
        (format!("redis://{redis}"), &[("REDIS_PASSWORD", "new")][..], &[][..], &["AUTH", "new"][..]),
        (format!("redis://ann:old@{redis}/3"), &[("REDIS_PASSWORD", "new")], &[], &["AUTH", "ann", "new"]),
        ("redis://ann:old@127.0.0.1:1/3".to_owned(), &[("REDIS_PORT", &port)], &[], &["AUTH", "ann", "old"]),
        (
            "redis://ann:old@nowhere.invalid:1/3".to_owned(),
            &[("REDIS_HOST", "127.0.0.1"), ("REDIS_PORT", &port)],
            &[],
            &["AUTH", "ann", "old"],
        ),
        (
            "redis://nowhere.invalid".to_owned(),
            &[("REDIS_PASSWORD", "new")],
            &["--redis", &format!("redis://{redis}")],
            &["AUTH", "new"],
        ),
        (
            "redis://nowhere.invalid".to_owned(),
            &[("REDIS_PASSWORD", "new"), ("REDIS_HOST", "nowhere.invalid"), ("REDIS_PORT", "1")],
            &["--redis", &format!("redis://eve:own@{redis}")],
            &["AUTH", "eve", "own"],
        ),
    ] {
        reported.lock().expect("no panic").clear();
        let config = format!("redis: {{url: \"{url}\", budget: 100ms}}\n");
        let _gateway = start(&config, variables, &[&FREE[..], flags].concat());
        wait_for_report(&reported, needles);
    }
}

#[test]
fn an_ipv6_address_of_redis_needs_no_brackets() {
    for host in ["::1", "[::1]"] {
        let gateway = start("", &[("REDIS_HOST", host), ("REDIS_PORT", "1")], &FREE);
        assert_eq!(gateway.get("/actuator/health").json()["store"]["type"], "redis", "{host}");
    }
}

#[test]
fn variables_that_can_not_be_applied_are_rejected() {
    let cluster = "redis: {url: \"redis+cluster://a:1,b:2\"}\n";
    for (config, variables, word) in [
        ("", &[("REDIS_PORT", "6379")][..], "REDIS_HOST"),
        ("", &[("REDIS_PASSWORD", "secret")], "REDIS_HOST"),
        ("", &[("REDIS_HOST", "redis://somewhere")], "REDIS_HOST"),
        ("", &[("REDIS_HOST", "somewhere:6380")], "REDIS_PORT"),
        (cluster, &[("REDIS_HOST", "c")], "several"),
        (cluster, &[("REDIS_PORT", "1")], "several"),
        ("", &[("REDIS_HOST", "redis://:secret@h")], "REDIS_HOST"),
        ("", &[("REDIS_HOST", "h"), ("REDIS_PORT", "tcp://10.0.0.1")], "REDIS_PORT"),
    ] {
        let directory = Directory::new();
        let file = directory.file("gateway.yaml", config).display().to_string();
        let outcome = run(&["gateway", "--listen", "127.0.0.1:0", "--config", &file], variables);
        assert!(outcome.code != 0 && outcome.err.contains(word), "{config}{variables:?}: {outcome:?}");
        assert!(!outcome.err.contains("secret"), "{outcome:?}");
    }
    let mut command = tidegate();
    command.arg("gateway").env("REDIS_PASSWORD", OsStr::from_bytes(b"secret\xff"));
    let outcome = finish(command);
    assert!(outcome.code != 0 && outcome.err.contains("REDIS_PASSWORD is not"), "{outcome:?}");
    assert!(!outcome.err.contains("secret"), "{outcome:?}");
}

/// The connection was plain, whatever the variable said.
#[test]
fn tls_in_the_environment_must_not_contradict_the_flag() {
    let (redis, reported) = silent_redis();
    for (url, tls) in [(format!("redis://{redis}"), "true"), (format!("rediss://{redis}"), "false")] {
        let flags = ["gateway", "--listen", "127.0.0.1:0", "--redis", &url];
        let outcome = run(&flags, &[("REDIS_TLS", tls)]);
        assert!(outcome.code != 0 && outcome.err.contains("REDIS_TLS"), "{url} {tls}: {outcome:?}");
    }
    assert!(!was_asked(&reported));
    let _agree = start("", &[("REDIS_TLS", "false")], &[&FREE[..], &["--redis", &format!("redis://{redis}")]].concat());
    wait_until("it is asked", || was_asked(&reported));
}

/// Kubernetes sets `REDIS_PORT` in every pod beside a service named `redis`, and no gateway there started.
#[test]
fn the_port_of_a_kubernetes_service_is_no_wish_for_redis() {
    let (redis, reported) = silent_redis();
    let link = format!("tcp://10.0.0.1:{}", redis.port());
    let without = start("", &[("REDIS_PORT", &link)], &FREE);
    assert_eq!(without.get("/actuator/health").json()["store"]["type"], "memory");
    let file = format!("redis: {{url: \"redis://{redis}\", budget: 100ms}}\n");
    let _by_file = start(&file, &[("REDIS_PORT", "tcp://10.0.0.1:1")], &FREE);
    wait_until("the file's is asked", || was_asked(&reported));
    reported.lock().expect("no panic").clear();
    let _with_host = start("", &[("REDIS_HOST", "127.0.0.1"), ("REDIS_PORT", &link)], &FREE);
    wait_until("its port is asked", || was_asked(&reported));
}

/// Once only `true` was looked at, and a file's `open: true` could not be closed.
#[test]
fn admin_open_is_closed_by_the_environment_too() {
    let config = "listeners: [{address: \"0.0.0.0:0\"}]\nadmin: {open: true}\n";
    for (value, status) in [("false", 403), ("0", 403), ("", 200), ("true", 200)] {
        let gateway = start(config, &[("ADMIN_OPEN", value)], &[]);
        let near = SocketAddr::from(([127, 0, 0, 1], gateway.address.port()));
        let response = tidegate_testkit::request(near, "GET", "/config/limits", &[], b"");
        assert_eq!(response.status, status, "ADMIN_OPEN={value}");
    }
}

#[test]
fn values_that_make_no_sense_are_rejected_by_name() {
    for (name, value) in [
        ("PORT", "abc"),
        ("PORT", "70000"),
        ("PORT", "-1"),
        ("SERVER_PORT", "80 82"),
        ("TARGET_URL", "127.0.0.1:8081"),
        ("TARGET_URL", "ftp://x"),
        ("RATE_LIMIT_ALGORITHM", "magic"),
        ("RATE_LIMIT_LIMIT", "-1"),
        ("RATE_LIMIT_LIMIT", "1.5"),
        ("RATE_LIMIT_LIMIT", "0"),
        ("RATE_LIMIT_WINDOW", "soon"),
        ("RATE_LIMIT_WINDOW", "NaN"),
        ("RATE_LIMIT_WINDOW", "inf"),
        ("RATE_LIMIT_WINDOW", "-5"),
        ("RATE_LIMIT_CAPACITY", "many"),
        ("RATE_LIMIT_FILL_RATE", "fast"),
        ("RATE_LIMIT_CAPACITY", "20"),
        ("RATE_LIMIT_FILL_RATE", "2"),
        ("ADMIN_OPEN", "maybe"),
        ("ADAPTIVE_MODE", "maybe"),
        ("ADAPTIVE_UPDATE_INTERVAL", "soon"),
        ("ADAPTIVE_UPDATE_INTERVAL", "0"),
        ("ADAPTIVE_UPDATE_INTERVAL", "-3"),
        ("ADAPTIVE_UPDATE_INTERVAL", "NaN"),
        ("FORECASTER_URL", "127.0.0.1:8090"),
    ] {
        let outcome = run(&["gateway"], &[("PORT", "0"), (name, value)]);
        assert_ne!(outcome.code, 0, "{name}={value}: {outcome:?}");
        let word = match name {
            "TARGET_URL" => value,
            "FORECASTER_URL" => "adaptive.forecaster",
            "RATE_LIMIT_ALGORITHM" => "magic",
            "RATE_LIMIT_LIMIT" if value == "0" => "limits.default.limit",
            other => other,
        };
        assert!(outcome.err.contains(word), "{name}={value}: {outcome:?}");
    }
    let directory = Directory::new();
    let file =
        directory.file("gateway.yaml", "limits: {a: {algorithm: fixed, limit: 1, window: 1}}\ncommon_limits: [a]\n");
    let other = run(&["gateway", "--config", &text(&file)], &[("PORT", "0"), ("RATE_LIMIT_LIMIT", "7")]);
    assert!(other.code != 0 && other.err.contains("RATE_LIMIT_*: must have a limit `default`"), "{other:?}");
    for value in ["NaN", "inf", "0", "-1"] {
        let environment = [
            ("PORT", "0"),
            ("RATE_LIMIT_ALGORITHM", "token"),
            ("RATE_LIMIT_CAPACITY", "5"),
            ("RATE_LIMIT_FILL_RATE", value),
        ];
        let outcome = run(&["gateway"], &environment);
        assert!(outcome.code != 0 && outcome.err.contains("fillRate"), "{value}: {outcome:?}");
    }
    let port = run(&["gateway"], &[("PORT", "0"), ("REDIS_HOST", "127.0.0.1"), ("REDIS_PORT", "x")]);
    assert!(port.code != 0 && port.err.contains("REDIS_PORT"), "{port:?}");
    let tls = run(&["gateway"], &[("PORT", "0"), ("REDIS_HOST", "127.0.0.1"), ("REDIS_TLS", "maybe")]);
    assert!(tls.code != 0 && tls.err.contains("REDIS_TLS"), "{tls:?}");
    let ca = run(&["gateway"], &[("PORT", "0"), ("REDIS_HOST", "127.0.0.1"), ("REDIS_CA", "/nonexistent")]);
    assert!(ca.code != 0 && ca.err.contains("redis.ca: is for TLS"), "{ca:?}");
}

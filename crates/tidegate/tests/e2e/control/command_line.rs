//! The command line: help, completions, what fails and how.

use std::net::TcpListener;

use tidegate_testkit::command::run;
use tidegate_testkit::{Directory, Gateway, Upstream, text, tidegate};

#[test]
fn help_names_every_flag() {
    for (command, flags) in [
        (&["--help"][..], &["gateway", "check", "completions"][..]),
        (
            &["gateway", "--help"],
            &["--config", "--listen", "--target-url", "--redis", "--workers", "--log-format", "SIGHUP", "8082"],
        ),
        (
            &["gateway", "--help"],
            &[
                "PORT",
                "SERVER_PORT",
                "TARGET_URL",
                "REDIS_HOST",
                "REDIS_PORT",
                "REDIS_PASSWORD",
                "REDIS_TLS",
                "REDIS_CA",
                "ADMIN_OPEN",
                "RATE_LIMIT_ALGORITHM",
                "RATE_LIMIT_LIMIT",
                "RATE_LIMIT_WINDOW",
                "RATE_LIMIT_CAPACITY",
                "RATE_LIMIT_FILL_RATE",
            ],
        ),
        (&["check", "--help"], &["FILE", "--schema", "--reference"]),
        (&["completions", "--help"], &["bash", "zsh", "fish"]),
    ] {
        let outcome = run(command, &[]);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        for flag in flags {
            assert!(outcome.out.contains(flag), "{flag} is not in the help of {command:?}: {}", outcome.out);
        }
    }
}

#[test]
fn the_version_is_reported() {
    let outcome = run(&["--version"], &[]);
    assert_eq!((outcome.code, outcome.out.trim()), (0, concat!("tidegate ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let outcome = run(&["completions", shell], &[]);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        for word in ["tidegate", "gateway", "target-url", "check", "reference"] {
            assert!(outcome.out.contains(word), "{word} is not in the completions for {shell}");
        }
    }
    let unknown = run(&["completions", "shellfish"], &[]);
    assert!(unknown.code != 0 && unknown.err.contains("bash"), "{unknown:?}");
}

/// `tidegate completions bash | head -c 5` was a panic.
#[test]
fn a_reader_that_stops_early_is_not_an_error() {
    for arguments in [&["completions", "bash"][..], &["check", "--schema"], &["check", "--reference"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = tidegate();
        command.args(arguments).stdout(writer).stderr(std::process::Stdio::piped());
        let output = command.spawn().and_then(std::process::Child::wait_with_output).expect("it runs");
        let reported = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), reported.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

/// Scripts that start a server wait for that line, whatever else it logs.
#[test]
fn the_ready_line_is_reported_at_every_level() {
    let upstream = Upstream::start();
    for level in ["debug", "info", "warn", "error"] {
        let config = format!("upstreams: {{app: {{url: \"http://{}\"}}}}\nlog: {{level: {level}}}\n", upstream.address);
        let mut gateway = Gateway::start(&config);
        assert!(gateway.wait_for_line("listening on ").contains(" INFO "));
        gateway.signal("TERM");
        assert!(gateway.wait_for_end());
        let is_quiet = !gateway.lines().iter().any(|line| line.contains("starts;"));
        assert_eq!(is_quiet, matches!(level, "warn" | "error"), "{:#?}", gateway.lines());
    }
}

#[test]
fn wrong_arguments_are_rejected_with_a_hint() {
    for (arguments, hint) in [
        (&[][..], "Usage"),
        (&["gatway"], "gateway"),
        (&["gateway", "--colour"], "--colour"),
        (&["gateway", "--workers", "many"], "--workers"),
        (&["gateway", "--log-format", "xml"], "json"),
        (&["check", "--schema", "--reference"], "--schema"),
        (&["gateway", "--workers", "0", "--listen", "127.0.0.1:0"], "workers"),
        (&["gateway", "--listen", "here"], "here"),
        (&["gateway", "--listen", "127.0.0.1:0", "--target-url", "ftp://x"], "ftp://x"),
        (&["gateway", "--listen", "127.0.0.1:0", "--redis", "http://x"], "redis"),
    ] {
        let outcome = run(arguments, &[]);
        assert_ne!(outcome.code, 0, "{arguments:?}");
        assert!(outcome.err.contains(hint), "{arguments:?}: {outcome:?}");
    }
}

#[test]
fn a_port_in_use_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let outcome = run(&["gateway", "--listen", &address], &[]);
    assert_ne!(outcome.code, 0);
    assert!(outcome.err.contains(&address) && outcome.err.contains("in use"), "{outcome:?}");
    let directory = Directory::new();
    let file = directory.file("gateway.yaml", &format!("admin: {{listen: \"{address}\"}}\n"));
    let admin = run(&["gateway", "--listen", "127.0.0.1:0", "--config", &text(&file)], &[]);
    assert!(admin.code != 0 && admin.err.contains(&address), "{admin:?}");
}

#[test]
fn a_configuration_that_makes_no_sense_is_reported_in_full_and_ends_with_2() {
    let directory = Directory::new();
    let file =
        directory.file("gateway.yaml", "workers: 0\nlimits: {default: {algorithm: fixed, limit: 0, window: 1}}\n");
    let outcome = run(&["gateway", "--listen", "127.0.0.1:0", "--config", &text(&file)], &[]);
    assert_eq!(outcome.code, 2, "{outcome:?}");
    assert!(outcome.err.contains("workers: ") && outcome.err.contains("limits.default.limit: "), "{outcome:?}");
}

/// Syntax and meaning alike: a script that starts it can distinguish a bad file from a port in use.
#[test]
fn a_configuration_that_can_not_be_read_ends_with_2_too() {
    let directory = Directory::new();
    for config in ["workers: many\n", "workers: 1\nworkers: 2\n", "{\"workers\": }", "colour: blue\n"] {
        let file = directory.file("gateway.yaml", config);
        let outcome = run(&["gateway", "--listen", "127.0.0.1:0", "--config", &text(&file)], &[]);
        assert_eq!((outcome.code, run(&["check", &text(&file)], &[]).code), (2, 2), "{config}: {outcome:?}");
        assert!(outcome.err.contains("gateway.yaml: line "), "{outcome:?}");
    }
}

#[test]
fn json_is_taken_like_yaml() {
    let upstream = Upstream::start();
    let config = serde_json::json!({
        "upstreams": {"app": {"url": format!("http://{}", upstream.address)}},
        "limits": {"default": {"algorithm": "token", "burst": 1, "fillRate": 0.001}}
    });
    let gateway = Gateway::start(&config.to_string());
    assert_eq!((gateway.get("/").status, gateway.get("/").status), (200, 429));
}

/// One line with its address when it is ready, and a clean stop.
#[test]
fn it_says_where_it_listens_and_stops_cleanly() {
    let upstream = Upstream::start();
    for signal in ["TERM", "INT"] {
        let mut gateway = Gateway::before(upstream.address, "{algorithm: fixed, limit: 10, window: 60}");
        let line = gateway.wait_for_line("listening on ");
        assert!(line.contains(&format!("http://{}", gateway.address)), "{line}");
        assert_eq!(gateway.get("/").status, 200);
        gateway.signal(signal);
        assert!(gateway.wait_for_end(), "{signal}");
    }
}

#[test]
fn a_stop_right_after_the_start_is_as_clean() {
    let upstream = Upstream::start();
    for _ in 0..10 {
        let mut gateway = Gateway::before(upstream.address, "{algorithm: fixed, limit: 10, window: 60}");
        gateway.signal("TERM");
        assert!(gateway.wait_for_end());
        gateway.wait_for_line("stopped");
        let lines = gateway.lines();
        assert!(lines.iter().all(|line| line.contains(" INFO ")), "{lines:#?}");
    }
}

/// The signals a process catches, by the kernel: bit n - 1 stands for signal n.
fn caught(gateway: &Gateway) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).expect("it runs");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("the kernel tells");
    u64::from_str_radix(mask.trim(), 16).expect("a mask")
}

/// Once a hang-up right after the ready line ended the process: the handlers were set a moment later.
#[test]
fn a_service_that_reports_that_it_listens_obeys_signals_already() {
    let upstream = Upstream::start();
    let (hang_up, interrupt, terminate) = (1, 1 << 1, 1 << 14);
    for _ in 0..5 {
        let gateway = Gateway::before(upstream.address, "{algorithm: fixed, limit: 10, window: 60}");
        let wanted = hang_up | interrupt | terminate;
        assert_eq!(caught(&gateway) & wanted, wanted, "a signal would end it");
    }
}

//! `tidegate demo`, part by part.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use tidegate_testkit::command::run;
use tidegate_testkit::{Directory, PATIENCE, signal, text, tidegate, wait_for, wait_for_exit, wait_until};

/// One demo at a time: they would take each other's ports.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A demo that runs, its output in a file.
struct Demo {
    child: Child,
    directory: Directory,
}

impl Demo {
    fn start(arguments: &[&str]) -> Self {
        let directory = Directory::new();
        let output = File::create(directory.0.join("output")).expect("a file");
        let mut command = tidegate();
        command.arg("demo").args(arguments).args(["--out", &text(&directory.0)]);
        let both = output.try_clone().expect("the same file");
        let child = command.stdout(output).stderr(both).spawn().expect("it starts");
        Self { child, directory }
    }

    fn output(&self) -> String {
        fs::read_to_string(self.directory.0.join("output")).expect("text")
    }

    fn wait_for(&self, words: &str) {
        // A part may have to be played before.
        let found = wait_for(PATIENCE * 3, || self.output().contains(words).then_some(()));
        assert!(found.is_some(), "no {words:?} in {}", self.output());
    }

    /// Where load generator, gateway, target and forecaster listen, as its second line shows.
    fn addresses(&self) -> [SocketAddr; 4] {
        let output = self.output();
        let line = output.lines().nth(1).expect("a second line").split_once(':').expect("an address").1;
        let ports = line.split(|letter: char| !letter.is_ascii_digit()).filter_map(|word| word.parse().ok());
        let ports: Vec<u16> = ports.collect();
        let ports: [u16; 4] = ports.try_into().unwrap_or_else(|found| panic!("{found:?} in {line}"));
        ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)))
    }

    fn end(&mut self, patience: Duration) -> i32 {
        let status = wait_for_exit(&mut self.child, patience);
        let status = status.unwrap_or_else(|| panic!("it does not end: {}", self.output()));
        status.code().expect("no signal ended it")
    }

    fn report(&self) -> Value {
        serde_json::from_slice(&fs::read(self.directory.0.join("report.json")).expect("a report")).expect("JSON")
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It may have ended already; either way it is gone now.
        let _ended = (self.child.kill(), self.child.wait());
    }
}

/// Whether a service says that it is well.
fn is_well(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(1))).expect("a span that is not zero");
    let request = format!("GET /actuator/health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut response = String::new();
    stream.write_all(request.as_bytes()).is_ok()
        && stream.read_to_string(&mut response).is_ok()
        && response.starts_with("HTTP/1.1 200")
}

#[test]
fn the_outage_is_played_to_its_report_and_a_taken_port_is_reported() {
    let _turn = turn();
    // If somebody else has it, it is taken as well.
    let _taken = TcpListener::bind("127.0.0.1:8082");
    let mut demo = Demo::start(&["outage"]);
    let code = demo.end(Duration::from_secs(90));
    let output = demo.output();
    let gateway = demo.addresses()[1];
    assert_ne!(gateway.port(), 8082);
    assert!(output.contains(&format!("8082 is taken: the gateway listens on {gateway}")), "{output}");
    assert!(!output.contains('\x1b'), "nobody's terminal: {output}");
    for words in ["part 1 of 1, The store hangs", "Redis hangs", "offered  320/s", "1 run", "report.html"] {
        assert!(output.contains(words), "{words:?} in {output}");
    }
    let report = demo.report();
    assert_eq!(report["kind"], "demo");
    // How well it went on a busy machine is not what is tested here, but that the code says so. What is expected is
    // held in simulated time.
    assert_eq!(code == 0, report["verdict"]["passed"] == true, "{code}: {output}");
    assert!([0, 98, 99].contains(&code), "{output}");
    let run = &report["scenarios"][0]["runs"][0];
    assert_eq!((&run["id"], &report["scenarios"][0]["store"]), (&"outage/token/on".into(), &"stand_in".into()));
    let events = run["events"].as_array().expect("events");
    for expected in ["Redis hangs", "Redis connection lost", "Redis reconnected", "forecaster killed"] {
        assert!(events.iter().any(|event| event["text"] == expected), "{expected}: {events:?}");
    }
    let exempt: Vec<(f64, f64)> = run["exempt"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|exempt| Some((exempt["from"].as_f64()?, exempt["until"].as_f64()?)))
        .collect();
    assert!(exempt.iter().any(|(from, until)| *from < 8.0 && *until > 4.0), "nothing is limited from 4 to 8 s: {run}");
    let reported = run["notes"][0].as_str().expect("a note");
    assert!(reported.starts_with("Not scored: ") && reported.contains("so no limit was enforced"), "{reported}");
    assert_limits_are_of_their_seconds(run, &exempt);
    assert!(fs::read_to_string(demo.directory.0.join("report.html")).expect("a page").contains("</html>"));
}

/// Instead of a limit, what of each group's requests is served.
#[test]
fn the_dying_provider_is_played_with_its_breaker_and_without() {
    let _turn = turn();
    let mut demo = Demo::start(&["provider"]);
    let code = demo.end(Duration::from_secs(90));
    let output = demo.output();
    for words in [
        "run 1 of 2",
        "provider frozen",
        "shoppers",
        "payers",
        "breaker of provider (policy provider) is open",
        "unprotected",
    ] {
        assert!(output.contains(words), "{words:?} in {output}");
    }
    assert!(!output.contains("limit"), "{output}");
    let report = demo.report();
    assert_eq!(code == 0, report["verdict"]["passed"] == true, "{code}: {output}");
    let runs = &report["scenarios"][0]["runs"];
    assert_eq!([&runs[0]["id"], &runs[1]["id"]], ["provider/protected", "provider/unprotected"]);
}

/// The limit of each second is the one that events have put in force by its end; there is none where a part of the
/// second was without.
fn assert_limits_are_of_their_seconds(run: &Value, exempt: &[(f64, f64)]) {
    let change = |event: &Value| {
        let text = event["text"].as_str()?;
        let is_done = ["applied", "capped", "reverted", "lowered", "released"].iter().any(|it| text.starts_with(it));
        let rate = text.split_once(" to ")?.1.split_once(" req/s")?.0.parse::<f64>().ok()?;
        is_done.then_some((event["at"].as_f64()?, rate))
    };
    let changes: Vec<(f64, f64)> = run["events"].as_array().into_iter().flatten().filter_map(change).collect();
    assert!(!changes.is_empty(), "{run}");
    let limits = run["series"]["limit"].as_array().expect("limits");
    for (end, limit) in (1_u32..).zip(limits) {
        let expected = changes.iter().rfind(|(at, _)| *at < f64::from(end)).map_or(200.0, |(_, rate)| *rate);
        let is_exempt = |(from, until): &(f64, f64)| *from <= f64::from(end) && *until >= f64::from(end) - 1.0;
        let Some(limit) = limit.as_f64() else {
            assert!(exempt.iter().any(is_exempt), "no limit until {end} s, but for {exempt:?}");
            continue;
        };
        assert!((limit - expected).abs() < 0.1, "{limit} until {end} s, {expected} expected: {changes:?}");
    }
}

#[test]
fn ctrl_c_ends_everything_and_still_writes_the_report() {
    let _turn = turn();
    let mut demo = Demo::start(&["attack", "normal"]);
    demo.wait_for("offered");
    signal(demo.child.id(), "INT");
    assert_eq!(demo.end(PATIENCE), 130, "{}", demo.output());
    let report = demo.report();
    assert_eq!((&report["kind"], &report["verdict"]["interrupted"]), (&"demo".into(), &true.into()));
    assert_eq!(report["scenarios"][0]["runs"][0]["status"], "invalid", "it was stopped before its end");
}

#[test]
fn what_is_kept_responds_until_ctrl_c() {
    let _turn = turn();
    let mut demo = Demo::start(&["normal", "--keep"]);
    demo.wait_for("Everything is running, until Ctrl-C.");
    let addresses = demo.addresses();
    for address in addresses {
        wait_until(&format!("{address} is well"), || is_well(address));
    }
    demo.wait_for("/faults -d");
    assert!(demo.output().contains(&format!("curl -i http://{}/api/test", addresses[1])), "{}", demo.output());
    signal(demo.child.id(), "INT");
    let code = demo.end(PATIENCE);
    assert_eq!(code == 0, demo.report()["verdict"]["passed"] == true, "{code}: {}", demo.output());
    assert!([0, 98, 99].contains(&code) && !demo.output().contains('\x1b'), "{}", demo.output());
}

#[test]
fn what_can_not_be_played_is_reported_before_anything_is() {
    let directory = Directory::new();
    let file = text(&directory.file("file", ""));
    // Where the page should be is something else.
    fs::create_dir_all(directory.0.join("out/report.html")).expect("a directory");
    let out = text(&directory.0.join("out"));
    for (arguments, code, reason) in [
        (&["demo", "everything"][..], 2, "possible values: normal, spikes, attack, outage"),
        (&["demo", "normal", "--out", &format!("{file}/x")], 1, "file/x"),
        (&["demo", "normal", "--out", &out], 1, "report.html: Is a directory"),
    ] {
        let outcome = run(arguments, &[]);
        assert_eq!(outcome.code, code, "{outcome:?}");
        assert!(outcome.err.contains(reason) && outcome.out.is_empty(), "{outcome:?}");
    }
}

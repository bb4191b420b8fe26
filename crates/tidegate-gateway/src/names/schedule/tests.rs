use super::*;

const SECOND: Duration = Duration::from_secs(1);
const BOUNDS: TtlBounds = TtlBounds { min: SECOND, max: Duration::from_secs(600) };
const NO_JITTER: f64 = 0.0;

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().expect("an address")).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "the tables have it beside failures")]
fn found(ttl: u64, texts: &[&str]) -> Found {
    Ok(Records { addresses: addresses(texts), ttl: Duration::from_secs(ttl) })
}

fn timed_out() -> Found {
    Err(LookupError::Timeout(2 * SECOND))
}

fn missing() -> Found {
    Err(LookupError::NoSuchName)
}

fn no_data() -> Found {
    Err(LookupError::NoAddress)
}

/// A schedule in simulated time: each lookup ends at the moment that it is due.
struct Simulation {
    schedule: Schedule,
    now: Timestamp,
}

impl Simulation {
    fn new() -> Self {
        Self { schedule: Schedule::new(BOUNDS), now: Timestamp::from_nanos(1_700_000_000_000_000_000) }
    }

    /// Ends a lookup. Returns the changes and the time until the next one, which passes.
    fn step(&mut self, v4: Found, v6: Found) -> (Vec<Change>, Duration) {
        let changes = self.schedule.record(Outcome { v4, v6 }, self.now, NO_JITTER);
        let wait = self.schedule.due().since(self.now);
        self.now = self.now + wait;
        (changes, wait)
    }

    fn has(&self, texts: &[&str]) {
        assert_eq!(**self.schedule.addresses(), addresses(texts));
    }
}

fn changed(added: &[&str], removed: &[&str]) -> Vec<Change> {
    vec![Change::Addresses { added: addresses(added), removed: addresses(removed) }]
}

#[test]
fn a_new_name_has_no_addresses_and_is_due_at_once() {
    let simulation = Simulation::new();
    simulation.has(&[]);
    assert!(simulation.schedule.due() <= simulation.now);
}

/// Both families as found, the addresses that come of it, the time until the next lookup in seconds.
#[test]
fn a_first_lookup_as_a_table() {
    for (v4, v6, wanted, seconds) in [
        (found(30, &["10.0.0.1"]), no_data(), &["10.0.0.1"][..], 30),
        (no_data(), found(30, &["fd00::1"]), &["fd00::1"], 30),
        // The smaller TTL of both families counts.
        (found(30, &["10.0.0.1"]), found(20, &["fd00::1"]), &["10.0.0.1", "fd00::1"], 20),
        // A server that reports NXDOMAIN for one family only is wrong, and common.
        (found(30, &["10.0.0.1"]), missing(), &["10.0.0.1"], 30),
        // Sorted, without duplicates, IPv4 in IPv6 as IPv4.
        (found(9, &["10.0.0.2", "10.0.0.1", "10.0.0.2"]), no_data(), &["10.0.0.1", "10.0.0.2"], 9),
        (found(9, &["10.0.0.1"]), found(9, &["::ffff:10.0.0.1", "fd00::1"]), &["10.0.0.1", "fd00::1"], 9),
        // TTLs are kept within their bounds.
        (found(0, &["10.0.0.1"]), no_data(), &["10.0.0.1"], 1),
        (found(1 << 31, &["10.0.0.1"]), no_data(), &["10.0.0.1"], 600),
        // What there is is used; the other family is asked for again soon, but not sooner than the TTL wants.
        (found(30, &["10.0.0.1"]), timed_out(), &["10.0.0.1"], 1),
        (timed_out(), found(30, &["fd00::1"]), &["fd00::1"], 1),
        // Failures.
        (missing(), missing(), &[], 1),
        (no_data(), no_data(), &[], 1),
        (timed_out(), no_data(), &[], 1),
        (found(30, &[]), found(30, &[]), &[], 1),
    ] {
        let mut simulation = Simulation::new();
        let name = format!("{v4:?} {v6:?}");
        let (changes, wait) = simulation.step(v4, v6);
        simulation.has(wanted);
        assert_eq!(wait, Duration::from_secs(seconds), "{name}");
        if wanted.is_empty() {
            assert!(matches!(changes[..], [Change::Failing { .. }]), "{name}: {changes:?}");
        } else {
            assert_eq!(changes, changed(wanted, &[]), "{name}");
        }
    }
}

#[test]
fn changes_are_reported_and_the_order_of_records_is_not_one() {
    let mut simulation = Simulation::new();
    simulation.step(found(5, &["10.0.0.1", "10.0.0.2"]), no_data());
    assert_eq!(simulation.step(found(5, &["10.0.0.2", "10.0.0.1"]), no_data()).0, []);
    let (changes, _) = simulation.step(found(5, &["10.0.0.3", "10.0.0.2"]), found(5, &["fd00::1"]));
    assert_eq!(changes, changed(&["10.0.0.3", "fd00::1"], &["10.0.0.1"]));
    simulation.has(&["10.0.0.2", "10.0.0.3", "fd00::1"]);
    // The family is gone, as a server says.
    assert_eq!(simulation.step(found(5, &["10.0.0.2", "10.0.0.3"]), no_data()).0, changed(&[], &["fd00::1"]));
}

#[test]
fn failures_keep_the_addresses_are_reported_once_and_are_followed_by_growing_pauses() {
    for failure in [timed_out, missing, no_data] {
        let mut simulation = Simulation::new();
        simulation.step(found(5, &["10.0.0.1"]), found(5, &["fd00::1"]));
        let (changes, wait) = simulation.step(failure(), failure());
        let error = failure().expect_err("a failure");
        assert_eq!((changes, wait), (vec![Change::Failing { error }], SECOND));
        assert!(simulation.schedule.is_failing());
        let mut waits = Vec::new();
        for _ in 0..7 {
            let (changes, wait) = simulation.step(failure(), failure());
            assert_eq!(changes, []);
            waits.push(wait.as_secs());
        }
        assert_eq!(waits, [2, 4, 8, 16, 30, 30, 30]);
        simulation.has(&["10.0.0.1", "fd00::1"]);
        let (changes, wait) = simulation.step(found(5, &["10.0.0.1"]), found(5, &["fd00::1"]));
        let after = Duration::from_secs(1 + 2 + 4 + 8 + 16 + 30 + 30 + 30);
        assert_eq!((changes, wait), (vec![Change::Recovered { after }], 5 * SECOND));
        assert!(!simulation.schedule.is_failing());
        // The next failure begins anew.
        let (changes, wait) = simulation.step(failure(), failure());
        assert!(matches!(changes[..], [Change::Failing { .. }]));
        assert_eq!(wait, SECOND);
    }
}

#[test]
fn a_name_that_never_resolved_recovers_with_its_addresses() {
    let mut simulation = Simulation::new();
    simulation.step(missing(), missing());
    let (changes, _) = simulation.step(found(5, &["10.0.0.1"]), no_data());
    let [Change::Recovered { after }, addresses] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!(*after, SECOND);
    assert_eq!(*addresses, changed(&["10.0.0.1"], &[])[0]);
}

/// A family that can't be looked up keeps its addresses while the other one is followed.
#[test]
fn each_family_keeps_its_last_good_addresses() {
    let mut simulation = Simulation::new();
    simulation.step(found(60, &["10.0.0.1"]), found(60, &["fd00::1"]));
    let (changes, wait) = simulation.step(found(60, &["10.0.0.2"]), timed_out());
    assert_eq!((changes, wait), (changed(&["10.0.0.2"], &["10.0.0.1"]), SECOND));
    simulation.has(&["10.0.0.2", "fd00::1"]);
    let waits: Vec<u64> = (0..6).map(|_| simulation.step(found(60, &["10.0.0.2"]), timed_out()).1.as_secs()).collect();
    assert_eq!(waits, [2, 4, 8, 16, 30, 30]);
    assert!(!simulation.schedule.is_failing());
    // One family without addresses and one that can't be looked up are a failure: nothing is taken away.
    simulation.step(no_data(), timed_out());
    simulation.has(&["10.0.0.2", "fd00::1"]);
    assert!(simulation.schedule.is_failing());
    let (_, wait) = simulation.step(found(60, &["10.0.0.2"]), no_data());
    assert_eq!(wait, 60 * SECOND);
    simulation.has(&["10.0.0.2"]);
}

#[test]
fn a_name_has_at_most_64_addresses_always_the_same_and_a_warning_comes_once() {
    let v4 = |count: u16| {
        let addresses = (0..count).rev().map(|n| IpAddr::from([10, 0, (n >> 8) as u8, n as u8])).collect();
        Ok(Records { addresses, ttl: SECOND })
    };
    let mut simulation = Simulation::new();
    assert_eq!(simulation.step(v4(64), no_data()).0.len(), 1);
    assert_eq!(simulation.schedule.addresses().len(), 64);
    assert_eq!(simulation.step(v4(1_000), found(1, &["fd00::1"])).0, [Change::TooMany { found: 1_001 }]);
    assert_eq!(simulation.step(v4(1_000), found(1, &["fd00::1"])).0, []);
    assert_eq!(simulation.schedule.addresses().len(), 64);
    assert_eq!(simulation.schedule.addresses()[63], IpAddr::from([10, 0, 0, 63]));
    assert_eq!(simulation.step(v4(64), no_data()).0, []);
    assert_eq!(simulation.step(v4(64), found(1, &["fd00::1"])).0, [Change::TooMany { found: 65 }]);
}

#[test]
fn jitter_shortens_pauses_by_a_quarter_at_most() {
    for (jitter, wanted) in [(0.0, 1_000), (0.5, 875), (1.0, 750), (7.0, 750), (-1.0, 1_000)] {
        assert_eq!(pause(1, jitter), Duration::from_millis(wanted));
    }
    assert_eq!(pause(u32::MAX, 0.0), LONGEST_PAUSE);
}

#[test]
fn the_error_that_says_more_is_reported() {
    let (timeout, name, address) = (LookupError::Timeout(SECOND), LookupError::NoSuchName, LookupError::NoAddress);
    for (v4, v6, wanted) in [
        (&timeout, &name, &timeout),
        (&name, &timeout, &timeout),
        (&address, &name, &name),
        (&name, &address, &name),
        (&address, &address, &address),
    ] {
        assert_eq!(LookupError::of_both(v4.clone(), v6.clone()), *wanted);
    }
}

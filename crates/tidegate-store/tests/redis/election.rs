//! Several processes agree on which of them adapts: one at a time, and none that has lost its turn without noticing.

use std::collections::HashMap;
use std::time::Duration;

use tidegate_store::election::{Election, ElectionFault, Lifetimes, Overlay, Publication, Standing};
use tidegate_store::{InvalidConfig, Store};

use crate::failure::until;
use crate::setup::{name, patient};
use tidegate_testkit::redis_server::{Server, eventually};

/// Nothing ends by itself during a test.
const LONG: Lifetimes = Lifetimes {
    lease: Duration::from_secs(3_600),
    report: Duration::from_secs(3_600),
    overlay: Duration::from_secs(3_600),
};
pub(crate) const KEYS: [&str; 4] = [
    "tidegate:{test}::council:limits:lease",
    "tidegate:{test}::council:limits:members",
    "tidegate:{test}::council:limits:reports",
    "tidegate:{test}::council:limits:overlay",
];

fn member(store: &Store, lifetimes: Lifetimes) -> Election {
    store.election(&name("limits"), lifetimes).expect("sensible lifetimes")
}

/// Each with a connection of its own, as processes have.
async fn members<const N: usize>(server: &Server, lifetimes: Lifetimes) -> [Election; N] {
    let mut members = Vec::new();
    for _ in 0..N {
        members.push(member(&Store::connect(patient(&server.url())).await.expect("sensible settings"), lifetimes));
    }
    members.try_into().ok().expect("as many as were made")
}

pub(crate) fn publication(term: u64, overlay: &str) -> Publication<'_> {
    Publication { term, overlay: Some(overlay.as_bytes()) }
}

pub(crate) fn text(overlay: Option<&Overlay>) -> Option<&str> {
    overlay.map(|overlay| str::from_utf8(&overlay.bytes).expect("ours are texts"))
}

/// What the leader got, by member.
pub(crate) fn reported(standing: &Standing) -> HashMap<&str, &str> {
    let reports = standing.reports.as_ref().expect("the leader gets all reports");
    reports.iter().map(|report| (&*report.member, str::from_utf8(&report.bytes).expect("ours are texts"))).collect()
}

#[tokio::test]
async fn one_of_three_leads_gets_all_reports_and_is_followed_by_all() {
    let server = Server::start();
    let [mut ann, mut bob, mut cid] = members(&server, LONG).await;
    let first = ann.heartbeat(b"a1", None).await.expect("a heartbeat");
    assert_eq!(reported(&first), HashMap::from([(ann.member(), "a1")]));
    assert_eq!(first.overlay, None);
    for (other, report) in [(&mut bob, b"b1"), (&mut cid, b"c1")] {
        let not_mine = publication(first.term, "not mine to say");
        let standing = other.heartbeat(report, Some(not_mine)).await.expect("a heartbeat");
        assert_eq!(standing, Standing { term: first.term, reports: None, overlay: None });
    }
    let second = ann.heartbeat(b"a2", Some(publication(first.term, "twice as much"))).await.expect("a heartbeat");
    let all = [(ann.member(), "a2"), (bob.member(), "b1"), (cid.member(), "c1")];
    assert_eq!((second.term, reported(&second)), (first.term, all.into()));
    for other in [&mut bob, &mut cid] {
        let overlay = other.heartbeat(b"", None).await.expect("a heartbeat").overlay.expect("it is in force");
        assert_eq!((&*overlay.bytes, overlay.term), (&b"twice as much"[..], first.term));
        assert!(overlay.left <= LONG.overlay && overlay.left > LONG.overlay / 2);
    }
    let none = ann.heartbeat(b"a3", Some(Publication { term: first.term, overlay: None })).await.expect("a heartbeat");
    assert_eq!((none.overlay, bob.heartbeat(b"", None).await.expect("a heartbeat").overlay), (None, None));
}

/// The leader froze, or was cut off, and another took over by Redis' own clock. Then it comes back, with what it had
/// decided before.
#[tokio::test]
async fn a_leader_that_comes_back_too_late_can_publish_nothing() {
    let server = Server::start();
    let lifetimes = Lifetimes { lease: Duration::from_millis(50), ..LONG };
    let [mut ann, mut bob] = members(&server, lifetimes).await;
    let old = ann.heartbeat(b"", None).await.expect("a heartbeat").term;
    let mut new = 0;
    until("the lease has run out", async || {
        let standing = bob.heartbeat(b"", None).await.expect("a heartbeat");
        new = standing.term;
        standing.is_leader()
    })
    .await;
    assert!(new > old);
    let _ = bob.leave().await; // so that it is surely the term that counts, not who has the lease
    let back = ann.heartbeat(b"", Some(publication(old, "of old"))).await.expect("a heartbeat");
    assert!(back.is_leader() && back.term > new);
    assert_eq!(back.overlay, None);
    let again = ann.heartbeat(b"", Some(publication(back.term, "of now"))).await.expect("a heartbeat");
    assert_eq!(text(again.overlay.as_ref()), (again.term == back.term).then_some("of now"));
}

#[tokio::test]
async fn who_leaves_gives_the_lease_back_and_what_it_published_stays() {
    let server = Server::start();
    let [mut ann, mut bob, mut cid] = members(&server, LONG).await;
    let term = ann.heartbeat(b"a", None).await.expect("a heartbeat").term;
    ann.heartbeat(b"a", Some(publication(term, "stays"))).await.expect("a heartbeat");
    cid.heartbeat(b"c", None).await.expect("a heartbeat");
    cid.leave().await.expect("it has left");
    assert!(!bob.heartbeat(b"b", None).await.expect("a heartbeat").is_leader(), "the lease was not that one's");
    ann.leave().await.expect("it has left");
    let next = bob.heartbeat(b"b", None).await.expect("a heartbeat");
    assert!(next.term > term);
    assert_eq!(reported(&next), HashMap::from([(bob.member(), "b")]), "reports of those who have left are gone");
    assert_eq!(text(next.overlay.as_ref()), Some("stays"));
}

#[tokio::test]
async fn what_is_too_much_is_rejected_and_what_is_just_not_is_kept_whole() {
    let server = Server::start();
    let [mut ann] = members(&server, LONG).await;
    let (longest, longer) = (vec![0; Election::LONGEST], vec![0; Election::LONGEST + 1]);
    let term = ann.heartbeat(&longest, None).await.expect("a heartbeat").term;
    let too_long = Some(Publication { term, overlay: Some(&longer) });
    assert_eq!(ann.heartbeat(&longer, None).await, Err(ElectionFault::TooLong));
    assert_eq!(ann.heartbeat(b"", too_long).await, Err(ElectionFault::TooLong));
    let fits = Some(Publication { term, overlay: Some(&longest) });
    let standing = ann.heartbeat(&longest, fits).await.expect("a heartbeat");
    assert_eq!(standing.reports.expect("the leader gets all reports")[0].bytes, longest);
    assert_eq!(standing.overlay.expect("it is in force").bytes, longest);

    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    let (none, ever) = (Duration::from_micros(999), Duration::from_secs(86_401));
    for (field, lifetimes) in [
        ("lease", Lifetimes { lease: none, ..LONG }),
        ("report", Lifetimes { report: ever, ..LONG }),
        ("overlay", Lifetimes { overlay: none, ..LONG }),
    ] {
        let rejected = store.election(&name("limits"), lifetimes).map(drop);
        assert_eq!(rejected, Err(InvalidConfig { field, expected: "from 1 ms to 24 h" }));
    }
}

/// Everything that stands under the election's keys, to see whether anything has changed.
pub(crate) fn everything(server: &Server) -> [Option<Vec<u8>>; 4] {
    KEYS.map(|key| redis::cmd("DUMP").arg(key).query(&mut server.connection()).expect("a reply"))
}

#[tokio::test]
async fn what_is_not_ours_under_the_keys_is_reported_and_nothing_is_changed() {
    let server = Server::start();
    let [mut ann, mut bob] = members(&server, LONG).await;
    let term = ann.heartbeat(b"a", None).await.expect("a heartbeat").term;
    for key in KEYS {
        let confused = |fault: &Result<(), ElectionFault>, words: &str| {
            assert!(matches!(fault, Err(ElectionFault::Rejected(error)) if error.contains(words)), "{key}: {fault:?}");
        };
        for (garbage, words) in [(["LPUSH", key, "x"], "WRONGTYPE"), (["SET", key, "x"], "")] {
            server.flush();
            ann.heartbeat(b"a", None).await.expect("a heartbeat");
            redis::cmd("DEL").arg(key).exec(&mut server.connection()).expect("deleted");
            redis::cmd(garbage[0]).arg(&garbage[1..]).exec(&mut server.connection()).expect("written");
            let before = everything(&server);
            confused(&ann.heartbeat(b"new", Some(publication(term, "new"))).await.map(drop), words);
            confused(&bob.heartbeat(b"new", None).await.map(drop), words);
            if !key.ends_with("overlay") {
                let [cid] = members(&server, LONG).await;
                confused(&cid.leave().await, words);
            }
            assert_eq!(everything(&server), before, "{garbage:?}");
        }
    }
    server.flush();
    assert!(ann.heartbeat(b"a", None).await.expect("a heartbeat again").is_leader());
}

#[tokio::test]
async fn all_that_it_keeps_ends_by_itself() {
    let server = Server::start();
    let lifetimes = Lifetimes { overlay: Duration::from_secs(7_200), ..LONG };
    let [mut ann] = members(&server, lifetimes).await;
    let term = ann.heartbeat(b"a", None).await.expect("a heartbeat").term;
    ann.heartbeat(b"a", Some(publication(term, "more"))).await.expect("a heartbeat");
    let left = |key| redis::cmd("PTTL").arg(key).query::<i64>(&mut server.connection()).expect("a reply");
    for (key, most) in KEYS.into_iter().zip([3_600_001, 3_600_001, 3_600_001, 7_200_001]) {
        assert!((most - 60_000..=most).contains(&left(key)), "{key}: {}", left(key));
    }
    ann.leave().await.expect("it has left");
    assert!((3_540_000..=3_600_001).contains(&left(KEYS[0])), "the term is remembered, for as long as before");
}

#[tokio::test]
async fn an_election_survives_a_kill_of_redis_and_its_terms_go_on_growing() {
    let mut server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    let mut ann = member(&store, LONG);
    let term = ann.heartbeat(b"", None).await.expect("a heartbeat").term;
    server.kill();
    let fault = ann.heartbeat(b"", Some(publication(term, "more"))).await;
    assert!(matches!(fault, Err(ElectionFault::Away | ElectionFault::Unknown)), "{fault:?}");
    until("it is known to be away", async || ann.heartbeat(b"", None).await == Err(ElectionFault::Away)).await;
    server.restart();
    until("Redis is back", async || !store.is_down()).await;
    let after = ann.heartbeat(b"", Some(publication(term, "more"))).await.expect("a heartbeat");
    assert!(after.is_leader() && after.term > term, "Redis has forgotten everything, but not what time it is");
    assert_eq!(after.overlay, None);
}

/// Redis holds all writes back for longer than anyone waits. Requests have their own budget, and their own count of
/// late replies.
#[tokio::test]
async fn a_heartbeat_without_a_reply_is_reported_as_such_and_not_held_against_redis() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    let [mut ann, mut bob, mut cid] = [(); 3].map(|()| member(&store, LONG));
    let mut operator = server.connection();
    redis::cmd("CLIENT").arg(&["PAUSE", "60000", "WRITE"]).exec(&mut operator).expect("paused");
    let late = tokio::join!(ann.heartbeat(b"", None), bob.heartbeat(b"", None), cid.heartbeat(b"", None));
    let unknown = || Err(ElectionFault::Unknown);
    assert_eq!(late, (unknown(), unknown(), unknown()));
    assert!(!store.is_down());
    redis::cmd("CLIENT").arg("UNPAUSE").exec(&mut operator).expect("goes on");
    eventually("they took place after all", || {
        redis::cmd("HLEN").arg(KEYS[1]).query::<u64>(&mut operator).expect("a reply") == 3
    });
    assert!(ann.heartbeat(b"", None).await.expect("a heartbeat").is_leader());
}

//! Leader election to its definition, step by step, in simulated time: the scripts in Redis, and those of its stand-in.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tidegate_store::election::{Election, Lifetimes, Publication, Standing};
use tidegate_store::internals::election::{HEARTBEAT, LEAVE, Member, command, standing};

use crate::differential::NO_TTL;
use crate::election::{KEYS, everything, publication, reported, text};
use crate::stand_in::Hosted;
use tidegate_testkit::redis_server::Server;

/// The scripts with a clock of the test's own. Times are microseconds.
struct Simulated {
    connection: redis::Connection,
    heartbeat: String,
    leave: String,
    keys: [String; 4],
}

const LIFETIMES: Lifetimes = Lifetimes {
    lease: Duration::from_micros(100),
    report: Duration::from_micros(150),
    overlay: Duration::from_micros(300),
};

impl Simulated {
    fn new(connection: redis::Connection) -> Self {
        let (heartbeat, leave) = (format!("{NO_TTL}{HEARTBEAT}"), format!("{NO_TTL}{LEAVE}"));
        Self { connection, heartbeat, leave, keys: KEYS.map(str::to_owned) }
    }

    fn heartbeat(&mut self, member: &mut Member, now: u64, report: &str, decided: Option<Publication<'_>>) -> Standing {
        let args = member.heartbeat_args(Some(now), &LIFETIMES, report.as_bytes(), decided);
        self.put(&args).expect("a reply")
    }

    fn put(&mut self, args: &[Vec<u8>]) -> redis::RedisResult<Standing> {
        let reply = command(&self.heartbeat, &self.keys, args).query(&mut self.connection)?;
        Ok(standing(reply).expect("a standing"))
    }

    fn leave(&mut self, member: &Member) {
        command(&self.leave, &self.keys, &member.leave_args()).exec(&mut self.connection).expect("it has left");
    }
}

/// One that walks through an election, with the term it last led and what it has read so far.
struct Walker {
    member: Member,
    holds: Option<u64>,
    read_up_to: u64,
    read: HashSet<String>,
}

impl Walker {
    fn new() -> Self {
        Self { member: Member::new(), holds: None, read_up_to: 0, read: HashSet::new() }
    }
}

/// How an election stands by its definition, as far as is known.
#[derive(Default)]
struct Known {
    /// Who has the lease, until when.
    leader: Option<(String, u64)>,
    term: u64,
    /// Text, term, version, end.
    overlay: Option<(String, u64, u64, u64)>,
    version: u64,
    /// The latest of each member: text and when.
    reports: HashMap<String, (String, u64)>,
    number: u64,
}

impl Known {
    /// Whether what `member` got by its heartbeat now is as it should be.
    fn hold(
        &mut self,
        member: &str,
        now: u64,
        report: &str,
        decided: Option<(u64, Option<&str>)>,
        standing: &Standing,
    ) {
        self.leader.take_if(|(_, end)| now >= *end);
        match &self.leader {
            Some((leader, _)) => assert_eq!((standing.is_leader(), standing.term), (leader == member, self.term)),
            None => assert!(standing.is_leader() && standing.term > self.term, "a lease that is free is taken"),
        }
        let is_new_term = standing.term > self.term;
        self.term = standing.term;
        if standing.is_leader() {
            self.leader = Some((member.to_owned(), now + 100));
        }
        self.reports.insert(member.to_owned(), (report.to_owned(), now));
        self.reports.retain(|_, (_, at)| now - *at < 150);

        self.overlay.take_if(|(_, _, _, end)| now >= *end);
        if let Some((term, overlay)) = decided
            && standing.is_leader()
            && !is_new_term
            && term == standing.term
        {
            let seen = standing.overlay.as_ref().map_or(0, |overlay| overlay.version);
            let before = self.overlay.take();
            self.overlay = overlay.map(|text| {
                let is_same = before.is_some_and(|(before, ..)| before == text);
                assert!(if is_same { seen == self.version } else { seen > self.version }, "{seen} {is_same}");
                self.version = seen;
                (text.to_owned(), term, seen, now + 300)
            });
        }
        let seen = standing.overlay.as_ref().map(|overlay| {
            let text = String::from_utf8(overlay.bytes.clone()).expect("ours are texts");
            (text, overlay.term, overlay.version, now + overlay.left.as_micros() as u64)
        });
        assert_eq!(seen, self.overlay);
        if let Some(reports) = &standing.reports {
            let ages: HashMap<_, _> = reports.iter().map(|report| (&*report.member, report.age)).collect();
            let age = |at: u64| Duration::from_micros(now - at);
            assert_eq!(ages, self.reports.iter().map(|(member, (_, at))| (&**member, age(*at))).collect());
            let texts = self.reports.iter().map(|(member, (text, _))| (&**member, &**text)).collect();
            assert_eq!(reported(standing), texts);
            assert!(reports.is_sorted_by(|one, next| one.number < next.number));
            let last = reports.last().expect("its own").number;
            assert!(last > self.number, "the newest report has the highest number of all so far");
            self.number = last;
        }
    }
}

/// Five walk in and out as they like, hesitate for longer than leases last, and publish whatever they have decided
/// however long ago.
#[test]
fn an_election_stands_as_by_its_definition_at_every_step() {
    let (server, stand_in) = (Server::start(), Hosted::start());
    walk_through(Simulated::new(server.connection()));
    walk_through(Simulated::new(stand_in.connection()));
}

fn walk_through(mut election: Simulated) {
    let mut random = fastrand::Rng::with_seed(7);
    let (mut walkers, mut known) = ([(); 5].map(|()| Walker::new()), Known::default());
    let (mut now, mut terms, mut published) = (1_000_000, HashSet::new(), 0);
    for step in 0..20_000 {
        now += if random.u8(..) < 8 { random.u64(..400) } else { random.u64(..40) };
        let walker = &mut walkers[if random.bool() { 0 } else { random.usize(..5) }];
        if random.u8(..) < 4 {
            election.leave(&walker.member);
            known.leader.take_if(|(leader, _)| *leader == walker.member.id);
            known.reports.remove(&walker.member.id);
            *walker = Walker::new();
            continue;
        }
        let overlay = random.choice([None, Some("one"), Some("other")]).expect("not empty");
        let decided = walker.holds.filter(|_| random.bool()).map(|term| (term, overlay));
        let publication = decided.map(|(term, text)| Publication { term, overlay: text.map(str::as_bytes) });
        let report = step.to_string();
        let standing = election.heartbeat(&mut walker.member, now, &report, publication);
        known.hold(&walker.member.id, now, &report, decided, &standing);
        for report in standing.reports.iter().flatten().filter(|report| report.number > walker.read_up_to) {
            let text = String::from_utf8(report.bytes.clone()).expect("ours are texts");
            assert!(walker.read.insert(text), "a report was read twice");
        }
        if let Some(reports) = &standing.reports {
            for (_, text) in reported(&standing) {
                assert!(walker.read.contains(text), "a report was taken for one that had been read");
            }
            walker.read_up_to = reports.last().expect("its own").number;
            walker.holds = Some(standing.term); // kept when the lease is lost: it has not noticed yet
            terms.insert(standing.term);
        }
        published += u32::from(standing.overlay.is_some());
    }
    assert!(terms.len() > 100 && published > 1_000, "{} terms, {published} overlays: too few to tell", terms.len());
}

#[test]
fn of_too_many_members_the_latest_are_kept() {
    let server = Server::start();
    let mut election = Simulated::new(server.connection());
    let mut members: Vec<Member> = (0..Election::MOST_MEMBERS + 3).map(|_| Member::new()).collect();
    let mut seen = None;
    for (index, member) in members.iter_mut().enumerate() {
        let standing = election.heartbeat(member, 1_000_000, &index.to_string(), None);
        assert_eq!(standing.is_leader(), index == 0);
    }
    for _ in 0..2 {
        seen = Some(election.heartbeat(&mut members[0], 1_000_001, "0", None));
    }
    let seen = seen.expect("two heartbeats");
    let reported: HashSet<String> = reported(&seen).into_values().map(str::to_owned).collect();
    let latest = (4..Election::MOST_MEMBERS + 3).chain([0]).map(|index| index.to_string());
    assert_eq!(reported, latest.collect());
    let mut size = |key| redis::cmd("HLEN").arg(key).query::<usize>(&mut election.connection).expect("a reply");
    assert_eq!([size(KEYS[1]), size(KEYS[2])], [Election::MOST_MEMBERS; 2]);
}

/// A call may outlive its connection, and arrive after those on the next one.
#[test]
fn a_call_that_arrives_after_a_later_one_does_nothing() {
    let server = Server::start();
    let (mut election, mut ann) = (Simulated::new(server.connection()), Member::new());
    let term = election.heartbeat(&mut ann, 1_000_000, "first", None).term;
    let delayed = ann.heartbeat_args(Some(1_000_002), &LIFETIMES, b"delayed", Some(publication(term, "delayed")));
    election.heartbeat(&mut ann, 1_000_001, "last", Some(publication(term, "last")));
    let before = everything(&server);
    let rejected = election.put(&delayed).map(drop);
    assert_eq!(rejected.expect_err("it came too late").code(), Some("OUTDATED"));
    assert_eq!(everything(&server), before);
}

/// An hour back, as on another master whose clock is wrong: nobody who is gone counts, leads or is followed an hour
/// longer.
#[test]
fn a_clock_that_is_set_back_makes_nothing_last_longer() {
    let (server, stand_in) = (Server::start(), Hosted::start());
    set_back(Simulated::new(server.connection()));
    set_back(Simulated::new(stand_in.connection()));
}

fn set_back(mut election: Simulated) {
    let (mut ann, mut bob) = (Member::new(), Member::new());
    let (then, now) = (4_600_000_000, 1_000_000_000);
    let old = election.heartbeat(&mut ann, then, "gone", None).term;
    election.heartbeat(&mut ann, then, "gone", Some(publication(old, "old")));

    let first = election.heartbeat(&mut bob, now, "bob", None);
    assert!(!first.is_leader());
    assert_eq!(first.overlay.as_ref().map(|overlay| overlay.left), Some(LIFETIMES.overlay));
    assert!(!election.heartbeat(&mut bob, now + 99, "bob", None).is_leader());
    let taken = election.heartbeat(&mut bob, now + 100, "bob", None);
    assert!(taken.is_leader() && taken.term > old);
    assert_eq!(reported(&taken).len(), 2);
    let alone = election.heartbeat(&mut bob, now + 150, "bob", None);
    assert_eq!(reported(&alone), HashMap::from([(&*bob.id, "bob")]));
    assert_eq!(text(election.heartbeat(&mut bob, now + 249, "bob", None).overlay.as_ref()), Some("old"));
    assert_eq!(election.heartbeat(&mut bob, now + 300, "bob", None).overlay, None);
}

/// Redis may drop any key of ours, when it is full or a master fails: what is left makes sense, and heals.
#[test]
fn a_key_that_is_lost_is_made_good() {
    for key in KEYS {
        let server = Server::start();
        let (mut election, mut ann, mut bob) = (Simulated::new(server.connection()), Member::new(), Member::new());
        let old = election.heartbeat(&mut ann, 1_000_000, "a", None).term;
        election.heartbeat(&mut bob, 1_000_000, "b", None);
        let first = election.heartbeat(&mut ann, 1_000_000, "a", Some(publication(old, "old")));
        let version = first.overlay.expect("published").version;
        redis::cmd("DEL").arg(key).exec(&mut election.connection).expect("deleted");
        let (mut term, mut last) = (old, None);
        for _ in 0..2 {
            election.heartbeat(&mut bob, 1_000_001, "b", None);
            let standing = election.heartbeat(&mut ann, 1_000_001, "a", Some(publication(term, "new")));
            term = standing.term;
            last = Some(standing);
        }
        if key == KEYS[0] {
            let standing = election.heartbeat(&mut bob, 1_000_002, "b", Some(publication(old, "old")));
            assert!(standing.is_leader() && standing.term > old, "who came first has taken it");
            last = Some(election.heartbeat(&mut bob, 1_000_003, "b", Some(publication(standing.term, "new"))));
        }
        let last = last.expect("two heartbeats");
        assert_eq!(reported(&last), HashMap::from([(&*ann.id, "a"), (&*bob.id, "b")]), "{key}");
        let overlay = last.overlay.expect("it is in force");
        assert!(overlay.bytes == b"new" && overlay.version > version, "{key}");
    }
}

/// They would stay for ever, as long as there are heartbeats.
#[test]
fn a_report_whose_member_is_lost_goes_too() {
    let server = Server::start();
    let (mut election, mut ann, mut bob) = (Simulated::new(server.connection()), Member::new(), Member::new());
    election.heartbeat(&mut ann, 1_000_000, "a", None);
    redis::cmd("DEL").arg(KEYS[1]).exec(&mut election.connection).expect("deleted");
    election.heartbeat(&mut bob, 1_000_001, "b", None);
    let left: Vec<String> = redis::cmd("HVALS").arg(KEYS[2]).query(&mut election.connection).expect("a reply");
    assert_eq!(left, ["b"]);
}

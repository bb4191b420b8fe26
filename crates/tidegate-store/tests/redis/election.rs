//! Several processes agree on which of them adapts: one at a time, and none that has lost its turn without noticing.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tidegate_store::council::{LEAVE, MEET, Member, command};
use tidegate_store::{Council, CouncilFault, CouncilTerms, Decree, InvalidConfig, Meeting, Overlay, Store};

use crate::differential::NO_TTL;
use crate::failure::until;
use crate::setup::{name, patient};
use crate::stand_in::Hosted;
use tidegate_testkit::redis_server::{Server, eventually};

/// Nothing ends by itself during a test.
const LONG: CouncilTerms = CouncilTerms {
    lease: Duration::from_secs(3_600),
    report: Duration::from_secs(3_600),
    overlay: Duration::from_secs(3_600),
};
const KEYS: [&str; 4] = [
    "tidegate:{test}::council:limits:lease",
    "tidegate:{test}::council:limits:members",
    "tidegate:{test}::council:limits:reports",
    "tidegate:{test}::council:limits:overlay",
];

fn seat(store: &Store, terms: CouncilTerms) -> Council {
    store.council(&name("limits"), terms).expect("sensible terms")
}

/// Each with a connection of its own, as processes have.
async fn seats<const N: usize>(server: &Server, terms: CouncilTerms) -> [Council; N] {
    let mut seats = Vec::new();
    for _ in 0..N {
        seats.push(seat(&Store::connect(patient(&server.url())).await.expect("sensible settings"), terms));
    }
    seats.try_into().ok().expect("as many as were made")
}

fn decree(term: u64, overlay: &str) -> Decree<'_> {
    Decree { term, overlay: Some(overlay.as_bytes()) }
}

fn text(overlay: Option<&Overlay>) -> Option<&str> {
    overlay.map(|overlay| str::from_utf8(&overlay.bytes).expect("ours are texts"))
}

/// What the holder has heard, by member.
fn heard(meeting: &Meeting) -> HashMap<&str, &str> {
    let reports = meeting.reports.as_ref().expect("the holder hears all");
    reports.iter().map(|report| (&*report.member, str::from_utf8(&report.bytes).expect("ours are texts"))).collect()
}

#[tokio::test]
async fn one_of_three_holds_the_lease_hears_all_and_is_followed_by_all() {
    let server = Server::start();
    let [mut ann, mut bob, mut cid] = seats(&server, LONG).await;
    let first = ann.meet(b"a1", None).await.expect("a meeting");
    assert_eq!(heard(&first), HashMap::from([(ann.member(), "a1")]));
    assert_eq!(first.overlay, None);
    for (other, report) in [(&mut bob, b"b1"), (&mut cid, b"c1")] {
        let meeting = other.meet(report, Some(decree(first.term, "not mine to say"))).await.expect("a meeting");
        assert_eq!(meeting, Meeting { term: first.term, reports: None, overlay: None });
    }
    let second = ann.meet(b"a2", Some(decree(first.term, "twice as much"))).await.expect("a meeting");
    let all = [(ann.member(), "a2"), (bob.member(), "b1"), (cid.member(), "c1")];
    assert_eq!((second.term, heard(&second)), (first.term, all.into()));
    for other in [&mut bob, &mut cid] {
        let overlay = other.meet(b"", None).await.expect("a meeting").overlay.expect("it is in force");
        assert_eq!((&*overlay.bytes, overlay.term), (&b"twice as much"[..], first.term));
        assert!(overlay.left <= LONG.overlay && overlay.left > LONG.overlay / 2);
    }
    let none = ann.meet(b"a3", Some(Decree { term: first.term, overlay: None })).await.expect("a meeting");
    assert_eq!((none.overlay, bob.meet(b"", None).await.expect("a meeting").overlay), (None, None));
}

/// The holder froze, or was cut off, and another took over by Redis' own clock. Then it comes back, with what it had decided before.
#[tokio::test]
async fn a_holder_that_comes_back_too_late_can_publish_nothing() {
    let server = Server::start();
    let terms = CouncilTerms { lease: Duration::from_millis(50), ..LONG };
    let [mut ann, mut bob] = seats(&server, terms).await;
    let old = ann.meet(b"", None).await.expect("a meeting").term;
    let mut new = 0;
    until("the lease has run out", async || {
        let meeting = bob.meet(b"", None).await.expect("a meeting");
        new = meeting.term;
        meeting.is_holder()
    })
    .await;
    assert!(new > old);
    let _ = bob.leave().await; // so that it is surely the term that counts, not who has the lease
    let back = ann.meet(b"", Some(decree(old, "of old"))).await.expect("a meeting");
    assert!(back.is_holder() && back.term > new);
    assert_eq!(back.overlay, None);
    let again = ann.meet(b"", Some(decree(back.term, "of now"))).await.expect("a meeting");
    assert_eq!(text(again.overlay.as_ref()), (again.term == back.term).then_some("of now"));
}

#[tokio::test]
async fn who_leaves_gives_the_lease_back_and_what_it_published_stays() {
    let server = Server::start();
    let [mut ann, mut bob, mut cid] = seats(&server, LONG).await;
    let term = ann.meet(b"a", None).await.expect("a meeting").term;
    ann.meet(b"a", Some(decree(term, "stays"))).await.expect("a meeting");
    cid.meet(b"c", None).await.expect("a meeting");
    cid.leave().await.expect("it has left");
    assert!(!bob.meet(b"b", None).await.expect("a meeting").is_holder(), "the lease was not that one's");
    ann.leave().await.expect("it has left");
    let next = bob.meet(b"b", None).await.expect("a meeting");
    assert!(next.term > term);
    assert_eq!(heard(&next), HashMap::from([(bob.member(), "b")]), "those who have left are not heard");
    assert_eq!(text(next.overlay.as_ref()), Some("stays"));
}

#[tokio::test]
async fn what_is_too_much_is_refused_and_what_is_just_not_is_kept_whole() {
    let server = Server::start();
    let [mut ann] = seats(&server, LONG).await;
    let (longest, longer) = (vec![0; Council::LONGEST], vec![0; Council::LONGEST + 1]);
    let term = ann.meet(&longest, None).await.expect("a meeting").term;
    let too_long = Some(Decree { term, overlay: Some(&longer) });
    assert_eq!(ann.meet(&longer, None).await, Err(CouncilFault::TooLong));
    assert_eq!(ann.meet(b"", too_long).await, Err(CouncilFault::TooLong));
    let meeting = ann.meet(&longest, Some(Decree { term, overlay: Some(&longest) })).await.expect("a meeting");
    assert_eq!(meeting.reports.expect("the holder hears all")[0].bytes, longest);
    assert_eq!(meeting.overlay.expect("it is in force").bytes, longest);

    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    let (none, ever) = (Duration::from_micros(999), Duration::from_secs(86_401));
    for (field, terms) in [
        ("lease", CouncilTerms { lease: none, ..LONG }),
        ("report", CouncilTerms { report: ever, ..LONG }),
        ("overlay", CouncilTerms { overlay: none, ..LONG }),
    ] {
        let refused = store.council(&name("limits"), terms).map(drop);
        assert_eq!(refused, Err(InvalidConfig { field, allowed: "from 1 ms to 24 h" }));
    }
}

/// Everything that stands under the council's keys, to see whether anything has changed.
fn everything(server: &Server) -> [Option<Vec<u8>>; 4] {
    KEYS.map(|key| redis::cmd("DUMP").arg(key).query(&mut server.connection()).expect("an answer"))
}

#[tokio::test]
async fn what_is_not_ours_under_the_keys_is_told_and_nothing_is_changed() {
    let server = Server::start();
    let [mut ann, mut bob] = seats(&server, LONG).await;
    let term = ann.meet(b"a", None).await.expect("a meeting").term;
    for key in KEYS {
        let confused = |fault: &Result<(), CouncilFault>, words: &str| {
            assert!(matches!(fault, Err(CouncilFault::Refused(error)) if error.contains(words)), "{key}: {fault:?}");
        };
        for (garbage, words) in [(["LPUSH", key, "x"], "WRONGTYPE"), (["SET", key, "x"], "")] {
            server.flush();
            ann.meet(b"a", None).await.expect("a meeting");
            redis::cmd("DEL").arg(key).exec(&mut server.connection()).expect("deleted");
            redis::cmd(garbage[0]).arg(&garbage[1..]).exec(&mut server.connection()).expect("written");
            let before = everything(&server);
            confused(&ann.meet(b"new", Some(decree(term, "new"))).await.map(drop), words);
            confused(&bob.meet(b"new", None).await.map(drop), words);
            if !key.ends_with("overlay") {
                let [cid] = seats(&server, LONG).await;
                confused(&cid.leave().await, words);
            }
            assert_eq!(everything(&server), before, "{garbage:?}");
        }
    }
    server.flush();
    assert!(ann.meet(b"a", None).await.expect("it meets again").is_holder());
}

#[tokio::test]
async fn all_that_it_keeps_ends_by_itself() {
    let server = Server::start();
    let terms = CouncilTerms { overlay: Duration::from_secs(7_200), ..LONG };
    let [mut ann] = seats(&server, terms).await;
    let term = ann.meet(b"a", None).await.expect("a meeting").term;
    ann.meet(b"a", Some(decree(term, "more"))).await.expect("a meeting");
    let left = |key| redis::cmd("PTTL").arg(key).query::<i64>(&mut server.connection()).expect("an answer");
    for (key, most) in KEYS.into_iter().zip([3_600_001, 3_600_001, 3_600_001, 7_200_001]) {
        assert!((most - 60_000..=most).contains(&left(key)), "{key}: {}", left(key));
    }
    ann.leave().await.expect("it has left");
    assert!((3_540_000..=3_600_001).contains(&left(KEYS[0])), "the term is remembered, for as long as before");
}

#[tokio::test]
async fn a_council_survives_a_kill_of_redis_and_its_terms_go_on_growing() {
    let mut server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    let mut ann = seat(&store, LONG);
    let term = ann.meet(b"", None).await.expect("a meeting").term;
    server.kill();
    let fault = ann.meet(b"", Some(decree(term, "more"))).await;
    assert!(matches!(fault, Err(CouncilFault::Away | CouncilFault::Unknown)), "{fault:?}");
    until("it is known to be away", async || ann.meet(b"", None).await == Err(CouncilFault::Away)).await;
    server.restart();
    until("Redis is back", async || !store.is_down()).await;
    let after = ann.meet(b"", Some(decree(term, "more"))).await.expect("a meeting");
    assert!(after.is_holder() && after.term > term, "Redis has forgotten everything, but not what time it is");
    assert_eq!(after.overlay, None);
}

/// Redis holds all writes back for longer than anyone waits. Requests have their own budget, and their own count of late answers.
#[tokio::test]
async fn a_meeting_without_an_answer_is_told_as_such_and_not_held_against_redis() {
    let server = Server::start();
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    let [mut ann, mut bob, mut cid] = [(); 3].map(|()| seat(&store, LONG));
    let mut operator = server.connection();
    redis::cmd("CLIENT").arg(&["PAUSE", "60000", "WRITE"]).exec(&mut operator).expect("paused");
    let late = tokio::join!(ann.meet(b"", None), bob.meet(b"", None), cid.meet(b"", None));
    let unknown = || Err(CouncilFault::Unknown);
    assert_eq!(late, (unknown(), unknown(), unknown()));
    assert!(!store.is_down());
    redis::cmd("CLIENT").arg("UNPAUSE").exec(&mut operator).expect("goes on");
    eventually("they have met after all", || {
        redis::cmd("HLEN").arg(KEYS[1]).query::<u64>(&mut operator).expect("an answer") == 3
    });
    assert!(ann.meet(b"", None).await.expect("a meeting").is_holder());
}

/// The scripts with a clock of the test's own. Times are microseconds.
struct Simulated {
    connection: redis::Connection,
    meet: String,
    leave: String,
    keys: [String; 4],
}

const TERMS: CouncilTerms = CouncilTerms {
    lease: Duration::from_micros(100),
    report: Duration::from_micros(150),
    overlay: Duration::from_micros(300),
};

impl Simulated {
    fn new(connection: redis::Connection) -> Self {
        let (meet, leave) = (format!("{NO_TTL}{MEET}"), format!("{NO_TTL}{LEAVE}"));
        Self { connection, meet, leave, keys: KEYS.map(str::to_owned) }
    }

    fn meet(&mut self, member: &mut Member, now: u64, report: &str, decree: Option<Decree<'_>>) -> Meeting {
        let args = member.question(Some(now), &TERMS, report.as_bytes(), decree);
        self.put(&args).expect("an answer")
    }

    fn put(&mut self, args: &[Vec<u8>]) -> redis::RedisResult<Meeting> {
        let reply = command(&self.meet, &self.keys, args).query(&mut self.connection)?;
        Ok(Meeting::read(reply).expect("a meeting"))
    }

    fn leave(&mut self, member: &Member) {
        command(&self.leave, &self.keys, &member.farewell()).exec(&mut self.connection).expect("it has left");
    }
}

/// One that walks through a council, with what it was told last and has read so far.
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

/// What a council is by its definition, as far as it has been told.
#[derive(Default)]
struct Known {
    /// Who has the lease, until when.
    holder: Option<(String, u64)>,
    term: u64,
    /// Text, term, version, end.
    overlay: Option<(String, u64, u64, u64)>,
    version: u64,
    /// The latest of each member: text and when.
    reports: HashMap<String, (String, u64)>,
    number: u64,
}

impl Known {
    /// Whether a meeting that `member` had now is as it should be.
    fn hold(&mut self, member: &str, now: u64, report: &str, decree: Option<(u64, Option<&str>)>, meeting: &Meeting) {
        self.holder.take_if(|(_, end)| now >= *end);
        match &self.holder {
            Some((holder, _)) => assert_eq!((meeting.is_holder(), meeting.term), (holder == member, self.term)),
            None => assert!(meeting.is_holder() && meeting.term > self.term, "a lease that is free is taken"),
        }
        let is_new_term = meeting.term > self.term;
        self.term = meeting.term;
        if meeting.is_holder() {
            self.holder = Some((member.to_owned(), now + 100));
        }
        self.reports.insert(member.to_owned(), (report.to_owned(), now));
        self.reports.retain(|_, (_, at)| now - *at < 150);

        self.overlay.take_if(|(_, _, _, end)| now >= *end);
        if let Some((term, overlay)) = decree
            && meeting.is_holder()
            && !is_new_term
            && term == meeting.term
        {
            let told = meeting.overlay.as_ref().map_or(0, |overlay| overlay.version);
            let before = self.overlay.take();
            self.overlay = overlay.map(|text| {
                let is_same = before.is_some_and(|(before, ..)| before == text);
                assert!(if is_same { told == self.version } else { told > self.version }, "{told} {is_same}");
                self.version = told;
                (text.to_owned(), term, told, now + 300)
            });
        }
        let told = meeting.overlay.as_ref().map(|overlay| {
            let text = String::from_utf8(overlay.bytes.clone()).expect("ours are texts");
            (text, overlay.term, overlay.version, now + overlay.left.as_micros() as u64)
        });
        assert_eq!(told, self.overlay);
        if let Some(reports) = &meeting.reports {
            let ages: HashMap<_, _> = reports.iter().map(|report| (&*report.member, report.age)).collect();
            let age = |at: u64| Duration::from_micros(now - at);
            assert_eq!(ages, self.reports.iter().map(|(member, (_, at))| (&**member, age(*at))).collect());
            let texts = self.reports.iter().map(|(member, (text, _))| (&**member, &**text)).collect();
            assert_eq!(heard(meeting), texts);
            assert!(reports.is_sorted_by(|one, next| one.number < next.number));
            let last = reports.last().expect("its own").number;
            assert!(last > self.number, "the newest report has the highest number of all so far");
            self.number = last;
        }
    }
}

/// Five walk in and out as they like, hesitate for longer than leases last, and tell whatever they have decided however long ago.
#[test]
fn a_council_is_what_it_is_by_definition_at_every_step() {
    let (server, stand_in) = (Server::start(), Hosted::start());
    walk_through(Simulated::new(server.connection()));
    walk_through(Simulated::new(stand_in.connection()));
}

fn walk_through(mut council: Simulated) {
    let mut random = fastrand::Rng::with_seed(7);
    let (mut walkers, mut known) = ([(); 5].map(|()| Walker::new()), Known::default());
    let (mut now, mut terms, mut published) = (1_000_000, HashSet::new(), 0);
    for step in 0..20_000 {
        now += if random.u8(..) < 8 { random.u64(..400) } else { random.u64(..40) };
        let walker = &mut walkers[if random.bool() { 0 } else { random.usize(..5) }];
        if random.u8(..) < 4 {
            council.leave(&walker.member);
            known.holder.take_if(|(holder, _)| *holder == walker.member.id);
            known.reports.remove(&walker.member.id);
            *walker = Walker::new();
            continue;
        }
        let overlay = random.choice([None, Some("one"), Some("other")]).expect("not empty");
        let decided = walker.holds.filter(|_| random.bool()).map(|term| (term, overlay));
        let decree = decided.map(|(term, text)| Decree { term, overlay: text.map(str::as_bytes) });
        let report = step.to_string();
        let meeting = council.meet(&mut walker.member, now, &report, decree);
        known.hold(&walker.member.id, now, &report, decided, &meeting);
        for report in meeting.reports.iter().flatten().filter(|report| report.number > walker.read_up_to) {
            let text = String::from_utf8(report.bytes.clone()).expect("ours are texts");
            assert!(walker.read.insert(text), "a report was read twice");
        }
        if let Some(reports) = &meeting.reports {
            for (_, text) in heard(&meeting) {
                assert!(walker.read.contains(text), "a report was taken for one that had been read");
            }
            walker.read_up_to = reports.last().expect("its own").number;
            walker.holds = Some(meeting.term); // kept when the lease is lost: it has not noticed yet
            terms.insert(meeting.term);
        }
        published += u32::from(meeting.overlay.is_some());
    }
    assert!(terms.len() > 100 && published > 1_000, "{} terms, {published} overlays: too few to tell", terms.len());
}

#[test]
fn of_too_many_members_the_latest_are_heard() {
    let server = Server::start();
    let mut council = Simulated::new(server.connection());
    let mut members: Vec<Member> = (0..Council::MOST_MEMBERS + 3).map(|_| Member::new()).collect();
    let mut told = None;
    for (place, member) in members.iter_mut().enumerate() {
        let meeting = council.meet(member, 1_000_000, &place.to_string(), None);
        assert_eq!(meeting.is_holder(), place == 0);
    }
    for _ in 0..2 {
        told = Some(council.meet(&mut members[0], 1_000_001, "0", None));
    }
    let told = told.expect("two meetings");
    let heard: HashSet<String> = heard(&told).into_values().map(str::to_owned).collect();
    let latest = (4..Council::MOST_MEMBERS + 3).chain([0]).map(|place| place.to_string());
    assert_eq!(heard, latest.collect());
    let mut size = |key| redis::cmd("HLEN").arg(key).query::<usize>(&mut council.connection).expect("an answer");
    assert_eq!([size(KEYS[1]), size(KEYS[2])], [Council::MOST_MEMBERS; 2]);
}

/// A call may outlive its connection, and arrive after those on the next one.
#[test]
fn a_call_that_arrives_after_a_later_one_does_nothing() {
    let server = Server::start();
    let (mut council, mut ann) = (Simulated::new(server.connection()), Member::new());
    let term = council.meet(&mut ann, 1_000_000, "first", None).term;
    let delayed = ann.question(Some(1_000_002), &TERMS, b"delayed", Some(decree(term, "delayed")));
    council.meet(&mut ann, 1_000_001, "last", Some(decree(term, "last")));
    let before = everything(&server);
    let refused = council.put(&delayed).map(drop);
    assert_eq!(refused.expect_err("it came too late").code(), Some("OUTDATED"));
    assert_eq!(everything(&server), before);
}

/// An hour back, as on another master whose clock is wrong: nobody who is gone counts, holds or is followed an hour longer.
#[test]
fn a_clock_that_is_set_back_makes_nothing_last_longer() {
    let (server, stand_in) = (Server::start(), Hosted::start());
    set_back(Simulated::new(server.connection()));
    set_back(Simulated::new(stand_in.connection()));
}

fn set_back(mut council: Simulated) {
    let (mut ann, mut bob) = (Member::new(), Member::new());
    let (then, now) = (4_600_000_000, 1_000_000_000);
    let old = council.meet(&mut ann, then, "gone", None).term;
    council.meet(&mut ann, then, "gone", Some(decree(old, "old")));

    let first = council.meet(&mut bob, now, "bob", None);
    assert!(!first.is_holder());
    assert_eq!(first.overlay.as_ref().map(|overlay| overlay.left), Some(TERMS.overlay));
    assert!(!council.meet(&mut bob, now + 99, "bob", None).is_holder());
    let taken = council.meet(&mut bob, now + 100, "bob", None);
    assert!(taken.is_holder() && taken.term > old);
    assert_eq!(heard(&taken).len(), 2);
    let alone = council.meet(&mut bob, now + 150, "bob", None);
    assert_eq!(heard(&alone), HashMap::from([(&*bob.id, "bob")]));
    assert_eq!(text(council.meet(&mut bob, now + 249, "bob", None).overlay.as_ref()), Some("old"));
    assert_eq!(council.meet(&mut bob, now + 300, "bob", None).overlay, None);
}

/// Redis may drop any key of ours, when it is full or a master fails: what is left makes sense, and heals.
#[test]
fn a_key_that_is_lost_is_made_good() {
    for key in KEYS {
        let server = Server::start();
        let (mut council, mut ann, mut bob) = (Simulated::new(server.connection()), Member::new(), Member::new());
        let old = council.meet(&mut ann, 1_000_000, "a", None).term;
        council.meet(&mut bob, 1_000_000, "b", None);
        let version =
            council.meet(&mut ann, 1_000_000, "a", Some(decree(old, "old"))).overlay.expect("published").version;
        redis::cmd("DEL").arg(key).exec(&mut council.connection).expect("deleted");
        let (mut term, mut last) = (old, None);
        for _ in 0..2 {
            council.meet(&mut bob, 1_000_001, "b", None);
            let meeting = council.meet(&mut ann, 1_000_001, "a", Some(decree(term, "new")));
            term = meeting.term;
            last = Some(meeting);
        }
        if key == KEYS[0] {
            let meeting = council.meet(&mut bob, 1_000_002, "b", Some(decree(old, "old")));
            assert!(meeting.is_holder() && meeting.term > old, "who came first has taken it");
            last = Some(council.meet(&mut bob, 1_000_003, "b", Some(decree(meeting.term, "new"))));
        }
        let last = last.expect("two meetings");
        assert_eq!(heard(&last), HashMap::from([(&*ann.id, "a"), (&*bob.id, "b")]), "{key}");
        let overlay = last.overlay.expect("it is in force");
        assert!(overlay.bytes == b"new" && overlay.version > version, "{key}");
    }
}

/// They would stay for ever, as long as anyone meets.
#[test]
fn a_report_whose_member_is_lost_goes_too() {
    let server = Server::start();
    let (mut council, mut ann, mut bob) = (Simulated::new(server.connection()), Member::new(), Member::new());
    council.meet(&mut ann, 1_000_000, "a", None);
    redis::cmd("DEL").arg(KEYS[1]).exec(&mut council.connection).expect("deleted");
    council.meet(&mut bob, 1_000_001, "b", None);
    let left: Vec<String> = redis::cmd("HVALS").arg(KEYS[2]).query(&mut council.connection).expect("an answer");
    assert_eq!(left, ["b"]);
}

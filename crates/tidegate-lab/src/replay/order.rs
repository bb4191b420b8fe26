//! Requests in the order in which they came. Logs are written when responses end, or have only whole seconds. Both are
//! put right here, within bounds.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::fields::MOST_HEADERS;
use super::line::Line;

const SECOND: u64 = 1_000_000_000;
/// How much later than others a line may come: responses that took longer are rare.
const SLACK: u64 = 10 * SECOND;
/// A line that is further ahead than this must be confirmed by the next.
const DAY: u64 = 86_400 * SECOND;
/// So many are looked at together.
const BATCH: usize = 2_048;
/// The most that are kept, however many come within the slack, and their texts in bytes.
const MOST: usize = 262_144;
const MOST_BYTES: usize = 64 << 20;

/// A request, when its turn has come.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// When it came, in nanoseconds since 1970; never earlier than the one before.
    pub at: u64,
    /// How long its response took.
    pub took: Option<Duration>,
    /// The client's address; one made up of its name, if a log has names.
    pub ip: IpAddr,
    /// The client as it is written.
    pub client: &'a str,
    /// As it was sent.
    pub method: &'a str,
    /// Empty if it is unknown.
    pub host: &'a str,
    /// Without the query.
    pub path: &'a str,
    /// Who it was.
    pub user: Option<&'a str>,
    /// What they are entitled to.
    pub tier: Option<&'a str>,
    /// Headers, in the order in which they were declared.
    pub headers: [Option<&'a str>; MOST_HEADERS],
}

const TEXTS: usize = 6 + MOST_HEADERS;

/// A request whose turn has not come.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// When it came, as far as that is known by now.
    at: u64,
    written: u64,
    took: Option<u64>,
    is_end: bool,
    ip: IpAddr,
    /// Where its texts begin, and how long each is.
    start: usize,
    lengths: [u32; TEXTS],
}

/// Puts requests in order: first whole seconds are spread, then all are sorted.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Requests whose second may not be complete, as long as all times are whole seconds.
    unspread: Vec<Held>,
    /// Requests that may come after another one that is still to be read.
    unsorted: Vec<Held>,
    texts: String,
    /// Room for the next texts.
    spare: String,
    /// The latest time that was written.
    newest_written: u64,
    reached: u64,
    /// With how many held requests some are released.
    due: usize,
    has_fractions: bool,
    /// Whether some times are the ends of responses.
    has_ends: bool,
    /// A time far ahead of all others, which the next line has to confirm.
    unconfirmed: Option<u64>,
    /// Requests that came later than could be waited for.
    pub(super) late: u64,
    /// Requests left out at the end, because their times fit none around them.
    pub(super) odd: u64,
}

impl Order {
    /// Whether all times so far were of whole seconds.
    pub(super) fn is_of_whole_seconds(&self) -> bool {
        !self.has_fractions
    }

    /// Adds a line. Requests whose turn has come go to `each`.
    pub(super) fn push(&mut self, line: &Line<'_>, each: &mut impl FnMut(&Request<'_>)) {
        if !self.has_fractions && !line.time.is_multiple_of(SECOND) {
            // Times are more exact than seconds, so nothing is spread.
            self.has_fractions = true;
            self.unsorted.append(&mut self.unspread);
        }
        let texts =
            [line.client, line.method, line.host(), line.path(), line.user.unwrap_or(""), line.tier.unwrap_or("")];
        let start = self.texts.len();
        let mut lengths = [0; TEXTS];
        let headers = line.headers.map(Option::unwrap_or_default);
        for (length, text) in lengths.iter_mut().zip(texts.into_iter().chain(headers)) {
            if !text.is_empty() {
                self.texts.push_str(text);
                *length = text.len() as u32; // a line is far shorter
            }
        }
        self.has_ends |= line.is_end;
        let (written, took, is_end, ip) = (line.time, line.took, line.is_end, address(line.client));
        let mut held = Held { at: 0, written, took, is_end, ip, start, lengths };
        held.at = held.came(0);
        if self.is_confirmed(written) {
            self.newest_written = self.newest_written.max(written);
        }
        if self.has_fractions { &mut self.unsorted } else { &mut self.unspread }.push(held);
        if self.held() >= self.due.max(BATCH) || self.texts.len() >= MOST_BYTES {
            self.release(each);
        }
    }

    /// All that are left.
    pub(super) fn finish(&mut self, each: &mut impl FnMut(&Request<'_>)) {
        self.let_all_go(each);
        self.odd = self.held() as u64;
    }

    /// All except those with an unconfirmed time.
    fn let_all_go(&mut self, each: &mut impl FnMut(&Request<'_>)) {
        let until = self.newest_written.saturating_add(DAY);
        self.spread(until);
        self.let_go(until, each);
    }

    fn held(&self) -> usize {
        self.unspread.len() + self.unsorted.len()
    }

    /// A time far ahead of all before it counts only if the next line agrees: a single one in the wrong century would
    /// make all that follow late.
    fn is_confirmed(&mut self, time: u64) -> bool {
        let is_ahead = self.newest_written > 0 && time > self.newest_written.saturating_add(DAY);
        let unconfirmed = self.unconfirmed.take();
        self.unconfirmed = is_ahead.then_some(time);
        !is_ahead || unconfirmed.is_some_and(|before| before.abs_diff(time) <= DAY)
    }

    fn release(&mut self, each: &mut impl FnMut(&Request<'_>)) {
        let is_full = self.held() >= MOST || self.texts.len() >= MOST_BYTES;
        let slack = if is_full { SECOND } else { SLACK };
        let mut until = self.newest_written.saturating_sub(slack);
        if !self.has_fractions {
            // Whole seconds, so that the requests of one are spread over it together.
            until = until / SECOND * SECOND;
            self.spread(until);
        }
        // With the times of ends, requests that are not spread yet may have come earlier.
        let earlier = if self.has_ends && !self.has_fractions { slack } else { 0 };
        self.let_go(until.saturating_sub(earlier), each);
        if is_full && self.held() >= MOST / 2 {
            // More in a second than can be kept.
            self.let_all_go(each);
        }
        // Not again until it is worthwhile.
        self.due = (2 * self.held()).min(MOST);
    }

    /// Releases requests that came before this time.
    fn let_go(&mut self, until: u64, each: &mut impl FnMut(&Request<'_>)) {
        // By times and indices: what is held is too large to be sorted itself.
        let due = self.unsorted.iter().enumerate().filter(|(_, held)| held.at < until);
        let mut due: Vec<(u64, usize)> = due.map(|(index, held)| (held.at, index)).collect();
        due.sort_unstable();
        for (at, index) in due {
            self.late += u64::from(at.saturating_add(SLACK) < self.reached);
            self.reached = self.reached.max(at);
            each(&self.unsorted[index].request(self.reached, &self.texts));
        }
        self.unsorted.retain(|held| held.at >= until);
        // What is kept moves to the front.
        let mut kept = std::mem::take(&mut self.spare);
        kept.clear();
        for held in self.unsorted.iter_mut().chain(&mut self.unspread) {
            let start = kept.len();
            kept.push_str(&self.texts[held.start..held.start + held.length()]);
            held.start = start;
        }
        self.spare = std::mem::replace(&mut self.texts, kept);
    }

    /// Spreads the requests of each second before this time evenly over it: more is not known of them.
    fn spread(&mut self, until: u64) {
        let mut seconds = Seconds::default();
        for held in self.unspread.iter().filter(|held| held.written < until) {
            seconds.of(held.written).all += 1;
        }
        let unsorted = &mut self.unsorted;
        self.unspread.retain_mut(|held| {
            if held.written >= until {
                return true;
            }
            let second = seconds.of(held.written);
            held.at = held.came(second.before * SECOND / second.all);
            second.before += 1;
            unsorted.push(*held);
            false
        });
    }
}

/// A second, how many requests were written for it, and how many of them have been spread.
struct Second {
    at: u64,
    all: u64,
    before: u64,
}

/// The few seconds of held requests, found quickly: the next line mostly has the last one's.
#[derive(Default)]
struct Seconds {
    known: Vec<Second>,
    last: usize,
}

impl Seconds {
    fn of(&mut self, at: u64) -> &mut Second {
        if self.known.get(self.last).is_none_or(|second| second.at != at) {
            self.last = self.known.binary_search_by_key(&at, |second| second.at).unwrap_or_else(|index| {
                self.known.insert(index, Second { at, all: 0, before: 0 });
                index
            });
        }
        &mut self.known[self.last]
    }
}

impl Held {
    /// When it came, if the written time is so much too early.
    fn came(&self, after: u64) -> u64 {
        let written = self.written.saturating_add(after);
        if self.is_end { written.saturating_sub(self.took.unwrap_or(0)) } else { written }
    }

    fn length(&self) -> usize {
        self.lengths.iter().map(|length| *length as usize).sum()
    }

    fn request<'a>(&self, at: u64, texts: &'a str) -> Request<'a> {
        let mut rest = &texts[self.start..self.start + self.length()];
        let mut parts = [""; TEXTS];
        for (part, length) in parts.iter_mut().zip(self.lengths) {
            (*part, rest) = rest.split_at(length as usize);
        }
        let [client, method, host, path, user, tier, headers @ ..] = parts;
        let known = |text: &'a str| (!text.is_empty()).then_some(text);
        Request {
            at,
            took: self.took.map(Duration::from_nanos),
            ip: self.ip,
            client: known(client).unwrap_or("unknown"),
            method: known(method).unwrap_or("GET"),
            host,
            path,
            user: known(user),
            tier: known(tier),
            headers: headers.map(known),
        }
    }
}

/// A client's address, with or without a port. A client with a name instead gets a made-up address of its own, from a
/// private range, so that a limit by addresses counts it as one client.
fn address(client: &str) -> IpAddr {
    if let Ok(ip) = client.parse::<IpAddr>() {
        return ip;
    }
    if let Ok(address) = client.parse::<SocketAddr>() {
        return address.ip();
    }
    let mut hasher = DefaultHasher::new();
    client.hash(&mut hasher);
    // fd00::/8, and 56 bits of the name: limits count by the first 64.
    IpAddr::V6(Ipv6Addr::from_bits(0xfd << 120 | u128::from(hasher.finish() >> 8) << 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seconds: f64) -> Line<'static> {
        Line { time: (seconds * 1e9) as u64, client: "10.0.0.1", ..Line::default() }
    }

    /// When requests come out, in seconds.
    fn ordered(lines: &[Line<'_>]) -> (Vec<f64>, u64) {
        let (mut order, mut times) = (Order::default(), Vec::new());
        let mut note = |request: &Request<'_>| times.push(Duration::from_nanos(request.at).as_secs_f64());
        for line in lines {
            order.push(line, &mut note);
        }
        order.finish(&mut note);
        (times, order.late)
    }

    #[test]
    fn requests_of_a_second_are_spread_over_it() {
        let lines: Vec<_> = [100.0, 100.0, 100.0, 100.0, 101.0].map(line).to_vec();
        assert_eq!(ordered(&lines), (vec![100.0, 100.25, 100.5, 100.75, 101.0], 0));
        let lines: Vec<_> = [100.0, 100.0, 100.5].map(line).to_vec();
        assert_eq!(ordered(&lines).0, [100.0, 100.0, 100.5], "these times are more exact");
    }

    #[test]
    fn lines_are_sorted_by_when_requests_came() {
        let ended = |end: f64, took: f64| Line { took: Some((took * 1e9) as u64), is_end: true, ..line(end) };
        let lines = [ended(105.5, 0.5), ended(106.0, 4.0), ended(106.25, 0.25)];
        assert_eq!(ordered(&lines).0, [102.0, 105.0, 106.0]);
    }

    /// More than are kept at once, every other one half a minute late.
    #[test]
    fn what_comes_later_than_can_be_waited_for_is_counted_and_never_goes_back_in_time() {
        let lines: Vec<_> = (0..100_000_u32)
            .map(|number| {
                let time = 1_000.5 + f64::from(number) / 1_000.0;
                line(if number % 2 == 0 { time } else { time - 30.0 })
            })
            .collect();
        let (times, late) = ordered(&lines);
        assert_eq!(times.len(), lines.len());
        assert!(times.is_sorted());
        assert!(late > 10_000, "{late}");
        let lines: Vec<_> = (0..100_000_u32)
            .map(|number| {
                let time = 1_000.5 + f64::from(number) / 1_000.0;
                line(if number % 2 == 0 { time } else { time - 5.0 })
            })
            .collect();
        let (times, late) = ordered(&lines);
        assert!(times.is_sorted() && late == 0, "{late}");
    }

    /// As nginx writes JSON: when responses ended, in whole seconds, and how long they took.
    #[test]
    fn whole_seconds_of_ends_are_spread_once_and_no_request_is_late() {
        let mut random = fastrand::Rng::with_seed(5);
        let lines: Vec<_> = (0..60_000_u32)
            .map(|number| Line {
                took: Some(random.u64(..3 * SECOND)),
                is_end: true,
                ..line(f64::from(1_000 + number / 300))
            })
            .collect();
        let (times, late) = ordered(&lines);
        assert!(times.len() == lines.len() && times.is_sorted() && late == 0, "{late}");
        // 300 a second, each up to three seconds earlier: about as many in each second.
        let of = |second: f64| times.iter().filter(|at| (second..second + 1.0).contains(*at)).count();
        for second in (1_005..1_190).step_by(7) {
            assert!((220..380).contains(&of(f64::from(second))), "{second}: {}", of(f64::from(second)));
        }
    }

    #[test]
    fn a_second_with_very_many_is_spread_over_it_too() {
        let lines: Vec<_> = (0..200_000_u32).map(|number| line(f64::from(1_000 + number / 40_000))).collect();
        let (times, late) = ordered(&lines);
        assert_eq!((times.len(), late), (200_000, 0));
        for tenth in 0..50_u32 {
            let from = 1_000.0 + f64::from(tenth) / 10.0;
            let count = times.iter().filter(|at| (from - 1e-6..from + 0.1 - 1e-6).contains(*at)).count();
            assert_eq!(count, 4_000, "{from}");
        }
    }

    #[test]
    fn one_line_of_another_century_is_left_out_and_a_gap_is_not() {
        let mut lines: Vec<_> = (0..40_000_u32).map(|number| line(1_000.25 + f64::from(number) / 100.0)).collect();
        lines[7] = line(4e9);
        let (mut order, mut count) = (Order::default(), 0);
        for line in &lines {
            order.push(line, &mut |_| count += 1);
        }
        order.finish(&mut |_| count += 1);
        assert_eq!((count, order.odd, order.late), (39_999, 1, 0));
        let week = [1_000.5, 1_001.5, 700_000.5, 700_001.5, 700_002.5].map(line);
        assert_eq!(ordered(&week), (vec![1_000.5, 1_001.5, 700_000.5, 700_001.5, 700_002.5], 0));
    }

    #[test]
    fn texts_stay_with_their_requests() {
        let names: Vec<String> = (0..50_000).map(|number| format!("user-{number}")).collect();
        let (mut order, mut seen) = (Order::default(), Vec::new());
        let mut note = |request: &Request<'_>| seen.push((request.at, request.user.map(str::to_owned)));
        for (number, name) in names.iter().enumerate() {
            let time = ((1_000_000 + number as u64) ^ 7) * 1_000_001;
            let line = Line { time, client: "a.example", user: Some(name), target: "/x?y", ..Line::default() };
            order.push(&line, &mut note);
        }
        order.finish(&mut note);
        assert_eq!(seen.len(), names.len());
        for (at, user) in seen {
            let number = ((at / 1_000_001) ^ 7) - 1_000_000;
            assert_eq!(user, Some(format!("user-{number}")));
        }
    }

    #[test]
    fn a_client_with_a_name_has_an_address_of_its_own() {
        assert_eq!(address("10.0.0.1:80"), address("10.0.0.1"));
        assert_eq!(address("[2001:db8::1]:443"), "2001:db8::1".parse::<IpAddr>().expect("an address"));
        let (one, other) = (address("a.example"), address("b.example"));
        assert!(one != other && one == address("a.example") && one.to_string().starts_with("fd"));
    }
}

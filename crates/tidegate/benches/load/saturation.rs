//! What a request costs each tool when it sends as fast as it can.

use serde_json::{Value, json};

use crate::responder::Responder;
use crate::scratch::Scratch;
use crate::tool::{self, Work};
use crate::{CONNECTIONS, Setting, median, verdict};

/// Ours is asked for more than a core can send: what finds no room costs it time, too.
const BEYOND: f64 = 100_000.0;
const GOAL: f64 = 1.5;

pub(crate) fn compare(setting: &Setting, scratch: &Scratch, server: &Responder) -> Value {
    let names = ["tidegate", "wrk", "hey"];
    let mut all: [Vec<Work>; 3] = Default::default();
    for number in 0..setting.rounds {
        // Who goes first changes each round.
        for turn in 0..names.len() {
            let place = (turn + number) % names.len();
            let work = match names[place] {
                "tidegate" => tool::tidegate(scratch, server, BEYOND, CONNECTIONS, setting.seconds),
                "wrk" => tool::wrk(scratch, server, setting.seconds),
                _ => tool::hey(scratch, server, None, setting.seconds),
            };
            drop(server.take_arrivals());
            all[place].push(work);
        }
    }
    println!("\nAt saturation, one core, 64 connections: median of {} rounds\n", setting.rounds);
    println!("{:<10} {:>12} {:>12} {:>10} {:>10}", "", "requests/s", "CPU µs/req", "user", "× wrk");
    let figure = |place: usize, figure: fn(&Work) -> f64| median(all[place].iter().map(figure).collect());
    let ratio =
        |place: usize| median(all[place].iter().zip(&all[1]).map(|(work, wrk)| work.cpu_us() / wrk.cpu_us()).collect());
    let mut report = serde_json::Map::new();
    for (place, name) in names.into_iter().enumerate() {
        let (rate, cpu, user) =
            (figure(place, Work::per_second), figure(place, Work::cpu_us), figure(place, Work::user_us));
        println!("{name:<10} {rate:>12.0} {cpu:>12.2} {user:>10.2} {:>10.2}", ratio(place));
        let figures =
            json!({ "requests_per_second": rate, "cpu_us": cpu, "user_us": user, "cpu_beside_wrk": ratio(place) });
        report.insert(name.to_owned(), figures);
    }
    println!(
        "\nCPU a request ≤ {GOAL}× wrk's: {}; hey's is {:.1}× ours",
        verdict(ratio(0) <= GOAL),
        ratio(2) / ratio(0)
    );
    report.into()
}

//! What sharing a limit through Redis adds to a proxied request.

use serde_json::{Value, json};

use crate::beside_nginx::{CONNECTIONS, Response};
use crate::redis::Redis;
use crate::rounds::{Round, Series, interleave};
use crate::scratch::Scratch;
use crate::setting::Setting;
use crate::{honesty, table, tidegate, verdict};

pub(crate) fn compare(setting: &Setting, scratch: &Scratch, upstream: u16, lies: &mut Vec<String>) -> Value {
    let redis = Redis::start(scratch);
    let subjects = [
        tidegate::in_memory(scratch, upstream, "memory", tidegate::OPEN),
        tidegate::in_redis(scratch, upstream, "exact", &redis),
        tidegate::in_redis(scratch, upstream, "leased", &redis),
    ];
    let busy = interleave(setting, scratch, &subjects, CONNECTIONS);
    // With all connections busy, a request waits for the others above all. One alone shows what the way to Redis takes.
    let alone = interleave(setting, scratch, &subjects[..2], 1);
    honesty::check_once("redis", &subjects, Response::Proxied, lies);
    let (busy_title, alone_title) = (format!("redis, {CONNECTIONS} connections"), "redis, 1 connection");
    for (title, series) in [(&*busy_title, &busy), (alone_title, &alone)] {
        honesty::check_responses(title, series, Response::Proxied, lies);
        check_redis_was_asked(title, series, lies);
    }

    table::print(&busy_title, &busy);
    let [memory, exact, leased] = &busy[..] else { unreachable!("a series for each of the three subjects") };
    let added_busy = added_ms(exact, memory);
    let ratio = leased.ratio(memory, Round::cpu_us);
    println!("  exact adds {added_busy:.3} ms at the median (goal ≤ 1: {})", verdict(added_busy <= 1.0));
    println!("  CPU a request, exact / memory: {:.2}×", exact.ratio(memory, Round::cpu_us));
    println!("  CPU a request, leased / memory: {ratio:.2}× (goal ≤ 1.10: {})", verdict(ratio <= 1.1));
    println!("  leased asks Redis once in {:.0} requests", 1.0 / leased.median(scripts_a_request));

    table::print(alone_title, &alone);
    let [memory_alone, exact_alone] = &alone[..] else { unreachable!("a series for each of the two subjects") };
    let added_alone = added_ms(exact_alone, memory_alone);
    println!("  exact adds {added_alone:.3} ms at the median (goal ≤ 1: {})", verdict(added_alone <= 1.0));
    json!({
        "memory": memory.report(),
        "exact": exact.report(),
        "leased": leased.report(),
        "memory_1_connection": memory_alone.report(),
        "exact_1_connection": exact_alone.report(),
        "exact_added_ms": added_busy,
        "exact_added_ms_1_connection": added_alone,
        "exact_cpu_ratio": exact.ratio(memory, Round::cpu_us),
        "leased_cpu_ratio": ratio,
        "leased_scripts_a_request": leased.median(scripts_a_request),
    })
}

/// Milliseconds at the median that one takes longer than the other.
fn added_ms(exact: &Series, memory: &Series) -> f64 {
    exact.beside(memory, |exact, memory| exact.load.p50_ms - memory.load.p50_ms)
}

fn scripts_a_request(round: &Round) -> f64 {
    round.redis_scripts as f64 / round.load.requests as f64
}

/// Exact asks for each request, leased now and then.
fn check_redis_was_asked(title: &str, series: &[Series], lies: &mut Vec<String>) {
    for one in series {
        for (number, round) in one.rounds.iter().enumerate() {
            let (asked, requests) = (round.redis_scripts, round.load.requests);
            let needed = match one.name {
                "exact" => requests,
                "leased" => 1,
                _ => 0,
            };
            if asked < needed {
                let place = format!("{title}, {}, round {}", one.name, number + 1);
                lies.push(format!("{place}: Redis was asked {asked} times for {requests} requests"));
            }
        }
    }
}

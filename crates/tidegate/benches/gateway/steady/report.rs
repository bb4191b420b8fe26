//! The report of a run.

use std::process::ExitCode;

use serde_json::json;

use super::judgement::{self, Run};
use super::samples::Course;
use super::{Load, SHARE};

/// Prints what was seen and how it is judged, and writes it down.
pub(crate) fn tell(run: &Run<'_>) -> ExitCode {
    requests(run);
    courses(run);
    let counts = run.counts;
    println!(
        "\nfrom when a request was due to its answer: p50 {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms; sent at most {} ms \
         late",
        counts.latency_ms(0.5),
        counts.latency_ms(0.99),
        counts.latency_ms(0.999),
        counts.latest.as_millis(),
    );
    println!(
        "{} connections, {} changes of limits, {} reloads",
        counts.connections, run.operator.changes, run.operator.reloads
    );
    for (name, load) in [("full", run.full), ("steady", run.steady)] {
        let Load { per_second, gateway_busy, others_busy } = load;
        let (gateway, others) = (gateway_busy * 100.0, others_busy * 100.0);
        println!(
            "{name} load: {per_second:.0}/s, the gateway's core busy to {gateway:.0} %, the other one to {others:.0} %"
        );
    }

    let checks = judgement::checks(run);
    println!();
    for check in &checks {
        let verdict = if check.passed { "ok" } else { "FAILED" };
        println!("  {verdict:<6}  {:<40} {}", check.what, check.seen);
    }
    for fault in counts.reported.iter().chain(&run.operator.faults) {
        println!("  {fault}");
    }
    let passed = checks.iter().all(|check| check.passed);
    let table = checks.iter().map(|check| json!({ "what": check.what, "seen": check.seen, "passed": check.passed }));
    crate::write(
        "steady.json",
        &json!({
            "full_per_second": run.full.per_second,
            "share": SHARE,
            "steady_per_second": run.steady.per_second,
            "requests": counts.sent(),
            "passed": passed,
            "checks": table.collect::<Vec<_>>(),
            "samples": run.samples.report(),
        }),
    );
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn requests(run: &Run<'_>) {
    println!("\n{:<30} {:>10}   answers", "requests", "sent");
    for (kind, row) in &run.counts.rows {
        let mut responses: Vec<String> =
            row.responses.iter().map(|(status, count)| format!("{status}: {count}")).collect();
        if row.left > 0 {
            responses.push(format!("left: {}", row.left));
        }
        println!("  {kind:<28} {:>10}   {}", row.sent, responses.join(", "));
    }
}

fn courses(run: &Run<'_>) {
    println!("\n{:<30} {:>10} {:>10} {:>10}", "the gateway, a tenth's median", "2nd tenth", "last tenth", "trend");
    let line = |name: &str, course: Course| {
        let Course { early, late, trend } = course;
        println!("  {name:<28} {early:>10.2} {late:>10.2} {trend:>+10.2}");
    };
    line("memory, MB", run.samples.course(|holdings| holdings.rss_mb));
    line("… no file's", run.samples.course(|holdings| holdings.anonymous_mb));
    line("descriptors", run.samples.course(|holdings| holdings.descriptors as f64));
    line("threads", run.samples.course(|holdings| holdings.threads as f64));
    line("core busy", run.samples.busy());
    println!("without load it held {:.1} MB before, and {:.1} MB afterwards", run.before.rss_mb, run.after.rss_mb);
}

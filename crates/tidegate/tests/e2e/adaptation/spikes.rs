//! Spikes that the target can bear, spikes that it can't, and none at all.

use serde_json::json;

use crate::adaptation::platform::{AT_ONCE, BASE, Platform, Second, Setting, began, patience, seconds};
use tidegate_testkit::load_run::Ran;
use tidegate_testkit::timing::are_judged;

/// Spikes in a run; three are there to be learnt from.
const SPIKES: u64 = 8;
const LEARNT_FROM: u64 = 3;

fn after_learning(ran: &Ran, setting: Setting) -> Vec<Second> {
    seconds(ran).into_iter().filter(|second| second.at >= LEARNT_FROM * setting.period).collect()
}

fn sum(seconds: &[Second], of: impl Fn(&Second) -> u64) -> u64 {
    seconds.iter().map(of).sum()
}

fn p95(ran: &Ran) -> f64 {
    ran.result["serviceSeconds"]["p95"].as_f64().expect("a latency")
}

/// At 2.5 times the operator's limit, which the target can bear: after three spikes the limit is raised before each,
/// and few are rejected.
#[test]
fn spikes_that_can_be_borne_are_let_in_from_the_fourth_on() {
    let adaptive = Setting::with_capacity(350);
    let (with, without) = (Platform::start(adaptive), Platform::start(Setting { adaptive: false, ..adaptive }));
    let loads = [with.load(adaptive, 250, SPIKES), without.load(adaptive, 250, SPIKES)];
    let [adapted, fixed] = loads.map(|load| load.ended_within(patience(adaptive.period * SPIKES)));

    let (late, late_fixed) = (after_learning(&adapted, adaptive), after_learning(&fixed, adaptive));
    let (rejected, rejected_fixed) = (sum(&late, |second| second.rejected), sum(&late_fixed, |second| second.rejected));
    println!("spikes at 2.5×: {rejected} refused from the fourth spike on, {rejected_fixed} with a fixed limit");
    println!("  p95 of the target {:.1} ms, {:.1} ms with a fixed limit", p95(&adapted) * 1e3, p95(&fixed) * 1e3);
    assert!(rejected_fixed > 500, "without adaptation they are refused: {rejected_fixed}");
    assert!(rejected < rejected_fixed, "{rejected} of {rejected_fixed} are still refused");
    is_free_of_errors(&adapted, &with);
    if !are_judged() {
        return;
    }
    assert!(rejected * 5 <= rejected_fixed, "{rejected} of {rejected_fixed} are still refused");
    for spike in LEARNT_FROM + 1..=SPIKES {
        let begins = began(&adapted) + (spike * adaptive.period - adaptive.spike()) as f64;
        let limit = with.limit_at(begins - 0.2);
        assert!(limit > 2.0 * BASE as f64, "before spike {spike} the limit is {limit}: {:#?}", with.history());
    }
    let idle = idle_p95(adaptive);
    println!("  p95 of the idle target {:.1} ms", idle * 1e3);
    assert!(p95(&adapted) <= 2.0 * idle, "{} is more than twice {idle}", p95(&adapted));
}

/// The target's latency with little to do.
fn idle_p95(setting: Setting) -> f64 {
    let platform = Platform::start(Setting { adaptive: false, ..setting });
    let load = platform.send(&json!({ "type": "constant", "params": { "rps": 20 } }), 15);
    p95(&load.ended_within(patience(15)))
}

/// At ten times the operator's limit, far more than the target can bear: it gets what it can do, and not more. Also
/// where the operator counts in windows: at the target's capacity those would let in at once what a short queue can't
/// take.
#[test]
fn spikes_that_can_t_be_borne_fill_the_target_and_never_more() {
    let setting = Setting::with_capacity(250);
    let settings = [setting, Setting { is_window: true, queue: 100, ..setting }];
    let platforms = settings.map(Platform::start);
    let loads = platforms.each_ref().map(|platform| platform.load(setting, 1_000, SPIKES));
    for ((setting, platform), load) in settings.into_iter().zip(&platforms).zip(loads) {
        println!("the operator's limit is a {}", if setting.is_window { "window" } else { "bucket" });
        is_filled_and_never_more(setting, platform, &load.ended_within(patience(setting.period * SPIKES)));
    }
    platforms[1].gateway.wait_for_line("Switched rate-limiting algorithm from fixed to token");
}

fn is_filled_and_never_more(setting: Setting, platform: &Platform, ran: &Ran) {
    let late = after_learning(ran, setting);
    let in_spikes: Vec<Second> = late.into_iter().filter(|second| second.sent > 500).collect();
    let (goodput, seconds) = (sum(&in_spikes, |second| second.success), in_spikes.len() as u64);
    let share = goodput as f64 / (setting.capacity * seconds) as f64;
    println!("spikes at 10×: {goodput} answered in {seconds} s of spikes, {:.1} % of the capacity", share * 100.0);
    println!("  p95 of the target {:.1} ms", p95(ran) * 1e3);
    assert_eq!(seconds, (SPIKES - LEARNT_FROM) * setting.spike());
    assert!(!are_judged() || share >= 0.95, "{share}");
    let at_once = if setting.is_window { BASE } else { AT_ONCE };
    let most = (setting.capacity * setting.spike() + at_once) * (SPIKES - LEARNT_FROM);
    let is_within = goodput <= most * 102 / 100;
    assert!(is_within || !are_judged(), "{goodput} is more than {most}, which the ceiling allows");
    let (all, length) = (ran.requests("success"), setting.period * SPIKES);
    let most = setting.capacity * (length + 1) + at_once;
    assert!(all <= most, "{all} in {length} s are more than {most}, which the ceiling allows");
    is_free_of_errors(ran, platform);
}

/// Nothing failed. Where times are not judged, other work on the machine may hold a target up for longer than its queue
/// lasts, some hundred requests at once; without a limit most of a spike would fail.
pub(super) fn is_free_of_errors(ran: &Ran, platform: &Platform) {
    let most = if are_judged() { 0 } else { ran.requests("success") / 20 };
    let (errors, of_target) = (ran.requests("errors"), platform.target_errors());
    let is_free = errors <= most && of_target <= most as f64;
    assert!(
        is_free,
        "{errors} errors, {of_target} of the target; {most} at most\n{:#?}\n{:#?}",
        seconds(ran).into_iter().filter(|second| second.errors > 0).collect::<Vec<_>>(),
        platform.history()
    );
}

/// Below the limit nothing is to be done, and nothing is done.
#[test]
fn normal_load_fares_as_without_adaptation() {
    let adaptive = Setting::with_capacity(350);
    let platforms = [Platform::start(adaptive), Platform::start(Setting { adaptive: false, ..adaptive })];
    let profile = json!({ "type": "sinusoidal", "params": { "minRps": 70, "maxRps": 90, "period": adaptive.period } });
    let loads = platforms.each_ref().map(|platform| platform.send(&profile, adaptive.period * 4));
    let [adapted, fixed] = loads.map(|load| load.ended_within(patience(adaptive.period * 4)));
    let (with, without) = (adapted.requests("success"), fixed.requests("success"));
    println!("normal load: {with} answered with adaptation, {without} without");
    println!("  p95 of the target {:.1} ms, {:.1} ms without", p95(&adapted) * 1e3, p95(&fixed) * 1e3);
    assert!(with * 100 >= without * 99 || !are_judged(), "{with} with adaptation, {without} without");
    // What a stalled generator sends late comes as a burst, which the limit may reject.
    let (rejected, most) = (adapted.requests("rateLimited"), if are_judged() { 0 } else { with / 20 });
    assert!(rejected <= most, "{rejected} rejected; {most} at most");
    is_free_of_errors(&adapted, &platforms[0]);
}

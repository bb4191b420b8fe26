//! What a server has used, as Linux counts it.

use std::ops::{Range, Sub};

/// Seconds of CPU time.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cpu {
    pub(crate) user: f64,
    pub(crate) system: f64,
}

impl Sub for Cpu {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self { user: self.user - earlier.user, system: self.system - earlier.system }
    }
}

/// A process and its children: nginx serves in a child of the process that was started.
pub(crate) fn family(id: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    std::iter::once(id).chain(children.split_whitespace().filter_map(|child| child.parse().ok())).collect()
}

/// What a process, all its threads and its children have used until now.
pub(crate) fn cpu(id: u32) -> Cpu {
    family(id)
        .into_iter()
        .map(own_cpu)
        .fold(Cpu::default(), |sum, one| Cpu { user: sum.user + one.user, system: sum.system + one.system })
}

fn own_cpu(id: u32) -> Cpu {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("it still runs");
    let after_name = stat.rsplit_once(')').expect("a stat line").1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    // Linux shows user space hundredths of a second, whatever it counts in itself.
    let seconds = |place: usize| fields[place].parse::<f64>().expect("ticks") / 100.0;
    Cpu { user: seconds(11), system: seconds(12) }
}

/// Seconds that a core has been idle until now.
pub(crate) fn idle(core: usize) -> f64 {
    core_seconds(core, 3..5)
}

/// Seconds that a core was wanted here until now, and somebody else had it: on virtual machines.
#[allow(dead_code, reason = "the load generator's benchmark uses it")]
pub(crate) fn stolen(core: usize) -> f64 {
    core_seconds(core, 7..8)
}

fn core_seconds(core: usize, kinds: Range<usize>) -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("Linux tells");
    let line = stat.lines().find_map(|line| line.strip_prefix(&format!("cpu{core} "))).expect("the core is there");
    let ticks: Vec<f64> = line.split_whitespace().map(|ticks| ticks.parse().expect("ticks")).collect();
    ticks[kinds].iter().sum::<f64>() / 100.0
}

/// Megabytes of memory held by whoever serves: the children if there are any. Adding the parent would count shared
/// pages twice.
pub(crate) fn rss_mb(id: u32) -> f64 {
    let family = family(id);
    let serving = if family.len() > 1 { &family[1..] } else { &family };
    serving.iter().map(|id| own_rss_mb(*id)).sum()
}

fn own_rss_mb(id: u32) -> f64 {
    mb(&status(id), "VmRSS:")
}

/// What a process holds at one time.
#[derive(Clone, Copy, Default)]
pub(crate) struct Holdings {
    pub(crate) rss_mb: f64,
    /// The part of it that is no file's.
    pub(crate) anonymous_mb: f64,
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
}

/// What a process without children holds now.
pub(crate) fn holdings(id: u32) -> Holdings {
    let status = status(id);
    Holdings {
        rss_mb: mb(&status, "VmRSS:"),
        anonymous_mb: mb(&status, "RssAnon:"),
        descriptors: descriptors(id),
        threads: field(&status, "Threads:").parse().expect("a number"),
    }
}

/// How many descriptors a process has open.
pub(crate) fn descriptors(id: u32) -> usize {
    std::fs::read_dir(format!("/proc/{id}/fd")).expect("it still runs").count()
}

fn status(id: u32) -> String {
    std::fs::read_to_string(format!("/proc/{id}/status")).expect("it still runs")
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).expect("it still runs").trim()
}

fn mb(status: &str, name: &str) -> f64 {
    let kib: f64 = field(status, name).trim_end_matches(" kB").parse().expect("a number");
    kib * 1024.0 / 1e6
}

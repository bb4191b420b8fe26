//! What a server has used, as Linux counts it.

use std::ops::Sub;

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
    // Linux tells user space about hundredths of a second, whatever it counts in itself.
    let seconds = |place: usize| fields[place].parse::<f64>().expect("ticks") / 100.0;
    Cpu { user: seconds(11), system: seconds(12) }
}

/// Megabytes of memory held by whoever serves: the children if there are any. Adding the parent would count shared pages twice.
pub(crate) fn rss_mb(id: u32) -> f64 {
    let family = family(id);
    let serving = if family.len() > 1 { &family[1..] } else { &family };
    serving.iter().map(|id| own_rss_mb(*id)).sum()
}

fn own_rss_mb(id: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("it still runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it still runs");
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1024.0 / 1e6
}

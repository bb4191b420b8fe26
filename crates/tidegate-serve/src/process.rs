use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use crate::{Exposition, Kind};

/// What the system knows of this process, as the metrics that every Prometheus client has under the same names.
#[derive(Debug)]
pub struct Process {
    /// Seconds since 1970 when the system was started. Asked once: the file that has it is costly on big machines.
    boot_seconds: Option<u64>,
}

/// What this machine calls itself.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// What it runs on: `Linux 6.1.0 x86_64`.
pub fn system_name() -> String {
    let name = rustix::system::uname();
    [name.sysname(), name.release(), name.machine()].map(|part| part.to_string_lossy().into_owned()).join(" ")
}

/// The fields of `/proc/self/stat` that we use, in its units.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Process {
    /// The process we are.
    pub fn new() -> Self {
        Self { boot_seconds: fs::read_to_string("/proc/stat").ok().and_then(|text| boot_seconds(&text)) }
    }

    /// Writes everything that can be known; on a system without `/proc` that is nothing.
    pub fn write(&self, page: &mut Exposition) {
        if let Some(stat) = fs::read_to_string("/proc/self/stat").ok().and_then(|text| Stat::parse(&text)) {
            self.write_stat(&stat, page);
        }
        if let Ok(open_files) = crate::open_files() {
            let help = "Number of open file descriptors.";
            page.family("process_open_fds", help, Kind::Gauge).sample(&[], open_files);
            if let Some(most) = getrlimit(Resource::Nofile).current {
                let help = "Maximum number of open file descriptors.";
                page.family("process_max_fds", help, Kind::Gauge).sample(&[], most);
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "times, which are known to a hundredth of a second")]
    fn write_stat(&self, stat: &Stat, page: &mut Exposition) {
        let seconds = |ticks: u64| ticks as f64 / clock_ticks_per_second() as f64;
        let help = "Total user and system CPU time spent in seconds.";
        page.family("process_cpu_seconds_total", help, Kind::Counter).sample(&[], seconds(stat.cpu_ticks));
        let help = "Resident memory size in bytes.";
        let resident_bytes = stat.resident_pages.saturating_mul(page_size() as u64);
        page.family("process_resident_memory_bytes", help, Kind::Gauge).sample(&[], resident_bytes);
        let help = "Virtual memory size in bytes.";
        page.family("process_virtual_memory_bytes", help, Kind::Gauge).sample(&[], stat.virtual_bytes);
        let help = "Number of OS threads.";
        page.family("process_threads", help, Kind::Gauge).sample(&[], stat.threads);
        if let Some(boot_seconds) = self.boot_seconds {
            let help = "Start time of the process since unix epoch in seconds.";
            let start = boot_seconds as f64 + seconds(stat.start_ticks);
            page.family("process_start_time_seconds", help, Kind::Gauge).sample(&[], start);
        }
    }
}

impl Default for Process {
    fn default() -> Self {
        Self::new()
    }
}

impl Stat {
    /// See `proc_pid_stat(5)`, which counts the fields from 1.
    fn parse(text: &str) -> Option<Self> {
        // The second is the program's name in parentheses, and may have spaces and parentheses itself.
        let (_, after_name) = text.rsplit_once(')')?;
        let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)?.saturating_add(field(15)?),
            threads: field(20)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

fn boot_seconds(proc_stat: &str) -> Option<u64> {
    proc_stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_have_any_name() {
        let text = "7 (a) R 1 (b) S 1 7 7 0 -1 4194560 2264 0 8 0 250 50 0 0 20 0 9 0 1234 34566144 1500 184467 1 1 0";
        let expected =
            Stat { cpu_ticks: 300, threads: 9, start_ticks: 1234, virtual_bytes: 34_566_144, resident_pages: 1500 };
        assert_eq!(Stat::parse(text), Some(expected));
    }

    #[test]
    fn what_is_not_understood_is_left_out() {
        for text in ["", "7 (a", "7 (a) S", "7 (a) S x x x x x x x x x x x x x x x x x x x x x x"] {
            assert_eq!(Stat::parse(text), None);
        }
        assert_eq!(boot_seconds("cpu 1 2\nbtime 1768840200\nprocesses 5\n"), Some(1_768_840_200));
        assert_eq!(boot_seconds("cpu 1 2\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_all_metrics_and_plausible_ones() {
        let mut page = Exposition::new();
        Process::new().write(&mut page);
        let text = page.into_text();
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name} is missing in {text}")).parse().expect("a number")
        };
        assert!(value("process_cpu_seconds_total") < 3600.0);
        assert!(value("process_resident_memory_bytes") > 100_000.0);
        assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
        assert!(value("process_threads") >= 1.0);
        assert!(value("process_open_fds") >= 3.0);
        assert!(value("process_open_fds") <= value("process_max_fds"));
        let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs_f64();
        assert!((now - value("process_start_time_seconds")).abs() < 3600.0);
    }
}

//! What a gateway takes of the machine.

use tidegate_testkit::{Gateway, wait_until};

/// What a gateway took at some moment, to be compared with what it takes later.
pub(crate) struct Footprint {
    pid: u32,
    resident: u64,
    descriptors: usize,
}

impl Footprint {
    /// What it takes now; its peak is counted from here. (Each worker opens its files when it
    /// begins: where descriptors count, let there be one worker, and let it serve a request before.)
    pub(crate) fn of(gateway: &Gateway) -> Self {
        let pid = gateway.pid();
        std::fs::write(format!("/proc/{pid}/clear_refs"), "5").expect("the peak can be reset");
        Self { pid, resident: gateway.resident_bytes(), descriptors: descriptors(pid) }
    }

    /// By how many bytes its resident memory has ever been larger since.
    pub(crate) fn peak_growth(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("it has memory");
        let peak = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).expect("a number");
        (peak * 1024).saturating_sub(self.resident)
    }

    pub(crate) fn assert_growth_below(&self, mebibytes: u64) {
        let growth = self.peak_growth();
        assert!(growth < mebibytes << 20, "memory has grown by {growth} bytes");
    }

    /// Waits until at most `more` descriptors are open than there were.
    pub(crate) fn wait_for_descriptors(&self, more: usize) {
        wait_until("descriptors come back", || descriptors(self.pid) <= self.descriptors + more);
    }
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count()
}

use super::{Contention, ServiceTime};

/// What a target is like.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a request is served.
    pub service_time: ServiceTime,
    /// How much longer when others are served too.
    pub contention: Contention,
    /// What a worker does during that time.
    pub work: Work,
    /// How many are served at once.
    pub workers: usize,
    /// How many may wait.
    pub queue: usize,
    /// Where random numbers come from.
    pub seed: u64,
}

/// What a worker does while it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It waits, as for a database.
    Sleep,
    /// It computes: the service time is CPU time of a thread of its own.
    Cpu,
}

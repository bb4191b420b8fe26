//! Experiments. For now the [`target`]: a service to protect, whose capacity is known and whose faults are switched at run
//! time.

pub mod target;

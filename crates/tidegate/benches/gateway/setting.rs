//! What the environment asks for.

/// A part of the benchmark that can be run by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Proxied,
    Rejected,
    Redis,
}

pub(crate) struct Setting {
    pub(crate) rounds: usize,
    pub(crate) seconds: u64,
    /// How long the steady run takes.
    pub(crate) steady_seconds: u64,
    only: Option<Part>,
}

impl Setting {
    pub(crate) fn from_environment() -> Self {
        let only = std::env::var("BENCH_ONLY").ok().filter(|only| !only.is_empty()).map(|only| match only.as_str() {
            "proxied" => Part::Proxied,
            "refused" => Part::Rejected,
            "redis" => Part::Redis,
            other => panic!("BENCH_ONLY is proxied, refused or redis, not {other:?}"),
        });
        Self {
            rounds: number("BENCH_ROUNDS", 5) as usize,
            seconds: number("BENCH_SECONDS", 3),
            steady_seconds: number("STEADY_SECONDS", 600),
            only,
        }
    }

    pub(crate) fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

/// Whether something is on, which it is unless the environment says `off`.
pub(crate) fn is_on(name: &str) -> bool {
    match std::env::var(name).as_deref() {
        Err(_) | Ok("" | "on") => true,
        Ok("off") => false,
        Ok(other) => panic!("{name} is on or off, not {other:?}"),
    }
}

pub(crate) fn number(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    match text.parse() {
        Ok(number) if number > 0 => number,
        _ => panic!("{name} is a whole number above 0, not {text:?}"),
    }
}

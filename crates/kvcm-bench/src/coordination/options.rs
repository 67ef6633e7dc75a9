//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Parser, ValueEnum};

/// Measure the coordination backends on this machine: single calls, the hand-over of a released
/// lock beside a plain poll, the takeover from a dead holder.
///
/// Goals are shown, not enforced: a busy machine misses them. Exits with 1 only when a backend
/// does something wrong.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "coordination",
    bin_name = "cargo xtask bench coordination",
    version
)]
pub struct Options {
    /// Which backends; redis starts a redis-server of its own
    #[arg(long, value_name = "KINDS", value_enum, value_delimiter = ',',
          default_values_t = [Kind::Memory, Kind::File, Kind::Redis])]
    pub backends: Vec<Kind>,

    /// Calls of each operation
    #[arg(long, value_name = "N", default_value_t = 2000,
          value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    pub calls: u32,

    /// Hand-overs, by watch and by poll each
    #[arg(long, value_name = "N", default_value_t = 300,
          value_parser = clap::value_parser!(u32).range(5..=100_000))]
    pub rounds: u32,

    /// Takeovers from holders that stopped renewing, and from killed ones
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(5..=100_000))]
    pub deaths: u32,

    /// The lease of the holders that stop renewing, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300,
          value_parser = clap::value_parser!(u64).range(20..=60_000))]
    pub lease_ms: u64,

    /// How often a waiter looks at the lock, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub loop_interval_ms: u64,

    /// A folder on the disk to measure; the file backend works in a new one below it
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Be the process that holds the lock at this backend, for another that measures
    #[arg(long, value_name = "URI", hide = true)]
    pub holder: Option<String>,
}

/// A backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// One process
    Memory,
    /// A temporary directory
    File,
    /// A redis-server, started for the run
    Redis,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
            Self::Redis => "redis",
        }
    }
}

impl Options {
    pub(super) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    pub(super) fn loop_interval(&self) -> Duration {
        Duration::from_millis(self.loop_interval_ms)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_bad_values_are_named() {
        Options::command().debug_assert();
        let parsed = Options::try_parse_from(["coordination"]).unwrap();
        assert_eq!(parsed.backends, [Kind::Memory, Kind::File, Kind::Redis]);
        assert!(parsed.calls >= 2000 && parsed.rounds >= 300 && parsed.deaths >= 30);
        let some = Options::try_parse_from(["coordination", "--backends", "file,redis"]).unwrap();
        assert_eq!(some.backends, [Kind::File, Kind::Redis]);
        for (option, value) in [("--calls", "1"), ("--rounds", "0"), ("--backends", "etcd")] {
            let error = Options::try_parse_from(["coordination", option, value]).unwrap_err();
            assert!(error.to_string().contains(option), "{error}");
        }
    }
}

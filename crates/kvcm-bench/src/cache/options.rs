//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Parser, ValueEnum};

/// Measure the cache in process on this machine: prefix matches beside bare maps, writes, memory
/// per key, recovery, durable finishes, eviction, and a trace beside an exact LRU.
///
/// Contenders of one line take turns. Goals are shown, not enforced: a busy machine misses them.
/// Exits with 1 only when something wrong is found.
#[derive(Clone, Debug, Parser)]
#[command(name = "cache", bin_name = "cargo xtask bench cache", version)]
pub struct Options {
    /// What to measure
    #[arg(long, value_name = "PARTS", value_enum, value_delimiter = ',',
          default_values_t = [Part::Memory, Part::Lookups, Part::Writes, Part::Recovery,
                              Part::Finishes, Part::Eviction, Part::Trace])]
    pub parts: Vec<Part>,

    /// Keys in the index that is looked up and counted
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',',
          default_values_t = [1_000_000, 10_000_000],
          value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    pub keys: Vec<u32>,

    /// How many threads look up at a time
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1, 2],
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub threads: Vec<u16>,

    /// Keys in the journals that are recovered
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    pub recovered_keys: u32,

    /// How many callers finish writes at a time
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1, 8, 64],
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub callers: Vec<u16>,

    /// Where journals lie that are recovered and finished to; redis starts a redis-server
    #[arg(long, value_name = "STORES", value_enum, value_delimiter = ',',
          default_values_t = [StoreKind::Local, StoreKind::Redis])]
    pub stores: Vec<StoreKind>,

    /// How long each contender of a line is measured, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500,
          value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub time_ms: u64,

    /// A file of JSON lines to replay; without it a trace is made from a seed
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Requests of the made trace, and the most that are read of a file
    #[arg(long, value_name = "N", default_value_t = 12_031,
          value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    pub requests: u32,

    /// How many keys each block of the trace, 512 tokens, becomes
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1, 32],
          value_parser = clap::value_parser!(u16).range(1..=512))]
    pub expand: Vec<u16>,

    /// A folder on the disk to measure; local journals lie in a new one below it
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Bytes per key
    Memory,
    /// Prefix matches beside maps
    Lookups,
    /// Start and finish in memory
    Writes,
    /// The time to load a journal
    Recovery,
    /// Durable finishes
    Finishes,
    /// Passes over a large index, and lookups beside them
    Eviction,
    /// The replay of a trace beside an exact LRU
    Trace,
}

/// Where a journal lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    /// A temporary directory
    Local,
    /// A redis-server, started for the run
    Redis,
}

impl Part {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory per key",
            Self::Lookups => "lookups",
            Self::Writes => "writes",
            Self::Recovery => "recovery",
            Self::Finishes => "durable finishes",
            Self::Eviction => "eviction",
            Self::Trace => "trace",
        }
    }
}

impl StoreKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Redis => "redis",
        }
    }
}

impl Options {
    pub(super) fn time(&self) -> Duration {
        Duration::from_millis(self.time_ms)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_bad_values_are_named() {
        Options::command().debug_assert();
        let parsed = Options::try_parse_from(["cache"]).unwrap();
        assert_eq!(parsed.keys, [1_000_000, 10_000_000]);
        assert_eq!((parsed.parts.len(), parsed.expand), (7, vec![1, 32]));
        let some = Options::try_parse_from(["cache", "--parts", "trace,memory"]).unwrap();
        assert_eq!(some.parts, [Part::Trace, Part::Memory]);
        for (option, value) in [("--keys", "1"), ("--expand", "0"), ("--stores", "etcd")] {
            let error = Options::try_parse_from(["cache", option, value]).unwrap_err();
            assert!(error.to_string().contains(option), "{error}");
        }
    }
}

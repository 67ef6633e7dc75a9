//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Start a kvcm cluster of real processes, replay a KV-cache trace against it from several
/// engines, kill the leader in the middle, hand over from the next, restart the dead one, and
/// check everything that was answered.
///
/// Exits with 1 when an error reached an engine or an answer contradicts another.
#[derive(Clone, Debug, Parser)]
#[command(name = "demo", bin_name = "cargo xtask demo", version)]
pub struct Options {
    /// Replay this file of JSON lines (timestamp, input_length, output_length, hash_ids) instead
    /// of a generated trace
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Turn each block id of the trace into this many keys, as with smaller blocks
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=512))]
    pub expand: u64,

    /// Nodes of the cluster
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u8).range(2..=15))]
    pub nodes: u8,

    /// Engines that replay the trace side by side, each with a client of its own
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=512))]
    pub engines: u16,

    /// The leader's lease, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub lease_ms: u64,

    /// How the nodes elect their leader; redis starts a redis-server of its own
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Coordination::File)]
    pub coordination: Coordination,

    /// Replay at most this many requests [default: all of a file, 6000 of a generated trace]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(20..))]
    pub requests: Option<u32>,

    /// Compress the trace into this time, in seconds; 0: as fast as it goes
    #[arg(long, value_name = "S", default_value_t = 20)]
    pub seconds: u32,

    /// Seed of the generated trace
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
}

/// The coordination backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Coordination {
    /// A temporary directory
    File,
    /// A redis-server, started for the run
    Redis,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_bad_values_are_named() {
        Options::command().debug_assert();
        let parsed = Options::try_parse_from(["demo"]).unwrap();
        assert_eq!((parsed.nodes, parsed.coordination), (3, Coordination::File));
        for (option, value) in [
            ("--expand", "0"),
            ("--nodes", "1"),
            ("--coordination", "etcd"),
        ] {
            let error = Options::try_parse_from(["demo", option, value])
                .unwrap_err()
                .to_string();
            assert!(error.contains(option) && error.contains(value), "{error}");
        }
    }
}

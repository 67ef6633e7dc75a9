//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Parser, ValueEnum};

/// Measure GetCacheLocation, StartWriteCache and FinishWriteCache of kvcm-server on this machine, in
/// turns with a bare server that sends the same bytes and with Redis that holds the same blocks.
/// Starts all servers itself.
///
/// Clients and servers share the processors. Goals are shown, not enforced: a busy machine misses
/// them. Exits with 1 only when a server answers something wrong.
#[derive(Clone, Debug, Parser)]
#[command(name = "serve", bin_name = "cargo xtask bench serve", version)]
pub struct Options {
    /// How many clients call at a time, each on a connection of its own with one call in flight
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub clients: u16,

    /// How many turns each server of a line has; a ratio is the median of that of each turn
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub turns: u16,

    /// How long a turn lasts, in milliseconds; turns of the trace end with the trace
    #[arg(long, value_name = "MS", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub turn_ms: u64,

    /// How many keys there are, in chains of 1000
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u32).range(1000..=50_000_000))]
    pub keys: u32,

    /// How many different requests a lookup has at most, each with a chain of its own
    #[arg(long, value_name = "N", default_value_t = 512,
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub bodies: u16,

    /// Over what the calls are made
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values_t = Over::ALL)]
    pub over: Vec<Over>,

    /// Only lines whose names hold one of these words: hit, half, miss, 128, 1000, write, trace
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    pub only: Vec<String>,

    /// Replay this trace instead of a generated one
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// How many requests of the trace a turn replays
    #[arg(long, value_name = "N", default_value_t = 2000,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub trace_requests: u32,

    /// Keys that each block of 512 tokens of the trace becomes, one line for each number
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1, 32],
          value_parser = clap::value_parser!(u64).range(1..=512))]
    pub expand: Vec<u64>,

    /// Be the bare server that answers with what is in this file, for another that measures
    #[arg(long, value_name = "FILE", hide = true)]
    pub bare: Option<PathBuf>,
}

/// Over what a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Over {
    /// gRPC.
    Grpc,
    /// JSON over HTTP/1.1.
    Http,
}

impl Over {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Grpc, Self::Http];
}

impl std::fmt::Display for Over {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
        })
    }
}

impl Options {
    pub(super) fn turn(&self) -> Duration {
        Duration::from_millis(self.turn_ms)
    }

    pub(super) fn wants(&self, line: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|word| line.contains(word.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_bad_values_are_named() {
        Options::command().debug_assert();
        let parsed = Options::try_parse_from(["serve", "--over", "http"]).unwrap();
        assert_eq!(
            (&parsed.over[..], &parsed.expand[..]),
            (&[Over::Http][..], &[1, 32][..])
        );
        for (option, value) in [("--clients", "0"), ("--turn-ms", "x"), ("--over", "udp")] {
            let error = Options::try_parse_from(["serve", option, value]).unwrap_err();
            assert!(error.to_string().contains(option), "{error}");
        }
    }

    #[test]
    fn words_choose_lines() {
        let chosen = Options::parse_from(["serve", "--only", "half,write"]);
        assert!(chosen.wants("write 128") && chosen.wants("half of 1000"));
        assert!(!chosen.wants("hit 1000"));
    }
}

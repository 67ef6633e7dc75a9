//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::Parser;

/// Measure the calls of kvcm-server on this machine, beside servers that only send the same bytes,
/// and what access log, metrics, TLS and authentication cost a call. Starts all servers itself.
///
/// Clients and servers share the processors. Goals are shown, not enforced: a busy machine misses
/// them. Exits with 1 only when a server answers something wrong.
#[derive(Clone, Debug, Parser)]
#[command(name = "api", bin_name = "cargo xtask bench api", version)]
pub struct Options {
    /// How many clients call at a time, each with one call in flight
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1, 8, 64],
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub clients: Vec<u16>,

    /// How long one turn of a server lasts, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300,
          value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub turn_ms: u64,

    /// How many turns each of the two servers of a line has
    #[arg(long, value_name = "N", default_value_t = 6,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub turns: u16,

    /// Be the server that answers with the bytes of this file, for another that measures
    #[arg(long, value_name = "FILE", hide = true)]
    pub echo: Option<PathBuf>,
}

impl Options {
    pub(super) fn turn(&self) -> Duration {
        Duration::from_millis(self.turn_ms)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_bad_values_are_named() {
        Options::command().debug_assert();
        let parsed = Options::try_parse_from(["api"]).unwrap();
        assert_eq!(parsed.clients, [1, 8, 64]);
        for (option, value) in [("--clients", "0"), ("--turn-ms", "x"), ("--turns", "0")] {
            let error = Options::try_parse_from(["api", option, value]).unwrap_err();
            assert!(error.to_string().contains(option), "{error}");
        }
    }
}
